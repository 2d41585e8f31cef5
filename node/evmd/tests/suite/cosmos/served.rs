//! Starts a node with REST, gRPC and CometBFT's RPC, and sends requests to it.

use crate::{
    client::{MAX_WAIT, Node, any_port, exchange},
    common::producing,
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::Genesis;
use config::{Comet, Grpc};
use cosmos_api::{comet, grpc};
use home::Home;
use pipeline::Options;
use serde_json::{Value, json};
use server::listen;
use std::{
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// Held while a home folder is opened and while a process is started. Between fork and exec, a child process
/// inherits the descriptor of any open lock file, so the next open of that home folder would find it locked.
pub(crate) static FORKING: Mutex<()> = Mutex::const_new(());

/// A node and its servers.
pub(crate) struct Served {
    pub(crate) node: Node,
    grpc: listen::Server,
    comet: listen::Server,
}

impl Served {
    pub(crate) async fn start() -> Self {
        let opening = FORKING.lock().await;
        let node = Node::native().await;
        drop(opening);
        // Tests query the block before a transaction. It must not be block 0, because height 0 means the newest block.
        node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
        Self::with(node).await
    }

    /// Starts a node with block 0 of a chain that follows Ethereum's rules.
    pub(crate) async fn with_ethereum_rules() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"config":{"chainId":1},"gasLimit":"0x989680","difficulty":"0x1","alloc":{},
            "coinbase":"0x1111111111111111111111111111111111111111"}"#;
        let opening = FORKING.lock().await;
        let home = Home::init(folder.path(), &Genesis::from_json(text).unwrap()).unwrap();
        let served = Self::on(folder, home, producing(None)).await;
        drop(opening);
        served
    }

    /// Starts a node on a home folder.
    pub(crate) async fn on(folder: TempDir, home: Home, options: Options) -> Self {
        Self::with(Node::start(folder, home, options).await).await
    }

    /// Starts the other servers of a node.
    pub(crate) async fn with(mut node: Node) -> Self {
        let queries = node.queries.clone();
        let grpc = grpc::serve(&Grpc::default(), any_port().await, &node.budget, queries.clone());
        let comet = Comet { max_request_bytes: 100_000, ..Comet::default() };
        let comet = comet::serve(&comet, any_port().await, &node.budget, queries);
        (node.endpoints.grpc, node.endpoints.comet) = (grpc.address, comet.address);
        Self { node, grpc, comet }
    }

    /// Requests a path; returns status and JSON of the response.
    pub(crate) async fn ask(&self, path: &str) -> (u16, Value) {
        self.ask_at(path, None).await
    }

    /// Same as [`Self::ask`], at a height.
    pub(crate) async fn ask_at(&self, path: &str, height: Option<&str>) -> (u16, Value) {
        let height =
            height.map(|height| format!("x-cosmos-block-height: {height}\r\n")).unwrap_or_default();
        self.send(&format!("GET {path} HTTP/1.1\r\n{height}"), "").await
    }

    /// Requests a path, which must succeed; returns the JSON of the response.
    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, response) = self.ask(path).await;
        assert_eq!(status, 200, "{path}: {response}");
        response
    }

    /// Posts JSON; returns status and JSON of the response.
    pub(crate) async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.send(&head, body).await
    }

    /// Broadcasts a Cosmos transaction; returns code and log of the response.
    pub(crate) async fn broadcast(&self, tx: &[u8]) -> (u64, String) {
        let body = json!({ "tx_bytes": BASE64.encode(tx), "mode": "BROADCAST_MODE_SYNC" });
        let (_, sent) = self.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
        let response = &sent["tx_response"];
        (response["code"].as_u64().unwrap(), response["raw_log"].as_str().unwrap().to_owned())
    }

    /// Broadcasts a Cosmos transaction and waits for its block; returns its result.
    pub(crate) async fn mined(&self, tx: &[u8]) -> Value {
        let body = json!({ "tx_bytes": BASE64.encode(tx), "mode": "BROADCAST_MODE_SYNC" });
        let (_, sent) = self.post("/cosmos/tx/v1beta1/txs", &body.to_string()).await;
        let sent = &sent["tx_response"];
        assert_eq!(sent["code"], 0, "{sent}");
        let path = format!("/cosmos/tx/v1beta1/txs/{}", sent["txhash"].as_str().unwrap());
        let mined = async {
            loop {
                let (status, mut found) = self.ask(&path).await;
                if status == 200 {
                    return found["tx_response"].take();
                }
            }
        };
        tokio::time::timeout(MAX_WAIT, mined).await.expect("a block")
    }

    async fn send(&self, head: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.raw(head, body).await;
        let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (status, json)
    }

    /// Sends any request; returns status and text of the response.
    pub(crate) async fn raw(&self, head: &str, body: &str) -> (u16, String) {
        let request = format!("{head}Host: localhost\r\nConnection: close\r\n\r\n{body}");
        exchange(self.node.rest, request.as_bytes()).await
    }

    pub(crate) async fn stop(self) {
        self.grpc.stop().await;
        self.comet.stop().await;
        self.node.stop().await;
    }
}

/// Runs `evmd`, which must succeed; returns its standard output.
pub(crate) async fn evmd(home: &Path, args: String) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.args(args.split(' ')).env("EVMD_HOME", home).env("EVMD_KEYRING_BACKEND", "test");
    let run = move || {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
        let starting = FORKING.blocking_lock();
        let child = command.spawn().unwrap();
        drop(starting);
        child.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{args}: {}", text(output.stderr));
    text(output.stdout)
}
