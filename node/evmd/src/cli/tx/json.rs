//! Converts messages from and to JSON as people write it in files: decimals have a decimal point, and `@type` contains
//! the type of a message.

use anyhow::Context;
use cosmos_api::{
    query::tx_bytes,
    rest::{
        display_json::from_display_json,
        json::{Descriptors, Style},
    },
};
use prost::Message;
use prost_reflect::DynamicMessage;
use prost_types::Any;
use proto::cosmos::tx::v1beta1::Tx;
use serde_json::Value;

/// Parses a message whose type is in `@type`.
pub(super) fn any(value: &Value) -> anyhow::Result<Any> {
    let named = value["@type"].as_str().context("a message without @type")?;
    let message = read("google.protobuf.Any", value).with_context(|| named.to_owned())?;
    Ok(message.transcode_to()?)
}

pub(super) fn tx(value: &Value) -> anyhow::Result<Tx> {
    Ok(read("cosmos.tx.v1beta1.Tx", value)?.transcode_to()?)
}

pub(super) fn tx_json(tx: &Tx) -> anyhow::Result<Value> {
    let descriptors = Descriptors::read();
    let kind = descriptors.pool.get_message_by_name("cosmos.tx.v1beta1.Tx");
    let kind = kind.context("the descriptors contain transactions")?;
    let message = DynamicMessage::decode(kind, tx.encode_to_vec().as_slice())?;
    Ok(serde_json::to_value(descriptors.json(&message, Style::Sdk))?)
}

/// Encodes a transaction as `TxRaw`.
pub(super) fn raw(tx: &Tx) -> Vec<u8> {
    tx_bytes(tx.clone())
}

fn read(kind: &str, value: &Value) -> anyhow::Result<DynamicMessage> {
    let descriptors = Descriptors::read();
    let kind =
        descriptors.pool.get_message_by_name(kind).context("the type is in the descriptors")?;
    let mut value = value.clone();
    from_display_json(&descriptors, &kind, &mut value).map_err(anyhow::Error::msg)?;
    Ok(DynamicMessage::deserialize(kind, value)?)
}
