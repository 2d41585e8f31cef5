//! Returns bytes that another thread read from the socket but did not process.

use super::{Layer, Socket};
use bytes::Bytes;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::ReadBuf;

/// Contains bytes that are returned before those of the socket.
#[derive(Debug)]
pub struct Replay(pub Bytes);

impl Layer for Replay {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0.is_empty() {
            return Pin::new(inner).poll_read(cx, buffer);
        }
        let count = self.0.len().min(buffer.remaining());
        buffer.put_slice(&self.0.split_to(count));
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::sockets;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn replayed_bytes_precede_those_of_the_socket() {
        let (mut client, served) = sockets().await;
        client.write_all(b"rest").await.unwrap();
        let mut served = served.layer(Replay(Bytes::from_static(b"start, ")));
        let mut part = [0; 2];
        served.read_exact(&mut part).await.unwrap();
        // The layer is removed before all of its bytes were read.
        let (Replay(left), socket) = served.into_parts();
        assert_eq!((&part, &left[..]), (b"st", &b"art, "[..]));
        let mut read = [0; 9];
        socket.layer(Replay(left)).read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"art, rest");
    }
}
