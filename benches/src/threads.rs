//! CPU time and memory of this process and its threads, from `/proc/self`.

use std::{collections::BTreeMap, fs};

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use {
    /// Nanoseconds on a processor.
    pub cpu_ns: u64,
    /// Nanoseconds ready to run, but not running.
    pub waiting_ns: u64,
}

/// CPU time by thread name; threads with the same name are summed. The first thread is called
/// `main`.
pub fn snapshot() -> BTreeMap<String, Use> {
    let mut threads: BTreeMap<String, Use> = BTreeMap::new();
    let first = std::process::id().to_string();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return threads };
    for task in tasks.flatten() {
        let read = |name| fs::read_to_string(task.path().join(name));
        // A thread may end between listing and reading.
        let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else { continue };
        let mut fields = stat.split_whitespace().filter_map(|field| field.parse().ok());
        let (cpu, waiting) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
        let name = if *task.file_name() == *first { "main" } else { name.trim() };
        let sum = threads.entry(name.to_owned()).or_default();
        sum.cpu_ns += cpu;
        sum.waiting_ns += waiting;
    }
    threads
}

/// A line of `/proc/self/status` in KiB, such as `VmHWM` (peak resident) or `RssAnon` (anonymous now); 0 without it.
pub fn memory_kib(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    value.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Bytes that this process has written to storage.
///
/// # Panics
/// If the system does not report them.
pub fn written_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").expect("readable");
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|number| number.trim().parse().ok()).expect("a number of bytes")
}
