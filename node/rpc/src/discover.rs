//! Creates the result of `rpc.discover`, an OpenRPC document of the enabled methods, from the table of methods. The
//! schema of a parameter depends only on its name, which has the same meaning in all methods. The schemas of results
//! are in separate tables.

mod results;
mod schemas;

use rpc_eth::method::Method;
use serde::Serialize;
use serde_json::{Value, json as value, value::RawValue};
use std::sync::LazyLock;

/// The document for one endpoint.
#[derive(Serialize)]
pub(crate) struct Document {
    openrpc: &'static str,
    info: Value,
    methods: Vec<Value>,
    components: Components,
}

#[derive(Serialize)]
struct Components {
    schemas: &'static RawValue,
}

/// The schemas, serialised once. They are most of the document, and the same for all endpoints.
static SCHEMAS: LazyLock<Box<RawValue>> = LazyLock::new(|| {
    serde_json::value::to_raw_value(&schemas::components()).expect("a value serialises")
});

impl Document {
    /// Creates the document for an endpoint that serves these methods.
    pub(crate) fn of(served: impl Iterator<Item = &'static Method>) -> Self {
        Self {
            openrpc: "1.2.6",
            info: value!({ "title": "evmd", "version": env!("CARGO_PKG_VERSION") }),
            methods: served.map(describe).collect(),
            components: Components { schemas: &SCHEMAS },
        }
    }
}

fn describe(method: &Method) -> Value {
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, default) = name_and_default(parameter);
        let schema = schema(name).unwrap_or_else(|| value!({}));
        let mut described =
            value!({ "name": name, "required": default.is_none(), "schema": schema });
        if let Some(default) = default {
            described["summary"] = value!(format!("by default {default}"));
        }
        described
    });
    let result = results::result_of(method.name).map_or_else(|| value!({}), schemas::schema_of);
    value!({
        "name": method.name,
        "summary": method.help,
        "paramStructure": "by-position",
        "params": parameters.collect::<Vec<_>>(),
        "result": { "name": "result", "schema": result },
    })
}

/// Splits a parameter in the table of methods into its name and its default.
fn name_and_default(parameter: &str) -> (&str, Option<&str>) {
    match parameter.split_once(" = ") {
        Some((name, default)) => (name, Some(default)),
        None => (parameter, None),
    }
}

/// Returns the JSON schema of the parameters with this name.
fn schema(name: &str) -> Option<Value> {
    let pattern = |pattern: &str| value!({ "type": "string", "pattern": pattern });
    Some(match name {
        "enabled" | "historical" => value!({ "type": "boolean" }),
        "forking" => value!({ "type": "object" }),
        "address" | "passphrase" | "key" => value!({ "type": "string" }),
        "data" | "code" | "dump" | "rlp" | "signature" | "extraData" | "startKey" => {
            pattern("^0[xX]([0-9a-fA-F]{2})*$")
        }
        "hash" | "parent" | "startHash" | "endHash" => pattern("^0[xX][0-9a-fA-F]{64}$"),
        "slot" => pattern("^0[xX][0-9a-fA-F]{0,64}$"),
        "index" | "id" => pattern("^0[xX](0|[1-9a-fA-F][0-9a-fA-F]*)$"),
        // A tag, a number, a hash, or an object as defined in EIP-1898.
        "block" | "newest" | "from" | "to" => value!({ "type": ["string", "integer", "object"] }),
        // A quantity, or a JSON number for parameters that clients are known to send in this form.
        "nonce" | "balance" | "value" | "baseFee" | "count" | "timestamp" | "interval"
        | "timeout" | "seconds" | "page" | "pageSize" | "bound" | "bucketBlocks" | "start"
        | "end" | "limit" | "txIndex" => {
            value!({ "type": ["string", "integer"] })
        }
        "full" | "noCode" | "noStorage" | "incompletes" => value!({ "type": "boolean" }),
        "transaction" | "filter" | "options" | "stateOverrides" | "blockOverrides"
        | "attributes" | "payload" | "stateContext" | "slots by address" => {
            value!({ "type": "object" })
        }
        "typedData" => value!({ "type": ["string", "object"] }),
        "slots" | "transactions" => value!({ "type": "array", "items": { "type": "string" } }),
        "percentiles" => value!({ "type": "array", "items": { "type": "number" } }),
        "traceAddress" => value!({ "type": "array", "items": { "type": ["string", "integer"] } }),
        "calls" => value!({ "type": "array", "items": { "type": "array" } }),
        "bundles" => value!({ "type": "array", "items": { "type": "object" } }),
        "types" => {
            let names = ["trace", "vmTrace", "stateDiff"];
            value!({ "type": "array", "items": { "type": "string", "enum": names } })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::methods;
    use std::collections::BTreeSet;

    #[test]
    fn every_parameter_has_a_schema() {
        for method in methods() {
            for parameter in method.parameters {
                let (name, _) = name_and_default(parameter);
                assert!(schema(name).is_some(), "{}: {name}", method.name);
            }
        }
    }

    #[test]
    fn the_document_has_every_method_once_and_what_openrpc_requires() {
        let document = serde_json::to_value(Document::of(methods())).expect("it serialises");
        let listed = document["methods"].as_array().expect("a list");
        let names: BTreeSet<_> =
            listed.iter().filter_map(|method| method["name"].as_str()).collect();
        let known: BTreeSet<_> = methods().map(|method| method.name).collect();
        assert_eq!((names, listed.len()), (known, methods().count()));
        for method in listed {
            let parameters = method["params"].as_array().expect("a list");
            // Optional parameters come last.
            let required = parameters.iter().map(|parameter| parameter["required"] == true);
            assert!(required.is_sorted_by(|a, b| a >= b), "{method}");
            let names: BTreeSet<_> = parameters.iter().map(|p| p["name"].as_str()).collect();
            assert_eq!(names.len(), parameters.len(), "{method}");
            assert!(method["result"]["name"].is_string());
            let result = method["result"]["schema"].as_object().expect("a schema");
            assert!(!result.is_empty(), "{method}");
        }
    }
}
