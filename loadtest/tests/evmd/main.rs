//! Runs the built binary against a real node: the `evmd` in its folder, or `EVMD_BIN`. The node is
//! not linked.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use alloy_consensus::{SignableTransaction, TxEip7702};
use alloy_eips::{eip2718::Encodable2718, eip7702::Authorization};
use alloy_primitives::{Address, B256, Signature, U256, b256, hex};
use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use testkit::{Endpoints, NodeProcess};

/// Returns the path of the node's program. `cargo test --workspace` builds it in the folder of `loadtest`.
fn binary() -> PathBuf {
    let neighbour = Path::new(env!("CARGO_BIN_EXE_loadtest")).with_file_name("evmd");
    let path = std::env::var_os("EVMD_BIN").map_or(neighbour, PathBuf::from);
    assert!(path.exists(), "no {}: run `cargo build -p evmd`, or set EVMD_BIN", path.display());
    path
}

/// Starts a node with a block time of 20 ms.
fn start(binary: &Path, home: &Path) -> NodeProcess {
    NodeProcess::start(binary, home, &["--block-time", "20ms"])
}

/// Returns the URL of a node's JSON-RPC, and the address for raw transactions.
fn addresses(node: &NodeProcess) -> (String, String) {
    let Endpoints { json_rpc, ingest, .. } = node.endpoints();
    (format!("http://{json_rpc}"), ingest.to_string())
}

fn loadtest(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_loadtest")).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &error)
}

