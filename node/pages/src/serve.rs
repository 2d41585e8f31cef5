//! The server of the pages.

use crate::{
    address, block, dashboard,
    dashboard::{PoolState, Samples},
    error::PageError,
    fees,
    frame::{self, ASSETS, Page},
    governance, search, tx,
};
use alloy_primitives::B256;
use axum::{
    Router,
    body::Body,
    extract::{Path, RawQuery, Request, State},
    http::{HeaderMap, Response, StatusCode, Uri},
    routing::get,
};
use budget::Budget;
use chain::{ChainSpec, Rules};
use config::{Endpoints, Pages as Settings};
use evm::ExecutionCaches;
use maud::PreEscaped;
use pipeline::{Monitor, PoolClient};
use server::{
    access::{Access, PageRules},
    interrupt::Interrupt,
    listen::{self, Bounds, Protocol, Server},
    listener::Listener,
};
use state::{Published, View};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use storage::IndexDb;
use tokio::sync::{Mutex, Semaphore};

/// Maximum number of transactions that are executed again at a time. Each of them uses a core for up to
/// [`MAX_EXECUTION_TIME`].
const MAX_EXECUTIONS: usize = 1;
/// Maximum number of requests that wait for that.
const MAX_WAITING_EXECUTIONS: usize = 8;
/// How long a rendering of the part of the dashboard that changes is used. Browsers ask for it each second.
const LIVE_PERIOD: Duration = Duration::from_millis(500);
/// How long a reading of the pool is used. Reading it takes up to some milliseconds, in which no transaction is admitted.
const POOL_PERIOD: Duration = Duration::from_secs(2);
/// Maximum time to execute a transaction again, with the transactions before it in its block.
const MAX_EXECUTION_TIME: Duration = Duration::from_secs(5);

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// Where the current view is published.
    pub published: Published,
    /// Queries the mempool.
    pub pool: PoolClient,
    /// Reads the counters of the stages.
    pub monitor: Monitor,
    /// The index environment.
    pub index: IndexDb,
    /// The addresses of the servers.
    pub endpoints: Endpoints,
    /// The caches that executions share.
    pub caches: Option<Arc<ExecutionCaches>>,
    /// The resources that clients share.
    pub budget: Arc<Budget>,
}

/// The state that all requests share.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) context: Context,
    pub(crate) samples: Arc<Samples>,
    /// The pool as the dashboard shows it, and when it was read.
    pool: Mutex<Option<(Instant, PoolState)>>,
    /// The part of the dashboard that changes, and when it was rendered.
    live: Mutex<Option<(Instant, String)>>,
    running_executions: Semaphore,
    waiting_executions: Semaphore,
}

/// A request for a page that reads one view.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) pages: Arc<Pages>,
    pub(crate) view: Arc<View>,
    /// The query of the request, with percent-encoding.
    pub(crate) query: String,
}

impl Reading {
    /// The chain's rules.
    pub(crate) fn spec(&self) -> &ChainSpec {
        &self.pages.context.spec
    }

    /// The name of a whole token.
    pub(crate) fn symbol(&self) -> String {
        symbol(self.spec())
    }

    /// The value of a parameter of the query, without percent-encoding. Numbers and addresses need none.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(|(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
            .next()
    }

    /// A parameter that is a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, PageError> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| PageError::Invalid(format!("{name} must be a number")))
    }

    /// Seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }
}

/// The name of a whole token of a chain.
pub(crate) fn symbol(spec: &ChainSpec) -> String {
    // The name does not depend on the height.
    let token = spec.token(0);
    match spec.rules {
        Rules::Native => token.display_denom().unwrap_or(token.denom).to_owned(),
        Rules::Ethereum => "ETH".to_owned(),
    }
}

type Answer = Response<Body>;
type Shared = State<Arc<Pages>>;

