//! Whether the disk responds. A file system may be frozen (as backups of a machine do), and a network disk may be away:
//! a write then takes until that is over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Time after which a write counts as one that the disk does not respond to. A sync takes milliseconds, and some tens of
/// them on a slow disk.
const MAX_WRITE_TIME: Duration = Duration::from_millis(100);
/// No write is under way.
const IDLE: u64 = 0;

/// Watches the writes of one thread, for others that should not begin one.
#[derive(Clone, Debug)]
pub(super) struct DiskWatch {
    start: Instant,
    /// When the write that is under way began: milliseconds after `start`, and one.
    write_begun: Arc<AtomicU64>,
}

impl DiskWatch {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), write_begun: Arc::default() }
    }

    /// Watches a write.
    pub(super) fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        self.write_begun.store(self.now(), Ordering::Relaxed);
        let written = write();
        self.write_begun.store(IDLE, Ordering::Relaxed);
        written
    }

    /// Whether the disk does not respond to a write.
    pub(super) fn is_late(&self) -> bool {
        self.is_later_than(MAX_WRITE_TIME)
    }

    fn is_later_than(&self, time: Duration) -> bool {
        let begun = self.write_begun.load(Ordering::Relaxed);
        begun != IDLE && u128::from(self.now().saturating_sub(begun)) >= time.as_millis()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_write_that_is_under_way_is_late() {
        let disk = DiskWatch::new();
        assert!(!disk.is_later_than(Duration::ZERO));
        let seen = disk.clone();
        let written = disk.write(|| {
            assert!(!seen.is_late());
            assert!(seen.is_later_than(Duration::ZERO));
            7
        });
        assert_eq!(written, 7);
        assert!(!disk.is_later_than(Duration::ZERO));
    }
}
