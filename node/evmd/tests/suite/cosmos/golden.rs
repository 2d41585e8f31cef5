//! Compares the responses of every REST path, and of every gRPC method through reflection, with the recordings in
//! `tests/transcripts`. With `EVMD_WRITE_DOCS=1`, responses that differ are recorded again.

use super::{
    grpc::{Client, definitions, services},
    served::{FORKING, Served},
};
use crate::common::{
    GENESIS_TIME, producing,
    signed::{address_of, any, send, signed, slower_market},
    transfer,
};
use alloy_primitives::{Address, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::Genesis;
use home::Home;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use proto::cosmos::gov::v1::MsgVote;
use serde_json::{Value, json};
use std::{fs, path::PathBuf, time::Duration};

/// Fields that differ between runs, because they depend on the times of blocks or on free ports.
const MASKED: [&str; 10] = [
    "rpc_address",
    "hash",
    "block_hash",
    "app_hash",
    "time",
    "timestamp",
    "submit_time",
    "deposit_end_time",
    "voting_start_time",
    "voting_end_time",
];

/// Returns a text without the values of [`MASKED`] fields.
fn masked(text: &str) -> String {
    let mut text = text.to_owned();
    for name in MASKED {
        let before = format!("\"{name}\":\"");
        let mut at = 0;
        while let Some(found) = text[at..].find(&before) {
            at += found + before.len();
            let end = at + text[at..].find('"').unwrap();
            text.replace_range(at..end, "*");
        }
    }
    text
}

/// Starts a node with four blocks: a transfer by account 1, and a `MsgSend`, a proposal and a vote by account 0. The
/// node produces further blocks only for further transactions.
pub(super) async fn scene() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    genesis["config"]["evmd"]["gov"]["params"] = json!({});
    let opening = FORKING.lock().await;
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    let mut home = Home::init(folder.path(), &genesis).unwrap();
    home.config.engine.empty_blocks = false;
    let options = producing(Some(Duration::from_millis(5)));
    let served = Served::on(folder, home, options).await;
    drop(opening);
    let raw = hex::encode_prefixed(transfer(1, 0, Address::repeat_byte(0x77)));
    let hash = served.node.call("eth_sendRawTransaction", json!([raw])).await;
    served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    let proposal = slower_market("1000000000000000000000000000");
    let vote =
        MsgVote { proposal_id: 1, voter: address_of(0), option: 1, metadata: "why not".to_owned() };
    let recipient = "cosmos1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq92yqleyn";
    let messages = [send(0, recipient, 7), any(&proposal), any(&vote)];
    for (sequence, message) in (0..).zip(messages) {
        served.mined(&signed(0, sequence, vec![message])).await;
    }
    served
}

/// A recorded request and its response.
struct Entry {
    comments: Vec<String>,
    request: String,
    response: String,
}

/// A recording: each line that starts with `> ` is a request, and the next line is its response. Empty lines and lines
/// that start with `#` are comments.
pub(super) struct Recording {
    path: PathBuf,
    entries: Vec<Entry>,
    changes: Vec<String>,
}

impl Recording {
    pub(super) fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(name);
        let (mut entries, mut comments) = (Vec::<Entry>::new(), Vec::new());
        for line in fs::read_to_string(&path).unwrap().lines() {
            if line.is_empty() || line.starts_with('#') {
                comments.push(line.to_owned());
            } else if let Some(request) = line.strip_prefix("> ") {
                let (comments, request) = (std::mem::take(&mut comments), request.to_owned());
                entries.push(Entry { comments, request, response: String::new() });
            } else {
                line.clone_into(&mut entries.last_mut().unwrap().response);
            }
        }
        Self { path, entries, changes: Vec::new() }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.request.clone()).collect()
    }

    /// Replaces the recorded response if this one differs, and notes the change.
    fn compare(&mut self, at: usize, response: &str) {
        let (entry, response) = (&mut self.entries[at], masked(response));
        if entry.response != response {
            let Entry { request, response: recorded, .. } = &entry;
            self.changes.push(format!("> {request}\n-- recorded\n{recorded}\n-- now\n{response}"));
            entry.response = response;
        }
    }

    /// Fails if a response differed. With `EVMD_WRITE_DOCS`, writes the recording instead.
    fn finish(&self) {
        if std::env::var_os("EVMD_WRITE_DOCS").is_none() {
            assert!(
                self.changes.is_empty(),
                "{}\n{}",
                self.path.display(),
                self.changes.join("\n")
            );
            return;
        }
        let lines = self.entries.iter().flat_map(|entry| {
            let request_and_response = [format!("> {}", entry.request), entry.response.clone()];
            entry.comments.iter().cloned().chain(request_and_response)
        });
        fs::write(&self.path, lines.map(|line| line + "\n").collect::<String>()).unwrap();
    }
}

/// Returns whether a path matches a template such as `/a/{b}`.
pub(super) fn matches(path: &str, template: &str) -> bool {
    let (path, template) = (path.split('/'), template.split('/'));
    path.clone().count() == template.clone().count()
        && path.zip(template).all(|(part, wanted)| part == wanted || wanted.starts_with('{'))
}

