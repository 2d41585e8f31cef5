//! The subset of HTTP/1.1 that a load needs: POST over persistent connections, one request at a time.

use anyhow::{Context, bail};
use std::{
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    ops::Range,
    time::Duration,
};

/// Connection timeout per address if a name has several.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum bytes of a response head: far more than nodes send.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// Maximum bytes of a response body: more than the response to any reasonable call.
const MAX_BODY_BYTES: usize = 1024 * 1024 * 1024;

/// A parsed and resolved URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    /// As given by the user, for messages.
    pub(crate) text: String,
    pub(crate) address: SocketAddr,
    /// For the `Host` header.
    pub(crate) host: String,
    pub(crate) path: String,
    /// Whether the scheme is `ws`.
    pub(crate) is_ws: bool,
}

impl Url {
    /// Parses and resolves `[SCHEME://]HOST[:PORT][/PATH]` with the scheme `http`, the default, or `ws`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let (is_ws, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("ws", rest)) => (true, rest),
            Some((scheme @ ("https" | "wss"), _)) => {
                bail!("{text}: {scheme} is not supported; connect to the node directly over http")
            }
            Some((scheme, _)) => bail!("{text}: unknown scheme {scheme}, expected http or ws"),
            None => (false, text),
        };
        let (host, path) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, "/"),
        };
        let with_port = if host.rsplit(']').next().is_some_and(|tail| tail.contains(':')) {
            host.to_owned()
        } else {
            format!("{host}:80")
        };
        let found =
            with_port.to_socket_addrs().with_context(|| format!("{text}: cannot resolve"))?;
        let address = reachable(found).with_context(|| format!("{text}: {host} has no address"))?;
        let (host, path) = (host.to_owned(), path.to_owned());
        Ok(Self { text: text.to_owned(), address, host, path, is_ws })
    }

    /// Returns the URL with the scheme `http`.
    pub(crate) fn http(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    /// Returns the constant part of a request head; [`append_request`] appends length and body.
    pub(crate) fn post_head(&self) -> Vec<u8> {
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: ",
            self.path, self.host
        )
        .into_bytes()
    }
}

/// Returns the first address that accepts a connection, or the first address if none does: `localhost`
/// may resolve to `::1` first while the node listens on 127.0.0.1. A single address is not tried.
fn reachable(addresses: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let addresses: Vec<_> = addresses.collect();
    let accepts =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
    let found = if addresses.len() > 1 { addresses.iter().find(accepts) } else { None };
    found.or(addresses.first()).copied()
}

/// Appends a request to the output buffer.
pub(crate) fn append_request(out: &mut Vec<u8>, head: &[u8], body: &[u8]) {
    out.extend_from_slice(head);
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = body.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(body);
}

/// A complete response at the start of the input.
#[derive(Debug)]
pub(crate) struct Response {
    /// Bytes of head and body together.
    pub(crate) length: usize,
    pub(crate) status: u16,
    pub(crate) body: Body,
    /// Whether the server closes the connection after this response.
    pub(crate) closes: bool,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Body {
    /// A range of the input.
    Plain(Range<usize>),
    /// The concatenated chunks.
    Joined(Vec<u8>),
}

impl Response {
    /// Parses the response at the start of `input`; returns `None` while it is incomplete.
    pub(crate) fn read(input: &[u8]) -> anyhow::Result<Option<Self>> {
        let window = &input[..input.len().min(MAX_HEAD_BYTES)];
        let Some(head) = memchr::memmem::find(window, b"\r\n\r\n") else {
            if input.len() >= MAX_HEAD_BYTES {
                bail!("a response head is longer than {MAX_HEAD_BYTES} bytes");
            }
            return Ok(None);
        };
        let text = std::str::from_utf8(&input[..head]).context("a response head is not UTF-8")?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status: u16 = status
            .and_then(|status| status.parse().ok())
            .with_context(|| format!("not an HTTP response: {first:.60}"))?;
        let (mut length, mut chunked, mut closes) = (None, false, first.starts_with("HTTP/1.0"));
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse::<usize>().context("Content-Length is not a number")?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                closes = value.eq_ignore_ascii_case("close");
            }
        }
        let start = head + 4;
        if chunked {
            let joined = join_chunks(&input[start..])?;
            return Ok(joined.map(|(used, body)| Self {
                length: start + used,
                status,
                body: Body::Joined(body),
                closes,
            }));
        }
        let length = length.unwrap_or(0);
        if length > MAX_BODY_BYTES {
            bail!("a response has {length} bytes, the maximum is {MAX_BODY_BYTES}");
        }
        let body = start..start + length;
        let whole = input.len() >= body.end;
        Ok(whole.then_some(Self { length: body.end, status, body: Body::Plain(body), closes }))
    }
}

