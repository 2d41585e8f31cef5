//! Checks whether the head can be read. A separate thread reads the disk periodically:
//! a disk that does not respond only blocks that thread, and `/health` reports the age of the last check.

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
/// Maximum age of the last check. A disk under load may take seconds, and health checks do not wait for the disk.
const MAX_CHECK_AGE: Duration = Duration::from_secs(10);

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

    /// Returns whether a recent check could read the head.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_check_counts_for_ten_seconds() {
        let at = Instant::now();
        let check = |is_readable| Check { at, is_readable };
        assert!(check(true).is_readable_at(at + MAX_CHECK_AGE));
        assert!(!check(true).is_readable_at(at + MAX_CHECK_AGE + Duration::from_millis(1)));
        assert!(!check(false).is_readable_at(at));
    }
}