/// Serves the address of `listener` until [`Server::stop`].
///
/// # Panics
/// Outside a Tokio runtime.
pub fn serve(config: &Settings, listener: Listener, context: Context) -> Server {
    let budget = Arc::clone(&context.budget);
    let access = Access::new(
        PageRules::QUERIES,
        ("pages.allowed-hosts", &config.allowed_hosts),
        ("pages.cors-origins", &[]),
    );
    let bounds = Bounds {
        connections: Arc::clone(&budget.pages),
        concurrent: config.max_concurrent,
        // Requests have no body.
        body: 0,
        protocol: Protocol::Http { access, health: None },
    };
    let samples = dashboard::sample(context.monitor.clone(), context.published.clone());
    let pages = Arc::new(Pages {
        context,
        samples,
        pool: Mutex::default(),
        live: Mutex::default(),
        running_executions: Semaphore::new(MAX_EXECUTIONS),
        waiting_executions: Semaphore::new(MAX_EXECUTIONS + MAX_WAITING_EXECUTIONS),
    });
    listen::serve(listener, bounds, &budget, router(pages))
}

fn router(pages: Arc<Pages>) -> Router {
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
        .route("/search", get(find))
        .fallback(missing);
    for item in ASSETS {
        router = router.route(item.0, get(async move || frame::asset(item)));
    }
    router.with_state(pages)
}

impl Pages {
    /// Reads a view on a thread that may block, and shows the page.
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
        let read = tokio::task::spawn_blocking(move || read(&reading)).await;
        read.map_err(PageError::failed)?
    }

    fn page(&self, uri: &Uri, page: Result<Page, PageError>) -> Answer {
        let (status, page) = match page {
            Ok(page) => (StatusCode::OK, page),
            Err(error) => (error.status(), frame::error_page(&error)),
        };
        frame::respond(status, page.render(&self.chain(), uri.path()))
    }

    /// Names the chain.
    fn chain(&self) -> String {
        let rules = match self.context.spec.rules {
            Rules::Native if self.context.spec.is_development() => "development chain",
            Rules::Native => "native chain",
            Rules::Ethereum => "Ethereum rules",
        };
        format!("Chain {}, {rules}", self.context.spec.chain_id)
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

async fn one_block(State(pages): Shared, uri: Uri, Path(id): Path<String>) -> Answer {
    pages.show(uri, move |reading| block::page(reading, &id)).await
}

async fn one_tx(State(pages): Shared, uri: Uri, Path(hash): Path<String>) -> Answer {
    let Ok(hash) = hash.parse::<B256>() else {
        let reason = "a transaction hash has 64 hexadecimal digits after 0x".to_owned();
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
    Path(hash): Path<String>,
) -> Answer {
    let executed = pages.execute(&uri, &hash).await;
    match headers.contains_key("x-fragment") {
        true => fragment(executed.map(|page| page.contents)),
        false => pages.page(&uri, executed),
    }
}

impl Pages {
    async fn execute(self: &Arc<Self>, uri: &Uri, hash: &str) -> Result<Page, PageError> {
        let hash = hash.parse::<B256>();
        let hash =
            hash.map_err(|_| PageError::Invalid("this is not a transaction hash".to_owned()))?;
        let busy = || {
            PageError::Busy(format!(
                "{MAX_WAITING_EXECUTIONS} requests already wait to execute a transaction: try again"
            ))
        };
        let _waiting = self.waiting_executions.try_acquire().map_err(|_| busy())?;
        let _running = self.running_executions.acquire().await.map_err(PageError::failed)?;
        let deadline = Interrupt::default().within(MAX_EXECUTION_TIME);
        self.read(uri, move |reading| tx::executed(reading, hash, &deadline)).await
    }
}

fn fragment(contents: Result<maud::Markup, PageError>) -> Answer {
    match contents {
        Ok(contents) => frame::respond(StatusCode::OK, contents),
        Err(error) => frame::respond(error.status(), frame::error_page(&error).contents),
    }
}

async fn one_address(State(pages): Shared, uri: Uri, Path(text): Path<String>) -> Answer {
    pages.show(uri, move |reading| address::page(reading, &text)).await
}

async fn fee_market(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, fees::page).await
}

async fn proposals(State(pages): Shared, uri: Uri) -> Answer {
    pages.show(uri, governance::list).await
}

async fn one_proposal(State(pages): Shared, uri: Uri, Path(id): Path<String>) -> Answer {
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
