//! Runs each validator in its own process, on homes that `evmd testnet` creates.

use crate::{development::PROGRAM, start_safety::run};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};
use testkit::{Endpoints, NodeProcess, own_address};

pub(super) const VALIDATORS: usize = 4;

/// The homes of a test network, and the addresses at which its validators reach each other.
pub(super) struct Network {
    folder: tempfile::TempDir,
    keys: Vec<String>,
    addresses: Vec<SocketAddr>,
}

impl Network {
    pub(super) fn new() -> Self {
        Self::of(VALIDATORS)
    }

    pub(super) fn of(validators: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["testnet", "--validators", &validators.to_string()]);
        command.args(["-o", "json", "--output-dir"]).arg(folder.path().join("net"));
        let output = command.output().unwrap();
        let created: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        });
        let validators = created["validators"].as_array().unwrap().iter();
        let keys = validators.map(|entry| entry["consensusKey"].as_str().unwrap().to_owned());
        let keys: Vec<_> = keys.collect();
        let addresses = keys.iter().map(|_| own_address()).collect();
        Self { folder, keys, addresses }
    }

    pub(super) fn home(&self, number: usize) -> PathBuf {
        self.folder.path().join("net").join(format!("validator-{number}"))
    }

    /// Returns a path outside the homes.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the options with which a validator starts.
    pub(super) fn options(&self, number: usize) -> Vec<String> {
        let others = (0..self.keys.len()).filter(|other| *other != number);
        let peers = others.map(|other| format!("{}@{}", self.keys[other], self.addresses[other]));
        let peers = peers.collect::<Vec<_>>().join(",");
        let address = self.addresses[number].to_string();
        let replication = own_address().to_string();
        let mut options = vec![
            ["--port-offset", "0"],
            ["--block-time", "100ms"],
            ["--replication.address", &replication],
            ["--p2p.address", &address],
        ];
        if !peers.is_empty() {
            options.push(["--p2p.peers", &peers]);
        }
        options.concat().into_iter().map(str::to_owned).collect()
    }

    pub(super) fn start(&self, number: usize) -> NodeProcess {
        let options = self.options(number);
        let options: Vec<_> = options.iter().map(String::as_str).collect();
        NodeProcess::start(Path::new(PROGRAM), &self.home(number), &options)
    }

    pub(super) fn start_all(&self) -> Vec<NodeProcess> {
        (0..VALIDATORS).map(|number| self.start(number)).collect()
    }

    /// Runs `evmd start` for a validator, which must end by itself. Returns the error.
    pub(super) fn fails_to_start(&self, number: usize) -> String {
        let (options, endpoints) = (self.options(number), Endpoints::unused().options());
        let all = ["start".to_owned()].into_iter().chain(options).chain(endpoints);
        let all: Vec<_> = all.collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let (code, _, error) = run(&self.home(number), &all);
        assert_eq!(code, 1, "{error}");
        error
    }

    pub(super) fn address(&self, number: usize) -> SocketAddr {
        self.addresses[number]
    }
}

pub(super) async fn head(node: &NodeProcess) -> u64 {
    let head = node.endpoints().call("eth_blockNumber", json!([])).await;
    u64::from_str_radix(&head.as_str().unwrap()[2..], 16).unwrap()
}

/// Waits until a node has the block with this number, and returns its hash.
pub(super) async fn reach(node: &NodeProcess, number: u64) -> String {
    let params = json!([format!("{number:#x}"), false]);
    let block = node.endpoints().wait_for("eth_getBlockByNumber", params).await;
    block["hash"].as_str().unwrap().to_owned()
}

/// Waits until a node has this many additional blocks.
pub(super) async fn advance(node: &NodeProcess, blocks: u64) {
    reach(node, head(node).await + blocks).await;
}

/// Sends a transfer from an account to a node. Returns the hash of the transaction.
pub(super) async fn transfer(node: &NodeProcess, sender: usize, nonce: u64) -> Value {
    let raw = crate::common::transfer(sender, nonce, DEV_ACCOUNTS[9].address);
    node.endpoints().call("eth_sendRawTransaction", json!([raw])).await
}

