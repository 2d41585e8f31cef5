//! JSON as it is written for people, made into that of messages: decimals with their point become the
//! integers that travel, and hex becomes base64.

use super::json::{Definitions, Mark};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use feemarket::LegacyDec;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

/// Changes a message of this kind, and all inside it. What is no such message is left to be refused by
/// whoever reads it.
///
/// # Errors
/// Names the field that holds no decimal, or no hex.
pub fn unmark(
    definitions: &Definitions,
    kind: &MessageDescriptor,
    json: &mut Value,
) -> Result<(), String> {
    let Value::Object(fields) = json else { return Ok(()) };
    if kind.full_name() != "google.protobuf.Any" {
        return unmark_fields(definitions, kind, fields);
    }
    let named = fields.get("@type").and_then(Value::as_str);
    match named.and_then(|named| definitions.named(named)) {
        Some(inside) => unmark_fields(definitions, &inside, fields),
        None => Ok(()),
    }
}

fn unmark_fields(
    definitions: &Definitions,
    kind: &MessageDescriptor,
    fields: &mut Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in fields {
        let field = kind.get_field_by_name(name).or_else(|| kind.get_field_by_json_name(name));
        let Some(field) = field else { continue };
        let items = match value {
            Value::Array(items) => items.as_mut_slice(),
            one => std::slice::from_mut(one),
        };
        items.iter_mut().try_for_each(|item| unmark_value(definitions, &field, item))?;
    }
    Ok(())
}

fn unmark_value(
    definitions: &Definitions,
    field: &FieldDescriptor,
    value: &mut Value,
) -> Result<(), String> {
    match (field.kind(), definitions.mark(field), &mut *value) {
        (Kind::Message(inside), _, _) => return unmark(definitions, &inside, value),
        (Kind::String, Some(Mark::Decimal), Value::String(text)) => {
            let decimal: LegacyDec =
                text.parse().map_err(|error| format!("{}: {error}", field.name()))?;
            *text = decimal.to_scaled();
        }
        // Hex without its prefix would be base64 as well, so it needs it.
        (_, Some(Mark::Hex), Value::String(text)) if text.starts_with("0x") => {
            let bytes =
                hex::decode(&*text).map_err(|error| format!("{}: {error}", field.name()))?;
            *text = BASE64.encode(bytes);
        }
        _ => {}
    }
    Ok(())
}
