//! Escapes plain double quotes in the URI of a GET, which users of CometBFT's RPC often write. A URI must not
//! contain them (RFC 3986). Go's servers accept them, but hyper does not, so they are replaced by `%22` before
//! hyper reads them.
//!
//! Only a request line at the beginning of a read is escaped: clients send nothing before it in the same write. The
//! body of a request must not be changed ([`super::Peer::expects_head`]): it would become longer than announced, and
//! its last bytes would be parsed as the start of the next request, which a proxy may send for another client.

use super::Peer;
use crate::connection::{Layer, Socket};
use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::io::ReadBuf;

const METHOD: &[u8] = b"GET ";

/// Escapes the request lines of a connection.
#[derive(Debug)]
pub(super) struct Escape {
    peer: Arc<Peer>,
    /// The request line of a GET continues in the next read.
    in_line: bool,
    /// Bytes that did not fit into the buffer of the reader.
    left: Bytes,
}

impl Layer for Escape {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.move_left(buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(inner).poll_read(cx, buffer))?;
        if self.peer.expects_head() {
            self.escape(buffer, before);
        }
        Poll::Ready(Ok(()))
    }
}

impl Escape {
    pub(super) const fn new(peer: Arc<Peer>) -> Self {
        Self { peer, in_line: false, left: Bytes::new() }
    }

    /// Moves bytes from `left` into the buffer. Returns whether there were any.
    fn move_left(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        if self.left.is_empty() {
            return false;
        }
        let fits = self.left.len().min(buffer.remaining());
        buffer.put_slice(&self.left[..fits]);
        self.left.advance(fits);
        true
    }

    /// Escapes the bytes that were just read, which start at `before`.
    fn escape(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
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
        self.move_left(buffer);
    }
}
