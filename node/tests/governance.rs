//! Governance from end to end, over the command line against a running node: a change of the fee
//! market is proposed, voted on and seen on every channel at its block; it survives kill -9, and the
//! chain with it can be imported elsewhere.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use node::{
    chain::{DEV_ACCOUNTS, Genesis},
    proto::cosmos::evm::feemarket::v1::{QueryParamsRequest, QueryParamsResponse},
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tonic::{Request, client::Grpc, transport::Endpoint};
use tonic_prost::ProstCodec;

/// Seconds to vote on the test chain.
const VOTING_SECONDS: u64 = 15;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(90);

/// A home folder and the node on it.
struct Chain {
    folder: tempfile::TempDir,
    ports: [u16; 6],
    node: Option<Child>,
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.kill();
    }
}

fn evmd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.env_remove("EVMD_HOME").env_remove("EVMD_KEYRING_BACKEND");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeeded(output: &Output, what: &str) -> String {
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    text(&output.stdout)
}

impl Chain {
    /// A chain whose votes take seconds; the first development account is its validator, and the
    /// first two have keys.
    fn new() -> Self {
        let mut genesis: Value =
            serde_json::from_str(&Genesis::native_dev(1_700_000_000).to_json()).unwrap();
        let params = &mut genesis["config"]["evmd"]["gov"]["params"];
        params["max_deposit_period"] = json!(format!("{VOTING_SECONDS}s"));
        params["voting_period"] = json!(format!("{VOTING_SECONDS}s"));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("given.json"), genesis.to_string()).unwrap();
        let ports = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .map(|listener: TcpListener| listener.local_addr().unwrap().port());
        let chain = Self { folder, ports, node: None };
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

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn init(&self, home: &Path) {
        let mut command = evmd();
        command.arg("init").arg("--home").arg(home);
        command.arg("--genesis").arg(self.folder.path().join("given.json"));
        succeeded(&command.output().unwrap(), "init");
    }

    fn start(&mut self) {
        let [rpc, ws, rest, grpc, ingest, metrics] =
            self.ports.map(|port| format!("127.0.0.1:{port}"));
        let mut command = evmd();
        command.arg("start").arg("--home").arg(self.home());
        command.args(["--block-time", "200ms", "--quiet"]);
        command.args(["--json-rpc.address", &rpc, "--json-rpc.ws-address", &ws]);
        command.args(["--rest.address", &rest, "--grpc.address", &grpc]);
        command.args(["--ingest.address", &ingest, "--metrics.address", &metrics]);
        self.node = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("an answer", || self.query("block").0);
    }

    fn kill(&mut self) {
        if let Some(mut node) = self.node.take() {
            // It may have ended by itself, which the test has seen then.
            drop(node.kill());
            drop(node.wait());
        }
    }

