//! Reads how much of the machine this process uses, for its metrics. Values that the system does not report are `None`.

use rustix::{
    process::{Resource, getrlimit},
    time::{ClockId, clock_gettime},
};
use std::{fs, time::Duration};

/// The use of memory, files and processors by this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUsage {
    /// Bytes in memory, including the pages of mapped files.
    pub resident_bytes: Option<u64>,
    /// Bytes in memory that are not pages of files. The kernel cannot reclaim them, unlike pages of files.
    pub anonymous_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_files: Option<u64>,
    /// Maximum number of open file descriptors; `None` if there is no limit.
    pub max_open_files: Option<u64>,
    /// Processor time of all threads since the start, in user and in system mode.
    pub cpu_time: Duration,
}

impl ProcessUsage {
    /// Reads the current values.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            resident_bytes: memory(&status, "VmRSS:"),
            anonymous_bytes: memory(&status, "RssAnon:"),
            open_files: open_files(),
            max_open_files: getrlimit(Resource::Nofile).current,
            cpu_time: cpu_time(),
        }
    }
}

/// Returns a field of `/proc/self/status` in bytes.
fn memory(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn open_files() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    // The descriptor with which the folder is read is an entry too.
    Some(entries.saturating_sub(1))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tevmd\nVmRSS:\t    2048 kB\nRssAnon:\t    1024 kB\n";
        assert_eq!(memory(status, "VmRSS:"), Some(2 << 20));
        assert_eq!(memory(status, "RssAnon:"), Some(1 << 20));
        assert_eq!(memory("VmRSS:\tmuch\n", "VmRSS:"), None);
        assert_eq!(memory("", "VmRSS:"), None);
    }

    /// Other tests of this binary open and close files, so the count is only bounded from below.
    #[test]
    fn usage_of_this_process_is_plausible() {
        let files: Vec<_> = (0..100).map(|_| tempfile::tempfile().unwrap()).collect();
        let usage = ProcessUsage::read();
        let (open, max) = (usage.open_files.unwrap(), usage.max_open_files.unwrap_or(u64::MAX));
        assert!(open >= files.len() as u64 && open <= max, "{usage:?}");
        assert!(usage.anonymous_bytes.unwrap() > 0, "{usage:?}");
        assert!(usage.resident_bytes.unwrap() >= usage.anonymous_bytes.unwrap(), "{usage:?}");
        assert!(usage.cpu_time > Duration::ZERO, "{usage:?}");
    }
}
