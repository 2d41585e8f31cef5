//! Detects that the disk does not respond. A write to an unreachable network disk, or to a file system that a backup of
//! the machine has frozen, does not return until the disk is available again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Maximum duration of a write before the disk counts as not responding. A sync takes milliseconds, and tens
/// of milliseconds on a slow disk.
const MAX_WRITE_TIME: Duration = Duration::from_millis(100);
/// The value if no write is in progress.
const IDLE: u64 = 0;

/// Monitors the writes of one thread, so that other threads can avoid a write that would block.
#[derive(Clone, Debug)]
pub struct DiskWatch {
    start: Instant,
    /// Start of the write in progress: milliseconds after `start`, plus one.
    write_begun: Arc<AtomicU64>,
}

impl Default for DiskWatch {
    fn default() -> Self {
        Self { start: Instant::now(), write_begun: Arc::default() }
    }
}

impl DiskWatch {
    /// Executes and monitors a write.
    pub fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        self.write_begun.store(self.now(), Ordering::Relaxed);
        let written = write();
        self.write_begun.store(IDLE, Ordering::Relaxed);
        written
    }

    /// Returns whether the write in progress has taken 100 ms or more.
    pub fn is_late(&self) -> bool {
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
        let disk = DiskWatch::default();
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
