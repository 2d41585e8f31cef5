//! A node with its servers, and a minimal HTTP and WebSocket client.

#![allow(dead_code, reason = "each test file uses its own part")]

use crate::common::{native_home, producing};
use budget::Budget;
use config::{Config, Endpoints};
use cosmos_api::{query::Queries, rest};
use evmd::eth_calls::JsonRpcCalls;
use evmd::observe;
use home::Home;
use keys::{
    Signers,
    keyring::{Access, Keyring},
};
use pipeline::{Options, Pipeline};
use serde_json::{Value, json};
use server::listen;
use std::{collections::VecDeque, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Maximum wait for a response.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running node.
pub(crate) struct Node {
    pub(crate) pipeline: Pipeline,
    pub(crate) rpc: rpc::Servers,
    pub(crate) rest: listen::Server,
    pub(crate) queries: Queries,
    pub(crate) observe: listen::Server,
    pub(crate) budget: Arc<Budget>,
    _home: Home,
    folder: TempDir,
}

/// Settings with free ports and low limits.
pub(crate) fn config() -> Config {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::default();
    config.json_rpc.address = free;
    config.json_rpc.ws_address = free;
    config.json_rpc.max_request_bytes = 1_000_000;
    config.json_rpc.max_batch = 100;
    config.rest.address = free;
    config.rest.max_request_bytes = 100_000;
    config.comet.address = free;
    config.metrics.address = free;
    config
}

impl Node {
    /// A development chain that produces a block every few milliseconds.
    pub(crate) async fn native() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = native_home(folder.path());
        Self::start(folder, home, producing(Some(Duration::from_millis(5)))).await
    }

    /// The same with other settings.
    pub(crate) async fn native_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = native_home(folder.path());
        let mut config = config();
        change(&mut config);
        let options = producing(Some(Duration::from_millis(5)));
        Self::start_with(folder, home, options, config).await
    }

    /// Serves a home folder.
    pub(crate) async fn start(folder: TempDir, home: Home, options: Options) -> Self {
        Self::start_with(folder, home, options, config()).await
    }

    /// Serves a home folder with these settings.
    pub(crate) async fn start_with(
        folder: TempDir,
        home: Home,
        options: Options,
        config: Config,
    ) -> Self {
        let (backend, block_time) = (options.backend, options.block_time);
        let pipeline = Pipeline::start(&home, options).unwrap();
        let calls = Arc::new(JsonRpcCalls::new(&config.json_rpc, home.caches.clone()));
        let (published, client) = (pipeline.published.clone(), pipeline.client());
        let queries = Queries::new(home.spec.clone(), published, client, &config, calls);
        let budget = Budget::new(&config);
        let rest = rest::serve(&config.rest, &budget, queries.clone()).await.unwrap();
        let context = rpc_eth::Context {
            spec: home.spec.clone(),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            pool_limits: config.mempool.limits(),
            gas_cap: config.json_rpc.gas_cap,
            feehistory_cap: config.json_rpc.feehistory_cap,
            endpoints: Endpoints { rest: rest.address, ..config.endpoints() },
            signers: config.json_rpc.keyring.backend().map(|backend| {
                let keyring = Keyring::open(backend, folder.path(), Access::Read, None).unwrap();
                Arc::new(Signers::new(backend, folder.path().to_owned(), &keyring))
            }),
            budget: Arc::clone(&budget),
            caches: home.caches.clone(),
        };
        let rpc = rpc::serve(&config.json_rpc, context).await.unwrap();
        let context = observe::Context {
            spec: home.spec.clone(),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            calls: rpc.calls(),
            seats: rpc.seats(),
            budget: Arc::clone(&budget),
            index: home.index.clone(),
            config: config.clone(),
            backend,
            block_time,
        };
        let observe = observe::serve(config.metrics.address, context).await.unwrap();
        Self { pipeline, rpc, rest, queries, observe, budget, _home: home, folder }
    }

    /// The home folder.
    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    /// The whole response to a call.
    pub(crate) async fn answer(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&call.to_string()).await
    }

    /// The result of a call, which must succeed.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code and message of a call, which must fail.
    pub(crate) async fn fail(&self, method: &str, params: Value) -> (i64, String) {
        let answer = self.answer(method, params).await;
        let error = answer.get("error").unwrap_or_else(|| panic!("{method}: {answer}"));
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// Calls until the result is not null.
    pub(crate) async fn wait_for(&self, method: &str, params: Value) -> Value {
        let looking = async {
            loop {
                let result = self.call(method, params.clone()).await;
                if !result.is_null() {
                    return result;
                }
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.expect("something before patience ends")
    }

    /// Posts a body. The response must be JSON.
    pub(crate) async fn post(&self, body: &str) -> Value {
        let (status, answer) = self.post_as("application/json", body.as_bytes()).await;
        // The status is 400 if the body is not JSON-RPC; the response is JSON, too.
        assert!([200, 400].contains(&status), "{status}: {answer}");
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Posts any body; returns status and body of the response.
    pub(crate) async fn post_as(&self, content_type: &str, body: &[u8]) -> (u16, String) {
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        exchange(self.rpc.address, &[head.as_bytes(), body].concat()).await
    }

    /// Gets a path of the metrics server.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        exchange(self.observe.address, request.as_bytes()).await
    }

    /// One call over a new WebSocket connection.
    pub(crate) async fn call_over_websocket(&self, address: SocketAddr, call: &str) -> Value {
        let mut socket = self.websocket(address).await;
        socket.send(call).await;
        socket.receive().await
    }

    /// A new WebSocket connection.
    pub(crate) async fn websocket(&self, address: SocketAddr) -> Socket {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Socket { stream, pushed: VecDeque::new() }
    }

    /// Shuts down the servers and the node.
    pub(crate) async fn stop(self) -> TempDir {
        self.pipeline.stop();
        self.rpc.stop().await;
        self.rest.stop().await;
        self.observe.stop().await;
        self.pipeline.join().unwrap();
        self.folder
    }
}

/// Opcodes of frames (RFC 6455, section 11.8).
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// A WebSocket connection.
pub(crate) struct Socket {
    stream: TcpStream,
    /// Messages that were pushed before a response.
    pushed: VecDeque<Value>,
}

impl Socket {
    pub(crate) async fn send(&mut self, call: &str) {
        // A final text frame with a mask of zeros (RFC 6455).
        let mut frame = match call.len() {
            short @ 0..126 => vec![0x81, 0x80 | short as u8],
            middle @ 126..=0xffff => {
                let [high, low] = (middle as u16).to_be_bytes();
                vec![0x81, 0xfe, high, low]
            }
            long => panic!("{long} bytes in one frame"),
        };
        frame.extend([0; 4]);
        frame.extend_from_slice(call.as_bytes());
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Sends a message of any length.
    pub(crate) async fn send_long(&mut self, call: &str) {
        let mut frame = vec![0x81, 0xff];
        frame.extend((call.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(call.as_bytes());
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The text of the next message.
    pub(crate) async fn receive_text(&mut self) -> String {
        loop {
            // There may be pings before it.
            if let (TEXT, content) = self.frame().await {
                return String::from_utf8(content).unwrap();
            }
        }
    }

    /// The next message.
    pub(crate) async fn receive(&mut self) -> Value {
        match self.pushed.pop_front() {
            Some(pushed) => pushed,
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.receive_text().await).unwrap()
    }

    /// The status code with which the server closes the connection, after any other frames.
    pub(crate) async fn closing(&mut self) -> u16 {
        loop {
            if let (CLOSE, content) = self.frame().await {
                return u16::from_be_bytes(*content.first_chunk().unwrap());
            }
        }
    }

    /// Opcode and content of the next frame (RFC 6455, section 5.2).
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).await.unwrap();
        let length = match head[1] {
            126 => usize::from(self.stream.read_u16().await.unwrap()),
            127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).await.unwrap();
        (head[0] & 0x0f, content)
    }

    /// The whole response to a call. Messages that are pushed before it are stored.
    pub(crate) async fn answer(&mut self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(&call.to_string()).await;
        loop {
            let message = self.read().await;
            if message.get("id").is_some() {
                return message;
            }
            self.pushed.push_back(message);
        }
    }

    /// The result of a call, which must succeed.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }
}

/// Sends bytes and reads the HTTP response to the end of the connection.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let (status, _, body) = exchange_with_head(address, request).await;
    (status, body)
}

/// The same with the head of the response.
pub(crate) async fn exchange_with_head(
    address: SocketAddr,
    request: &[u8],
) -> (u16, String, String) {
    let talk = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that has already refused the request may close the connection before it has read everything.
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, talk).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunk(body)
    } else {
        body.to_owned()
    };
    (status, head.to_owned(), body)
}

/// Joins the chunks of a chunked body.
fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
