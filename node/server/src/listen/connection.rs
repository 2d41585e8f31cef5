//! A client's socket. It is closed after [`MAX_IDLE`] without traffic, and when the connection is evicted.

use super::{Peer, escape_quotes::Escape};
use crate::half_close::HalfClose;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep},
};

/// A connection without traffic for this long is closed. Clients reconnect.
const MAX_IDLE: Duration = Duration::from_secs(120);

/// The socket of a client.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    /// `None` for protocols without a request line.
    escape: Option<Escape>,
    half_close: HalfClose,
    /// Releases the connection's permit when the socket is dropped. A WebSocket keeps the socket.
    peer: Arc<Peer>,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, peer: Arc<Peer>, is_http: bool) -> Self {
        let escape = is_http.then(Escape::default);
        let (idle, half_close) = (Box::pin(sleep(MAX_IDLE)), HalfClose::default());
        Self { stream, idle, escape, half_close, peer }
    }

    /// Returns a result, and restarts the idle timeout if bytes were transferred.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.peer.evictable.touch();
            self.idle.as_mut().reset(Instant::now() + MAX_IDLE);
            return result;
        }
        ready!(self.idle.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl Connection {
    /// Ready when the end of the input should be reported.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_response_pending = self.peer.is_response_pending();
        self.half_close.poll_end(cx, &self.stream, is_response_pending)
    }
}

fn evicted<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "evicted because another client needs the connection",
    )))
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.peer.evictable.poll_reader(cx) {
            return evicted();
        }
        if self.escape.as_mut().is_some_and(|escape| escape.give(buffer)) {
            return Poll::Ready(Ok(()));
        }
        if self.half_close.has_ended() {
            return self.poll_end(cx);
        }
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let has_ended = matches!(result, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        if has_ended && room > 0 && self.escape.is_some() {
            return self.poll_end(cx);
        }
        let Self { escape, peer, .. } = &mut *self;
        if let Some(escape) = escape
            && peer.expects_head()
        {
            escape.take(buffer, before);
        }
        self.watch(cx, result)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.peer.evictable.poll_writer(cx) {
            return evicted();
        }
        self.peer.set_unflushed(true);
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.peer.evictable.poll_writer(cx) {
            return evicted();
        }
        self.peer.set_unflushed(true);
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when the writer's buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.peer.set_unflushed(false);
        let is_response_pending = self.peer.is_response_pending();
        self.half_close.flushed(cx, is_response_pending);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
