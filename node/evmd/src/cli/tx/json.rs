//! Messages in JSON, as people write them in files: decimals with a decimal point, and the type of a message in
//! `@type`.

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

/// Parses a message with its type.
pub(super) fn any(value: &Value) -> anyhow::Result<Any> {
    let named = value["@type"].as_str().context("a message without @type")?;
    let message = read("google.protobuf.Any", value).with_context(|| named.to_owned())?;
    Ok(message.transcode_to()?)
}

/// Parses a transaction.
pub(super) fn tx(value: &Value) -> anyhow::Result<Tx> {
    Ok(read("cosmos.tx.v1beta1.Tx", value)?.transcode_to()?)
}

/// Converts a transaction to JSON.
pub(super) fn tx_json(tx: &Tx) -> anyhow::Result<Value> {
    let descriptors = Descriptors::read();
    let kind = descriptors.pool.get_message_by_name("cosmos.tx.v1beta1.Tx");
    let kind = kind.context("the descriptors contain transactions")?;
    let message = DynamicMessage::decode(kind, tx.encode_to_vec().as_slice())?;
    Ok(serde_json::to_value(descriptors.json(&message, Style::Sdk))?)
}

/// The encoded transaction for a broadcast.
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
