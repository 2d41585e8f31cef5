//! Standard output whose reader may have gone, as in `evmd ... | head`.

use std::{
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Set by the first write that no reader took.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output. If its reader has gone, the rest is discarded and no write fails: the command goes on
/// to its end, and its error and its exit code are its own.
#[derive(Debug)]
pub(super) struct StandardOutput(io::Stdout);

/// See [`StandardOutput`].
pub(super) fn stdout() -> StandardOutput {
    StandardOutput(io::stdout())
}

/// Whether the reader has gone. A command that answers its input line by line ends then.
pub(super) fn is_stdout_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                CLOSED.store(true, Ordering::Relaxed);
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                CLOSED.store(true, Ordering::Relaxed);
                Ok(())
            }
            flushed => flushed,
        }
    }
}
