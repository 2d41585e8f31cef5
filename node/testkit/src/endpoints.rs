//! The addresses of a node, and a client that sends requests to them.

use crate::{MAX_WAIT, Socket, exchange, own_address};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Width, in bytes, of the label at the start of each line of the banner that a node prints when it starts.
const LABEL_WIDTH: usize = 17;

/// The addresses of a node under test. The methods are a client of the node. They panic, and so fail the test, if the
/// response is not as they require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// JSON-RPC over HTTP and WebSocket.
    pub json_rpc: SocketAddr,
    /// JSON-RPC over WebSocket only.
    pub web_socket: SocketAddr,
    /// REST of the Cosmos interfaces.
    pub rest: SocketAddr,
    /// gRPC of the Cosmos interfaces.
    pub grpc: SocketAddr,
    /// CometBFT's RPC.
    pub comet: SocketAddr,
    /// Raw transactions over TCP.
    pub ingest: SocketAddr,
    /// Metrics, health and status.
    pub metrics: SocketAddr,
    /// Web pages.
    pub pages: SocketAddr,
    /// Blocks for replicas, if the node serves them.
    pub replication: Option<SocketAddr>,
}

impl Endpoints {
    /// Addresses that nothing else uses (see [`own_address`]), for a node that is started more than once or that does
    /// not print its addresses.
    pub fn unused() -> Self {
        let [json_rpc, web_socket, rest, grpc, comet, ingest, metrics, pages] =
            [(); 8].map(|()| own_address());
        Self { json_rpc, web_socket, rest, grpc, comet, ingest, metrics, pages, replication: None }
    }

    /// Addresses with port 0, for which the kernel chooses free ports. The node prints the chosen ports.
    pub(crate) const fn chosen_by_kernel() -> Self {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self {
            json_rpc: any,
            web_socket: any,
            rest: any,
            grpc: any,
            comet: any,
            ingest: any,
            metrics: any,
            pages: any,
            replication: None,
        }
    }

    /// Reads the addresses in one line of the banner.
    pub(crate) fn read(&mut self, line: &str) {
        let address = |word: &str| {
            let after_scheme = word.split_once("://").map_or(word, |(_, rest)| rest);
            after_scheme.split('/').next()?.parse().ok()
        };
        let mut found = line.split_whitespace().filter_map(address);
        let mut set = |field: &mut SocketAddr| *field = found.next().unwrap_or(*field);
        match line.get(..LABEL_WIDTH).unwrap_or_default().trim_end() {
            "JSON-RPC" => {
                set(&mut self.json_rpc);
                set(&mut self.web_socket);
            }
            "REST" => set(&mut self.rest),
            "gRPC" => set(&mut self.grpc),
            "CometBFT RPC" => set(&mut self.comet),
            "transactions" => set(&mut self.ingest),
            "metrics" => set(&mut self.metrics),
            "web pages" => set(&mut self.pages),
            "replication" => self.replication = found.next(),
            _ => {}
        }
    }

    /// The options of `evmd start` that make a node listen on these addresses, except that for replicas.
    pub fn options(&self) -> Vec<String> {
        let options = [
            ("--json-rpc.address", self.json_rpc),
            ("--json-rpc.ws-address", self.web_socket),
            ("--rest.address", self.rest),
            ("--grpc.address", self.grpc),
            ("--comet.address", self.comet),
            ("--ingest.address", self.ingest),
            ("--metrics.address", self.metrics),
            ("--pages.address", self.pages),
        ];
        options.iter().flat_map(|(name, at)| [(*name).to_owned(), at.to_string()]).collect()
    }

    /// All addresses, except that for replicas.
    pub const fn all(&self) -> [SocketAddr; 8] {
        let Self { json_rpc, web_socket, rest, grpc, comet, ingest, metrics, pages, .. } = *self;
        [json_rpc, web_socket, rest, grpc, comet, ingest, metrics, pages]
    }

    /// The whole response to a call.
    pub async fn response(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&call.to_string()).await
    }

    /// The result of a call, which must succeed.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let response = self.response(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    /// The error code and message of a call, which must fail.
    pub async fn fail(&self, method: &str, params: Value) -> (i64, String) {
        let response = self.response(method, params).await;
        let error = response.get("error").unwrap_or_else(|| panic!("{method}: {response}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Repeats a call until its result is not null, for at most [`MAX_WAIT`].
    pub async fn wait_for(&self, method: &str, params: Value) -> Value {
        let polling = async {
            loop {
                let result = self.call(method, params.clone()).await;
                if !result.is_null() {
                    return result;
                }
            }
        };
        let found = tokio::time::timeout(MAX_WAIT, polling).await;
        found.unwrap_or_else(|_| panic!("{method} returned null for {MAX_WAIT:?}"))
    }

    /// Posts a body to the JSON-RPC server. The response must be JSON.
    pub async fn post(&self, body: &str) -> Value {
        let (status, response) = self.post_as("application/json", body.as_bytes()).await;
        // The status is 400 if the body is not JSON-RPC. Such responses are JSON, too.
        assert!([200, 400].contains(&status), "{status}: {response}");
        serde_json::from_str(&response).unwrap_or_else(|error| panic!("{error}: {response}"))
    }

    /// Posts any body to the JSON-RPC server; returns status and body of the response.
    pub async fn post_as(&self, content_type: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        exchange(self.json_rpc, &[head.as_bytes(), body].concat()).await
    }

    /// Gets a path from the metrics server; returns status and body of the response.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(self.metrics, request.as_bytes()).await
    }

    /// Sends one call over a new WebSocket connection to one of the addresses of JSON-RPC; returns the response.
    pub async fn call_over_websocket(&self, address: SocketAddr, call: &str) -> Value {
        let mut socket = self.websocket(address).await;
        socket.send(call).await;
        socket.receive().await
    }

    /// A new WebSocket connection to one of the addresses of JSON-RPC.
    pub async fn websocket(&self, address: SocketAddr) -> Socket {
        assert!([self.json_rpc, self.web_socket].contains(&address), "{address}");
        Socket::open(address).await
    }
}
