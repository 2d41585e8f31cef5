//! `evmd status --watch` shows the status every second.

use super::{Args, Output};
use crate::cli::{is_stdout_closed, stdout};
use std::{
    io::{IsTerminal, Write},
    thread,
    time::{Duration, Instant},
};
use terminal_size::{Height, terminal_size};

/// Time from the start of one status to the next.
const PERIOD: Duration = Duration::from_secs(1);
/// Rows of a terminal whose size is unknown.
const DEFAULT_ROWS: usize = 24;

/// Shows the status until the reader closes the output. Fails if the node does not respond.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let is_text = args.output == Output::Text;
    let is_redrawn = is_text && std::io::stdout().is_terminal();
    let mut next = Instant::now();
    while !is_stdout_closed() {
        let mut status = args.status()?;
        if is_redrawn {
            status = screen(&status, rows());
        } else if is_text {
            status.push(b'\n');
        }
        let mut out = stdout();
        out.write_all(&status)?;
        out.flush()?;
        next = (next + PERIOD).max(Instant::now());
        wait_until(next);
    }
    Ok(())
}

fn rows() -> usize {
    terminal_size().map_or(DEFAULT_ROWS, |(_, Height(rows))| rows.into())
}

/// Formats text for a terminal with this number of rows. The text starts in the first row and overwrites the previous
/// text, because clearing the screen would cause flicker. Lines that do not fit are omitted to avoid scrolling.
fn screen(text: &[u8], rows: usize) -> Vec<u8> {
    const HOME: &[u8] = b"\x1b[H";
    const CLEAR_REST_OF_LINE: &[u8] = b"\x1b[K\n";
    const CLEAR_BELOW: &[u8] = b"\x1b[J";
    let mut screen = HOME.to_vec();
    // One row is left for the cursor, which ends up below the last line.
    for line in text.split_inclusive(|byte| *byte == b'\n').take(rows.saturating_sub(1)) {
        screen.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        screen.extend_from_slice(CLEAR_REST_OF_LINE);
    }
    screen.extend_from_slice(CLEAR_BELOW);
    screen
}

fn wait_until(end: Instant) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_is_overwritten_and_does_not_scroll() {
        assert_eq!(screen(b"a\nbc\n", 24), b"\x1b[Ha\x1b[K\nbc\x1b[K\n\x1b[J");
        assert_eq!(screen(b"a\nb\nc\n", 3), b"\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
    }
}