#[test]
fn invalid_settings_are_refused_before_the_load() {
    for (arguments, expected) in [
        (&["tx", "--ahead", "0"][..], "--ahead must be at least 1"),
        (&["reads", "--html", "/no/such/folder/page.html"], "--html /no/such/folder/page.html"),
        (&["kill", "--home", "x", "--ahead", "0"], "--ahead must be at least 1"),
        (&["replicas", "--folder", "/no", "--partitions", "1"], "need --validators of at least 2"),
    ] {
        let (code, text) = loadtest(arguments);
        assert!(code == Some(1) && text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn scenarios_run_against_a_running_node() {
    let binary = binary();
    let home = tempfile::tempdir().unwrap();
    let node = start(&binary, &home.path().join("home"));
    let (url, ingest) = addresses(&node);
    let to_node = ["--url", url.as_str()];
    let run = |scenario: &str, arguments: &[&str]| {
        let (code, text) = loadtest(&[&[scenario], &to_node[..], arguments].concat());
        assert_eq!(code, Some(0), "{scenario} {arguments:?}: {text}");
        text
    };
    let quick = ["-d", "0.2", "--warmup", "0", "-o", "json"];
    let filled = run("fill", &["--blocks", "40", "--senders", "5"]);
    assert!(filled.contains("token 0x"), "{filled}");

    let via = ["-o", "json", "--via", "ingest,single,batch,ws,ws-batch", "--ingest", &ingest];
    let few = ["-n", "600", "--senders", "20", "--fee-cap", "2000"];
    let sent: Value = serde_json::from_str(&run("tx", &[&via[..], &few].concat())).unwrap();
    for part in sent["nodes"][0]["parts"].as_array().unwrap() {
        assert_eq!((&part["operations"], &part["errors"]), (&600.into(), &0.into()), "{part}");
    }
    run("tx", &[&few[..], &["--load", "mixed", "--via", "batch", "-o", "json"]].concat());

    let file = home.path().join("signed");
    let file = file.to_str().unwrap();
    let signing = ["-n", "300", "--senders", "20", file];
    run("sign", &signing);
    let (code, text) = loadtest(&[&["sign"], &to_node[..], &signing].concat());
    assert!(code == Some(1) && text.contains("cannot make"), "an existing file is kept: {text}");
    run("tx", &["--file", file]);
    let (code, text) = loadtest(&[&["tx"], &to_node[..], &["--file", file]].concat());
    assert!(code == Some(1) && text.contains("sign it again"), "{text}");

    let each = ["--shape", "20:10,50,90", "--shape", "5:50@old"];
    run("fees", &[&quick[..], &each].concat());
    run("reads", &quick);
    run("reads", &[&quick[..], &["--each", "--only", "Number"]].concat());
    let yardstick = ["--each", "--only", "eth_blockNumber", "--yardstick", url.as_str()];
    let read: Value =
        serde_json::from_str(&run("reads", &[&quick[..], &yardstick].concat())).unwrap();
    assert_eq!(read["nodes"][1]["parts"][0]["part"], "noop", "{read}");
    assert!(read["notes"].to_string().contains("does nothing"), "{read}");
    run("peers", &[&quick[..], &["--only", "eth_getLogs,eth_estimateGas,mix"]].concat());
    run("explorer", &quick);
    run("flood", &[&quick[..], &["--heavy", "logs,fees", "--probe-rate", "200"]].concat());
    let soak = ["--minutes", "0.03", "--every", "0.5", "--tx-rate", "500", "--senders", "20"];
    let home = home.path().to_str().unwrap();
    // A run of two seconds on a busy machine does not show typical rates, memory or latency.
    let bounds = [
        ["--home", home],
        ["--latency-bound", "1000"],
        ["--disk-bound", "100000000"],
        ["--memory-bound", "1000"],
        ["--rate-bound", "0.01"],
    ];
    let bounds = bounds.as_flattened();
    let soaked = run("soak", &[&quick[2..], &soak, bounds, &["--fee-cap", "2000"]].concat());
    let soaked: Value = serde_json::from_str(&soaked).unwrap();
    assert!(soaked["looks"].as_array().unwrap().len() > 1, "{soaked}");
}

/// The first development account, with its key.
const DEV_KEY: B256 = b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80");

fn signature(hash: B256) -> Signature {
    let key = SecretKey::from_secret_bytes(DEV_KEY.0).unwrap();
    let message = Message::from_digest(hash.0);
    let signature = RecoverableSignature::sign_ecdsa_recoverable(message, &key);
    let (id, compact) = signature.serialize_compact();
    Signature::from_bytes_and_parity(&compact, id == RecoveryId::One)
}

/// Creates a transaction by which the first development account delegates to the identity contract (EIP-7702).
fn delegation() -> String {
    let chain_id = 262_144;
    let address = Address::with_last_byte(4);
    let allowed = Authorization { chain_id: U256::from(chain_id), address, nonce: 1 };
    let allowed_by = signature(allowed.signature_hash());
    let tx = TxEip7702 {
        chain_id,
        gas_limit: 100_000,
        max_fee_per_gas: 100_000_000_000,
        authorization_list: vec![allowed.into_signed(allowed_by)],
        ..TxEip7702::default()
    };
    let signed_by = signature(tx.signature_hash());
    hex::encode_prefixed(tx.into_signed(signed_by).encoded_2718())
}

#[test]
fn delegated_development_account_funds_senders() {
    let binary = binary();
    let home = tempfile::tempdir().unwrap();
    let node = start(&binary, &home.path().join("home"));
    let (url, _) = addresses(&node);
    let rpc = |arguments: &[&str]| {
        let mut command = Command::new(&binary);
        let output = command.arg("rpc").args(arguments).args(["--node", &url]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    rpc(&["eth_sendRawTransaction", &delegation()]);
    let account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let code = || rpc(&["eth_getCode", account, "latest"]);
    let begun = Instant::now();
    while !code().starts_with("\"0xef0100") {
        assert!(begun.elapsed() < Duration::from_secs(300), "the account is not delegated");
    }
    for arguments in [
        &["fill", "--blocks", "5", "--senders", "30", "--url", &url][..],
        &["tx", "-n", "200", "--senders", "40", "--seed", "7", "--url", &url],
        &["tx", "-n", "200", "--senders", "40", "--load", "mixed", "--url", &url],
    ] {
        let (code, text) = loadtest(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {text}");
    }
    let page = home.path().join("page.html");
    let html = ["--html", page.to_str().unwrap()];
    let quick = ["reads", "-d", "0.2", "--warmup", "0", "--url", &url];
    let (code, text) = loadtest(&[&quick[..], &html].concat());
    assert_eq!(code, Some(0), "{text}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in ["UTC</td>", " cores, ", " reads -d 0.2 --warmup 0 ", "evmd-v"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// Creates a home with a genesis from `loadtest genesis` and returns its path.
fn funded_home(evmd: &Path, folder: &Path, arguments: &[&str]) -> String {
    let genesis = folder.join("genesis.json");
    let genesis = genesis.to_str().unwrap();
    let (code, text) = loadtest(&[&["genesis"], arguments, &[genesis]].concat());
    assert_eq!(code, Some(0), "{text}");
    let home = folder.join("home").to_str().unwrap().to_owned();
    let init = Command::new(evmd).args(["init", "--home", &home, "--genesis", genesis]).output();
    assert!(init.unwrap().status.success());
    home
}

#[test]
fn genesis_accounts_send_without_funding() {
    let binary = binary();
    let folder = tempfile::tempdir().unwrap();
    let home = funded_home(&binary, folder.path(), &["--accounts", "5000"]);
    let node = start(&binary, Path::new(&home));
    let (url, ingest) = addresses(&node);
    let file = folder.path().join("signed");
    let file = file.to_str().unwrap();
    let own = ["--prefunded", "--senders", "5000"];
    let offline = ["sign", "--offline", "262144", "-n", "12000", file];
    let (code, text) = loadtest(&[&offline[..], &own].concat());
    assert_eq!(code, Some(0), "{text}");
    let to_node = ["tx", "--url", &url, "--ingest", &ingest, "-o", "json"];
    // A quarter of the transactions, so that sending has to wait for blocks.
    let sent = ["--via", "ingest", "--ahead", "3000", "--file", file];
    let (code, text) = loadtest(&[&to_node[..], &sent].concat());
    assert_eq!(code, Some(0), "{text}");
    let sent: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sent["nodes"][0]["parts"][0]["operations"], 12_000, "{sent}");
    let again = ["--via", "batch", "-n", "1000"];
    let (code, text) = loadtest(&[&to_node[..], &own, &again].concat());
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn killed_node_keeps_what_it_reported() {
    let binary = binary();
    let folder = tempfile::tempdir().unwrap();
    // With twenty transfers per block, the index is written soon: after at most 128 blocks.
    let small = ["--accounts", "3000", "--block-gas", "420000"];
    let home = funded_home(&binary, folder.path(), &small);
    let kill = ["kill", "--home", &home, "--evmd", binary.to_str().unwrap(), "-o", "json"];
    let when = ["--accounts", "3000", "--kills", "3", "--least", "8000", "--most", "9000"];
    let (code, text) = loadtest(&[&kill[..], &when, &["--ahead", "2000"]].concat());
    assert_eq!(code, Some(0), "{text}");
    let killed: Value = serde_json::from_str(&text).unwrap();
    // The kill may interrupt a flush, so not every round has one.
    assert!(killed["afterAFlush"].as_u64().unwrap() > 0, "{killed}");
    for kill in killed["kills"].as_array().unwrap() {
        assert!(kill["answered"].as_u64().unwrap() >= 8000, "{kill}");
        assert!(kill["replayedTransactions"].as_u64().unwrap() > 0, "{kill}");
    }
}

/// Runs `loadtest replicas` with these options. Returns its report.
fn kill_nodes(options: &[&str]) -> Value {
    let binary = binary();
    let folder = tempfile::tempdir().unwrap();
    let nodes = folder.path().join("nodes");
    // Three ports for each of at most six nodes.
    let first = testkit::own_addresses(3 * 6).to_string();
    let evmd = ["--evmd", binary.to_str().unwrap(), "-o", "json"];
    let nodes = ["replicas", "--folder", nodes.to_str().unwrap(), "--first-address", &first];
    let load = ["--accounts", "600", "-n", "6000", "--seed", "3"];
    let (code, text) = loadtest(&[&nodes[..], options, &load, &evmd].concat());
    assert_eq!(code, Some(0), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert!(found["acknowledged"].as_u64().unwrap() >= 6000, "{found}");
    assert!(found["mined"].as_u64() >= found["acknowledged"].as_u64(), "{found}");
    found
}

#[test]
fn killed_replicas_and_producers_lose_nothing() {
    let found = kill_nodes(&["--kills", "4"]);
    // With this seed, the replica that follows another replica is killed, too.
    assert_eq!(
        (&found["killsOfProducers"], &found["killsOfReplicas"]),
        (&serde_json::json!([1]), &serde_json::json!([0, 2, 1])),
        "{found}"
    );
}

#[test]
fn killed_validators_lose_nothing() {
    let kinds = ["--validators", "4", "--replicas", "2", "--at-once", "3"];
    let found = kill_nodes(&[&kinds[..], &["--kills", "5"]].concat());
    let kills = |of: &str| {
        let kills = found[of].as_array().unwrap().iter();
        kills.map(|kills| kills.as_u64().unwrap()).sum::<u64>()
    };
    assert!(kills("killsOfProducers") > 2, "{found}");
    assert!(kills("killsOfReplicas") > 0, "{found}");
}

#[test]
fn separated_and_stopped_validators_lose_nothing() {
    let kinds = ["--validators", "4", "--replicas", "1", "--at-once", "2", "--delay-ms", "25"];
    let faults = ["--kills", "0", "--pauses", "2", "--partitions", "3"];
    let found = kill_nodes(&[&kinds[..], &faults].concat());
    let pauses = found["pauses"].as_array().unwrap().iter().filter_map(Value::as_u64);
    assert_eq!(pauses.sum::<u64>(), 2, "{found}");
    assert_eq!(found["partitions"].as_array().unwrap().len(), 3, "{found}");
}
