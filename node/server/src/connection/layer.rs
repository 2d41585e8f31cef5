//! Wraps a socket in layers. A layer changes how the socket reads, writes or flushes, and leaves the rest unchanged.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// A TCP socket, with or without layers.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Sized {
    /// Takes the error that the kernel has reported for the TCP socket, such as a reset, if there is one.
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    /// Wraps the socket in a layer.
    fn layer<L: Layer>(self, layer: L) -> Layered<L, Self> {
        Layered { inner: self, layer }
    }
}

/// Changes one aspect of a connection. By default, all calls are passed to the socket below, `inner`.
pub trait Layer: Unpin {
    /// Reads from the socket below.
    fn poll_read<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(inner).poll_read(cx, buffer)
    }

    /// Writes to the socket below, which may accept only a part of the bytes.
    fn poll_write<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(inner).poll_write_vectored(cx, pieces)
    }

    /// Called when the writer's buffer is empty, which may be in the middle of a response.
    fn poll_flush<S: Socket>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(inner).poll_flush(cx)
    }
}

/// A socket with a layer.
#[derive(Debug)]
pub struct Layered<L, S> {
    // This field is dropped first, so the socket is closed before the resources of the layer are released.
    inner: S,
    layer: L,
}

impl<L, S> Layered<L, S> {
    /// The layer, and the socket below it.
    pub fn into_parts(self) -> (L, S) {
        (self.layer, self.inner)
    }

    /// The socket below the layer.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

/// Keeps a value as long as the socket exists, also after an upgrade to a WebSocket, and changes nothing.
#[derive(Debug)]
pub struct Hold<T>(pub T);

impl<T: Unpin> Layer for Hold<T> {}

impl Socket for TcpStream {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Self::take_error(self)
    }
}

impl<L: Layer, S: Socket> Socket for Layered<L, S> {
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }
}

impl<L: Layer, S: Socket> AsyncRead for Layered<L, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { layer, inner } = &mut *self;
        layer.poll_read(inner, cx, buffer)
    }
}

impl<L: Layer, S: Socket> AsyncWrite for Layered<L, S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { layer, inner } = &mut *self;
        layer.poll_write(inner, cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { layer, inner } = &mut *self;
        layer.poll_flush(inner, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
