//! Messages in JSON, as people write them in files: decimals with their point, the type of a message
//! in `@type`.

use anyhow::Context;
use cosmos_api::{
    query::tx_bytes,
    rest::{
        json::{Definitions, Style},
        unmark::unmark,
    },
};
use prost::Message;
use prost_reflect::DynamicMessage;
use prost_types::Any;
use proto::cosmos::tx::v1beta1::Tx;
use serde_json::Value;

/// Reads a message that says its type.
pub(super) fn any(value: &Value) -> anyhow::Result<Any> {
    let named = value["@type"].as_str().context("a message without @type")?;
    let message = read("google.protobuf.Any", value).with_context(|| named.to_owned())?;
    Ok(message.transcode_to()?)
}

/// Reads a transaction.
pub(super) fn tx(value: &Value) -> anyhow::Result<Tx> {
    Ok(read("cosmos.tx.v1beta1.Tx", value)?.transcode_to()?)
}

/// A transaction as JSON.
pub(super) fn tx_json(tx: &Tx) -> anyhow::Result<Value> {
    let definitions = Definitions::read();
    let kind = definitions.pool.get_message_by_name("cosmos.tx.v1beta1.Tx");
    let kind = kind.context("our definitions have transactions")?;
    let message = DynamicMessage::decode(kind, tx.encode_to_vec().as_slice())?;
    Ok(serde_json::to_value(definitions.json(&message, Style::Sdk))?)
}

/// The bytes that are broadcast.
pub(super) fn raw(tx: &Tx) -> Vec<u8> {
    tx_bytes(tx.clone())
}

fn read(kind: &str, value: &Value) -> anyhow::Result<DynamicMessage> {
    let definitions = Definitions::read();
    let kind = definitions.pool.get_message_by_name(kind).context("a type of ours")?;
    let mut value = value.clone();
    unmark(&definitions, &kind, &mut value).map_err(anyhow::Error::msg)?;
    Ok(DynamicMessage::deserialize(kind, value)?)
}
