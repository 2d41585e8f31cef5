//! Replays the recorded sessions, without a node and with a running one.

use super::session::Session;
use crate::{
    client::{Node, config},
    common::{GENESIS_TIME, native_home, producing, transfer},
};
use alloy_primitives::{Address, hex};
use chain::{Genesis, block::join};
use home::Home;
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

/// The example of the Web3 Secret Storage Definition for PBKDF2, whose passphrase is `testpassword`.
const KEYSTORE: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},"ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},"mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;

#[test]
fn recorded_sessions_without_a_node_match() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    put("cut.json", &KEYSTORE.as_bytes()[..200]);
    put("tampered.json", KEYSTORE.replace("5318b4", "5318b5").as_bytes());
    put("binary.json", &[0xff; 64]);
    put("misspelt/config.toml", b"[engine]\nblok-time-ms = 5\n");
    put("garbled/config.toml", b"[engine\n");
    for name in ["keys.txt", "debug.txt", "home.txt"] {
        Session { folder: folder.path(), variables: variables(folder.path()) }.replay(name);
    }
}

/// Returns environment variables that select the home folder `home` in the session's folder and an unencrypted keyring.
fn variables(folder: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("EVMD_HOME", folder.join("home").to_str().unwrap().to_owned()),
        ("EVMD_KEYRING_BACKEND", "test".to_owned()),
    ]
}

/// Starts a node that only produces a block when there is a transaction, so that heights, base fees and transaction
/// hashes are the same in every run. Voting periods last for days.
async fn quiet_node() -> Node {
    let folder = tempfile::tempdir().unwrap();
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    genesis["config"]["evmd"]["gov"]["params"] = json!({});
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    let mut home = Home::init(folder.path(), &genesis).unwrap();
    home.config.engine.empty_blocks = false;
    let options = producing(Some(Duration::from_millis(5)));
    Node::start(folder, home, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sessions_of_transactions_and_governance_match() {
    for name in ["tx.txt", "gov.txt"] {
        let node = quiet_node().await;
        let folder = tempfile::tempdir().unwrap();
        write_proposals(folder.path());
        let mut variables = variables(folder.path());
        variables.push(("EVMD_NODE", format!("http://{}", node.rest)));
        Session { folder: folder.path(), variables }.replay(name);
        node.stop().await;
    }
}

/// Writes proposal files, most of them invalid.
fn write_proposals(folder: &Path) {
    let message = |denominator: u32| {
        json!({
            "@type": "/cosmos.evm.feemarket.v1.MsgUpdateParams",
            "authority": "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn",
            "params": {
                "no_base_fee": false,
                "base_fee_change_denominator": denominator,
                "elasticity_multiplier": 2,
                "enable_height": 0,
                "base_fee": "1000000000",
                "min_gas_price": "0.5",
                "min_gas_multiplier": "0.5",
            },
        })
    };
    let proposal = |message: Value| {
        json!({
            "messages": [message], "deposit": "1000000atest", "title": "Slower",
            "summary": "A slower fee market", "metadata": "ipfs://none",
        })
    };
    let mut unknown = proposal(message(16));
    unknown["tilte"] = json!("misspelt");
    for (name, proposal) in [
        ("small.json", proposal(message(16))),
        ("wrong.json", proposal(message(0))),
        ("notype.json", proposal(json!({ "params": {} }))),
        ("unknown.json", unknown),
    ] {
        fs::write(folder.join(name), proposal.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_session_of_a_chain_in_a_file_matches() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let at = tempfile::tempdir().unwrap();
    let mut home = native_home(at.path());
    home.config.engine.empty_blocks = false;
    let options = producing(Some(Duration::from_millis(5)));
    let node = Node::start(at, home, options).await;
    for nonce in 0..3 {
        let raw = transfer(0, nonce, Address::repeat_byte(0x77));
        let hash = node.call("eth_sendRawTransaction", json!([hex::encode_prefixed(&raw)])).await;
        node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    }
    let blocks = {
        let view = node.pipeline.published.load();
        let blocks = view.blocks().unwrap();
        let block = |number| {
            let (_, header) = blocks.header(number).unwrap().unwrap();
            join(&header, &blocks.body(number).unwrap().unwrap())
        };
        (1..=view.number()).map(block).collect::<Vec<_>>()
    };
    node.stop().await;
    assert_eq!(blocks.len(), 3, "one block for each transfer");
    put("genesis.json", Genesis::native_dev(GENESIS_TIME).to_json().as_bytes());
    put("chain.rlp", &blocks.concat());
    put("cut.rlp", &blocks[0][..blocks[0].len() - 1]);
    put("other.rlp", &blocks[2]);
    put("misspelt/config.toml", b"[engine]\nblok-time-ms = 5\n");
    put("timeless/config.toml", b"[engine]\nblock-time-ms = 0\n");
    put("mined.json", ethereum_genesis("").as_bytes());
    put("merged.json", ethereum_genesis(r#", "terminalTotalDifficulty": 0"#).as_bytes());
    Session { folder: folder.path(), variables: variables(folder.path()) }.replay("chain.txt");
}

/// Returns a genesis with Ethereum's forks up to London, and with `more` at the end of its `config`.
fn ethereum_genesis(more: &str) -> String {
    let blocks = ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"];
    let later = ["petersburg", "istanbul", "berlin", "london"];
    let blocks = blocks.iter().chain(&later).map(|fork| format!(r#""{fork}Block": 0"#));
    let blocks = blocks.collect::<Vec<_>>().join(", ");
    let config = format!(r#"{{ "chainId": 1337, {blocks}{more} }}"#);
    format!(
        r#"{{ "config": {config}, "gasLimit": "0x1c9c380", "difficulty": "0x1", "alloc": {{}} }}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sessions_of_a_running_node_match() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let mut config = config();
    // The node must report the addresses at which it can be reached.
    config.json_rpc.address = testkit::own_address().into();
    config.rest.address = testkit::own_address().into();
    config.metrics.address = testkit::own_address().into();
    let options = producing(Some(Duration::from_millis(5)));
    let node = Node::start_with(folder, home, options, config).await;
    // Block 1 is empty in the recordings.
    node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    // The queries need data: account 1 has sent one transaction, and account 2 none.
    let raw = transfer(1, 0, Address::repeat_byte(0x77));
    let hash = node.call("eth_sendRawTransaction", json!([hex::encode_prefixed(&raw)])).await;
    node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let folder = tempfile::tempdir().unwrap();
    let at = |address| vec![("EVMD_NODE", format!("http://{address}"))];
    let replay = |address, name: &str| {
        Session { folder: folder.path(), variables: at(address) }.replay(name);
    };
    replay(node.rest, "query.txt");
    // The output must be the same for each address of the node.
    replay(node.json_rpc, "query.txt");
    replay(node.metrics, "any-address.txt");
    node.stop().await;
}
