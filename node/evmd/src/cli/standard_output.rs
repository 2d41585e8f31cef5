//! Writes to standard output, whose reader may close it, as in `evmd ... | head`.

use std::{
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Set when a write or flush fails because the reader has closed the pipe.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Standard output. If its reader has closed the pipe, the rest is discarded and writes do not fail, so the
/// command ends normally with its own error and exit code.
#[derive(Debug)]
pub(super) struct StandardOutput(io::Stdout);

/// Returns standard output; see [`StandardOutput`].
pub(super) fn stdout() -> StandardOutput {
    StandardOutput(io::stdout())
}

/// Returns whether the reader has closed the pipe. If it has, commands that print results line by line end.
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
