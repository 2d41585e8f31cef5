//! Routes requests to the pages. Pages that read the chain run on threads that may block. All clients share the
//! readings of the pool and the part of the dashboard that changes.

use crate::{
    address, block, dashboard,
    error::PageError,
    fees,
    frame::{self, ASSETS, ChainTitle, Page},
    governance,
    reading::Reading,
    samples::PoolState,
    search,
    shared::Pages,
    tx, validators,
};
use alloy_primitives::B256;
use axum::{
    Router,
    body::Body,
    extract::{FromRequestParts, Path, RawQuery, Request, State},
    http::{HeaderMap, Response, StatusCode, Uri, request::Parts},
    routing::get,
};
use chain::Rules;
use maud::PreEscaped;
use server::interrupt::Caller;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Maximum time to execute a transaction again, with the transactions before it in its block.
const MAX_EXECUTION_TIME: Duration = Duration::from_secs(5);
/// Time for which a rendering of the part of the dashboard that changes is used. Browsers request it each second.
const LIVE_PERIOD: Duration = Duration::from_millis(500);
/// Time for which a reading of the pool is used. A reading takes up to some milliseconds, during which the pool admits
/// no transaction.
const POOL_PERIOD: Duration = Duration::from_secs(2);

type PageResponse = Response<Body>;
type Shared = State<Arc<Pages>>;

pub(crate) fn router(pages: Arc<Pages>) -> Router {
    let mut router = Router::new()
        .route("/", get(dashboard_page))
        .route("/live", get(live))
        .route("/blocks", get(block_list))
        .route("/block/{id}", get(block_page))
        .route("/tx/{hash}", get(tx_page))
        .route("/tx/{hash}/execution", get(execution))
        .route("/address/{address}", get(address_page))
        .route("/fees", get(fee_page))
        .route("/governance", get(proposal_list))
        .route("/governance/{id}", get(proposal_page))
        .route("/validators", get(validator_page))
        .route("/search", get(search_redirect))
        .fallback(not_found);
    for item in ASSETS {
        router = router.route(item.0, get(async move || frame::asset(item)));
    }
    router.with_state(pages)
}

impl Pages {
    /// Reads a view with [`Workers`](crate::workers::Workers), and renders the page.
    async fn show(
        self: Arc<Self>,
        uri: Uri,
        read: impl FnOnce(&Reading) -> Result<Page, PageError> + Send + 'static,
    ) -> PageResponse {
        let page = self.read(&uri, read).await;
        self.page(&uri, page)
    }

    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        uri: &Uri,
        read: impl FnOnce(&Reading) -> Result<T, PageError> + Send + 'static,
    ) -> Result<T, PageError> {
        let view = self.context.published.load();
        let query = uri.query().unwrap_or_default().to_owned();
        let reading = Reading { pages: Arc::clone(self), view, query };
        self.workers.run(move || read(&reading)).await
    }

    fn page(&self, uri: &Uri, page: Result<Page, PageError>) -> PageResponse {
        let (status, page) = match page {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (error.status(), frame::error_page(&error)),
        };
        frame::respond(status, page.render(&self.chain(), uri.path()))
    }

    /// Returns the description of the chain for the header of each page.
    fn chain(&self) -> ChainTitle {
        let rules = match self.context.spec.rules {
            Rules::Native if self.context.spec.is_development() => "development chain",
            Rules::Native => "native chain",
            Rules::Ethereum => "Ethereum rules",
        };
        let name = format!("Chain {}, {rules}", self.context.spec.chain_id);
        let has_validators = self.context.spec.native().is_some_and(validators::has_validators);
        ChainTitle { name, has_validators }
    }
}

/// A path parameter. If it is not UTF-8, the response is an error page with the usual headers.
struct Segment(String);

impl FromRequestParts<Arc<Pages>> for Segment {
    type Rejection = PageResponse;

    async fn from_request_parts(
        parts: &mut Parts,
        pages: &Arc<Pages>,
    ) -> Result<Self, PageResponse> {
        let path = Path::<String>::from_request_parts(parts, pages).await;
        path.map(|Path(text)| Self(text)).map_err(|_| {
            let error = PageError::Invalid("The path is not text in UTF-8.".to_owned());
            pages.page(&parts.uri, Err(error))
        })
    }
}

async fn dashboard_page(State(pages): Shared, uri: Uri) -> PageResponse {
    let pool = pages.pool().await;
    pages.show(uri, move |reading| dashboard::page(reading, &pool)).await
}

/// Returns the part of the dashboard that changes. All clients share one rendering.
async fn live(State(pages): Shared, uri: Uri) -> PageResponse {
    let mut newest = pages.live.lock().await;
    if let Some((_, text)) = newest.as_ref().filter(|(at, _)| at.elapsed() < LIVE_PERIOD) {
        return frame::respond(StatusCode::OK, PreEscaped(text.clone()));
    }
    let (started, pool) = (Instant::now(), pages.pool().await);
    let contents = pages.read(&uri, move |reading| dashboard::live(reading, &pool)).await;
    if let Ok(markup) = &contents {
        *newest = Some((started, markup.clone().into_string()));
    }
    drop(newest);
    fragment(contents)
}

