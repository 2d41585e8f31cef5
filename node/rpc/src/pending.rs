//! Builds the pending block: the next block as this node would produce it now from the best transactions of the pool.
//!
//! Input: calls with the block `pending`. Output: the block as the head of a separate view, on which a method runs in
//! the same way as on a canonical block. State: the newest pending block without roots, and the newest one with roots,
//! until they are too old. Limits: one build at a time, of at most [`MAX_PENDING`] within [`MAX_BUILD_TIME`], and one
//! computation of roots; other requests wait for it. The ante stage answers one query for each build. No stage waits
//! for this module.

mod build;

use crate::client::Client;
use crate::queues::CallQueues;
use chain::ChainSpec;
use pipeline::BlockPart;
use rpc_eth::{Context, PendingBlock, method::QueueClass};
use rpc_types::{Error, PendingDetail};
use state::Published;
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;

/// Maximum gas and number of transactions that are taken from the pool for a pending block. A block with the default
/// gas limit of a native chain exceeds neither.
const MAX_PENDING: BlockPart = BlockPart { gas: 100_000_000, txs: 10_000 };
/// Maximum duration of executing the transactions of a pending block, which contains those executed in this time.
const MAX_BUILD_TIME: Duration = Duration::from_millis(500);
/// Maximum age of a pending block that is served while its parent is the head. geth uses two seconds.
const MAX_PENDING_AGE: Duration = Duration::from_secs(1);
/// Maximum wait until an executed block is published.
const MAX_PUBLISH_WAIT: Duration = Duration::from_secs(1);

fn is_old(pending: &PendingBlock) -> bool {
    pending.started.elapsed() >= MAX_PENDING_AGE
}

/// Returns whether a pending block is new enough for a request. It always is if its build started after the request,
/// even if the build took long; otherwise, requests on a fast chain would start one build after another.
fn is_new_enough(pending: &PendingBlock, request: &RequestStart) -> bool {
    let is_young = pending.started >= request.time || pending.started.elapsed() < request.max_age;
    is_young && pending.parent.undone == request.undone && pending.parent.number() >= request.head
}

/// The time and the head at the start of a request.
#[derive(Clone, Copy, Debug)]
struct RequestStart {
    time: Instant,
    /// The number of the head when the request arrived.
    head: u64,
    /// [`View::undone`] when the request arrived.
    undone: u64,
    /// The maximum age of a pending block for the request.
    max_age: Duration,
}

impl RequestStart {
    fn now(published: &Published, spec: &ChainSpec) -> Self {
        let view = published.load();
        // Clients of a development chain set fields of the next block and expect them in the next response.
        let max_age = if spec.is_development() { Duration::ZERO } else { MAX_PENDING_AGE };
        Self { time: Instant::now(), head: view.number(), undone: view.undone, max_age }
    }
}

/// The newest result of a build. One request runs the build, and the others wait for its result.
#[derive(Debug)]
struct SharedBuild<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for SharedBuild<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> SharedBuild<T> {
    /// Returns the newest result if `fits` accepts it, or else the result of a new build.
    async fn get(
        &self,
        fits: impl Fn(&T) -> bool,
        build: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let mut newest = self.0.lock().await;
        if let Some(known) = newest.as_ref().filter(|known| fits(known)) {
            return Ok(Arc::clone(known));
        }
        // The old result is dropped first, so that it does not use memory during the build.
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
    /// Returns the pending block for a call. Before a build, `admit` counts it against the rate limit of the client.
    pub(crate) async fn get(
        &self,
        context: &Arc<Context>,
        client: &Client,
        detail: PendingDetail,
        queues: &CallQueues,
        admit: impl Fn(QueueClass) -> Result<(), Error>,
    ) -> Result<Arc<PendingBlock>, Error> {
        let request = RequestStart::now(&context.published, &context.spec);
        // This must come before the lock of the build, because a client that does not read its responses waits here.
        let _permit = client.flow.queue_permit().await;
        let fits = |known: &PendingBlock| is_new_enough(known, &request);
        let without_roots = self.without_roots.get(fits, async {
            admit(QueueClass::Short)?;
            build::build(context, queues).await
        });
        if detail == PendingDetail::State {
            return without_roots.await;
        }
        let with_roots = self.with_roots.get(fits, async {
            let pending = without_roots.await?;
            admit(QueueClass::Long)?;
            build::add_roots(pending, queues).await
        });
        with_roots.await
    }

    /// Drops blocks that are too old, because their views keep layers in memory that are already flushed.
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
        let (newest, builds) = (SharedBuild::default(), AtomicUsize::new(0));
        let request = || {
            newest.get(|_: &usize| true, async {
                // The other requests arrive during the build.
                tokio::task::yield_now().await;
                Ok(builds.fetch_add(1, Relaxed))
            })
        };
        let results = futures_util::future::join_all((0..100).map(|_| request())).await;
        assert_eq!(builds.load(Relaxed), 1);
        assert!(results.into_iter().all(|result| *result.unwrap() == 0));
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
