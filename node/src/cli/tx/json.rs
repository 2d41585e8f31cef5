//! Messages in JSON, as people write them in files: decimals with their point, the type of a message
//! in `@type`.

use crate::{
    feemarket::LegacyDec,
    proto::cosmos::tx::v1beta1::{Tx, TxRaw},
    rest::json::{Definitions, Mark},
};
use anyhow::{Context, anyhow};
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, Value as Field};
use prost_types::Any;
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
    Ok(serde_json::to_value(definitions.json(&message))?)
}

/// The bytes that are broadcast.
pub(super) fn raw(tx: &Tx) -> Vec<u8> {
    let raw = TxRaw {
        body_bytes: tx.body.clone().unwrap_or_default().encode_to_vec(),
        auth_info_bytes: tx.auth_info.clone().unwrap_or_default().encode_to_vec(),
        signatures: tx.signatures.clone(),
    };
    raw.encode_to_vec()
}

fn read(kind: &str, value: &Value) -> anyhow::Result<DynamicMessage> {
    let definitions = Definitions::read();
    let kind = definitions.pool.get_message_by_name(kind).context("a type of ours")?;
    let mut message = DynamicMessage::deserialize(kind, value)?;
    scale(&definitions, &mut message)?;
    Ok(message)
}

/// Turns decimals into the integers that travel, everywhere in a message.
fn scale(definitions: &Definitions, message: &mut DynamicMessage) -> anyhow::Result<()> {
    if message.descriptor_name() == "google.protobuf.Any" {
        return scale_any(definitions, message);
    }
    let fields: Vec<_> = message.fields().map(|(field, _)| field).collect();
    for field in fields {
        let is_decimal = definitions.mark(&field) == Some(Mark::Decimal);
        let is_message = matches!(field.kind(), Kind::Message(_));
        match message.get_field_mut(&field) {
            Field::String(text) if is_decimal => {
                let value: LegacyDec =
                    text.parse().map_err(|error| anyhow!("{}: {error}", field.name()))?;
                *text = value.to_scaled();
            }
            Field::Message(inner) if is_message => scale(definitions, inner)?,
            Field::List(items) if is_message => {
                for inner in items.iter_mut().filter_map(Field::as_message_mut) {
                    scale(definitions, inner)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn scale_any(definitions: &Definitions, message: &mut DynamicMessage) -> anyhow::Result<()> {
    let mut any: Any = message.transcode_to()?;
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let Some(kind) = definitions.pool.get_message_by_name(name) else { return Ok(()) };
    let mut inner = DynamicMessage::decode(kind, any.value.as_slice())?;
    scale(definitions, &mut inner)?;
    any.value = inner.encode_to_vec();
    message.transcode_from(&any)?;
    Ok(())
}

/// The name of a message's type.
trait Named {
    fn descriptor_name(&self) -> String;
}

impl Named for DynamicMessage {
    fn descriptor_name(&self) -> String {
        prost_reflect::ReflectMessage::descriptor(self).full_name().to_owned()
    }
}
