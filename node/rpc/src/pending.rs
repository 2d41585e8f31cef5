//! The pending block: the next block as this node would produce it now, of the best transactions of the pool.
//!
//! Takes: requests of methods for which a client names `pending`.
//! Returns: the block as the head of a view of its own, on which a method runs in the same way as on a canonical
//! block.
//! State: the newest pending block until it is too old, without roots and with roots.
//! Bound: one block is built at a time, of at most [`MAX_PENDING`] and within [`MAX_BUILD_TIME`], and other requests wait
//! for it. The ante stage answers one query for each build. No stage waits for anything here.

mod build;

use crate::front::Client;
use crate::lines::Lines;
use pipeline::BlockPart;
use rpc_eth::{Context, PendingBlock, method::Line};
use rpc_types::{Error, PendingDetail};
use state::Published;
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Maximum gas of the transactions of a pending block, and maximum number of transactions taken from the pool for it.
/// A block with the default gas limit of a native chain stays within both.
const MAX_PENDING: BlockPart = BlockPart { gas: 100_000_000, txs: 10_000 };
/// Maximum time for the execution of its transactions. The block ends with those executed until then.
const MAX_BUILD_TIME: Duration = Duration::from_millis(500);
/// Maximum age of a pending block that is served while its parent is the head. geth uses two seconds.
const MAX_PENDING_AGE: Duration = Duration::from_secs(1);
/// Maximum wait until an executed block is published.
const MAX_PUBLISH_WAIT: Duration = Duration::from_secs(1);

fn is_old(pending: &PendingBlock) -> bool {
    pending.started.elapsed() >= MAX_PENDING_AGE
}

/// Whether it may answer a request. A build that started after the request is new enough even if it took
/// long: otherwise requests on a fast chain would build one block after another.
fn answers(pending: &PendingBlock, request: &RequestStart) -> bool {
    let is_new = pending.started >= request.time || !is_old(pending);
    is_new && pending.parent.number() >= request.head
}

/// When a request arrived.
#[derive(Clone, Copy, Debug)]
struct RequestStart {
    time: Instant,
    /// Number of the head at that time.
    head: u64,
}

impl RequestStart {
    fn now(published: &Published) -> Self {
        Self { time: Instant::now(), head: published.load().number() }
    }
}

/// The newest result of a build that one request runs while the others wait.
#[derive(Debug)]
struct SharedBuild<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for SharedBuild<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> SharedBuild<T> {
    /// The newest result if it fits, else that of a new build.
    async fn get(
        &self,
        fits: impl Fn(&T) -> bool,
        build: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let mut newest = self.0.lock().await;
        if let Some(known) = newest.as_ref().filter(|known| fits(known)) {
            return Ok(Arc::clone(known));
        }
        // The old result must not use memory during the build.
        *newest = None;
        let built = Arc::new(build.await?);
        *newest = Some(Arc::clone(&built));
        Ok(built)
    }

    /// Drops an old result, except during a build.
    fn drop_if(&self, is_old: impl Fn(&T) -> bool) {
        if let Ok(mut newest) = self.0.try_lock() {
            *newest = newest.take().filter(|known| !is_old(known));
        }
    }
}

/// The pending blocks that all calls share.
#[derive(Debug, Default)]
pub(crate) struct PendingBlocks {
    without_roots: SharedBuild<PendingBlock>,
    with_roots: SharedBuild<PendingBlock>,
}

impl PendingBlocks {
    /// The pending block for a call. Before a build, `admit` counts it against the rate limit of the client.
    pub(crate) async fn get(
        &self,
        context: &Arc<Context>,
        client: &Client,
        detail: PendingDetail,
        lines: &Lines,
        admit: impl Fn(Line) -> Result<(), Error>,
    ) -> Result<Arc<PendingBlock>, Error> {
        let request = RequestStart::now(&context.published);
        // This must come before the lock: a client that does not read its responses waits here.
        let _place = client.flow.line().await;
        let fits = |known: &PendingBlock| answers(known, &request);
        let without_roots = self.without_roots.get(fits, async {
            admit(Line::Short)?;
            build::build(context, lines).await
        });
        if detail == PendingDetail::State {
            return without_roots.await;
        }
        let with_roots = self.with_roots.get(fits, async {
            let pending = without_roots.await?;
            admit(Line::Long)?;
            build::add_roots(pending, lines).await
        });
        with_roots.await
    }

    /// Drops blocks that are too old to be served. Their views keep layers in memory that the node has flushed.
    pub(crate) fn sweep(&self) {
        self.without_roots.drop_if(is_old);
        self.with_roots.drop_if(is_old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test]
    async fn concurrent_requests_share_one_build() {
        let (newest, made) = (SharedBuild::default(), AtomicUsize::new(0));
        let ask = || {
            newest.get(|_: &usize| true, async {
                // The other requests arrive during the build.
                tokio::task::yield_now().await;
                Ok(made.fetch_add(1, Relaxed))
            })
        };
        let answers = futures_util::future::join_all((0..100).map(|_| ask())).await;
        assert_eq!(made.load(Relaxed), 1);
        assert!(answers.into_iter().all(|answer| *answer.unwrap() == 0));
    }

    #[tokio::test]
    async fn a_failed_build_is_repeated_by_the_next_request() {
        let newest = SharedBuild::default();
        let failed = newest.get(|_: &u8| true, async { Err(Error::server("no")) }).await;
        assert_eq!(failed.unwrap_err().message(), "no");
        assert_eq!(*newest.get(|_| true, async { Ok(7) }).await.unwrap(), 7);
        assert_eq!(*newest.get(|_| true, async { Ok(8) }).await.unwrap(), 7);
        assert_eq!(*newest.get(|_| false, async { Ok(8) }).await.unwrap(), 8);
        newest.drop_if(|known| *known == 7);
        assert_eq!(*newest.get(|_| true, async { Ok(9) }).await.unwrap(), 8);
        newest.drop_if(|known| *known == 8);
        assert_eq!(*newest.get(|_| true, async { Ok(9) }).await.unwrap(), 9);
    }
}
