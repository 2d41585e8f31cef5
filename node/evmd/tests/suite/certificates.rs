//! Tests signed blocks: which blocks a producer signs, which nodes may produce, and how others verify signatures.

use crate::{
    common::{native_home, transfer, wait_until},
    start_safety::run,
};
use alloy_primitives::{Address, keccak256};
use chain::Genesis;
use feemarket::store::Record;
use home::{Home, PRODUCER_KEY_FILE};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use storage::{BlockFlags, BlockRecord};
use testkit::NodeProcess;
use tokio::runtime::Runtime;

/// The public key of test 1 of RFC 8032. No home folder in these tests has the matching secret key.
const FOREIGN_KEY: &str = "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

fn evmd() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evmd"))
}

fn succeed(home: &Path, args: &[&str]) -> String {
    let (code, out, error) = run(home, args);
    assert_eq!(code, 0, "{args:?}: {error}");
    out
}

fn fail(home: &Path, args: &[&str]) -> String {
    let (code, out, error) = run(home, args);
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}");
    error
}

/// Creates a home folder with `evmd init`.
fn new_home(folder: &Path) -> PathBuf {
    let home = folder.join("home");
    succeed(&home, &["init"]);
    home
}

/// Starts a node and waits until it has produced `blocks` more blocks.
fn produce(home: &Path, blocks: u64) -> NodeProcess {
    let options = ["--block-time", "20ms"];
    let node = NodeProcess::start(Path::new(env!("CARGO_BIN_EXE_evmd")), home, &options);
    let runtime = Runtime::new().unwrap();
    let head = || {
        let head = runtime.block_on(node.endpoints().call("eth_blockNumber", json!([])));
        u64::from_str_radix(head.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
    };
    let first = head();
    wait_until("blocks are produced", || head() >= first + blocks);
    node
}

fn proof(home: &Path, number: u64) -> Value {
    serde_json::from_str(&succeed(home, &["debug", "certificate", &number.to_string()])).unwrap()
}

/// Runs `evmd debug verify-certificate` in a folder without a chain. Returns what it prints, or its error.
fn verify(proof: &Value, trusted: &[&str]) -> Result<String, String> {
    let mut command = evmd();
    command.args(["debug", "verify-certificate", "-"]).args(trusted);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(proof.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn certificates_are_checked_with_the_genesis_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    let key = home.join(PRODUCER_KEY_FILE);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let mut node = produce(&home, 3);
    let status = succeed(&home, &["status", "-o", "json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    let producer = home::producer_key(&home).unwrap().unwrap().public().to_string();
    assert_eq!(status["producer"], json!({ "key": producer, "term": 0 }));
    assert!(succeed(&home, &["status"]).contains(&format!("{producer}, term 0")));
    // The command can read the files of a running node.
    let proof = proof(&home, 2);
    node.kill();

    let genesis = folder.path().join("genesis.json");
    fs::copy(home.join("genesis.json"), &genesis).unwrap();
    let hash = Genesis::from_json(&fs::read_to_string(&genesis).unwrap()).unwrap();
    let hash = hash.header().hash_slow().to_string();
    let genesis = genesis.to_str().unwrap();
    for trusted in
        [&["--genesis", genesis][..], &["--genesis-hash", &hash, "--producer-key", &producer]]
    {
        assert!(verify(&proof, trusted).unwrap().starts_with("Block 2 0x"), "{trusted:?}");
    }
    let reject = |proof: &Value, trusted: &[&str], reason: &str| {
        let error = verify(proof, trusted).unwrap_err();
        assert!(error.contains(reason), "{error}");
    };
    reject(&proof, &["--genesis-hash", &hash, "--producer-key", FOREIGN_KEY], "not signed by");
    let other = format!("{:#066x}", 1);
    reject(&proof, &["--genesis-hash", &other, "--producer-key", &producer], "not signed by");
    reject(&proof, &["--genesis", genesis, "--producer-key", FOREIGN_KEY], "names the producer");
    reject(&proof, &[], "state --genesis");
    let mut altered = proof.clone();
    let header = altered["headers"][0].as_str().unwrap().replace("a0", "a1");
    altered["headers"][0] = header.into();
    assert!(verify(&altered, &["--genesis", genesis]).is_err());
    let mut empty = proof;
    empty["headers"] = json!([]);
    reject(&empty, &["--genesis", genesis], "no header");
    succeed(&home, &["doctor", "--verify"]);
}

/// Starts from a chain of a version without certificates: its genesis names no producer, and its blocks are not signed.
#[test]
fn an_existing_home_signs_from_its_next_block_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    drop(native_home(&home));
    assert!(fail(&home, &["debug", "certificate", "0"]).contains("no block from 0 on is signed"));
    produce(&home, 2).kill();
    let proof = proof(&home, 0);
    assert_eq!(proof["headers"].as_array().unwrap().len(), 2, "block 1 covers block 0");
    let key = home::producer_key(&home).unwrap().unwrap().public().to_string();
    let genesis = home.join("genesis.json");
    let genesis = genesis.to_str().unwrap();
    assert!(verify(&proof, &["--genesis", genesis]).unwrap_err().contains("names no producer"));
    verify(&proof, &["--genesis", genesis, "--producer-key", &key]).unwrap();
    // Removing the key file does not make the node create a new key.
    fs::remove_file(home.join(PRODUCER_KEY_FILE)).unwrap();
    assert!(fail(&home, &["start", "--port-offset", "1"]).contains(&key));
    assert!(!home.join(PRODUCER_KEY_FILE).exists());
}

#[test]
fn only_the_producer_of_the_genesis_produces() {
    let folder = tempfile::tempdir().unwrap();
    let first = new_home(folder.path());
    let second = folder.path().join("second");
    let genesis = first.join("genesis.json");
    let printed = succeed(&second, &["init", "--genesis", genesis.to_str().unwrap()]);
    assert!(printed.contains("Only a node with the secret key of 0x"), "{printed}");
    let key = second.join(PRODUCER_KEY_FILE);
    assert!(!key.exists());
    let start = ["start", "--port-offset", "1"];
    assert!(fail(&second, &start).contains("producer.key is missing"));
    fs::write(&key, format!("{}\n", "07".repeat(32))).unwrap();
    assert!(fail(&second, &start).contains("but the producer key of this chain is 0x"));
    fs::write(&key, "not a key").unwrap();
    assert!(fail(&second, &start).contains("32 bytes in hex"));
    let program = Path::new(env!("CARGO_BIN_EXE_evmd"));
    NodeProcess::start(program, &second, &["--no-produce"]).stop();
    fs::copy(first.join(PRODUCER_KEY_FILE), &key).unwrap();
    produce(&second, 1).stop();
}

#[test]
fn signed_blocks_are_replaced_only_in_a_new_term() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    produce(&home, 5).kill();
    let old = proof(&home, 4);
    assert!(fail(&home, &["rollback", "--height", "3"]).contains("--new-term"));
    succeed(&home, &["rollback", "--height", "3", "--new-term"]);
    produce(&home, 3).kill();
    assert!(succeed(&home, &["doctor", "--verify"]).contains("term 1"));
    let genesis = home.join("genesis.json");
    let trusted = ["--genesis", genesis.to_str().unwrap()];
    let new = proof(&home, 4);
    assert_ne!(new["certificate"], old["certificate"]);
    verify(&new, &trusted).unwrap();
    // In the new term, the removed block is no longer accepted.
    let mut replayed = old;
    replayed["terms"] = new["terms"].clone();
    assert!(verify(&replayed, &trusted).unwrap_err().contains("term 1 is in force"));
    let mut forged = new;
    forged["terms"][0]["last"]["number"] = json!(2);
    assert!(verify(&forged, &trusted).unwrap_err().contains("is not signed by"));
    // This removes all blocks of the previous term and starts another one.
    succeed(&home, &["rollback", "--height", "2", "--new-term"]);
    produce(&home, 1).kill();
    assert!(succeed(&home, &["doctor", "--verify"]).contains("term 2"));
}

/// A rollback that removes the start of the newest term must start another term.
#[test]
fn a_rollback_below_a_term_starts_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    produce(&home, 4).kill();
    succeed(&home, &["rollback", "--height", "3", "--new-term"]);
    assert!(fail(&home, &["rollback", "--height", "2"]).contains("--new-term"));
    succeed(&home, &["rollback", "--height", "2", "--new-term"]);
    // Without `--height`, the command removes no block.
    let printed = succeed(&home, &["rollback", "--new-term"]);
    assert!(printed.starts_with("A new producer term starts after block 2 0x"), "{printed}");
    produce(&home, 2).kill();
    assert!(succeed(&home, &["doctor", "--verify"]).contains("term 3"));
}

/// Without the key, the node cannot replace the removed blocks. Once it has the key, it must not replace them in the
/// same term.
#[test]
fn a_node_without_the_key_removes_signed_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    produce(&home, 3).stop();
    let key = fs::read(home.join(PRODUCER_KEY_FILE)).unwrap();
    fs::remove_file(home.join(PRODUCER_KEY_FILE)).unwrap();
    succeed(&home, &["rollback", "--height", "2"]);
    let (chain, _) = Home::attach(&home).unwrap();
    let authority = home::stored_authority(&chain, &home).unwrap().unwrap();
    assert_eq!(authority.newest_term(), 0);
    drop(chain);
    assert!(fail(&home, &["rollback", "--new-term"]).contains("producer.key"));
    keys::write_secret(&home.join(PRODUCER_KEY_FILE), &key).unwrap();
    assert!(fail(&home, &["start", "--port-offset", "1"]).contains("rollback --new-term"));
    succeed(&home, &["rollback", "--new-term"]);
    produce(&home, 1).kill();
    assert!(succeed(&home, &["doctor", "--verify"]).contains("term 1"));
}

