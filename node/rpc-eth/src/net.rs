//! `net_` and `rpc_`: methods that return information about the node.

use crate::method::{Answer, Call, Method, Run, json};
use alloy_primitives::U64;
use std::collections::BTreeMap;

/// The version of every namespace.
const NAMESPACE_VERSION: &str = "1.0";

/// The methods of the namespaces.
pub const METHODS: &[Method] = &[
    Method {
        name: "net_version",
        parameters: &[],
        help: "The network ID, which equals the chain ID, as a decimal string.",
        run: Run::Inline(version),
    },
    Method {
        name: "net_listening",
        parameters: &[],
        help: "Always true.",
        run: Run::Inline(listening),
    },
    Method {
        name: "net_peerCount",
        parameters: &[],
        help: "Always zero. Connections between validators and to replicas do not count.",
        run: Run::Inline(peer_count),
    },
    Method {
        name: "rpc_modules",
        parameters: &[],
        help: "The enabled namespaces with their versions.",
        run: Run::Inline(modules),
    },
];

fn version(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.context.spec.chain_id.to_string())
}

fn listening(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&true)
}

fn peer_count(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U64::ZERO)
}

fn modules(call: &Call) -> Answer {
    call.no_arguments()?;
    let namespaces = call.caller.api.iter();
    let versions: BTreeMap<_, _> = namespaces.map(|name| (name, NAMESPACE_VERSION)).collect();
    json(&versions)
}
