//! `rpc_discover`: the methods served, as an OpenRPC document.

use super::method::{Answer, Call, Method, json, methods};
use serde_json::{Value, json as value};

pub(super) fn discover(call: &Call) -> Answer {
    call.no_arguments()?;
    let served = methods()
        .filter(|method| call.client.endpoint.api.iter().any(|name| name == method.namespace()));
    json(&value!({
        "openrpc": "1.2.6",
        "info": { "title": "evmd", "version": env!("CARGO_PKG_VERSION") },
        "methods": served.map(describe).collect::<Vec<_>>(),
    }))
}

fn describe(method: &Method) -> Value {
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, default) = match parameter.split_once(" = ") {
            Some((name, default)) => (name, Some(default)),
            None => (*parameter, None),
        };
        let mut described = value!({ "name": name, "required": default.is_none(), "schema": {} });
        if let Some(default) = default {
            described["summary"] = value!(format!("by default {default}"));
        }
        described
    });
    value!({
        "name": method.name,
        "summary": method.help,
        "params": parameters.collect::<Vec<_>>(),
        "result": { "name": "result", "schema": {} },
    })
}
