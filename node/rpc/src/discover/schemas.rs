//! Creates the JSON schemas of results. Those of standard methods follow the execution-apis specification.
//!
//! Tables of names and types keep the schemas short. A type is a name, `[T]` for a list, `{T}` for an object with any
//! keys, `A|B` for either of two types, or `T?` for a type that may be null. A field is optional if its name ends in
//! `?`. A field `..` includes all fields of another object, and later fields replace those with the same name.

mod chain;
mod other;
mod state;
mod traces;

use serde_json::{Map, Value, json};

/// The types of strings: name, description and pattern.
const TEXTS: &[(&str, &str, &str)] = &[
    ("Quantity", "An unsigned integer in its shortest form.", "^0x(0|[1-9a-f][0-9a-f]{0,63})$"),
    ("Data", "Bytes.", "^0x([0-9a-f]{2})*$"),
    ("Bytes8", "8 bytes.", "^0x[0-9a-f]{16}$"),
    ("Hash", "32 bytes.", "^0x[0-9a-f]{64}$"),
    ("Address", "The 20 bytes of an account.", "^0x[0-9a-f]{40}$"),
    ("Bloom", "256 bytes.", "^0x[0-9a-f]{512}$"),
    ("Signature", "65 bytes.", "^0x[0-9a-f]{130}$"),
    ("Id", "The id of a filter.", "^0x[0-9a-f]+$"),
    ("Decimal", "A decimal number.", r"^-?[0-9]+(\.[0-9]+)?$"),
];

/// The fields of an object, each with its type.
type Fields = &'static [(&'static str, &'static str)];

/// The objects with their fields. A result has no other fields.
const OBJECTS: [&[(&str, Fields)]; 4] =
    [chain::OBJECTS, state::OBJECTS, traces::OBJECTS, other::OBJECTS];

/// Names of further types. The result of a geth trace depends on the tracer.
const NAMES: &[(&str, &str)] = &[
    ("Delta", "String|DeltaAdded|DeltaRemoved|DeltaChanged"),
    (
        "GethTrace",
        "StructLogs|CallFrame|[PlacedTrace]|PrestateDiff|{PrestateAccount}|{Integer}|{GethTrace}",
    ),
];

/// Returns the name of a JSON type in JSON Schema.
fn json_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "Boolean" => "boolean",
        "Integer" => "integer",
        "Number" => "number",
        "String" => "string",
        "Object" => "object",
        "Null" => "null",
        _ => return None,
    })
}

/// Returns the schema of a type.
///
/// # Panics
/// Panics if the type is unknown. A test checks all types.
pub(super) fn schema_of(text: &str) -> Value {
    if let Some((first, rest)) = split(text) {
        let rest = schema_of(rest);
        let mut any = vec![schema_of(first)];
        match rest.get("anyOf").and_then(Value::as_array) {
            Some(more) => any.extend(more.iter().cloned()),
            None => any.push(rest),
        }
        return json!({ "anyOf": any });
    }
    if let Some(inner) = text.strip_suffix('?') {
        return json!({ "anyOf": [schema_of(inner), { "type": "null" }] });
    }
    let within = |open: char, close: char| text.strip_prefix(open)?.strip_suffix(close);
    if let Some(items) = within('[', ']') {
        return json!({ "type": "array", "items": schema_of(items) });
    }
    if let Some(values) = within('{', '}') {
        return json!({ "type": "object", "additionalProperties": schema_of(values) });
    }
    if let Some(name) = json_type(text) {
        return json!({ "type": name });
    }
    assert!(is_known(text), "{text} is not a type");
    json!({ "$ref": format!("#/components/schemas/{text}") })
}

/// Splits a type at the first `|` outside of lists and objects.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// Returns the fields of an object.
fn object(name: &str) -> Option<Fields> {
    let mut all = OBJECTS.iter().copied().flatten();
    all.find(|(known, _)| *known == name).map(|(_, fields)| *fields)
}

fn is_known(name: &str) -> bool {
    TEXTS.iter().any(|(known, ..)| *known == name)
        || object(name).is_some()
        || NAMES.iter().any(|(known, _)| *known == name)
}

/// Returns the schemas of all types that have a name in the tables.
pub(super) fn components() -> Value {
    let mut schemas = Map::new();
    for (name, description, pattern) in TEXTS {
        let schema = json!({ "type": "string", "description": description, "pattern": pattern });
        schemas.insert((*name).to_owned(), schema);
    }
    for (name, text) in NAMES {
        schemas.insert((*name).to_owned(), schema_of(text));
    }
    for (name, fields) in OBJECTS.iter().copied().flatten() {
        let mut properties = Map::new();
        let mut required = Vec::new();
        add_fields(fields, &mut properties, &mut required);
        let mut schema = json!({
            "type": "object", "properties": properties, "additionalProperties": false,
        });
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schemas.insert((*name).to_owned(), schema);
    }
    Value::Object(schemas)
}

fn add_fields(fields: Fields, properties: &mut Map<String, Value>, required: &mut Vec<String>) {
    for (name, text) in fields {
        if *name == ".." {
            let fields = object(text).unwrap_or_else(|| panic!("{text} is not an object"));
            add_fields(fields, properties, required);
            continue;
        }
        let plain = name.strip_suffix('?').unwrap_or(name).to_owned();
        required.retain(|known| *known != plain);
        if !name.ends_with('?') {
            required.push(plain.clone());
        }
        properties.insert(plain, schema_of(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_converted_to_schemas() {
        let hash = json!({ "$ref": "#/components/schemas/Hash" });
        let null_type = json!({ "type": "null" });
        for (text, schema) in [
            ("Hash", hash.clone()),
            ("Hash?", json!({ "anyOf": [hash, null_type] })),
            ("[Boolean]", json!({ "type": "array", "items": { "type": "boolean" } })),
            (
                "{[Integer]}?",
                json!({ "anyOf": [
                    { "type": "object", "additionalProperties":
                        { "type": "array", "items": { "type": "integer" } } },
                    null_type,
                ] }),
            ),
            (
                "[Hash|Null]|String|Null",
                json!({ "anyOf": [
                { "type": "array", "items": { "anyOf": [hash, null_type] } }, { "type": "string" }, null_type,
            ] }),
            ),
        ] {
            assert_eq!(schema_of(text), schema, "{text}");
        }
    }

    #[test]
    fn an_object_includes_the_fields_of_another_and_replaces_some() {
        let schemas = components();
        let block = &schemas["CountedBlock"];
        assert_eq!(block["properties"]["logsBloom"], json!({ "type": "null" }));
        assert_eq!(block["properties"]["stateRoot"], schema_of("Hash"));
        let required = block["required"].as_array().expect("a list");
        let blooms = required.iter().filter(|name| *name == "logsBloom").count();
        assert_eq!((blooms, required.contains(&json!("baseFeePerGas"))), (1, false));
    }
}