#[test]
fn a_development_chain_has_no_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    succeed(&home, &["init", "--dev"]);
    produce(&home, 2).stop();
    assert!(!home.join(PRODUCER_KEY_FILE).exists());
    assert!(fail(&home, &["debug", "certificate", "1"]).contains("no block from 1 on is signed"));
    assert!(succeed(&home, &["doctor", "--verify"]).contains("no block is signed"));
    for height in [&[][..], &["--height", "1"]] {
        let error = fail(&home, &[&["rollback", "--new-term"], height].concat());
        assert!(error.contains("leave --new-term out"), "{error}");
    }
}

/// A replica may serve senders and events as received, without executing the block, so the header commits to both.
#[test]
fn senders_and_events_are_checked_against_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    let mut node = produce(&home, 1);
    let runtime = Runtime::new().unwrap();
    let raw = transfer(0, 0, Address::repeat_byte(0xaa));
    runtime.block_on(node.endpoints().call("eth_sendRawTransaction", json!([raw])));
    let receipt = || {
        runtime
            .block_on(node.endpoints().call("eth_getTransactionReceipt", json!([keccak256(&raw)])))
    };
    wait_until("the transaction is mined", || !receipt().is_null());
    let number = receipt()["blockNumber"].as_str().unwrap().to_owned();
    let number = u64::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
    node.kill();
    succeed(&home, &["doctor", "--verify"]);
    let opened = Home::open(&home).unwrap();
    opened.chain.truncate_after(number).unwrap();
    let block = stored(&opened, number);
    opened.chain.truncate_after(number - 1).unwrap();
    drop(opened);
    let mut senders = block.clone();
    senders.senders[0] = Address::repeat_byte(0xbb);
    let mut events = block.clone();
    let mut record = Record::from_bytes(&events.module).unwrap();
    record.events[0].kind = "other".to_owned();
    events.module = record.to_bytes();
    for (altered, is_valid) in [(block, true), (senders, false), (events, false)] {
        let (chain, _) = Home::attach(&home).unwrap();
        chain.truncate_after(number - 1).unwrap();
        chain.append(&[altered]).unwrap();
        drop(chain);
        let (_, out, error) = run(&home, &["doctor", "--verify"]);
        let found = out.contains("senders have the hash") || out.contains("events have the hash");
        assert_eq!(found, !is_valid, "{out}{error}");
    }
}