impl Pages {
    /// Returns the state of the pool, which is read at most once in [`POOL_PERIOD`].
    async fn pool(&self) -> PoolState {
        let mut newest = self.pool.lock().await;
        if let Some((_, state)) = newest.as_ref().filter(|(at, _)| at.elapsed() < POOL_PERIOD) {
            return state.clone();
        }
        let level = self.context.pool.level().await.ok();
        let bands = self.context.pool.price_bands().await.unwrap_or_default();
        let state = PoolState { level, bands };
        *newest = Some((Instant::now(), state.clone()));
        state
    }
}

async fn block_list(State(pages): Shared, uri: Uri) -> PageResponse {
    pages.show(uri, block::list).await
}

async fn validator_page(State(pages): Shared, uri: Uri) -> PageResponse {
    pages.show(uri, validators::page).await
}

async fn block_page(State(pages): Shared, uri: Uri, Segment(id): Segment) -> PageResponse {
    pages.show(uri, move |reading| block::page(reading, &id)).await
}

async fn tx_page(State(pages): Shared, uri: Uri, Segment(hash): Segment) -> PageResponse {
    let Ok(hash) = hash.parse::<B256>() else {
        let reason = "A transaction hash has 64 hexadecimal digits after 0x.".to_owned();
        return pages.page(&uri, Err(PageError::Invalid(reason)));
    };
    match pages.read(&uri, move |reading| tx::mined(reading, hash)).await {
        Ok(None) => {
            let pooled = tx::pooled(&pages, hash).await;
            pages.page(&uri, pooled)
        }
        Ok(Some(page)) => pages.page(&uri, Ok(page)),
        Err(error) => pages.page(&uri, Err(error)),
    }
}

/// Executes a transaction again. With the header that the script sets, only the contents are returned.
async fn execution(
    State(pages): Shared,
    uri: Uri,
    headers: HeaderMap,
    Segment(hash): Segment,
) -> PageResponse {
    let executed = match is_from_another_site(&headers) {
        true => Err(PageError::Refused("Requests from another site are not allowed.".to_owned())),
        false => pages.execute(&uri, &hash).await,
    };
    match headers.contains_key("x-fragment") {
        true => fragment(executed.map(|page| page.contents)),
        false => pages.page(&uri, executed),
    }
}

/// Returns whether a page of another site has caused the request (Fetch Metadata, section 2.3). Such a page cannot read
/// the response, but it must not make the node execute transactions either.
fn is_from_another_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site")
}

impl Pages {
    async fn execute(self: &Arc<Self>, uri: &Uri, hash: &str) -> Result<Page, PageError> {
        let hash = hash.parse::<B256>();
        let hash = hash.map_err(|_| {
            PageError::Invalid("A transaction hash has 64 hexadecimal digits after 0x.".to_owned())
        })?;
        let busy = "The node executes another transaction for a page: try again.";
        let permit = Arc::clone(&self.executions).try_acquire_owned();
        let permit = permit.map_err(|_| PageError::Busy(busy.to_owned()))?;
        // If the client disconnects, the execution is interrupted. It keeps its permit until it has ended.
        let (_caller, interrupt) = Caller::waiting();
        let execute = move |reading: &Reading| {
            let _permit = permit;
            // The limit does not include the time for which the request waited for a thread.
            let deadline = interrupt.within(MAX_EXECUTION_TIME);
            tx::executed(reading, hash, &deadline)
        };
        self.read(uri, execute).await
    }
}

fn fragment(contents: Result<maud::Markup, PageError>) -> PageResponse {
    match contents {
        Ok(contents) => frame::respond(StatusCode::OK, contents),
        Err(error) => frame::respond(error.status(), frame::error_page(&error).contents),
    }
}

async fn address_page(State(pages): Shared, uri: Uri, Segment(text): Segment) -> PageResponse {
    pages.show(uri, move |reading| address::page(reading, &text)).await
}

async fn fee_page(State(pages): Shared, uri: Uri) -> PageResponse {
    pages.show(uri, fees::page).await
}

async fn proposal_list(State(pages): Shared, uri: Uri) -> PageResponse {
    pages.show(uri, governance::list).await
}

async fn proposal_page(State(pages): Shared, uri: Uri, Segment(id): Segment) -> PageResponse {
    pages.show(uri, move |reading| governance::page(reading, &id)).await
}

async fn search_redirect(
    State(pages): Shared,
    uri: Uri,
    RawQuery(query): RawQuery,
) -> PageResponse {
    let found = search::target(&pages, query.as_deref().unwrap_or_default()).await;
    match found {
        Ok(target) => search::redirect(&target),
        Err(error) => pages.page(&uri, Err(error)),
    }
}

async fn not_found(State(pages): Shared, request: Request) -> PageResponse {
    let error = PageError::NotFound("There is no page with this path.".to_owned());
    pages.page(request.uri(), Err(error))
}
