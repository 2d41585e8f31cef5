//! Implements the methods about the node and about the chain as a whole.

use super::{Answer, Node, arguments::Arguments, blocks, error::Error, shape};
use crate::query::{QueryError, Snapshot};
use serde_json::{Value, json};

/// A placeholder for the node id, which CometBFT derives from its peer-to-peer key. This node has no such key.
const NO_ID: &str = "0000000000000000000000000000000000000000";
/// A placeholder for the peer-to-peer address, because clients cannot parse a status without one.
const NO_LISTENER: &str = "tcp://0.0.0.0:0";
/// Maximum bytes of the genesis file without its accounts in a response, as JSON (CometBFT's limit of a chunk).
const MAX_GENESIS_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn health() -> Value {
    json!({})
}

/// Returns the state of the node, its first and newest blocks, and its validator. A node that is not a validator
/// returns the first validator of the set, because clients cannot parse a status without one.
pub(super) fn status(node: &Node, _: &Arguments) -> Answer {
    let at = node.newest()?;
    let info = at.node_info().default_node_info.unwrap_or_default();
    let protocol = info.protocol_version.unwrap_or_default();
    let first = at.number().min(1);
    let (first_id, first_header) = at.block_header(first)?;
    let (id, header) = at.block_header(at.number())?;
    let other = info.other.unwrap_or_default();
    let set = at.validator_set(at.number())?;
    let own = node.queries.published.validator_key();
    let validator = set.iter().find(|(_, key)| *key == own).or(set.first());
    Ok(json!({
        "node_info": {
            "protocol_version": {
                "p2p": shape::long(protocol.p2p),
                "block": shape::long(protocol.block),
                "app": shape::long(protocol.app),
            },
            "id": NO_ID,
            "listen_addr": NO_LISTENER,
            "network": info.network,
            "version": info.version,
            "channels": "",
            "moniker": info.moniker,
            "other": {
                "tx_index": other.tx_index,
                "rpc_address": format!("tcp://{}", node.address),
            },
        },
        "sync_info": {
            "latest_block_hash": shape::hex(&id.hash),
            "latest_app_hash": shape::hex(&header.app_hash),
            "latest_block_height": shape::long(header.height),
            "latest_block_time": header.time.unwrap_or_default().to_string(),
            "earliest_block_hash": shape::hex(&first_id.hash),
            "earliest_app_hash": shape::hex(&first_header.app_hash),
            "earliest_block_height": shape::long(first),
            "earliest_block_time": first_header.time.unwrap_or_default().to_string(),
            "catching_up": at.syncing().syncing,
        },
        "validator_info": validator.map_or(Value::Null, shape::validator),
    }))
}

/// Returns the application, and the number and state root of its newest block.
pub(super) fn abci_info(node: &Node) -> Answer {
    let at = node.newest()?;
    let version = at.node_info().application_version.unwrap_or_default();
    let (_, header) = at.block_header(at.number())?;
    let response = json!({
        "data": version.name,
        "version": version.version,
        "app_version": "0",
        "last_block_height": shape::long(at.number()),
        "last_block_app_hash": shape::base64(&header.app_hash),
    });
    Ok(json!({ "response": response }))
}

/// Returns no peers, because the node does not run CometBFT.
pub(super) fn net_info() -> Value {
    json!({ "listening": false, "listeners": [], "n_peers": "0", "peers": [] })
}

/// Returns the gas limit of a block and the type of validator keys. The other parameters do not apply.
pub(super) fn consensus_params(node: &Node, given: &Arguments) -> Answer {
    let at = node.newest()?;
    let number = blocks::height(&at, given)?;
    let params = params_of(&at, number)?;
    Ok(json!({ "block_height": shape::long(number), "consensus_params": params }))
}

fn params_of(at: &Snapshot, number: u64) -> Result<Value, QueryError> {
    let params = at.consensus_params_of(number)?;
    let (block, validator) =
        (params.block.unwrap_or_default(), params.validator.unwrap_or_default());
    Ok(json!({
        "block": {
            "max_bytes": shape::long(block.max_bytes),
            "max_gas": shape::long(block.max_gas),
        },
        "evidence": { "max_age_num_blocks": "0", "max_age_duration": "0", "max_bytes": "0" },
        "validator": { "pub_key_types": validator.pub_key_types },
        "version": { "app": "0" },
        "abci": { "vote_extensions_enable_height": "0" },
    }))
}

/// Returns values of block 0, and the rules of the chain from its genesis file, without accounts.
pub(super) fn genesis(node: &Node, _: &Arguments) -> Answer {
    let at = node.newest()?;
    let rules = node.queries.spec.to_json();
    if rules.len() > MAX_GENESIS_BYTES {
        return Err(Error::GenesisTooLarge { bytes: rules.len(), max: MAX_GENESIS_BYTES });
    }
    let rules: Value = serde_json::from_str(&rules).map_err(|cause| {
        tracing::error!(%cause, "the stored genesis is not JSON");
        Error::Internal
    })?;
    let (_, header) = at.block_header(0)?;
    let genesis = json!({
        "genesis_time": header.time.unwrap_or_default().to_string(),
        "chain_id": header.chain_id,
        "initial_height": "1",
        "consensus_params": params_of(&at, 0)?,
        "validators": [],
        "app_hash": shape::hex(&header.app_hash),
        "app_state": { "evmd": rules },
    });
    Ok(json!({ "genesis": genesis }))
}
