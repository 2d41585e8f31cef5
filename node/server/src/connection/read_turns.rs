//! Yields to other tasks of the thread while much is read.

use super::{Layer, Socket, give_way::give_way};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::ReadBuf;

/// Maximum bytes that are read before other connections are served. Hundreds of clients that each send megabytes would
/// otherwise be read one after another, each until its socket is empty, and a small request of another client
/// would wait for all of them.
pub(super) const READ_TURN_BYTES: usize = 16 * 1024;

/// Lets other tasks of the thread run after each turn, which is 16 KiB.
#[derive(Debug, Default)]
pub struct ReadTurns {
    read_bytes: usize,
}

impl Layer for ReadTurns {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = READ_TURN_BYTES.saturating_sub(self.read_bytes);
        if left == 0 {
            self.read_bytes = 0;
            give_way(cx);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = if buffer.remaining() <= left {
            Pin::new(inner).poll_read(cx, buffer)
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(left));
            let result = Pin::new(inner).poll_read(cx, &mut part);
            let read = part.filled().len();
            buffer.advance(read);
            result
        };
        let read = buffer.filled().len() - before;
        // The turn ends when the socket has no more bytes.
        self.read_bytes = if result.is_pending() { 0 } else { self.read_bytes + read };
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncRead, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn read_pauses_after_each_turn() {
        let (mut client, served) = duplex(4 * READ_TURN_BYTES);
        let mut served = served.layer(ReadTurns::default());
        client.write_all(&vec![7; 3 * READ_TURN_BYTES]).await.unwrap();
        let mut bytes = vec![0; 4 * READ_TURN_BYTES];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut polls = Vec::new();
        for _ in 0..6 {
            let poll = poll_fn(|cx| Poll::Ready(Pin::new(&mut served).poll_read(cx, &mut buffer)));
            let is_ready = poll.await.is_ready();
            polls.push((is_ready, buffer.filled().len() / READ_TURN_BYTES));
        }
        let expected = [(true, 1), (false, 1), (true, 2), (false, 2), (true, 3), (false, 3)];
        assert_eq!(polls, expected);
    }
}
