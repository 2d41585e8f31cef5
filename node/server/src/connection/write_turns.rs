//! Yields to other tasks and threads while much is written.

use super::{Layer, Socket, give_way::give_way_after_write};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

/// Maximum bytes that are written before other connections are served: some twenty microseconds of copying. A socket
/// that accepts megabytes at once would otherwise occupy the thread that serves many others.
pub(super) const WRITE_TURN_BYTES: usize = 128 * 1024;
/// Maximum pieces of a response in one system call: a head, a body and a few more.
const MAX_PIECES: usize = 16;

/// Lets other tasks and threads run after each turn, which is 128 KiB.
#[derive(Debug, Default)]
pub struct WriteTurns {
    written_bytes: usize,
}

impl Layer for WriteTurns {
    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut left = WRITE_TURN_BYTES.saturating_sub(self.written_bytes);
        if left == 0 {
            self.written_bytes = 0;
            give_way_after_write(cx);
            return Poll::Pending;
        }
        let mut part = [IoSlice::new(&[]); MAX_PIECES];
        let mut count = 0;
        // A write of no bytes would look like the end of the stream, so empty pieces are skipped.
        for piece in pieces.iter().filter(|piece| !piece.is_empty()).take(MAX_PIECES) {
            let bytes = &piece[..piece.len().min(left)];
            left -= bytes.len();
            part[count] = IoSlice::new(bytes);
            count += 1;
            if left == 0 {
                break;
            }
        }
        let result = Pin::new(inner).poll_write_vectored(cx, &part[..count]);
        match &result {
            Poll::Ready(Ok(written)) => self.written_bytes += written,
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.written_bytes = 0,
        }
        result
    }

    fn poll_flush<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.written_bytes = 0;
        Pin::new(inner).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};

    #[tokio::test]
    async fn write_pauses_after_each_turn_and_a_flush_begins_a_new_one() {
        let (_client, served) = duplex(10 * WRITE_TURN_BYTES);
        let mut served = served.layer(WriteTurns::default());
        let bytes = vec![0; 2 * WRITE_TURN_BYTES];
        assert_eq!(served.write(&bytes).await.unwrap(), WRITE_TURN_BYTES);
        let write = std::future::poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut served).poll_write(cx, &bytes).is_pending())
        });
        assert!(write.await, "the turn is over");
        assert_eq!(served.write(&bytes[..10]).await.unwrap(), 10);
        served.flush().await.unwrap();
        assert_eq!(served.write(&bytes).await.unwrap(), WRITE_TURN_BYTES);
    }

    #[tokio::test]
    async fn empty_pieces_are_skipped() {
        let (mut client, served) = duplex(100);
        let mut served = served.layer(WriteTurns::default());
        let mut pieces = vec![IoSlice::new(&[]); 2 * MAX_PIECES];
        pieces.push(IoSlice::new(b"ab"));
        pieces.push(IoSlice::new(b"c"));
        assert_eq!(served.write_vectored(&pieces).await.unwrap(), 3);
        let mut read = [0; 3];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"abc");
    }
}
