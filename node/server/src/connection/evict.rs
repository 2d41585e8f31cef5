//! Ends reads and writes once the connection has been evicted.

use super::{Layer, Socket};
use budget::Evictable;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::ReadBuf;

/// Fails reads and writes after an eviction, and wakes the tasks that wait for them.
#[derive(Debug)]
pub struct Evict(pub Arc<Evictable>);

fn evicted<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "evicted because another client needs the connection",
    )))
}

impl Layer for Evict {
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0.poll_reader(cx) {
            true => evicted(),
            false => Pin::new(inner).poll_read(cx, buffer),
        }
    }

    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.0.poll_writer(cx) {
            true => evicted(),
            false => Pin::new(inner).poll_write_vectored(cx, pieces),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::sockets;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn eviction_ends_a_read_that_waits_and_every_later_one() {
        let (_client, served) = sockets().await;
        let evictable = Arc::<Evictable>::default();
        let mut served = served.layer(Evict(Arc::clone(&evictable)));
        served.write_all(b"x").await.unwrap();
        let mut byte = [0];
        let evicting = async { evictable.evict() };
        // The read is polled first and waits.
        let (read, ()) = tokio::join!(biased; served.read(&mut byte), evicting);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        assert!(served.write_all(b"x").await.is_err() && served.read(&mut byte).await.is_err());
    }
}
