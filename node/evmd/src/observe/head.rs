//! Checks whether the head can be read, and whether it advances. A separate thread reads the disk periodically:
//! a disk that does not respond only blocks that thread, and `/health` reports the age of the last check.

use pipeline::{Mining, MiningControl};
use state::{Published, View};
use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Interval of the checks.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Maximum age of the last check. A disk under load may take seconds, and health checks do not wait for it.
const MAX_CHECK_AGE: Duration = Duration::from_secs(10);
/// Minimum for the time without a block after which the head counts as stalled; on slow chains it is a number
/// of block times.
const MAX_HEAD_AGE: Duration = Duration::from_secs(10);
const MAX_HEAD_AGE_BLOCKS: u32 = 10;

/// The checking thread. It ends when this is dropped, but it is not joined, because the disk may block it.
#[derive(Debug)]
pub(super) struct HeadCheck {
    last: Arc<Mutex<Check>>,
    _stop: mpsc::Sender<()>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug)]
struct Check {
    at: Instant,
    is_readable: bool,
}

impl HeadCheck {
    /// Checks the head once, and then periodically.
    pub(super) fn start(published: Published) -> std::io::Result<Self> {
        let last = Arc::new(Mutex::new(check(&published.load())));
        let (stop, stopped) = mpsc::channel();
        let result = Arc::downgrade(&last);
        thread::Builder::new().name("head-check".to_owned()).spawn(move || {
            while stopped.recv_timeout(CHECK_PERIOD) == Err(RecvTimeoutError::Timeout) {
                let done = check(&published.load());
                let Some(last) = Weak::upgrade(&result) else { return };
                *last.lock().unwrap_or_else(PoisonError::into_inner) = done;
            }
        })?;
        Ok(Self { last, _stop: stop })
    }

    /// Whether a recent check could read the head.
    pub(super) fn is_readable(&self) -> bool {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_readable_at(Instant::now())
    }
}

impl Check {
    fn is_readable_at(self, now: Instant) -> bool {
        self.is_readable && now.saturating_duration_since(self.at) <= MAX_CHECK_AGE
    }
}

fn check(view: &View) -> Check {
    let at = Instant::now();
    let stored = view.blocks().and_then(|blocks| blocks.hash(view.number()));
    Check { at, is_readable: matches!(stored, Ok(Some(hash)) if hash == view.head.hash) }
}

/// Whether a node that produces blocks so should have produced one since the head, which has this age.
pub(super) fn is_late(mining: Option<&MiningControl>, age: Duration) -> bool {
    match mining.map(MiningControl::get) {
        Some(Mining::Every(time)) => is_stalled(time, age),
        Some(Mining::Instant | Mining::OnRequest) | None => false,
    }
}

/// Whether a node with this `block_time` should have produced a block since the head, which has this age.
fn is_stalled(block_time: Duration, age: Duration) -> bool {
    age > block_time.saturating_mul(MAX_HEAD_AGE_BLOCKS).max(MAX_HEAD_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_stalled_after_ten_block_times_and_ten_seconds() {
        let second = Duration::from_secs(1);
        for (block_time_ms, limit_s) in [(1, 10), (300, 10), (1000, 10), (1001, 10), (60_000, 600)]
        {
            let (block_time, limit) = (Duration::from_millis(block_time_ms), second * limit_s);
            assert!(!is_stalled(block_time, limit));
            assert!(is_stalled(block_time, limit + second), "{block_time_ms}");
        }
        assert!(!is_stalled(Duration::MAX, Duration::from_secs(86_400)));
    }

    #[test]
    fn blocked_check_counts_for_ten_seconds() {
        let at = Instant::now();
        let check = |is_readable| Check { at, is_readable };
        assert!(check(true).is_readable_at(at + MAX_CHECK_AGE));
        assert!(!check(true).is_readable_at(at + MAX_CHECK_AGE + Duration::from_millis(1)));
        assert!(!check(false).is_readable_at(at));
    }
}
