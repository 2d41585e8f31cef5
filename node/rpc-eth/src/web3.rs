//! `web3_`: methods that return the version of the node, and Keccak-256 hashes.

use crate::method::{Answer, Call, Method, Run, json};
use alloy_primitives::{Bytes, keccak256};
use chain::ChainSpec;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "web3_clientVersion",
        parameters: &[],
        help: "The name, version and platform of this program.",
        run: Run::Inline(client_version),
    },
    Method {
        name: "web3_sha3",
        parameters: &["data"],
        help: "The Keccak-256 hash of the data.",
        run: Run::Inline(sha3),
    },
];

fn client_version(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&client(&call.context.spec))
}

/// Returns the name, version and platform of this program. On a development chain the text begins with `anvil`, because
/// Hardhat's network helpers refuse a node with an unknown name.
pub fn client(spec: &ChainSpec) -> String {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let name = if spec.is_development() { "anvil/evmd-v" } else { "evmd/v" };
    format!("{name}{}/{os}-{architecture}", env!("CARGO_PKG_VERSION"))
}

fn sha3(call: &Call) -> Answer {
    let data: Bytes = call.arguments()?.required()?;
    json(&keccak256(&data))
}
