//! The description of all paths (`OpenAPI` 3.1), made of the routes and the definitions, comments
//! included, so that it cannot say anything else than what is served.

use super::{
    gateway::Gateway,
    json::Mark,
    route::{ROUTES, Route, Verb},
};
use prost_reflect::{FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Says what is served.
pub(super) fn describe(gateway: &Gateway) -> Value {
    let mut schemas = Schemas { gateway, known: BTreeMap::new() };
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        for path in route.paths() {
            let verb = match route.verb {
                Verb::Get => "get",
                Verb::Post => "post",
            };
            let operation = schemas.operation(route, &path);
            let entry = paths.entry(path).or_insert_with(|| json!({}));
            entry[verb] = operation;
        }
    }
    let mut components: Map<String, Value> = schemas.known.into_iter().collect();
    components.insert("Error".to_owned(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "evmd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Queries of the Cosmos interfaces. Addresses are read as hex or Bech32. \
                            The header x-cosmos-block-height chooses the block.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": components },
    })
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed.",
        "properties": {
            "code": { "type": "integer", "description": "gRPC's number." },
            "message": { "type": "string" },
            "details": { "type": "array", "items": {} },
        },
        "required": ["code", "message", "details"],
    })
}

/// Schemas of messages, by their full names.
struct Schemas<'a> {
    gateway: &'a Gateway,
    known: BTreeMap<String, Value>,
}

impl Schemas<'_> {
    fn operation(&mut self, route: &Route, path: &str) -> Value {
        let method = self.gateway.method(route.method);
        let service = method.parent_service();
        let summary = comment(&service.parent_file(), method.path());
        let id: String = path.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        let failed = |what: &str| {
            json!({
                "description": what,
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Error" },
                } },
            })
        };
        let output = self.message(&method.output());
        let mut operation = json!({
            "operationId": format!("{}{}", id.trim_matches('_'), route.verb.suffix()),
            "tags": [service.package_name()],
            "summary": summary,
            "responses": {
                "200": {
                    "description": "The answer.",
                    "content": { "application/json": { "schema": output } },
                },
                "400": failed("The request makes no sense."),
                "404": failed("There is no such thing."),
                "default": failed("Any other failure."),
            },
        });
        match route.verb {
            Verb::Post => {
                let schema = self.message(&method.input());
                operation["requestBody"] = json!({
                    "required": true,
                    "content": { "application/json": { "schema": schema } },
                });
            }
            Verb::Get => {
                let mut parameters = Vec::new();
                self.parameters(route.path, &method.input(), "", &mut parameters);
                parameters.push(json!({
                    "name": crate::grpc::HEIGHT_HEADER,
                    "in": "header",
                    "description": "The block to answer as of; the newest without it.",
                    "schema": { "type": "string", "pattern": "^[0-9]{1,18}$" },
                }));
                operation["parameters"] = parameters.into();
            }
        }
        operation
    }

    /// The fields of a request: in the path if it names them, else after `?`.
    fn parameters(
        &mut self,
        path: &str,
        message: &MessageDescriptor,
        prefix: &str,
        parameters: &mut Vec<Value>,
    ) {
        for field in message.fields() {
            let name = format!("{prefix}{}", field.name());
            if let Kind::Message(inner) = field.kind() {
                self.parameters(path, &inner, &format!("{name}."), parameters);
                continue;
            }
            let in_path = path.contains(&format!("{{{name}}}"));
            parameters.push(json!({
                "name": name,
                "in": if in_path { "path" } else { "query" },
                "required": in_path,
                "description": comment(&field.parent_file(), field.path()),
                "schema": parameter_schema(&field, in_path),
            }));
        }
    }

    /// A reference to a message's schema, which is made on the first.
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.full_name();
        match name {
            "google.protobuf.Any" => {
                return json!({
                    "type": "object",
                    "properties": { "@type": { "type": "string" } },
                    "required": ["@type"],
                });
            }
            "google.protobuf.Timestamp" => {
                return json!({ "type": "string", "format": "date-time" });
            }
            "google.protobuf.Duration" => {
                return json!({ "type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?s$" });
            }
            _ => {}
        }
        if !self.known.contains_key(name) {
            // Taken first, should a message ever hold itself.
            self.known.insert(name.to_owned(), Value::Null);
            let mut properties = Map::new();
            for field in message.fields() {
                properties.insert(field.name().to_owned(), self.field(&field));
            }
            let mut schema = json!({ "type": "object", "properties": properties });
            if let Some(text) = comment(&message.parent_file(), message.path()) {
                schema["description"] = text.into();
            }
            self.known.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = match field.kind() {
            Kind::Message(inner) if field.is_list() => self.message(&inner),
            Kind::Message(inner) => json!({ "anyOf": [self.message(&inner), { "type": "null" }] }),
            _ => self.scalar(field),
        };
        if field.is_list() {
            schema = json!({ "type": "array", "items": schema });
        }
        if let Some(text) = comment(&field.parent_file(), field.path()) {
            schema["description"] = text.into();
        }
        schema
    }

    fn scalar(&self, field: &FieldDescriptor) -> Value {
        match (field.kind(), self.gateway.definitions.mark(field)) {
            (_, Some(Mark::Decimal)) => {
                json!({ "type": "string", "pattern": "^-?[0-9]+\\.[0-9]{18}$" })
            }
            (_, Some(Mark::Hex)) => json!({ "type": "string", "pattern": "^0x([0-9a-f]{2})*$" }),
            (Kind::Bytes, _) => json!({ "type": "string", "contentEncoding": "base64" }),
            (Kind::Enum(kind), _) => {
                let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
                json!({ "type": "string", "enum": names })
            }
            (Kind::Bool, _) => json!({ "type": "boolean" }),
            (Kind::Int32, _) => {
                json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
            }
            (Kind::Uint32, _) => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            (Kind::Uint64, _) => json!({ "type": "string", "pattern": "^[0-9]+$" }),
            (Kind::Int64, _) => json!({ "type": "string", "pattern": "^-?[0-9]+$" }),
            _ => json!({ "type": "string" }),
        }
    }
}

/// A parameter is text whatever it holds; one that is a list is there once for each of its items.
fn parameter_schema(field: &FieldDescriptor, in_path: bool) -> Value {
    let schema = item_schema(field, in_path);
    if field.is_list() { json!({ "type": "array", "items": schema }) } else { schema }
}

fn item_schema(field: &FieldDescriptor, in_path: bool) -> Value {
    match field.kind() {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Uint32 => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Kind::Uint64 => json!({ "type": "integer", "minimum": 0 }),
        Kind::Int64 => json!({ "type": "integer" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Enum(kind) => {
            let names: Vec<_> = kind.values().map(|value| value.name().to_owned()).collect();
            json!({ "type": "string", "enum": names })
        }
        _ if in_path => json!({ "type": "string", "minLength": 1 }),
        _ => json!({ "type": "string" }),
    }
}

/// The comment before a definition.
fn comment(file: &FileDescriptor, path: &[i32]) -> Option<String> {
    let info = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = info.location.iter().find(|location| location.path == path)?;
    let text = location.leading_comments.as_deref()?;
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    Some(lines.join(" ").trim().to_owned())
}
