//! Plain double quotes in the URI of a GET, as people write them by hand for CometBFT: no URI may have them
//! (RFC 3986), Go's servers take them, and the HTTP library here does not. They become `%22` before it
//! sees them.
//!
//! Only a request line that comes first in what is read is looked at, as a client sends one. The body of a
//! request must not be changed: bytes that were added to it would be read as the start of the next request,
//! which a proxy may send for another client ([`super::Peer::expects_head`]).

use bytes::{Buf, Bytes};
use tokio::io::ReadBuf;

const METHOD: &[u8] = b"GET ";

/// Where a connection is in its requests.
#[derive(Debug, Default)]
pub(super) struct Escape {
    /// The line of a GET goes on in what is read next.
    in_line: bool,
    /// What did not fit where it was to be read to.
    left: Bytes,
}

impl Escape {
    /// Gives what is left over; whether there was any.
    pub(super) fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let fits = self.left.len().min(buffer.remaining());
        buffer.put_slice(&self.left[..fits]);
        self.left.advance(fits);
        true
    }

    /// Looks at what was just read behind `before`.
    pub(super) fn take(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        let read = &buffer.filled()[before..];
        if read.is_empty() || !(self.in_line || read.starts_with(METHOD)) {
            return;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        self.in_line = end.is_none();
        let (line, rest) = read.split_at(end.unwrap_or(read.len()));
        if !line.contains(&b'"') {
            return;
        }
        let mut escaped = Vec::with_capacity(read.len() + 2 * line.len());
        for byte in line {
            match byte {
                b'"' => escaped.extend_from_slice(b"%22"),
                byte => escaped.push(*byte),
            }
        }
        escaped.extend_from_slice(rest);
        self.left = escaped.into();
        buffer.set_filled(before);
        self.give(buffer);
    }
}
