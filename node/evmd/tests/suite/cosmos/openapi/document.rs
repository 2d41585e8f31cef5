//! Reads the OpenAPI document, and validates responses against it.

use super::super::golden::matches;
use boon::{Compiler, Schemas};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The URL of the document for the schema compiler.
const URL: &str = "http://localhost/openapi.json";

/// An operation of the document.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) verb: String,
    pub(super) template: String,
    description: Value,
}

impl Operation {
    /// Returns whether the document contains a response of this operation with this status.
    pub(super) fn documents(&self, status: u16) -> bool {
        !self.description["responses"][status.to_string()].is_null()
    }

    /// Returns whether this is a query, which has a recorded response. The other operations return files, or are
    /// not served.
    pub(super) fn is_query(&self) -> bool {
        self.documents(200) && self.documents(500)
    }

    pub(super) fn parameters<'a>(&'a self, location: &'a str) -> impl Iterator<Item = &'a Value> {
        let all = self.description["parameters"].as_array().into_iter().flatten();
        all.filter(move |parameter| parameter["in"] == location)
    }

    /// Returns the path with each parameter replaced by its first value in `values`, or by 1 if there is none.
    pub(super) fn filled(&self, values: &[(&str, &str)]) -> String {
        let parts = self.template.split('/').map(|part| {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            let Some(name) = name else { return part };
            values.iter().find(|(known, _)| *known == name).map_or("1", |(_, value)| value)
        });
        parts.collect::<Vec<_>>().join("/")
    }

    /// Returns the JSON pointer of a part of the operation.
    fn pointer(&self, parts: &[&str]) -> String {
        let parts = [&["paths", &self.template, &self.verb], parts].concat();
        let escaped = parts.iter().map(|part| {
            let part = part.replace('~', "~0").replace('/', "~1");
            format!("/{}", part.replace('{', "%7B").replace('}', "%7D"))
        });
        escaped.collect()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.template)
    }
}

/// Validates responses, and records statuses and violations.
pub(super) struct Checker {
    document: Value,
    compiler: Compiler,
    schemas: Schemas,
    seen: BTreeMap<String, BTreeSet<u16>>,
    violations: Vec<String>,
}

impl Checker {
    pub(super) fn new(document: Value) -> Self {
        let mut compiler = Compiler::new();
        compiler.enable_format_assertions();
        compiler.enable_content_assertions();
        compiler.add_resource(URL, document.clone()).unwrap();
        Self {
            document,
            compiler,
            schemas: Schemas::new(),
            seen: BTreeMap::new(),
            violations: Vec::new(),
        }
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        let paths = self.document["paths"].as_object().unwrap();
        let operations = paths.iter().flat_map(|(template, item)| {
            item.as_object().unwrap().iter().map(|(verb, description)| Operation {
                verb: verb.clone(),
                template: template.clone(),
                description: description.clone(),
            })
        });
        operations.collect()
    }

    /// Returns the operation for a request. A path without parameters takes precedence.
    pub(super) fn operation(&self, verb: &str, target: &str) -> Option<Operation> {
        let path = target.split('?').next().unwrap();
        let mut found = self.operations();
        found.retain(|op| op.verb.eq_ignore_ascii_case(verb) && matches(path, &op.template));
        found.into_iter().min_by_key(|op| op.template.contains('{'))
    }

    /// Returns the statuses with which an operation has responded.
    pub(super) fn seen(&self, operation: &Operation) -> BTreeSet<u16> {
        self.seen.get(&format!("{operation:?}")).cloned().unwrap_or_default()
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Returns the names of the fields in the body of a request.
    pub(super) fn request_fields(&self, operation: &Operation) -> Vec<String> {
        let body = &operation.description["requestBody"]["content"]["application/json"]["schema"];
        let pointer = body["$ref"].as_str().unwrap().trim_start_matches('#');
        let schema = self.document.pointer(pointer).unwrap();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    /// Validates the body of an accepted request.
    pub(super) fn check_request(&mut self, operation: &Operation, body: &str) {
        let schema = operation.pointer(&["requestBody", "content", "application/json", "schema"]);
        self.validate(&schema, body, &format!("request {operation:?}"));
    }

    /// Validates status, content type and body of a response.
    pub(super) fn check(
        &mut self,
        operation: &Operation,
        request: &str,
        status: u16,
        head: &str,
        body: &str,
    ) {
        self.seen.entry(format!("{operation:?}")).or_default().insert(status);
        if !operation.documents(status) {
            self.violations.push(format!("{request}: {status} is not documented: {body}"));
            return;
        }
        let response = self.response(operation, status);
        let none = Map::new();
        // Braces are escaped in a URL, but not in a pointer into a value.
        let plain = response.replace("%7B", "{").replace("%7D", "}");
        let content = &self.document.pointer(&plain).unwrap()["content"];
        let content = content.as_object().unwrap_or(&none);
        let kind = header(head, "content-type").unwrap_or_default();
        if content.is_empty() && kind.is_empty() && body.is_empty() {
            return;
        }
        if !content.contains_key(kind) {
            self.violations.push(format!("{request}: {status} with a body of {kind:?}"));
        } else if kind == "application/json" {
            let schema = format!("{response}/content/application~1json/schema");
            self.validate(&schema, body, request);
        }
    }

    /// Returns the JSON pointer of a response, which may be a reference.
    fn response(&self, operation: &Operation, status: u16) -> String {
        let status = status.to_string();
        match operation.description["responses"][&status]["$ref"].as_str() {
            Some(reference) => reference.trim_start_matches('#').to_owned(),
            None => operation.pointer(&["responses", &status]),
        }
    }

    fn validate(&mut self, schema: &str, body: &str, request: &str) {
        let index = self.compiler.compile(&format!("{URL}#{schema}"), &mut self.schemas);
        let index = index.unwrap_or_else(|error| panic!("{schema}: {error:#}"));
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            self.violations.push(format!("{request}: the body is not JSON: {body}"));
            return;
        };
        if let Err(error) = self.schemas.validate(&value, index) {
            self.violations.push(format!("{request}: {error:#}\n{body}"));
        }
    }
}

/// Returns the value of a header.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}
