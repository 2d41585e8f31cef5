//! Generates the OpenAPI 3.1 document of all paths from the tables of routes and the protobuf definitions with their
//! comments. One test compares the document with the served paths, and another validates responses against it.

mod failures;
mod parameters;
mod schemas;

use super::{
    GATEWAY_HEIGHT_HEADER, OPENAPI_PATH,
    gateway::Gateway,
    route::{NOT_SERVED, ROUTES, Route, Verb, style_of},
    swagger,
};
use failures::{COMMON_STATUSES, response_references, statuses};
use parameters::{HEIGHT, height_parameter, parameters, path_parameters};
use prost_reflect::{FileDescriptor, MethodDescriptor};
use schemas::{Form, Schemas};
use serde_json::{Map, Value, json};

/// The tag of operations that are not queries.
const DOCUMENTS: &str = "documents";

/// Returns the text of the OpenAPI document. The paths of the SDK come first, because most readers look for them.
pub(super) fn text(gateway: &Gateway) -> String {
    let Value::Object(document) = describe(gateway) else { unreachable!("document is an object") };
    let member = |(name, value): (&String, &Value)| format!("{}:{value}", json!(name));
    let members = document.iter().map(|(name, value)| match value {
        Value::Object(paths) if name == "paths" => {
            let is_sdk = |(path, _): &(&String, &Value)| path.starts_with("/cosmos/");
            let (first, others): (Vec<_>, Vec<_>) = paths.iter().partition(is_sdk);
            let paths: Vec<_> = first.into_iter().chain(others).map(member).collect();
            format!("{}:{{{}}}", json!(name), paths.join(","))
        }
        _ => member((name, value)),
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// Returns the OpenAPI document.
pub(super) fn describe(gateway: &Gateway) -> Value {
    let mut operations = Operations::default();
    let mut schemas = Schemas::new(&gateway.descriptors);
    for route in ROUTES {
        for path in route.paths() {
            operations.add(&path, route.verb, query(gateway, &mut schemas, route, &path));
        }
    }
    for (verb, path) in NOT_SERVED {
        operations.add(path, *verb, not_served(path));
    }
    operations.add(OPENAPI_PATH, Verb::Get, document("application/json", "This document."));
    for (path, media_type) in swagger::pages() {
        let page = media_type.map_or_else(redirect, |kind| document(kind, "A file of Swagger UI."));
        operations.add(path, Verb::Get, page);
    }
    let mut schemas = schemas.into_components();
    schemas.insert("Error".to_owned(), failures::error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "evmd",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Queries of the Cosmos interfaces. Addresses are accepted as hex or Bech32. \
                            The header x-cosmos-block-height selects the block. Responses under /cosmos/ have \
                            the format of the SDK. Under /chain/ a decimal is a string of the value times 10^18, \
                            and every integer is a number.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": operations.paths,
        "components": {
            "parameters": { (HEIGHT): height_parameter() },
            "responses": failures::components(),
            "schemas": schemas,
        },
    })
}

/// The operations by their paths.
#[derive(Default)]
struct Operations {
    paths: Map<String, Value>,
}

impl Operations {
    /// Adds an operation, whose id is derived from its path.
    fn add(&mut self, path: &str, verb: Verb, mut operation: Value) {
        let id: String = path.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
        // `/swagger` and `/swagger/` are two paths.
        let end = if path.ends_with('/') { "_index" } else { "" };
        let id = format!("{}{end}{}", id.trim_matches('_'), verb.suffix());
        operation["operationId"] = id.into();
        let item = self.paths.entry(path).or_insert_with(|| json!({}));
        item[verb.name()] = operation;
    }
}

/// Returns the operation of a query.
fn query(gateway: &Gateway, schemas: &mut Schemas<'_>, route: &Route, path: &str) -> Value {
    let method = gateway.method(route.method);
    let service = method.parent_service();
    let mut responses = response_references(statuses(route));
    responses.insert("200".to_owned(), success(gateway, schemas, route, path));
    let mut operation = json!({
        "tags": [service.package_name()],
        "responses": responses,
    });
    if let Some(summary) = comment(&service.parent_file(), method.path()) {
        operation["summary"] = summary.into();
    }
    match route.verb {
        Verb::Post => operation["requestBody"] = body(schemas, &method),
        Verb::Get => {
            let mut list = parameters(route.path, &method.input());
            list.push(json!({ "$ref": format!("#/components/parameters/{HEIGHT}") }));
            operation["parameters"] = list.into();
        }
    }
    operation
}

/// Returns the response to a successful query.
fn success(gateway: &Gateway, schemas: &mut Schemas<'_>, route: &Route, path: &str) -> Value {
    let outputs = route.methods().map(|method| {
        let output = gateway.method(method).output();
        let form = match output.name() {
            // The content of a decoded transaction comes from the client.
            "TxDecodeResponse" => Form::Decoded,
            _ => Form::Response(style_of(path)),
        };
        schemas.message(&output, form)
    });
    let mut outputs: Vec<_> = outputs.collect();
    let schema = match outputs.len() {
        1 => outputs.remove(0),
        _ => json!({ "oneOf": outputs }),
    };
    let height = json!({
        "description": "The block that the response describes.",
        "schema": { "type": "string", "pattern": "^[0-9]+$" },
    });
    json!({
        "description": "The query succeeded.",
        "headers": { (crate::grpc::HEIGHT_HEADER): height, (GATEWAY_HEIGHT_HEADER): height },
        "content": { "application/json": { "schema": schema } },
    })
}

fn body(schemas: &mut Schemas<'_>, method: &MethodDescriptor) -> Value {
    let schema = schemas.message(&method.input(), Form::Request);
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

/// Returns the operation of an SDK path that is not served.
fn not_served(path: &str) -> Value {
    json!({
        "tags": ["not served"],
        "summary": "A query of the SDK that this node does not serve.",
        "parameters": path_parameters(path),
        "responses": response_references(COMMON_STATUSES),
    })
}

/// Returns the operation of a file.
fn document(media_type: &str, summary: &str) -> Value {
    let mut responses = response_references(COMMON_STATUSES);
    let schema = match media_type {
        "application/json" => json!({ "type": "object" }),
        _ => json!({ "type": "string" }),
    };
    let whole = json!({
        "description": "The file.",
        "content": { media_type: { "schema": schema } },
    });
    responses.insert("200".to_owned(), whole);
    json!({ "tags": [DOCUMENTS], "summary": summary, "responses": responses })
}

/// Returns the operation of a redirect to the start page.
fn redirect() -> Value {
    let mut responses = response_references(COMMON_STATUSES);
    responses.insert("308".to_owned(), json!({ "description": "Swagger UI is at /swagger/." }));
    json!({
        "tags": [DOCUMENTS],
        "summary": "Redirects to Swagger UI.",
        "responses": responses,
    })
}

/// Returns the comment before a protobuf definition.
fn comment(file: &FileDescriptor, path: &[i32]) -> Option<String> {
    let info = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = info.location.iter().find(|location| location.path == path)?;
    let text = location.leading_comments.as_deref()?;
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    Some(lines.join(" ").trim().to_owned())
}
