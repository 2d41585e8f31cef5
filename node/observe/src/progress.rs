//! Detects that blocks are due and not produced. A block is due at each block time. If empty blocks are off, or a block
//! is made as soon as there is a transaction, one is due while the pool has a transaction to include.
//!
//! A task queries the pool every second, because a health check must not wait for a stage.

use alloy_primitives::B256;
use pipeline::{Mining, MiningControl, PoolClient};
use state::Published;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

/// Interval of the queries of the pool.
const QUERY_PERIOD: Duration = Duration::from_secs(1);
/// Maximum wait for the response. Without one, a transaction counts as waiting: the stage makes no progress.
const QUERY_WAIT: Duration = Duration::from_secs(1);
/// Minimum for the time without a block that is due after which the head counts as stalled; on slow chains it is a
/// number of block times.
const MAX_HEAD_AGE: Duration = Duration::from_secs(10);
const MAX_HEAD_AGE_BLOCKS: u32 = 10;

/// Watches the pool until it is dropped.
#[derive(Debug)]
pub(super) struct Progress {
    mining: Option<MiningControl>,
    empty_blocks: bool,
    published: Published,
    waiting: Arc<Mutex<Waiting>>,
    queries: Option<JoinHandle<()>>,
}

/// The time since which transactions have waited for the block after the head.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    head: B256,
    since: Option<Instant>,
}

impl Waiting {
    /// Records whether a transaction waits for the block after this head.
    fn record(&mut self, head: B256, waits: bool, now: Instant) {
        let before = self.since.filter(|_| self.head == head);
        *self = Self { head, since: waits.then(|| before.unwrap_or(now)) };
    }

    /// Returns how long a transaction has waited for the block after `head`.
    fn time(self, head: B256, now: Instant) -> Duration {
        let since = self.since.filter(|_| self.head == head);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

impl Progress {
    /// Watches a node that produces blocks according to `mining`.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub(super) fn watch(
        mining: Option<MiningControl>,
        empty_blocks: bool,
        published: Published,
        pool: PoolClient,
    ) -> Self {
        let waiting = Arc::<Mutex<Waiting>>::default();
        let shared = Arc::clone(&waiting);
        let heads = published.clone();
        let queries = mining.is_some().then(|| {
            tokio::spawn(async move {
                let mut ticks = interval(QUERY_PERIOD);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let head = heads.load().head.hash;
                    let level = timeout(QUERY_WAIT, pool.level()).await;
                    let waits = level.ok().and_then(Result::ok).is_none_or(|level| level.payable);
                    let mut waiting = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    waiting.record(head, waits, Instant::now());
                }
            })
        });
        Self { mining, empty_blocks, published, waiting, queries }
    }

    /// Returns whether a block has been due for too long.
    pub(super) fn is_stalled(&self) -> bool {
        let Some(mining) = self.mining.as_ref().map(MiningControl::get) else { return false };
        let head = self.published.load().head.hash;
        let waiting = *self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = waiting.time(head, Instant::now());
        is_stalled(mining, self.empty_blocks, waited, self.published.age())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(queries) = &self.queries {
            queries.abort();
        }
    }
}

/// Returns whether a block is overdue if a transaction has waited for `waited` and the head is `age` old.
fn is_stalled(mining: Mining, empty_blocks: bool, waited: Duration, age: Duration) -> bool {
    match mining {
        Mining::OnRequest => false,
        Mining::Instant => waited > MAX_HEAD_AGE,
        Mining::Every(time) => {
            let due_for = if empty_blocks { age } else { waited };
            due_for > time.saturating_mul(MAX_HEAD_AGE_BLOCKS).max(MAX_HEAD_AGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn head_is_stalled_after_ten_block_times_and_ten_seconds() {
        for (block_time_ms, limit_s) in [(1, 10), (300, 10), (1000, 10), (1001, 10), (60_000, 600)]
        {
            let (time, limit) = (Duration::from_millis(block_time_ms), SECOND * limit_s);
            for (empty_blocks, waited, age) in
                [(true, Duration::ZERO, limit), (false, limit, Duration::MAX)]
            {
                let stalled = |more| {
                    let (waited, age) = (waited.saturating_add(more), age.saturating_add(more));
                    is_stalled(Mining::Every(time), empty_blocks, waited, age)
                };
                assert_eq!((stalled(Duration::ZERO), stalled(SECOND)), (false, true), "{time:?}");
            }
        }
        let old = Duration::from_secs(86_400);
        assert!(!is_stalled(Mining::Every(Duration::MAX), true, old, old));
    }

    #[test]
    fn chain_that_mines_at_once_is_stalled_only_while_transactions_wait() {
        let old = Duration::from_secs(86_400);
        assert!(!is_stalled(Mining::Instant, true, MAX_HEAD_AGE, old));
        assert!(is_stalled(Mining::Instant, true, MAX_HEAD_AGE + SECOND, old));
        assert!(!is_stalled(Mining::OnRequest, true, old, old));
    }

    #[test]
    fn wait_begins_anew_with_each_block_and_ends_without_transactions() {
        let (one, other) = (B256::repeat_byte(1), B256::repeat_byte(2));
        let start = Instant::now();
        let mut waiting = Waiting::default();
        waiting.record(one, true, start);
        waiting.record(one, true, start + SECOND);
        assert_eq!(waiting.time(one, start + 5 * SECOND), 5 * SECOND);
        assert_eq!(waiting.time(other, start + 5 * SECOND), Duration::ZERO);
        waiting.record(other, true, start + 5 * SECOND);
        assert_eq!(waiting.time(other, start + 6 * SECOND), SECOND);
        waiting.record(other, false, start + 6 * SECOND);
        assert_eq!(waiting.time(other, start + 9 * SECOND), Duration::ZERO);
    }
}
