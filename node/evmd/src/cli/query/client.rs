//! Sends requests to JSON-RPC, REST and other HTTP servers of a node, each over its own unencrypted connection.

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

/// Maximum wait for each read from and write to the connection. It exceeds the default of json-rpc.trace-timeout-ms,
/// because the node sends nothing while it computes a trace.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum wait for a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes, twice the default of json-rpc.max-response-bytes.
const MAX_RESPONSE_BYTES: u64 = 128 * 1024 * 1024;

/// A JSON-RPC response.
#[derive(Deserialize)]
struct Response {
    // A result of null is `Some`; a missing result is `None`.
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    error: Option<CallError>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

/// The error object of a JSON-RPC response.
#[derive(Debug, Deserialize)]
pub(in crate::cli) struct CallError {
    pub(in crate::cli) code: i64,
    pub(in crate::cli) message: String,
    pub(in crate::cli) data: Option<Value>,
}

impl std::error::Error for CallError {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Debug)]
pub(in crate::cli) struct Client {
    /// `host:port`.
    authority: String,
    path: String,
}

impl Client {
    /// Parses `http://host:port/path`, in which only the host is required. `default_port` is used if the URL has no
    /// port.
    pub(in crate::cli) fn new(url: &str, default_port: u16) -> anyhow::Result<Self> {
        if url.starts_with("https://") {
            bail!("{url}: encrypted connections are not supported: use http://");
        }
        let rest = ["http://", "tcp://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.unwrap_or(url);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        ensure!(!authority.is_empty() && !rest.contains("://"), "{url:?} is not a URL of a node");
        // A colon starts the port, unless it is inside the brackets of an IPv6 address.
        let host_end = authority.rfind(']').map_or(0, |end| end + 1);
        let has_port = authority[host_end..].contains(':');
        let port = if has_port { String::new() } else { format!(":{default_port}") };
        Ok(Self { authority: format!("{authority}{port}"), path: format!("/{path}") })
    }

    /// Calls a method and parses the result.
    pub(in crate::cli) fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<T> {
        let result = self.call_raw(method, params)?;
        serde_json::from_str(result.get())
            .with_context(|| format!("{method} returned an unexpected result"))
    }

    /// Calls a method. Returns the JSON of the result as the node wrote it; a method's error is a [`CallError`].
    pub(in crate::cli) fn call_raw(
        &self,
        method: &str,
        params: &Value,
    ) -> anyhow::Result<Box<RawValue>> {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (status, body) = self.post("", &call.to_string())?;
        let response: Response = serde_json::from_str(&body)
            .with_context(|| format!("the response is not JSON-RPC: it has status {status}"))?;
        match (response.result, response.error) {
            (_, Some(error)) => Err(error.into()),
            (Some(result), None) => Ok(result),
            (None, None) => bail!("the response has neither a result nor an error"),
        }
    }

    /// Sends a GET request for a path; returns the HTTP status and the body.
    pub(in crate::cli) fn get(&self, path: &str, headers: &str) -> anyhow::Result<(u16, String)> {
        let path = format!("{}{path}", self.path.trim_end_matches('/'));
        self.exchange(&format!("GET {path} HTTP/1.0\r\nHost: {}\r\n{headers}\r\n", self.authority))
            .with_context(|| format!("no node responds at {} (--node)", self.authority))
    }

    /// Sends JSON in a POST request to a path; returns the HTTP status and the body.
    pub(in crate::cli) fn post(&self, path: &str, body: &str) -> anyhow::Result<(u16, String)> {
        let base = if path.is_empty() { &self.path } else { self.path.trim_end_matches('/') };
        let request = format!(
            "POST {base}{path} HTTP/1.0\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.authority,
            body.len()
        );
        self.exchange(&request)
            .with_context(|| format!("no node responds at {} (--node)", self.authority))
    }

    /// Checks that a server accepts connections at the address.
    pub(super) fn connect(&self) -> anyhow::Result<()> {
        let connected =
            self.authority.to_socket_addrs().map_err(anyhow::Error::from).and_then(connect);
        connected
            .map(drop)
            .with_context(|| format!("no node responds at {} (--node)", self.authority))
    }

    pub(in crate::cli) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the host without its port.
    pub(in crate::cli) fn host(&self) -> &str {
        self.authority.rsplit_once(':').map_or(&self.authority, |(host, _)| host)
    }

    /// Sends an HTTP/1.0 request, so that the response is not chunked and ends with the connection.
    fn exchange(&self, request: &str) -> anyhow::Result<(u16, String)> {
        let mut stream = connect(self.authority.to_socket_addrs()?)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.take(MAX_RESPONSE_BYTES).read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").context("not an HTTP response")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.context("not an HTTP response")?, body.to_owned()))
    }
}

/// Connects to the first address that accepts a connection. `localhost` may resolve to `::1` first, although the node
/// listens on 127.0.0.1.
fn connect(addresses: impl Iterator<Item = SocketAddr>) -> anyhow::Result<TcpStream> {
    let mut failed: Option<anyhow::Error> = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            // If several addresses fail, the error names the last one. If there is only one, the caller names it.
            Err(error) if failed.is_some() => {
                failed = Some(anyhow::Error::new(error).context(address));
            }
            Err(error) => failed = Some(error.into()),
        }
    }
    Err(failed.unwrap_or_else(|| anyhow::anyhow!("the name has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn every_address_of_a_host_name_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // No server listens on this port of another loopback address.
        let closed = SocketAddr::new("127.0.0.2".parse().unwrap(), open.port());
        let stream = connect([closed, open].into_iter()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        let error = connect([closed].into_iter()).unwrap_err();
        assert!(!error.to_string().contains("127.0.0.2"), "{error}");
        let error = connect([closed, closed].into_iter()).unwrap_err();
        assert!(error.to_string().contains("127.0.0.2"), "{error}");
        assert!(connect(std::iter::empty()).is_err());
    }

    #[test]
    fn urls_of_nodes_are_parsed() {
        for (url, authority, path) in [
            ("http://127.0.0.1:8545", "127.0.0.1:8545", "/"),
            ("http://node", "node:8545", "/"),
            ("node:1/rpc/v1", "node:1", "/rpc/v1"),
            ("tcp://localhost:26657", "localhost:26657", "/"),
            ("http://[::1]", "[::1]:8545", "/"),
            ("http://[::1]:9", "[::1]:9", "/"),
        ] {
            let client = Client::new(url, 8545).unwrap();
            assert_eq!((client.authority.as_str(), client.path.as_str()), (authority, path));
        }
        for url in ["", "http://", "https://node", "ftp://node"] {
            assert!(Client::new(url, 8545).is_err(), "{url}");
        }
    }
}
