//! Describes the parameters of queries, which are in the path if the path names them, and otherwise in the query
//! string.

use super::comment;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Value, json};

/// Returns the parameters for the fields of a request.
pub(super) fn parameters(path: &str, request: &MessageDescriptor) -> Vec<Value> {
    let mut parameters = Vec::new();
    add(path, request, "", &mut parameters);
    parameters
}

fn add(path: &str, message: &MessageDescriptor, prefix: &str, parameters: &mut Vec<Value>) {
    for field in message.fields() {
        let name = format!("{prefix}{}", field.name());
        if let Kind::Message(inner) = field.kind() {
            add(path, &inner, &format!("{name}."), parameters);
            continue;
        }
        let in_path = path.contains(&format!("{{{name}}}"));
        let mut parameter = json!({
            "name": name,
            "in": if in_path { "path" } else { "query" },
            "required": in_path,
            "schema": schema(&field, in_path),
        });
        if let Some(text) = comment(&field.parent_file(), field.path()) {
            parameter["description"] = text.into();
        }
        parameters.push(parameter);
    }
}

/// Returns the parameters in a path.
pub(super) fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters = names.map(|name| {
        let schema = json!({ "type": "string", "minLength": 1 });
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    parameters.collect()
}

/// The name of the component for [`height_parameter`].
pub(super) const HEIGHT: &str = "height";

/// Returns the header that selects the block.
pub(super) fn height_parameter() -> Value {
    json!({
        "name": crate::grpc::HEIGHT_HEADER,
        "in": "header",
        "description": "The block to query. Without this header, the newest block is queried.",
        "schema": { "type": "string", "pattern": "^[0-9]{1,18}$" },
    })
}

/// Returns the schema of the text of a parameter. A repeated field has one parameter per item.
fn schema(field: &FieldDescriptor, in_path: bool) -> Value {
    let schema = item_schema(field, in_path);
    if field.is_list() { json!({ "type": "array", "items": schema }) } else { schema }
}

fn item_schema(field: &FieldDescriptor, in_path: bool) -> Value {
    match field.kind() {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Uint32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Kind::Uint64 => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        Kind::Int64 => json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Enum(kind) => {
            let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
            json!({ "type": "string", "enum": names })
        }
        _ if in_path => json!({ "type": "string", "minLength": 1 }),
        _ => json!({ "type": "string" }),
    }
}
