//! One connection of the load. It sends requests and receives their responses in order, over HTTP,
//! WebSocket or the TCP ingest.

use crate::{
    http::{self, Body, Url},
    ws,
};
use anyhow::{Context, bail};
use mio::net::TcpStream;
use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    time::Duration,
};

/// Timeout for connecting and for the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes per read.
const READ_BYTES: usize = 256 * 1024;

/// Address and protocol of a server.
#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    /// JSON-RPC in HTTP requests, one at a time per connection.
    Http(Url),
    /// JSON-RPC in WebSocket messages.
    Ws(Url),
    /// Raw transactions in frames of evmd's TCP ingest.
    Ingest(SocketAddr),
}

impl Endpoint {
    /// Chooses the protocol by the scheme of the URL.
    pub(crate) fn from_url(url: &Url) -> Self {
        if url.is_ws { Self::Ws(url.clone()) } else { Self::Http(url.clone()) }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        match self {
            Self::Http(url) | Self::Ws(url) => url.address,
            Self::Ingest(address) => *address,
        }
    }

    /// Returns the maximum number of requests in flight on one connection.
    pub(crate) fn depth(&self, wanted: Option<usize>) -> usize {
        match self {
            Self::Http(_) => 1,
            Self::Ws(_) => wanted.unwrap_or(1),
            Self::Ingest(_) => wanted.unwrap_or(2048),
        }
    }
}

/// A response of the server.
#[derive(Debug)]
pub(crate) enum Response<'a> {
    /// A JSON-RPC response or batch of responses.
    Json(&'a [u8]),
    /// The node refused the request, with this reason.
    Refused(String),
    /// The ingest accepted the transaction.
    Accepted,
}

/// A non-blocking connection with its buffers.
#[derive(Debug)]
pub(crate) struct Connection {
    endpoint: Endpoint,
    head: Vec<u8>,
    pub(crate) stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    input: Vec<u8>,
    /// Bytes of `input` that contain data, and how many of them have been consumed.
    filled: usize,
    used: usize,
    closed: bool,
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint) -> anyhow::Result<Self> {
        let address = endpoint.address();
        let mut stream = std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        let mut input = Vec::new();
        let head = match endpoint {
            Endpoint::Http(url) => url.post_head(),
            Endpoint::Ws(url) => {
                input = ws::handshake(&mut stream, url)?;
                Vec::new()
            }
            Endpoint::Ingest(_) => Vec::new(),
        };
        stream.set_nonblocking(true)?;
        Ok(Self {
            endpoint: endpoint.clone(),
            head,
            stream: TcpStream::from_std(stream),
            out: Vec::new(),
            written: 0,
            filled: input.len(),
            input,
            used: 0,
            closed: false,
        })
    }

    /// Queues a request; [`Self::write`] sends it.
    pub(crate) fn queue(&mut self, payload: &[u8]) {
        match self.endpoint {
            Endpoint::Http(_) => http::append_request(&mut self.out, &self.head, payload),
            Endpoint::Ws(_) => ws::append_text(&mut self.out, payload),
            Endpoint::Ingest(_) => {
                let length =
                    u32::try_from(payload.len()).expect("a transaction is far below 4 GiB");
                self.out.extend_from_slice(&length.to_be_bytes());
                self.out.extend_from_slice(payload);
            }
        }
    }

    /// Sends queued requests until the socket would block.
    pub(crate) fn write(&mut self) -> anyhow::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.closed = true;
                    return Ok(());
                }
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads until the socket would block.
    pub(crate) fn read(&mut self) {
        loop {
            if self.used > 0 {
                self.input.copy_within(self.used..self.filled, 0);
                self.filled -= self.used;
                self.used = 0;
            }
            if self.input.len() < self.filled + READ_BYTES {
                self.input.resize(self.filled + READ_BYTES, 0);
            }
            let capacity = self.input.len() - self.filled;
            match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => {
                    self.closed = true;
                    return;
                }
                Ok(count) => {
                    self.filled += count;
                    // A short read has emptied the socket. The next event announces more data.
                    if count < capacity {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.closed |= error.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    /// Returns whether the connection was closed, so that requests in flight receive no response.
    pub(crate) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Passes the next complete response to `take`; returns false if there is none.
    pub(crate) fn next_response(
        &mut self,
        take: impl FnOnce(Response<'_>),
    ) -> anyhow::Result<bool> {
        let input = &self.input[self.used..self.filled];
        match &self.endpoint {
            Endpoint::Http(_) => {
                let Some(response) = http::Response::read(input)? else { return Ok(false) };
                let body = match &response.body {
                    Body::Plain(range) => &input[range.clone()],
                    Body::Joined(body) => body,
                };
                take(if response.status == 200 {
                    Response::Json(body)
                } else {
                    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
                    Response::Refused(format!("HTTP {}: {text}", response.status))
                });
                self.used += response.length;
                self.closed |= response.closes;
            }
            Endpoint::Ws(_) => {
                let Some((length, frame)) = ws::read(input)? else { return Ok(false) };
                match frame {
                    ws::Frame::Message(range) => take(Response::Json(&input[range])),
                    ws::Frame::Joined(message) => take(Response::Json(&message)),
                    ws::Frame::Ping(range) => {
                        let payload = input[range].to_vec();
                        ws::append_pong(&mut self.out, &payload);
                        self.used += length;
                        self.write()?;
                        return self.next_response(take);
                    }
                    ws::Frame::Pong => {
                        self.used += length;
                        return self.next_response(take);
                    }
                    ws::Frame::Close => {
                        self.closed = true;
                        return Ok(false);
                    }
                }
                self.used += length;
            }
            Endpoint::Ingest(_) => {
                let (length, response) = match input {
                    [0, rest @ ..] if rest.len() >= 32 => (33, Response::Accepted),
                    [1, a, b, c, d, rest @ ..] => {
                        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                        let Some(text) = rest.get(..length) else { return Ok(false) };
                        let text = String::from_utf8_lossy(text).into_owned();
                        (5 + length, Response::Refused(text))
                    }
                    [] | [0 | 1, ..] => return Ok(false),
                    [other, ..] => bail!("the ingest returned the unknown status {other}"),
                };
                take(response);
                self.used += length;
            }
        }
        Ok(true)
    }
}
