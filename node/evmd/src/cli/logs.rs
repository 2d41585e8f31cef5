//! Log lines go to standard error through a queue and a separate thread, so that a blocked reader does not
//! delay other threads. If the queue is full, lines are dropped and counted.

use std::{
    collections::VecDeque,
    fs::File,
    io::{IsTerminal, Write},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

/// Maximum bytes of queued lines.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
/// Maximum wait for queued lines when the program ends.
const FLUSH_WAIT: Duration = Duration::from_secs(1);

/// The queue of this process, after logging has been started.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Writes logs to standard error. `RUST_LOG` selects levels by target (`warn,rpc=debug`). If it is not set or
/// invalid, `default` is used.
pub(super) fn start(default: &str) {
    use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};
    let parsed = |text: &str| text.parse::<tracing_subscriber::filter::Targets>().ok();
    let chosen = std::env::var("RUST_LOG").ok().and_then(|text| parsed(&text));
    let filter =
        chosen.unwrap_or_else(|| parsed(default).expect("the built-in defaults are valid"));
    let colours = std::io::stderr().is_terminal();
    // `Stderr` has a lock that other threads would wait for. If standard error is closed, the lines are lost.
    let stderr = std::io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let queue = QUEUE.get_or_init(|| Queue::writing_to(stderr.ok()));
    let lines = tracing_subscriber::fmt::layer().with_writer(|| queue.clone()).with_ansi(colours);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
}

/// Waits until the lines so far have been written, unless standard error is blocked.
pub(super) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_WAIT);
    }
}

/// A queue of lines. Each `write` is one line, as `tracing-subscriber` writes them.
#[derive(Clone, Debug)]
struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines dropped since the last line that was written.
    dropped: u64,
    /// The thread has taken lines that it has not written yet.
    writing: bool,
}

impl Queue {
    /// Starts the writing thread, which ends with the process.
    fn writing_to(output: Option<impl Write + Send + 'static>) -> Self {
        let queue = Self(Arc::default());
        let Some(mut output) = output else { return queue };
        let writer = queue.clone();
        let write = move || {
            loop {
                for line in writer.take() {
                    // Standard error may be redirected to a full disk, and a lost line must not stop the
                    // program.
                    let _ = output.write_all(&line);
                }
            }
        };
        // Without the thread, lines are dropped.
        let _ = thread::Builder::new().name("logs".to_owned()).spawn(write);
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut lines = self.lock();
        if lines.bytes + line.len() > MAX_QUEUED_BYTES {
            lines.dropped += 1;
            return;
        }
        lines.bytes += line.len();
        lines.waiting.push_back(line.to_vec());
        self.0.changed.notify_all();
    }

    /// Waits for lines and takes all of them, with a notice if lines were dropped after these.
    fn take(&self) -> Vec<Vec<u8>> {
        let mut lines = self.lock();
        lines.writing = false;
        self.0.changed.notify_all();
        let is_idle = |lines: &mut Lines| lines.waiting.is_empty() && lines.dropped == 0;
        let waited = self.0.changed.wait_while(lines, is_idle);
        let mut lines = waited.unwrap_or_else(PoisonError::into_inner);
        lines.writing = true;
        lines.bytes = 0;
        let mut taken: Vec<_> = lines.waiting.drain(..).collect();
        let dropped = std::mem::take(&mut lines.dropped);
        if dropped > 0 {
            let notice =
                format!("{dropped} log lines were dropped: standard error was not read in time\n");
            taken.push(notice.into_bytes());
        }
        taken
    }

    fn flush(&self, wait: Duration) {
        let is_busy = |lines: &mut Lines| lines.writing || !lines.waiting.is_empty();
        // A blocked reader must not keep the process from ending.
        drop(self.0.changed.wait_timeout_while(self.lock(), wait, is_busy));
    }
}

impl Write for Queue {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.push(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const LINE: &[u8; 1024] = &[b'x'; 1024];
    const LINES: usize = 4096;
    /// The end of a notice, after the number of lines.
    const NOTICE: &str = " log lines were dropped: standard error was not read in time\n";

    #[test]
    fn blocked_reader_delays_no_thread_and_receives_the_number_of_dropped_lines() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let queue = Queue::writing_to(Some(writer));
        // Far more than the pipe and the queue can hold: the loop would never end if a line waited for the
        // reader.
        for _ in 0..LINES {
            queue.push(LINE);
        }
        queue.flush(Duration::ZERO);
        // A notice is written whenever the reader catches up, so there may be several. Written and dropped lines
        // add up.
        let mut text = Vec::new();
        let mut part = [0; 4096];
        let (mut written, mut dropped) = (0, 0);
        while written + dropped < LINES {
            let read = reader.read(&mut part).unwrap();
            text.extend_from_slice(&part[..read]);
            written = text.iter().filter(|byte| **byte == b'x').count() / LINE.len();
            dropped = String::from_utf8_lossy(&text)
                .split('x')
                .filter_map(|notice| notice.strip_suffix(NOTICE)?.parse::<usize>().ok())
                .sum();
        }
        assert!(dropped > 0);
        assert_eq!(written + dropped, LINES);
    }

    #[test]
    fn flush_waits_until_the_lines_are_written() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let queue = Queue::writing_to(Some(writer));
        queue.push(b"the last line\n");
        queue.flush(Duration::from_secs(60));
        let mut line = [0; 14];
        reader.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"the last line\n");
        // Returns at once if there is nothing to wait for.
        queue.flush(Duration::from_secs(60));
    }
}
