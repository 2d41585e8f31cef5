//! Queues log lines for a thread that writes them, so that a blocked reader does not delay other threads. If the queue
//! is full, new lines are dropped and counted.

use super::options::LogFormat;
use serde_json::json;
use std::{
    collections::VecDeque,
    io::Write,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// Maximum size of the queued lines in bytes.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;

/// The notice that lines were dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct DroppedNotice {
    /// Why lines are dropped, such as "standard error was not read in time".
    pub(super) reason: &'static str,
    pub(super) format: LogFormat,
}

impl DroppedNotice {
    fn of(self, count: u64) -> String {
        let text = format!("{count} log lines were dropped: {}", self.reason);
        match self.format {
            LogFormat::Text => text + "\n",
            LogFormat::Json => json!({ "level": "WARN", "message": text }).to_string() + "\n",
        }
    }
}

/// A queue of lines. `tracing-subscriber` passes one line to each `write`.
#[derive(Clone, Debug)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dropped: DroppedNotice,
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of lines dropped since the thread last took lines.
    dropped: u64,
    /// Whether the thread has taken lines that it has not written yet.
    writing: bool,
    /// Whether a thread writes lines. Without one, none are queued.
    has_writer: bool,
}

impl Queue {
    /// Starts the writing thread, which ends with the process. Without an output, lines are dropped.
    pub(super) fn writing_to(
        output: Option<impl Write + Send + 'static>,
        dropped: DroppedNotice,
    ) -> Self {
        let (lines, changed) = (Mutex::default(), Condvar::new());
        let queue = Self(Arc::new(Shared { dropped, lines, changed }));
        let Some(mut output) = output else { return queue };
        let writer = queue.clone();
        let write = move || {
            loop {
                for line in writer.take() {
                    // A write may fail, for example on a full disk, and a lost line must not stop the program.
                    let _ = output.write_all(&line);
                }
            }
        };
        let started = thread::Builder::new().name("logs".to_owned()).spawn(write);
        queue.lock().has_writer = started.is_ok();
        queue
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut lines = self.lock();
        if !lines.has_writer {
            return;
        }
        if lines.bytes + line.len() > MAX_QUEUED_BYTES {
            lines.dropped += 1;
            return;
        }
        lines.bytes += line.len();
        lines.waiting.push_back(line.to_vec());
        self.0.changed.notify_all();
    }

    /// Waits for lines and takes all of them, and appends a notice if lines after them were dropped.
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
            taken.push(self.0.dropped.of(dropped).into_bytes());
        }
        taken
    }

    /// Waits until all queued lines have been written, but no longer than `wait`.
    pub(super) fn flush(&self, wait: Duration) {
        let is_busy = |lines: &mut Lines| lines.writing || !lines.waiting.is_empty();
        // The result does not matter: a blocked reader must not prevent the process from ending.
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
    const DROPPED: DroppedNotice =
        DroppedNotice { reason: "standard error was not read in time", format: LogFormat::Text };
    /// The end of a notice, after the number of lines.
    const NOTICE: &str = " log lines were dropped: standard error was not read in time\n";

    #[test]
    fn blocked_reader_delays_no_thread_and_receives_the_number_of_dropped_lines() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let queue = Queue::writing_to(Some(writer), DROPPED);
        // The pipe and the queue hold far fewer lines: if `push` waited for the reader, the loop would never end.
        for _ in 0..LINES {
            queue.push(LINE);
        }
        queue.flush(Duration::ZERO);
        // A notice is written whenever the reader catches up, so there may be several. Written and dropped lines add up
        // to `LINES`.
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
    fn lines_without_an_output_are_not_queued() {
        let queue = Queue::writing_to(None::<std::io::PipeWriter>, DROPPED);
        queue.push(b"a line\n");
        assert!(queue.lock().waiting.is_empty());
        queue.flush(Duration::MAX);
    }

    #[test]
    fn flush_waits_until_the_lines_are_written() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let queue = Queue::writing_to(Some(writer), DROPPED);
        queue.push(b"the last line\n");
        queue.flush(Duration::from_secs(60));
        let mut line = [0; 14];
        reader.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"the last line\n");
        // `flush` returns at once if there is nothing to wait for.
        queue.flush(Duration::from_secs(60));
    }
}
