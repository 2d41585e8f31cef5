//! Chooses a source and connects to it.

use crate::{
    channel::{Roots, connect, endpoint},
    checks::Checks,
    forwarder::Forwarder,
    incoming::{Destination, EndReason, receive},
    terms::{Terms, TermsError, ask},
};
use certificates::BlockId;
use chain::ChainSpec;
use config::Verification;
use pipeline::BlockClient;
use state::{Following, Published};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::sleep};
use tonic::transport::{Channel, Endpoint};
use verify::Backend;

/// Delay before the sources are tried again: after a new block, and at most. It doubles while no block arrives.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(500);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Flow-control window of a stream and of its connection: several blocks, so that the source does not wait for a round
/// trip in each.
const WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// What a follower needs to know.
#[derive(Debug)]
pub struct FollowContext {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The keys that sign its blocks.
    pub terms: Arc<Terms>,
    /// Where the current view is published.
    pub published: Published,
    /// Sends blocks to the pipeline.
    pub blocks: BlockClient,
    /// Forwards transactions and calls to the source.
    pub forwarder: Arc<Forwarder>,
    /// Recovery backend.
    pub backend: Backend,
    /// Which signatures are verified.
    pub verification: Verification,
    /// The addresses of the sources, such as `http://10.0.0.1:9100`, in the order of preference.
    pub sources: Vec<String>,
    /// The authorities that certify sources with encrypted connections.
    pub roots: Roots,
    /// The time after which a node that lacks blocks or a source counts as behind.
    pub max_lag: Duration,
}

/// The text is not the address of a source.
#[derive(Debug, thiserror::Error)]
#[error("{url} is not the address of a source, such as http://10.0.0.1:9100: {reason}")]
pub struct InvalidSource {
    url: String,
    reason: String,
}

/// Keeps a node at the head of a source until this is dropped.
#[derive(Debug)]
pub struct Follower {
    task: JoinHandle<()>,
}

impl Follower {
    /// Starts to follow.
    ///
    /// # Errors
    /// If the address of a source is invalid.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub fn start(context: FollowContext) -> Result<Self, InvalidSource> {
        let FollowContext { spec, terms, published, blocks, forwarder, .. } = context;
        let FollowContext { backend, verification, sources, roots, max_lag, .. } = context;
        let sources = sources.into_iter().map(|url| Source::new(url, &roots));
        let sources = sources.collect::<Result<_, _>>()?;
        let following = Arc::new(Following::new(published.load().number(), max_lag));
        published.follow(Arc::clone(&following));
        let genesis_hash = terms.authority().genesis();
        let checks = Arc::new(Checks::new(spec, Arc::clone(&terms), backend, verification));
        let to = Destination { genesis_hash, blocks, checks, terms, following };
        let task = tokio::spawn(follow(sources, published, to, forwarder));
        Ok(Self { task })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The address of a source.
#[derive(Debug)]
struct Source {
    url: String,
    endpoint: Endpoint,
}

impl Source {
    fn new(url: String, roots: &Roots) -> Result<Self, InvalidSource> {
        let endpoint = match endpoint(&url, roots) {
            Ok(endpoint) => endpoint,
            Err(reason) => return Err(InvalidSource { url, reason }),
        };
        let endpoint = endpoint
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        Ok(Self { url, endpoint })
    }

    async fn connect(&self) -> Result<Channel, EndReason> {
        connect(&self.endpoint).await.map_err(EndReason::Unavailable)
    }
}

/// Follows one source after the other until the pipeline ends, or until every source has sent something wrong.
async fn follow(
    mut sources: Vec<Source>,
    published: Published,
    to: Destination,
    forwarder: Arc<Forwarder>,
) {
    let mut wait = MIN_RETRY_DELAY;
    while !sources.is_empty() {
        let before = published.load().number();
        let mut index = 0;
        while let Some(source) = sources.get(index) {
            let ended = follow_source(source, &published, &to, &forwarder).await;
            to.following.disconnected();
            forwarder.set_source(None);
            match ended {
                EndReason::Stopping => return,
                EndReason::Unavailable(reason) => {
                    tracing::warn!(source = source.url, reason, "the source cannot be followed");
                    index += 1;
                }
                EndReason::SourceRefused(reason) => {
                    let head = published.load().number();
                    tracing::error!(
                        source = source.url,
                        reason,
                        head,
                        "the source was refused and is not used again before the next start"
                    );
                    to.following.refused(&source.url, &reason);
                    sources.remove(index);
                }
            }
        }
        wait = if published.load().number() > before {
            MIN_RETRY_DELAY
        } else {
            MAX_RETRY_DELAY.min(2 * wait)
        };
        sleep(wait).await;
    }
    tracing::error!(
        "all sources were refused: this node serves its last block until it is restarted"
    );
}

async fn follow_source(
    source: &Source,
    published: &Published,
    to: &Destination,
    forwarder: &Forwarder,
) -> EndReason {
    let channel = match source.connect().await {
        Ok(channel) => channel,
        Err(ended) => return ended,
    };
    let view = published.load();
    let head = BlockId { number: view.number(), hash: view.head.hash };
    if let Err(ended) = agree_on_terms(to, channel.clone(), head).await {
        return ended;
    }
    tracing::info!(source = source.url, head = head.number, "following");
    to.following.connected(&source.url);
    forwarder.set_source(Some(channel.clone()));
    receive(to.clone(), channel, head).await
}

/// Accepts the producer terms of a source, and sends it those of this node.
async fn agree_on_terms(
    to: &Destination,
    channel: Channel,
    head: BlockId,
) -> Result<(), EndReason> {
    let own = to.terms.authority();
    let sent = ask(channel, &own).await?;
    let (newest, own) = (sent.terms.len(), own.terms().len());
    let terms = Arc::clone(&to.terms);
    let accepted = tokio::task::spawn_blocking(move || terms.accept(&sent.terms, head)).await;
    // The task is cancelled only when the runtime stops.
    match accepted.map_err(|_| EndReason::Stopping)? {
        Ok(()) if newest < own => Err(EndReason::Unavailable(format!(
            "it knows {newest} producer terms, and this node {own}: its blocks may not be part of the chain in the newest term"
        ))),
        Ok(()) => Ok(()),
        Err(error @ TermsError::Store(_)) => Err(EndReason::Unavailable(error.to_string())),
        Err(error) => Err(EndReason::SourceRefused(error.to_string())),
    }
}