    /// Runs `evmd query`; whether it succeeds, and its JSON.
    fn query(&self, args: &str) -> (bool, Value) {
        let port = self.ports[2];
        let mut command = evmd();
        command.arg("query").args(args.split(' ')).args(["-o", "json", "--node"]);
        let output = command.arg(format!("http://127.0.0.1:{port}")).output().unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.success(), json)
    }

    fn get(&self, args: &str) -> Value {
        let (good, answer) = self.query(args);
        assert!(good, "query {args}");
        answer
    }

    /// Runs `evmd tx`.
    fn tx(&self, args: &[&str]) -> Output {
        let mut command = evmd();
        command.arg("tx").args(args).args(["--keyring-backend", "test", "-y", "-o", "json"]);
        command.arg("--home").arg(self.home());
        command.arg("--node").arg(format!("http://127.0.0.1:{}", self.ports[2]));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Sends a proposal that the command line would not sign; exit code and reason.
    fn forced(&self, proposal: &str) -> (Option<i32>, String) {
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
        command.arg(format!("http://127.0.0.1:{}", self.ports[2]));
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    }

    /// Runs `evmd tx` and waits for the block; gives the result.
    fn mined(&self, args: &[&str]) -> Value {
        let out = succeeded(&self.tx(args), &args.join(" "));
        let sent: Value = serde_json::from_str(&out).unwrap();
        let query = format!("tx {}", sent["txhash"].as_str().unwrap());
        let mut found = Value::Null;
        wait_for(&query, || {
            let (good, answer) = self.query(&query);
            found = answer;
            good
        });
        found["tx_response"].take()
    }

    /// A file with a proposal of these parameters.
    fn proposal(&self, denominator: u32) -> String {
        let file = self.folder.path().join(format!("proposal-{denominator}.json"));
        let proposal = json!({
            "messages": [{
                "@type": "/cosmos.evm.feemarket.v1.MsgUpdateParams",
                "authority": "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn",
                "params": {
                    "no_base_fee": false,
                    "base_fee_change_denominator": denominator,
                    "elasticity_multiplier": 2,
                    "enable_height": "0",
                    "base_fee": "2000000000.000000000000000000",
                    "min_gas_price": "500000000.0",
                    "min_gas_multiplier": "0.5",
                },
            }],
            "metadata": "",
            "deposit": "10000000atest",
            "title": "Fee market",
            "summary": "Slower fees",
        });
        fs::write(&file, proposal.to_string()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Number, timestamp and base fee of a block, over JSON-RPC.
    fn block(&self, number: u64) -> (u64, u64) {
        let params = format!("[\"{number:#x}\",false]");
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBlockByNumber\",\"params\":{params}}}"
        );
        let answer = post(self.ports[0], &body);
        let quantity = |name: &str| {
            let text = answer["result"][name].as_str().unwrap();
            u64::from_str_radix(&text[2..], 16).unwrap()
        };
        (quantity("timestamp"), quantity("baseFeePerGas"))
    }

    async fn grpc_params(&self) -> QueryParamsResponse {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", self.ports[3]));
        let mut grpc = Grpc::new(endpoint.unwrap().connect().await.unwrap());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<QueryParamsRequest, QueryParamsResponse>::default();
        let path = "/cosmos.evm.feemarket.v1.Query/Params".parse().unwrap();
        grpc.unary(Request::new(QueryParamsRequest {}), path, codec).await.unwrap().into_inner()
    }
}

fn post(port: u16, body: &str) -> Value {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "gave up waiting for {what}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Seconds of an RFC 3339 time of this century, as the node writes it, as a Unix time.
fn unix(time: &str) -> u64 {
    let time: prost_types::Timestamp = time.parse().unwrap();
    time.seconds.unsigned_abs()
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_change_by_a_vote_over_the_command_line() {
    let mut chain = Chain::new();
    chain.start();

    // Parameters that could halt the chain are refused before they are proposed.
    let refused = chain.tx(&[
        "gov",
        "submit-proposal",
        &chain.proposal(0),
        "--from",
        "val",
        "--gas",
        "300000",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let reason = text(&refused.stderr);
    assert!(reason.contains("base fee change denominator cannot be 0"), "{reason}");
    // So does a node that is sent them all the same.
    let (code, reason) = chain.forced(&chain.proposal(0));
    assert_eq!(code, Some(1));
    assert!(reason.contains("base fee change denominator cannot be 0"), "{reason}");
    assert!(reason.contains("(gov 12)"), "{reason}");
    assert!(!chain.query("gov proposal 1").0, "nothing was proposed");

    let file = chain.proposal(16);
    let submitted = chain.mined(&["gov", "submit-proposal", &file, "--from", "val"]);
    assert_eq!(submitted["code"], 0, "{submitted}");
    let proposal = chain.get("gov proposal 1")["proposal"].take();
    assert_eq!(proposal["status"], "PROPOSAL_STATUS_VOTING_PERIOD");
    assert_eq!(proposal["total_deposit"][0]["amount"], "10000000");
    let params = &proposal["messages"][0]["params"];
    assert_eq!(params["min_gas_price"], "500000000.000000000000000000");
    let gov = "bank balances cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn";
    assert_eq!(chain.get(gov)["balances"][0]["amount"], "10000000");

    // Who is no validator has no vote; the transaction is in its block, without effect.
    let stranger = chain.mined(&["gov", "vote", "1", "no", "--from", "bob", "--gas", "200000"]);
    assert_eq!(
        (&stranger["codespace"], &stranger["code"]),
        (&json!("gov"), &json!(7)),
        "{stranger}"
    );
    let voted = chain.mined(&["gov", "vote", "1", "yes", "--from", "val"]);
    assert_eq!(voted["code"], 0, "{voted}");
    assert_eq!(chain.get("gov tally 1")["tally"]["yes_count"], "1");

    let mut ended = Value::Null;
    wait_for("the end of the vote", || {
        ended = chain.get("gov proposal 1")["proposal"].take();
        ended["status"] != "PROPOSAL_STATUS_VOTING_PERIOD"
    });
    assert_eq!(ended["status"], "PROPOSAL_STATUS_PASSED", "{ended}");
    assert_eq!(chain.query(gov).1["balances"], json!([]), "the deposit is given back");

    // It holds from the block after the one in whose time the vote ended.
    let end = unix(ended["voting_end_time"].as_str().unwrap());
    let mut deciding = voted["height"].as_str().unwrap().parse::<u64>().unwrap();
    while chain.block(deciding).0 < end {
        deciding += 1;
    }
    wait_for("two more blocks", || {
        let height = chain.get("block")["block"]["header"]["height"].take();
        height.as_str().unwrap().parse::<u64>().unwrap() >= deciding + 2
    });
    let old = chain.block(deciding - 1).1;
    // Whole wei are shown of a fee that has a fraction.
    let moved = chain.block(deciding).1.abs_diff(old - old / 8);
    assert!(moved <= 1, "the deciding block has the old rules");
    assert_eq!(chain.block(deciding + 1).1, 2_000_000_000 - 2_000_000_000 / 16);
    let second = 2_000_000_000 / 16 * 15;
    assert_eq!(chain.block(deciding + 2).1, second - second / 16);

    // Every channel tells them, and the old ones of the block before.
    let rest = |height: u64| {
        let url = format!("/cosmos/evm/feemarket/v1/params|{height}");
        rest_at(chain.ports[2], &url)
    };
    assert_eq!(rest(deciding)["params"]["base_fee_change_denominator"], 16);
    assert_eq!(rest(deciding)["params"]["min_gas_price"], "500000000.000000000000000000");
    assert_eq!(rest(deciding - 1)["params"]["base_fee_change_denominator"], 8);
    let grpc = chain.grpc_params().await.params.unwrap();
    assert_eq!(grpc.base_fee_change_denominator, 16);
    assert_eq!(grpc.min_gas_price, "500000000000000000000000000");
    let cli = chain.get("feemarket params");
    assert_eq!(cli["params"]["base_fee_change_denominator"], 16);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"evmd_feemarketParams","params":[]}"#;
    let rpc = post(chain.ports[0], body);
    assert!(rpc.to_string().contains("500000000.000000000000000000"), "{rpc}");

    // It outlives the process, however that ends.
    chain.kill();
    chain.start();
    let again = chain.get("gov proposal 1")["proposal"].take();
    assert_eq!(again, ended);
    assert_eq!(chain.get("feemarket params")["params"]["base_fee_change_denominator"], 16);

    // And another node comes to the same by executing the blocks.
    chain.kill();
    let file = chain.folder.path().join("chain.rlp");
    let other = chain.folder.path().join("other");
    chain.init(&other);
    let mut export = evmd();
    succeeded(
        &export.args(["export", "--home"]).arg(chain.home()).arg(&file).output().unwrap(),
        "export",
    );
    let mut import = evmd();
    succeeded(
        &import.args(["import", "--home"]).arg(&other).arg(&file).output().unwrap(),
        "import",
    );
    let head = |home: &Path| {
        let view = node::home::Home::open(home).unwrap().view().unwrap();
        (view.head.hash, view.head.modules)
    };
    assert_eq!(head(&other), head(&chain.home()));
}

/// A path, `|` and a height, over REST.
fn rest_at(port: u16, url: &str) -> Value {
    use std::io::{Read, Write};
    let (path, height) = url.split_once('|').unwrap();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nx-cosmos-block-height: {height}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}
