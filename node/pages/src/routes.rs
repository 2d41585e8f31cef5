//! The paths of the pages, and how their requests are answered: pages that read the chain on threads that may block, and what
//! all clients share.

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
/// How long a rendering of the part of the dashboard that changes is used. Browsers ask for it each second.
const LIVE_PERIOD: Duration = Duration::from_millis(500);
/// How long a reading of the pool is used. Reading it takes up to some milliseconds, in which no transaction is admitted.
const POOL_PERIOD: Duration = Duration::from_secs(2);

type Answer = Response<Body>;
type Shared = State<Arc<Pages>>;

/// The paths.
pub(crate) fn router(pages: Arc<Pages>) -> Router {
    let mut router = Router::new()
        .route("/", get(dashboard_page))
        .route("/live", get(live))
        .route("/blocks", get(blocks))
        .route("/block/{id}", get(one_block))
        .route("/tx/{hash}", get(one_tx))
        .route("/tx/{hash}/execution", get(execution))
        .route("/address/{address}", get(one_address))
        .route("/fees", get(fee_market))
        .route("/governance", get(proposals))
        .route("/governance/{id}", get(one_proposal))
        .route("/validators", get(validator_set))
        .route("/search", get(find))
        .fallback(missing);
    for item in ASSETS {
        router = router.route(item.0, get(async move || frame::asset(item)));
    }
    router.with_state(pages)
}

impl Pages {
    /// Reads a view with [`Workers`](crate::workers::Workers), and shows the page.
    async fn show(
        self: Arc<Self>,
        uri: Uri,
        read: impl FnOnce(&Reading) -> Result<Page, PageError> + Send + 'static,
    ) -> Answer {
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

    fn page(&self, uri: &Uri, page: Result<Page, PageError>) -> Answer {
        let (status, page) = match page {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (error.status(), frame::error_page(&error)),
        };
        frame::respond(status, page.render(&self.chain(), uri.path()))
    }

    /// What the top of each page says about the chain.
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
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, pages: &Arc<Pages>) -> Result<Self, Answer> {
        let path = Path::<String>::from_request_parts(parts, pages).await;
        path.map(|Path(text)| Self(text)).map_err(|_| {
            let error = PageError::Invalid("The path is not text in UTF-8.".to_owned());
            pages.page(&parts.uri, Err(error))
        })
    }
}

async fn dashboard_page(State(pages): Shared, uri: Uri) -> Answer {
    let pool = pages.pool().await;
    pages.show(uri, move |reading| dashboard::page(reading, &pool)).await
}

/// All clients that follow the dashboard share one rendering.
async fn live(State(pages): Shared, uri: Uri) -> Answer {
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
    /// The pool, which is read at most once in [`POOL_PERIOD`].
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

async fn blocks(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, block::list).await
}

async fn validator_set(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, validators::page).await
}

async fn one_block(State(pages): Shared, uri: Uri, Segment(id): Segment) -> Answer {
    pages.show(uri, move |reading| block::page(reading, &id)).await
}

async fn one_tx(State(pages): Shared, uri: Uri, Segment(hash): Segment) -> Answer {
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
) -> Answer {
    let executed = match is_from_another_site(&headers) {
        true => Err(PageError::Refused("Another site asks for this execution.".to_owned())),
        false => pages.execute(&uri, &hash).await,
    };
    match headers.contains_key("x-fragment") {
        true => fragment(executed.map(|page| page.contents)),
        false => pages.page(&uri, executed),
    }
}

/// Whether a page of another site has caused the request (Fetch Metadata, section 2.3). Such a page must not make the node
/// work, although it cannot read the response.
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
        // If the client disconnects, the execution ends early, and keeps its permit until then.
        let (_caller, interrupt) = Caller::waiting();
        let execute = move |reading: &Reading| {
            let _permit = permit;
            // The time for which it has waited for a thread does not count.
            let deadline = interrupt.within(MAX_EXECUTION_TIME);
            tx::executed(reading, hash, &deadline)
        };
        self.read(uri, execute).await
    }
}

fn fragment(contents: Result<maud::Markup, PageError>) -> Answer {
    match contents {
        Ok(contents) => frame::respond(StatusCode::OK, contents),
        Err(error) => frame::respond(error.status(), frame::error_page(&error).contents),
    }
}

async fn one_address(State(pages): Shared, uri: Uri, Segment(text): Segment) -> Answer {
    pages.show(uri, move |reading| address::page(reading, &text)).await
}

async fn fee_market(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, fees::page).await
}

async fn proposals(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, governance::list).await
}

async fn one_proposal(State(pages): Shared, uri: Uri, Segment(id): Segment) -> Answer {
    pages.show(uri, move |reading| governance::page(reading, &id)).await
}

async fn find(State(pages): Shared, uri: Uri, RawQuery(query): RawQuery) -> Answer {
    let found = search::target(&pages, query.as_deref().unwrap_or_default()).await;
    match found {
        Ok(target) => search::redirect(&target),
        Err(error) => pages.page(&uri, Err(error)),
    }
}

async fn missing(State(pages): Shared, request: Request) -> Answer {
    let error = PageError::NotFound("There is no page with this path.".to_owned());
    pages.page(request.uri(), Err(error))
}