/// Returns the number of bytes read and the body, or `None` while the last chunk is missing.
fn join_chunks(input: &[u8]) -> anyhow::Result<Option<(usize, Vec<u8>)>> {
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = memchr::memmem::find(&input[at..], b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&input[at..at + line])?;
        let size = size.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(size, 16).context("a chunk size is not a hexadecimal number")?;
        if body.len().saturating_add(size) > MAX_BODY_BYTES {
            bail!("a response is longer than {MAX_BODY_BYTES} bytes");
        }
        at += line + 2;
        let Some(chunk) = input.get(at..at + size + 2) else { return Ok(None) };
        at += size + 2;
        if size == 0 {
            return Ok(Some((at, body)));
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_and_ws_urls_are_parsed_and_https_is_refused() {
        let url = Url::parse("http://127.0.0.1:8545/a/b").unwrap();
        assert_eq!((url.host.as_str(), url.path.as_str()), ("127.0.0.1:8545", "/a/b"));
        assert!(Url::parse("ws://127.0.0.1:1").unwrap().is_ws);
        assert_eq!(Url::parse("127.0.0.1:9").unwrap().address.port(), 9);
        assert_eq!(Url::parse("http://[::1]:9").unwrap().address.port(), 9);
        let error = Url::parse("https://127.0.0.1").unwrap_err().to_string();
        assert!(error.contains("https is not supported"), "{error}");
    }

    #[test]
    fn first_address_that_accepts_is_used() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // Nothing listens on this port of the other loopback address.
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        assert_eq!(reachable([closed, open].into_iter()), Some(open));
        assert_eq!(reachable([closed, closed].into_iter()), Some(closed));
        assert_eq!(reachable([closed].into_iter()), Some(closed));
    }

    #[test]
    fn a_request_is_written_with_its_length() {
        let mut out = Vec::new();
        append_request(&mut out, b"L: ", &[b'x'; 105]);
        assert!(out.starts_with(b"L: 105\r\n\r\nx"));
        assert_eq!(out.len(), 3 + 3 + 4 + 105);
    }

    #[test]
    fn response_is_parsed_only_when_complete() {
        let plain = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        for whole in [&plain[..], &chunked[..]] {
            for end in 0..whole.len() {
                assert!(Response::read(&whole[..end]).unwrap().is_none(), "{end}");
            }
            let mut more = whole.to_vec();
            more.extend_from_slice(b"HTTP/1.1");
            let response = Response::read(&more).unwrap().unwrap();
            assert_eq!(response.length, whole.len());
            match response.body {
                Body::Plain(range) => assert_eq!(&more[range], b"hello"),
                Body::Joined(body) => assert_eq!(body, b"hello"),
            }
        }
    }

    #[test]
    fn malformed_responses_are_refused() {
        assert!(Response::read(b"SSH-2.0\r\n\r\n").is_err());
        assert!(Response::read(&[b'x'; MAX_HEAD_BYTES]).is_err());
        assert!(Response::read(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").is_err());
    }
}