#[tokio::test(flavor = "multi_thread")]
async fn rest_responses_equal_the_recording() {
    let served = scene().await;
    let mut recording = Recording::read("rest.txt");
    for (at, request) in recording.requests().iter().enumerate() {
        let mut words = request.splitn(3, ' ');
        let (verb, path) = (words.next().unwrap(), words.next().unwrap());
        let rest = words.next().unwrap_or_default();
        let (head, body) = if verb == "POST" {
            let length = rest.len();
            let kind = "Content-Type: application/json";
            (format!("POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {length}\r\n"), rest)
        } else {
            let height = rest.strip_prefix('@').map(|n| format!("x-cosmos-block-height: {n}\r\n"));
            (format!("GET {path} HTTP/1.1\r\n{}", height.unwrap_or_default()), "")
        };
        let (status, text) = served.raw(&head, body).await;
        recording.compare(at, &format!("{status} {text}"));
    }
    recording.finish();
    // Every documented operation is in the recording.
    let description = served.get("/openapi.json").await;
    let recorded: Vec<_> = recording
        .entries
        .iter()
        .filter(|entry| entry.response.starts_with("200 "))
        .map(|entry| entry.request.split(' ').nth(1).unwrap().split('?').next().unwrap())
        .collect();
    for (template, item) in description["paths"].as_object().unwrap() {
        // Operations that return files, and paths that are not served, are not recorded.
        let tags = item.as_object().unwrap().values().map(|operation| &operation["tags"]);
        if tags
            .into_iter()
            .all(|tags| *tags == json!(["documents"]) || *tags == json!(["not served"]))
        {
            continue;
        }
        assert!(recorded.iter().any(|path| matches(path, template)), "{template} is not recorded");
    }
    served.stop().await;
}

/// Messages that are only used inside an `Any`, so that no other definition imports them.
const ONLY_IN_ANY: [&str; 5] = [
    "cosmos.bank.v1beta1.MsgSend",
    "cosmos.evm.crypto.v1.ethsecp256k1.PubKey",
    "cosmos.evm.feemarket.v1.MsgUpdateParams",
    "cosmos.evm.vm.v1.MsgEthereumTx",
    "cosmos.gov.v1.MsgSubmitProposal",
];

/// Returns the method at a path.
fn method(pool: &DescriptorPool, path: &str) -> MethodDescriptor {
    let (service, name) = path.split_once('/').unwrap();
    let service = pool.get_service_by_name(service).unwrap();
    service.methods().find(|method| method.name() == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_responses_equal_the_recording() {
    let served = scene().await;
    let mut client = Client::connect(&served).await;
    let listed = services(&mut client).await;
    let mut files = Vec::new();
    for symbol in listed.iter().map(String::as_str).chain(ONLY_IN_ANY) {
        files.extend(definitions(&mut client, symbol).await.file_descriptor_protos().cloned());
    }
    files.sort_by(|a, b| a.name().cmp(b.name()));
    files.dedup_by(|a, b| a.name() == b.name());
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files).unwrap();

    let mut recording = Recording::read("grpc.txt");
    for (at, request) in recording.requests().iter().enumerate() {
        let (path, body) = request.split_once(' ').unwrap();
        let method = method(&pool, path);
        let mut json = serde_json::Deserializer::from_str(body);
        let body = DynamicMessage::deserialize(method.input(), &mut json).unwrap();
        let response = match client.bytes(path, body.encode_to_vec()).await {
            Ok(bytes) => {
                let message = DynamicMessage::decode(method.output(), bytes.as_slice()).unwrap();
                let mut json = serde_json::Serializer::new(Vec::new());
                let options = SerializeOptions::new().use_proto_field_name(true);
                message.serialize_with_options(&mut json, &options).unwrap();
                String::from_utf8(json.into_inner()).unwrap()
            }
            Err(status) => format!("{:?}: {}", status.code(), status.message()),
        };
        recording.compare(at, &response);
    }
    recording.finish();
    let requests = recording.requests();
    // Reflection is a streaming service, and was already used to find these methods.
    for name in listed.iter().filter(|name| !name.starts_with("grpc.")) {
        for method in pool.get_service_by_name(name).unwrap().methods() {
            let path = format!("{name}/{} ", method.name());
            let recorded = requests.iter().any(|request| request.starts_with(&path));
            assert!(recorded, "{path}is not recorded");
        }
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn public_key_in_a_cosmos_transaction_is_found() {
    let served = scene().await;
    // Account 2's transaction contains its key; account 3's key is recovered from the signature.
    for (account, has_key) in [(2, true), (3, false)] {
        let path = format!("/cosmos/auth/v1beta1/accounts/{}", address_of(account));
        assert_eq!(served.get(&path).await["account"]["pub_key"], Value::Null);
        let messages = vec![send(account, &address_of(0), 1)];
        let price = 100_000_000_000;
        let tx = crate::common::signed::signed_at(price, has_key, account, 0, messages);
        served.mined(&tx).await;
        let key = &served.get(&path).await["account"]["pub_key"];
        assert_eq!(key["@type"], "/cosmos.evm.crypto.v1.ethsecp256k1.PubKey");
        let bytes = BASE64.decode(key["key"].as_str().unwrap()).unwrap();
        let private = chain::DEV_ACCOUNTS[account].private_key;
        let private = keys::PrivateKey::from_bytes(private.as_slice()).unwrap();
        assert_eq!(bytes, private.public_key().as_bytes());
    }
    served.stop().await;
}