/// Returns a stored block of a home folder without governance.
fn stored(home: &Home, number: u64) -> BlockRecord {
    let blocks = home.chain.reader().unwrap();
    let (hash, header) = blocks.header(number).unwrap().unwrap();
    BlockRecord {
        number,
        hash,
        flags: BlockFlags::NONE,
        header,
        body: blocks.body(number).unwrap().unwrap(),
        senders: blocks.senders(number).unwrap().unwrap(),
        receipts: blocks.receipts(number).unwrap().unwrap(),
        changes: blocks.changes(number).unwrap().unwrap().into(),
        fees: blocks.fees(number).unwrap().unwrap(),
        module: blocks.module(number).unwrap().unwrap(),
        governance: Vec::new(),
        certificate: blocks.certificate_from(number).unwrap().map(|(_, certificate)| certificate),
    }
}

/// A certificate becomes visible together with its block, and every block of the producer has one.
#[test]
fn killed_producers_leave_certificates_of_all_their_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let home = new_home(folder.path());
    for _ in 0..5 {
        produce(&home, 4).kill();
        let (chain, _) = Home::attach(&home).unwrap();
        let blocks = chain.reader().unwrap();
        let head = blocks.head_number().unwrap().unwrap();
        for number in 1..=head {
            assert_eq!(blocks.certificate_from(number).unwrap().unwrap().0, number);
        }
        assert!(blocks.certificate_from(head + 1).unwrap().is_none());
        let newest = blocks.newest_certificate().unwrap();
        assert_eq!(newest.map(|(number, _)| number), (head > 0).then_some(head));
    }
    succeed(&home, &["doctor", "--verify"]);
}
