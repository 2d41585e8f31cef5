//! Converts JSON in its display format to the format of messages: decimals with a decimal point become
//! integers, and hex becomes base64.

use super::json::{Descriptors, ScalarFormat};
use alloy_primitives::hex;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use feemarket::LegacyDec;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

/// Converts a message of this type and all messages inside it. A value of another type is left unchanged, so that the
/// parser refuses it.
///
/// # Errors
/// If a field is not a decimal or not hex; the error names the field.
pub fn from_display_json(
    descriptors: &Descriptors,
    kind: &MessageDescriptor,
    json: &mut Value,
) -> Result<(), String> {
    let Value::Object(fields) = json else { return Ok(()) };
    if kind.full_name() != "google.protobuf.Any" {
        return fields_from_display(descriptors, kind, fields);
    }
    let named = fields.get("@type").and_then(Value::as_str);
    match named.and_then(|named| descriptors.message_type(named)) {
        Some(inside) => fields_from_display(descriptors, &inside, fields),
        None => Ok(()),
    }
}

fn fields_from_display(
    descriptors: &Descriptors,
    kind: &MessageDescriptor,
    fields: &mut Map<String, Value>,
) -> Result<(), String> {
    for (name, value) in fields {
        let field = kind.get_field_by_name(name).or_else(|| kind.get_field_by_json_name(name));
        let Some(field) = field else { continue };
        let items = match value {
            Value::Array(items) => items.as_mut_slice(),
            single => std::slice::from_mut(single),
        };
        items.iter_mut().try_for_each(|item| value_from_display(descriptors, &field, item))?;
    }
    Ok(())
}

fn value_from_display(
    descriptors: &Descriptors,
    field: &FieldDescriptor,
    value: &mut Value,
) -> Result<(), String> {
    match (field.kind(), descriptors.scalar_format(field), &mut *value) {
        (Kind::Message(inside), _, _) => return from_display_json(descriptors, &inside, value),
        (Kind::String, Some(ScalarFormat::Decimal), Value::String(text)) => {
            let decimal: LegacyDec =
                text.parse().map_err(|error| format!("{}: {error}", field.name()))?;
            *text = decimal.to_scaled();
        }
        // Hex without a prefix is also valid base64, so the prefix is required.
        (_, Some(ScalarFormat::Hex), Value::String(text)) if text.starts_with("0x") => {
            let bytes =
                hex::decode(&*text).map_err(|error| format!("{}: {error}", field.name()))?;
            *text = BASE64.encode(bytes);
        }
        _ => {}
    }
    Ok(())
}
