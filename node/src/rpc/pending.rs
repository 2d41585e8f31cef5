//! The pending block: what the next block is if it is made now, of the best transactions of the pool.
//!
//! Takes: a wish for it. Gives: the block as the head of a view of its own, on which a method answers as on
//! that of a block which is made. State: the newest such block, dropped once it is old. Bound: one is built at a time, of
//! at most [`PART`] of the pool and within [`BUILD_TIME`]; others wait for it. A stage is asked one question for
//! each that is built, and waits for nothing.

mod build;

use super::{
    error::Error,
    lines::{Line, Lines},
    method::Call,
    stored::StoredBlock,
};
use crate::{
    execution::Executed,
    pipeline::BlockPart,
    view::{Published, View},
};
use alloy_primitives::Bytes;
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use storage::StoredReceipt;
use tokio::sync::Mutex;

/// What a pending block takes of the pool at most: gas of the transactions in it, and transactions tried. A block
/// of the default gas limit of a native chain has no more.
const PART: BlockPart = BlockPart { gas: 100_000_000, txs: 10_000 };
/// How long its transactions are executed: it ends with those that were executed in this time.
const BUILD_TIME: Duration = Duration::from_millis(500);
/// For how long a pending block is served, if no block is made meanwhile. geth's time is two seconds.
const FRESH_TIME: Duration = Duration::from_secs(1);
/// The longest wait for a block that is built to be published: most take milliseconds, some wait for the disk.
const PUBLISHED_WAIT: Duration = Duration::from_secs(1);

/// How much of the pending block a method needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::rpc) enum Wanted {
    /// What its transactions did.
    State,
    /// Its roots and its hash, too. They cost an update of the trie.
    Roots,
}

/// A pending block.
#[derive(Debug)]
pub(in crate::rpc) struct PendingBlock {
    /// The chain and the state with the block as their head. Its hash is zero without roots.
    pub(in crate::rpc) view: Arc<View>,
    /// The view it was built on.
    parent: Arc<View>,
    stored: StoredBlock,
    /// Without the changes, which are a layer of the view.
    executed: Executed,
    fee_row: Bytes,
    has: Wanted,
    /// Before the pool was asked.
    started: Instant,
}

impl PendingBlock {
    /// The block with its senders.
    pub(in crate::rpc) const fn stored(&self) -> &StoredBlock {
        &self.stored
    }

    /// Receipts of its transactions.
    pub(in crate::rpc) fn receipts(&self) -> &[StoredReceipt] {
        &self.executed.receipts
    }

    /// Its row of the fee history.
    pub(in crate::rpc) fn fee_row(&self) -> &[u8] {
        &self.fee_row
    }

    /// Whether it has what is wanted.
    pub(in crate::rpc) fn has(&self, wanted: Wanted) -> bool {
        self.has >= wanted
    }

    /// Whether it is an answer to someone who asked then.
    fn is_for(&self, asked: &Asked) -> bool {
        let is_new = self.started >= asked.at || self.started.elapsed() < FRESH_TIME;
        is_new && self.parent.number() >= asked.head
    }
}

/// When the pending block was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    /// Number of the newest block then.
    head: u64,
}

impl Asked {
    fn now(published: &Published) -> Self {
        Self { at: Instant::now(), head: published.load().number() }
    }
}

/// The newest of what is made on demand, by one at a time; others wait for it.
#[derive(Debug)]
struct Newest<T>(Mutex<Option<Arc<T>>>);

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Newest<T> {
    /// The newest if it fits, else a new one.
    async fn get(
        &self,
        fits: impl Fn(&T) -> bool,
        make: impl Future<Output = Result<T, Error>>,
    ) -> Result<Arc<T>, Error> {
        let mut newest = self.0.lock().await;
        if let Some(known) = newest.as_ref().filter(|known| fits(known)) {
            return Ok(Arc::clone(known));
        }
        // What does not fit must not use memory while its successor is made.
        *newest = None;
        let made = Arc::new(make.await?);
        *newest = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Drops it if it is old, unless one is being made.
    fn forget(&self, is_old: impl Fn(&T) -> bool) {
        if let Ok(mut newest) = self.0.try_lock()
            && newest.as_ref().is_some_and(|known| is_old(known))
        {
            *newest = None;
        }
    }
}

/// The pending blocks that calls share.
#[derive(Debug, Default)]
pub(in crate::rpc) struct PendingBlocks {
    without_roots: Newest<PendingBlock>,
    with_roots: Newest<PendingBlock>,
}

impl PendingBlocks {
    /// The pending block for a call. `admit` counts the line in which work for it is done against the rate of
    /// its client, if there is work.
    pub(in crate::rpc) async fn get(
        &self,
        call: &Call,
        wanted: Wanted,
        lines: &Lines,
        admit: impl Fn(Line) -> Result<(), Error>,
    ) -> Result<Arc<PendingBlock>, Error> {
        let asked = Asked::now(&call.context.published);
        // Before the wait for others: a client that does not read holds up itself only.
        let _place = call.client.flow.line().await;
        let fits = |known: &PendingBlock| known.is_for(&asked);
        let without = self.without_roots.get(fits, async {
            admit(Line::Short)?;
            build::build(&call.context, lines).await
        });
        if wanted == Wanted::State {
            return without.await;
        }
        let with = self.with_roots.get(fits, async {
            let without = without.await?;
            admit(Line::Long)?;
            build::add_roots(without, lines).await
        });
        with.await
    }

    /// Drops what is too old to be served: it holds layers that the node needs no more.
    pub(in crate::rpc) fn sweep(&self) {
        let is_old = |known: &PendingBlock| known.started.elapsed() >= FRESH_TIME;
        self.without_roots.forget(is_old);
        self.with_roots.forget(is_old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test]
    async fn many_askers_have_one_made() {
        let (newest, made) = (Newest::default(), AtomicUsize::new(0));
        let ask = || {
            newest.get(|_: &usize| true, async {
                // The others ask meanwhile.
                tokio::task::yield_now().await;
                Ok(made.fetch_add(1, Relaxed))
            })
        };
        let answers = futures_util::future::join_all((0..100).map(|_| ask())).await;
        assert_eq!(made.load(Relaxed), 1);
        assert!(answers.into_iter().all(|answer| *answer.unwrap() == 0));
    }

    #[tokio::test]
    async fn after_a_failure_the_next_asker_tries() {
        let newest = Newest::default();
        let failed = newest.get(|_: &u8| true, async { Err(Error::server("no")) }).await;
        assert_eq!(failed.unwrap_err().message(), "no");
        assert_eq!(*newest.get(|_| true, async { Ok(7) }).await.unwrap(), 7);
        assert_eq!(*newest.get(|_| true, async { Ok(8) }).await.unwrap(), 7);
        assert_eq!(*newest.get(|_| false, async { Ok(8) }).await.unwrap(), 8);
        newest.forget(|known| *known == 7);
        assert_eq!(*newest.get(|_| true, async { Ok(9) }).await.unwrap(), 8);
        newest.forget(|known| *known == 8);
        assert_eq!(*newest.get(|_| true, async { Ok(9) }).await.unwrap(), 9);
    }
}
