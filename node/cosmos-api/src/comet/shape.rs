//! Converts blocks and transaction results to CometBFT's JSON format.

use crate::query::{
    ConsensusValidator, MinedTxResponse, VOTING_POWER,
    proto::{
        cosmos::base::abci::v1beta1::TxResponse,
        tendermint::{
            abci::Event,
            types::{Block, BlockId, Commit, CommitSig, Header},
        },
    },
};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use prost::Message;
use serde_json::{Value, json};

/// A placeholder for the proposer's key on a chain without validators, because clients cannot parse a response
/// without one. It is a curve point in the prime-order subgroup, as parsers may require. Its secret key is unknown.
const NO_KEY: [u8; 32] = [6; 32];

/// CometBFT's time of an absent vote.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// Converts a hash or an address to CometBFT's format.
pub(super) fn hex(bytes: &[u8]) -> String {
    hex::encode_upper(bytes)
}

/// Converts other bytes to CometBFT's format; empty bytes become `null`.
pub(super) fn base64(bytes: &[u8]) -> Value {
    if bytes.is_empty() { Value::Null } else { Value::String(BASE64.encode(bytes)) }
}

/// Converts a 64-bit number to a string, as CometBFT does.
pub(super) fn long(number: impl ToString) -> String {
    number.to_string()
}

/// Converts an Ethereum hash to CometBFT's format, which has no prefix.
pub(super) fn hash(text: &str) -> String {
    text.strip_prefix("0x").unwrap_or(text).to_ascii_uppercase()
}

pub(super) fn block_id(id: &BlockId) -> Value {
    let parts = id.part_set_header.clone().unwrap_or_default();
    json!({
        "hash": hex(&id.hash),
        "parts": { "total": parts.total, "hash": hex(&parts.hash) },
    })
}

pub(super) fn header(header: &Header) -> Value {
    let version = header.version.unwrap_or_default();
    let last = header.last_block_id.clone().unwrap_or_default();
    json!({
        "version": { "block": long(version.block), "app": long(version.app) },
        "chain_id": header.chain_id,
        "height": long(header.height),
        "time": header.time.unwrap_or_default().to_string(),
        "last_block_id": block_id(&last),
        "last_commit_hash": hex(&header.last_commit_hash),
        "data_hash": hex(&header.data_hash),
        "validators_hash": hex(&header.validators_hash),
        "next_validators_hash": hex(&header.next_validators_hash),
        "consensus_hash": hex(&header.consensus_hash),
        "app_hash": hex(&header.app_hash),
        "last_results_hash": hex(&header.last_results_hash),
        "evidence_hash": hex(&header.evidence_hash),
        "proposer_address": hex(&header.proposer_address),
    })
}

pub(super) fn commit(commit: &Commit) -> Value {
    let id = commit.block_id.clone().unwrap_or_default();
    let signatures: Vec<_> = commit.signatures.iter().map(commit_signature).collect();
    json!({
        "height": long(commit.height),
        "round": commit.round,
        "block_id": block_id(&id),
        "signatures": signatures,
    })
}

/// Converts an entry of a commit. An absent validator has CometBFT's zero time and no signature.
fn commit_signature(entry: &CommitSig) -> Value {
    let time = entry.timestamp.map_or_else(|| ZERO_TIME.to_owned(), |time| time.to_string());
    json!({
        "block_id_flag": entry.block_id_flag,
        "validator_address": hex(&entry.validator_address),
        "timestamp": time,
        "signature": base64(&entry.signature),
    })
}

/// Converts a block and adds its hash.
pub(super) fn block(id: &BlockId, block: &Block) -> Value {
    let last = block.last_commit.clone().unwrap_or_default();
    let txs: Vec<_> = block.data.iter().flat_map(|data| &data.txs).map(|tx| base64(tx)).collect();
    json!({
        "block_id": block_id(id),
        "block": {
            "header": header(&block.header.clone().unwrap_or_default()),
            "data": { "txs": txs },
            "evidence": { "evidence": [] },
            "last_commit": commit(&last),
        },
    })
}

/// Returns the entry of a block in a list. Its size is that of the protobuf encoding without the round and the
/// signatures of the last commit, which differ between nodes.
pub(super) fn block_meta(id: &BlockId, mut block: Block) -> Value {
    let txs = block.data.as_ref().map_or(0, |data| data.txs.len());
    if let Some(commit) = &mut block.last_commit {
        (commit.round, commit.signatures) = (0, Vec::new());
    }
    json!({
        "block_id": block_id(id),
        "block_size": long(block.encoded_len()),
        "header": header(&block.header.unwrap_or_default()),
        "num_txs": long(txs),
    })
}

pub(super) fn validator((address, key): &ConsensusValidator) -> Value {
    let key = key.map_or(NO_KEY, |key| key.0);
    json!({
        "address": hex(address.as_slice()),
        "pub_key": { "type": "tendermint/PubKeyEd25519", "value": base64(&key) },
        "voting_power": long(VOTING_POWER),
        "proposer_priority": long(0),
    })
}

pub(super) fn events(events: &[Event]) -> Value {
    let shown = events.iter().map(|event| {
        let attributes = event.attributes.iter();
        let attributes: Vec<_> = attributes
            .map(|a| json!({ "key": a.key, "value": a.value, "index": a.index }))
            .collect();
        json!({ "type": event.r#type, "attributes": attributes })
    });
    shown.collect()
}

/// Returns the result of a transaction, or of its check.
pub(super) fn tx_result(response: &TxResponse) -> Value {
    json!({
        "code": response.code,
        "data": hex::decode(&response.data).map_or(Value::Null, |data| base64(&data)),
        "log": response.raw_log,
        "info": response.info,
        "gas_wanted": long(response.gas_wanted),
        "gas_used": long(response.gas_used),
        "events": events(&response.events),
        "codespace": response.codespace,
    })
}

/// Returns a mined transaction.
pub(super) fn tx(shown: &MinedTxResponse) -> Value {
    json!({
        "hash": hash(&shown.response.txhash),
        "height": long(shown.response.height),
        "index": shown.index,
        "tx_result": tx_result(&shown.response),
        "tx": base64(&shown.sdk_bytes()),
    })
}