/// Waits until a node has the receipt of a transaction, and returns the receipt.
pub(super) async fn mined(node: &NodeProcess, hash: &Value) -> Value {
    node.endpoints().wait_for("eth_getTransactionReceipt", json!([hash])).await
}

/// Asserts that all nodes have the same blocks up to the lowest of their heads.
pub(super) async fn agree(nodes: &[&NodeProcess]) {
    let mut lowest = u64::MAX;
    for node in nodes {
        lowest = lowest.min(head(node).await);
    }
    for number in 0..=lowest {
        let first = reach(nodes[0], number).await;
        for node in &nodes[1..] {
            assert_eq!(reach(node, number).await, first, "block {number}");
        }
    }
}

/// Follows docs/validators.md: every validator serves and accepts transactions, one is killed, a replica follows, and a
/// proof is checked with a certificate and the genesis file.
#[tokio::test(flavor = "multi_thread")]
async fn four_validators_serve_one_chain() {
    let network = Network::new();
    let mut nodes = network.start_all();
    let mut hashes = Vec::new();
    for (sender, node) in nodes.iter().enumerate() {
        hashes.push(transfer(node, sender, 0).await);
    }
    for node in &nodes {
        for hash in &hashes {
            assert_eq!(mined(node, hash).await["status"], "0x1");
        }
    }
    nodes[1].kill();
    let after = transfer(&nodes[2], 5, 0).await;
    mined(&nodes[3], &after).await;
    nodes[1] = network.start(1);
    mined(&nodes[1], &after).await;

    let home = network.path("replica");
    let genesis = network.home(0).join("genesis.json");
    let (code, _, error) = run(&home, &["init", "--genesis", genesis.to_str().unwrap()]);
    assert_eq!(code, 0, "{error}");
    let source = format!("http://{}", nodes[1].endpoints().replication.unwrap());
    let mut replica = NodeProcess::start(Path::new(PROGRAM), &home, &["--follow", &source]);
    mined(&replica, &after).await;
    // The replica forwards the transaction to its source.
    let forwarded = transfer(&replica, 6, 0).await;
    for node in &nodes {
        mined(node, &forwarded).await;
    }
    agree(&[&nodes[0], &nodes[1], &nodes[2], &nodes[3], &replica]).await;

    shows_validators(&nodes[0], &network).await;
    shows_commits(&nodes[0], &network.keys[0]).await;
    shows_commits(&nodes[1], &network.keys[1]).await;
    shows_pages(&nodes[0]).await;
    proves_state(&replica, &home, &network).await;
    replica.stop();
    for mut node in nodes {
        node.stop();
    }
    let (_, out, error) = run(&home, &["doctor", "--verify", "-o", "json"]);
    assert!(out.contains("certificates of 4 validators are valid"), "{out}{error}");
}

async fn shows_validators(node: &NodeProcess, network: &Network) {
    let endpoints = node.endpoints();
    let (code, out, error) = run(&network.home(0), &["status", "-o", "json"]);
    assert_eq!(code, 0, "{error}");
    let status: Value = serde_json::from_str(&out).unwrap();
    let shown = status["validator"]["validators"].as_array().unwrap();
    let mut keys = network.keys.clone();
    keys.sort();
    let found: Vec<_> = shown.iter().map(|entry| entry["consensusKey"].as_str().unwrap()).collect();
    assert_eq!(found, keys);
    assert!(shown.iter().filter(|entry| entry["votes"] == true).count() >= 3, "{status}");
    assert_eq!(status["validator"]["contradictingVotes"], 0);
    let set =
        get_json(endpoints.rest, "/cosmos/base/tendermint/v1beta1/validatorsets/latest").await;
    assert_eq!(set["pagination"]["total"], "4", "{set}");
    assert_eq!(set["validators"][0]["pub_key"]["@type"], "/cosmos.crypto.ed25519.PubKey");
    assert_eq!(set["validators"][3]["voting_power"], "1");
    let params = get_json(endpoints.rest, "/evmd/distribution/v1/params").await;
    assert_eq!(params["params"]["fee_recipient"], "FEE_RECIPIENT_PROPOSER");
}

