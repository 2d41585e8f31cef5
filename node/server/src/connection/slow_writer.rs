//! Closes the connection of a client that does not read.

use super::{Layer, Socket};
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Bytes that a slow client must read within the time limit.
const MIN_READ_BYTES: usize = 64 * 1024;

/// Fails writes to a client that has not read [`MIN_READ_BYTES`] within the time limit after it was found slow. A
/// client is slow from a write that the socket does not accept until it has read that much, or everything.
#[derive(Debug)]
pub struct SlowWriter {
    max: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Bytes that the client has read since it was found slow; `None` while it is not.
    read_bytes: Option<usize>,
}

impl SlowWriter {
    /// A client that reads too little for `max` is disconnected.
    pub fn new(max: Duration) -> Self {
        Self { max, deadline: Box::pin(sleep(max)), read_bytes: None }
    }
}

impl Layer for SlowWriter {
    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(inner).poll_write_vectored(cx, pieces);
        if let Poll::Ready(result) = result {
            if let (Ok(written), Some(read)) = (&result, self.read_bytes) {
                self.read_bytes = Some(read + written).filter(|read| *read < MIN_READ_BYTES);
            }
            return Poll::Ready(result);
        }
        if self.read_bytes.is_none() {
            self.read_bytes = Some(0);
            self.deadline.as_mut().reset(Instant::now() + self.max);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.read_bytes = None;
        Pin::new(inner).poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const SLOW: Duration = Duration::from_secs(10);
    const BUFFER_BYTES: usize = 2 * MIN_READ_BYTES;

    /// Writes more than the buffers hold to a client that reads `piece` bytes once per 90 % of the time limit.
    async fn write_to_reader_of(piece: usize) -> io::Result<()> {
        let (mut client, served) = duplex(BUFFER_BYTES);
        let mut served = served.layer(SlowWriter::new(SLOW));
        let reading = async {
            let mut bytes = vec![0; piece];
            loop {
                sleep(SLOW * 9 / 10).await;
                client.read_exact(&mut bytes).await.unwrap();
            }
        };
        let much = vec![0; BUFFER_BYTES + 10 * MIN_READ_BYTES];
        tokio::select! {
            written = served.write_all(&much) => written,
            () = reading => unreachable!("the client does not end"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_too_little_is_disconnected() {
        let began = Instant::now();
        for piece in [1, MIN_READ_BYTES - 1] {
            let error = write_to_reader_of(piece).await.expect_err("it reads too little");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{piece}");
        }
        assert!(began.elapsed() < 3 * SLOW);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_enough_is_served_as_long_as_it_takes() {
        let began = Instant::now();
        write_to_reader_of(MIN_READ_BYTES).await.unwrap();
        assert!(began.elapsed() > 5 * SLOW);
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_has_read_everything_is_not_slow() {
        let (mut client, served) = duplex(10);
        let mut served = served.layer(SlowWriter::new(SLOW));
        let mut bytes = [0; 11];
        for _ in 0..5 {
            // The eleventh byte does not fit into the buffer, so the client is found slow.
            let writing = async {
                served.write_all(&[0; 11]).await.unwrap();
                served.flush().await.unwrap();
            };
            let reading = async {
                sleep(SLOW * 9 / 10).await;
                client.read_exact(&mut bytes).await.unwrap();
            };
            tokio::join!(writing, reading);
        }
    }
}
