//! Runs a chain with a voting period of a few seconds and uses it through the command line.

use crate::common::wait_until;
use chain::{DEV_ACCOUNTS, Genesis};
use proto::cosmos::evm::feemarket::v1::{QueryParamsRequest, QueryParamsResponse};
use serde_json::{Value, json};
use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use testkit::Endpoints;
use tonic::{Request, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;

/// Voting period of the test chain in seconds.
const VOTING_SECONDS: u64 = 4;
/// The governance account.
pub(crate) const GOV: &str = "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn";

/// A home folder and the node on it.
pub(crate) struct Chain {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) endpoints: Endpoints,
    node: Option<Child>,
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn evmd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.env_remove("EVMD_HOME").env_remove("EVMD_KEYRING_BACKEND");
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn succeeded(output: &Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    text(&output.stdout)
}

impl Chain {
    /// A chain with a short voting period. Its validator is the first development account, whose key is `val`. The
    /// second has the key `bob`.
    pub(crate) fn new() -> Self {
        Self::with_genesis(|_| {})
    }

    /// The same with a changed genesis.
    pub(crate) fn with_genesis(change: impl FnOnce(&mut Value)) -> Self {
        let mut genesis: Value =
            serde_json::from_str(&Genesis::native_dev(1_700_000_000).to_json()).unwrap();
        let params = &mut genesis["config"]["evmd"]["gov"]["params"];
        params["max_deposit_period"] = json!(format!("{VOTING_SECONDS}s"));
        params["voting_period"] = json!(format!("{VOTING_SECONDS}s"));
        params["expedited_voting_period"] = json!(format!("{}s", VOTING_SECONDS / 2));
        change(&mut genesis);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("given.json"), genesis.to_string()).unwrap();
        let chain = Self { folder, endpoints: Endpoints::unused(), node: None };
        chain.init(&chain.home());
        for (name, account) in ["val", "bob"].iter().zip(&DEV_ACCOUNTS) {
            let mut command = evmd();
            command.args(["keys", "unsafe-import-eth-key", name]);
            command.arg(account.private_key.to_string().trim_start_matches("0x"));
            command.args(["--keyring-backend", "test", "--home"]).arg(chain.home());
            succeeded(&command.stdin(Stdio::null()).output().unwrap(), "a key");
        }
        chain
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn init(&self, home: &Path) {
        let mut command = evmd();
        command.arg("init").arg("--home").arg(home);
        command.arg("--genesis").arg(self.folder.path().join("given.json"));
        succeeded(&command.output().unwrap(), "init");
    }

    pub(crate) fn start(&mut self) {
        self.start_with(&["--block-time", "200ms"]);
    }

    pub(crate) fn start_with(&mut self, flags: &[&str]) {
        let mut command = evmd();
        command.arg("start").arg("--home").arg(self.home());
        command.args(flags).arg("--quiet");
        command.args(self.endpoints.options());
        self.node = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the node responds", || self.query("block").0);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut node) = self.node.take() {
            // This fails if the node has already ended.
            drop(node.kill());
            drop(node.wait());
        }
    }

    /// Runs `evmd query`; returns whether it succeeds, and its JSON.
    pub(crate) fn query(&self, args: &str) -> (bool, Value) {
        let mut command = evmd();
        command.arg("query").args(args.split(' ')).args(["-o", "json", "--node"]);
        let output = command.arg(format!("http://{}", self.endpoints.rest)).output().unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.success(), json)
    }

    pub(crate) fn get(&self, args: &str) -> Value {
        let (ok, response) = self.query(args);
        assert!(ok, "query {args}");
        response
    }

    /// Runs `evmd tx`.
    pub(crate) fn tx(&self, args: &[&str]) -> Output {
        let mut command = evmd();
        command.arg("tx").args(args).args(["--keyring-backend", "test", "-y", "-o", "json"]);
        command.arg("--home").arg(self.home());
        command.arg("--node").arg(format!("http://{}", self.endpoints.rest));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Sends a proposal that the command would refuse to sign; returns exit code and error.
    pub(crate) fn forced(&self, proposal: &str) -> (Option<i32>, String) {
        let unsigned = self.tx(&[
            "gov",
            "submit-proposal",
            proposal,
            "--from",
            "val",
            "--gas",
            "300000",
            "--generate-only",
        ]);
        let mut tx: Value = serde_json::from_str(&succeeded(&unsigned, "a draft")).unwrap();
        tx["signatures"] = json!(["A".repeat(84) + "AA=="]);
        let file = self.folder.path().join("forced.json");
        fs::write(&file, tx.to_string()).unwrap();
        let mut command = evmd();
        command.args(["tx", "broadcast"]).arg(&file).arg("--node");
        command.arg(format!("http://{}", self.endpoints.rest));
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    }

    /// Runs `evmd tx` and waits for the block; returns the result.
    pub(crate) fn mined(&self, args: &[&str]) -> Value {
        let out = succeeded(&self.tx(args), &args.join(" "));
        let sent: Value = serde_json::from_str(&out).unwrap();
        let query = format!("tx {}", sent["txhash"].as_str().unwrap());
        let mut found = Value::Null;
        wait_until(&query, || {
            let (ok, response) = self.query(&query);
            found = response;
            ok
        });
        found["tx_response"].take()
    }

    /// Writes a proposal that sets this base fee change denominator; returns the path of the file.
    pub(crate) fn proposal(&self, denominator: u32) -> String {
        let message = json!({
            "@type": "/cosmos.evm.feemarket.v1.MsgUpdateParams",
            "authority": GOV,
            "params": {
                "no_base_fee": false,
                "base_fee_change_denominator": denominator,
                "elasticity_multiplier": 2,
                "enable_height": "0",
                "base_fee": "2000000000.000000000000000000",
                "min_gas_price": "500000000.0",
                "min_gas_multiplier": "0.5",
            },
        });
        self.proposal_of(&format!("proposal-{denominator}.json"), &message)
    }

    /// Writes a proposal that contains one message; returns the path of the file.
    pub(crate) fn proposal_of(&self, name: &str, message: &Value) -> String {
        let file = self.folder.path().join(name);
        let proposal = json!({
            "messages": [message],
            "metadata": "",
            "deposit": "10000000atest",
            "title": "New parameters",
            "summary": "What they change",
        });
        fs::write(&file, proposal.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Waits for the end of the voting period; returns the proposal.
    pub(crate) fn decided(&self, id: u64) -> Value {
        let mut ended = Value::Null;
        wait_until("the vote ends", || {
            ended = self.get(&format!("gov proposal {id}"))["proposal"].take();
            ended["status"] != "PROPOSAL_STATUS_VOTING_PERIOD"
        });
        ended
    }

    /// The first block, from block `from` on, whose timestamp is not before the end of the voting period.
    pub(crate) fn deciding(&self, proposal: &Value, from: u64) -> u64 {
        let end = unix(proposal["voting_end_time"].as_str().unwrap());
        (from..).find(|number| self.block(*number).0 >= end).unwrap()
    }

    /// The number of the newest block.
    pub(crate) fn height(&self) -> u64 {
        let height = self.get("block")["block"]["header"]["height"].take();
        height.as_str().unwrap().parse().unwrap()
    }

    /// Timestamp in seconds and base fee in wei of a block, over JSON-RPC.
    pub(crate) fn block(&self, number: u64) -> (u64, u64) {
        let params = format!("[\"{number:#x}\",false]");
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockByNumber\",\"params\":{params}}}"
        );
        let response = post(self.endpoints.json_rpc, &body);
        let quantity = |name: &str| {
            let text = response["result"][name].as_str().unwrap();
            u64::from_str_radix(&text[2..], 16).unwrap()
        };
        (quantity("timestamp"), quantity("baseFeePerGas"))
    }

    pub(crate) async fn grpc_params(&self) -> QueryParamsResponse {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.endpoints.grpc));
        let mut grpc = Grpc::new(endpoint.unwrap().connect().await.unwrap());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<QueryParamsRequest, QueryParamsResponse>::default();
        let path = "/cosmos.evm.feemarket.v1.Query/Params".parse().unwrap();
        grpc.unary(Request::new(QueryParamsRequest {}), path, codec).await.unwrap().into_inner()
    }
}

pub(crate) fn post(json_rpc: SocketAddr, body: &str) -> Value {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(json_rpc).unwrap();
    let head = format!(
        "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Gets a path over REST at a height; `url` is the path, `|` and the height.
pub(crate) fn rest_at(rest: SocketAddr, url: &str) -> Value {
    use std::io::{Read, Write};
    let (path, height) = url.split_once('|').unwrap();
    let mut stream = TcpStream::connect(rest).unwrap();
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nx-cosmos-block-height: {height}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The Unix time, in seconds, of an RFC 3339 time.
fn unix(time: &str) -> u64 {
    let time: prost_types::Timestamp = time.parse().unwrap();
    time.seconds.unsigned_abs()
}