/// Checks that CometBFT's RPC names the proposer and the validators that signed.
async fn shows_commits(node: &NodeProcess, own: &str) {
    let comet = node.endpoints().comet;
    let status = get_json(comet, "/status").await;
    let shown = &status["result"]["validator_info"]["pub_key"]["value"];
    let own = alloy_primitives::hex::decode(own).unwrap();
    assert_eq!(*shown, BASE64.encode(own));
    let set = get_json(comet, "/validators").await;
    let set = set["result"]["validators"].as_array().unwrap();
    assert!(set.iter().any(|entry| entry["pub_key"]["value"] == *shown), "{shown}");
    let addresses: Vec<_> = set.iter().map(|entry| entry["address"].as_str().unwrap()).collect();
    let mut signed = 0;
    reach(node, 11).await;
    for height in 1..=10 {
        let commit = get_json(comet, &format!("/commit?height={height}")).await;
        let header = &commit["result"]["signed_header"]["header"];
        let proposer = header["proposer_address"].as_str().unwrap();
        assert!(addresses.contains(&proposer), "{proposer}");
        let commit = &commit["result"]["signed_header"]["commit"];
        let next = get_json(comet, &format!("/block?height={}", height + 1)).await;
        assert_eq!(next["result"]["block"]["last_commit"], *commit);
        let signatures = commit["signatures"].as_array().unwrap();
        if signatures.is_empty() {
            continue;
        }
        signed += 1;
        let present: Vec<_> =
            signatures.iter().enumerate().filter(|(_, vote)| vote["block_id_flag"] == 2).collect();
        assert!(signatures.len() == VALIDATORS && present.len() >= 3, "{commit}");
        for (at, entry) in present {
            assert_eq!(entry["validator_address"], addresses[at]);
            assert_eq!(entry["signature"].as_str().unwrap().len(), 88);
        }
    }
    assert!(signed > 5, "{signed} of the first 10 blocks have signatures");
}

/// Checks the pages of the validators and of a block.
async fn shows_pages(node: &NodeProcess) {
    let pages = node.endpoints().pages;
    let shown = get(pages, "/validators").await;
    for account in &DEV_ACCOUNTS[..VALIDATORS] {
        assert!(shown.contains(&format!("/address/{}", account.address)), "{shown}");
    }
    assert!(shown.contains("Validators that vote") && shown.contains("of 4"), "{shown}");
    let block = get(pages, "/block/2").await;
    assert!(block.contains(" of 4 ") && block.contains("validators</a> in view "), "{block}");
    assert!(block.contains("href=\"/validators\""), "{block}");
}

async fn get(server: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    testkit::exchange(server, request.as_bytes()).await.1
}

async fn get_json(server: SocketAddr, path: &str) -> Value {
    serde_json::from_str(&get(server, path).await).unwrap()
}

async fn proves_state(replica: &NodeProcess, home: &Path, network: &Network) {
    let genesis = network.home(0).join("genesis.json").to_str().unwrap().to_owned();
    let number = head(replica).await - 1;
    let (code, certificate, error) = run(home, &["debug", "certificate", &number.to_string()]);
    assert_eq!(code, 0, "{error}");
    let params = json!([DEV_ACCOUNTS[9].address, [], format!("{number:#x}")]);
    let mut proof = replica.endpoints().call("eth_getProof", params).await;
    let files = ["certificate.json", "proof.json"].map(|name| network.path(name));
    let [certificate_file, proof_file] = files.each_ref().map(|file| file.to_str().unwrap());
    fs::write(certificate_file, &certificate).unwrap();
    let check = |proof: &Value| {
        fs::write(proof_file, proof.to_string()).unwrap();
        let trust = ["--certificate", certificate_file, "--genesis", &genesis];
        let output = Command::new(PROGRAM)
            .args(["debug", "verify-proof", proof_file, "-o", "json"])
            .args(trust)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), text)
    };
    let (valid, out, error) = check(&proof);
    assert!(valid, "{error}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&shown["balance"], &shown["block"]["number"]), (&proof["balance"], &json!(number)));
    proof["balance"] = json!("0x1");
    let (valid, _, error) = check(&proof);
    assert!(!valid && error.contains("is not valid"), "{error}");
}
