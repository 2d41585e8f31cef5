//! Returns information about the node, and switches the logging of calls.

use super::{Answer, Call, accounts::done, development, json};
use alloy_primitives::U64;
use rpc_eth::web3;
use serde_json::json;
use std::sync::atomic::Ordering;

pub(super) fn metadata(call: &Call) -> Answer {
    call.no_arguments()?;
    development(call)?;
    let view = &call.view;
    // The genesis hash identifies the chain, also after a restart.
    let instance = view.blocks()?.hash(0)?;
    json(&json!({
        "clientVersion": web3::client(&call.context.spec),
        "chainId": call.context.spec.chain_id,
        "instanceId": instance,
        "latestBlockNumber": view.number(),
        "latestBlockHash": view.head.hash,
        "forkedNetwork": null,
        "snapshots": {},
    }))
}

pub(super) fn set_logging(call: &Call) -> Answer {
    let enabled: bool = call.arguments()?.required()?;
    development(call)?.shown.store(enabled, Ordering::Relaxed);
    done(call)
}

pub(super) fn node_info(call: &Call) -> Answer {
    call.no_arguments()?;
    development(call)?;
    let view = &call.view;
    let head = &view.head.header;
    let fork = call.context.spec.fork_after(head, head.timestamp);
    json(&json!({
        "currentBlockNumber": U64::from(view.number()),
        "currentBlockTimestamp": head.timestamp,
        "currentBlockHash": view.head.hash,
        "hardFork": format!("{fork:?}").to_lowercase(),
        "transactionOrder": "fees",
        "environment": {
            "baseFee": U64::from(call.next_base_fee()),
            "chainId": call.context.spec.chain_id,
            "gasLimit": U64::from(head.gas_limit),
            "gasPrice": U64::from(call.next_base_fee()),
        },
        "forkConfig": { "forkUrl": null, "forkBlockNumber": null, "forkRetryBackoff": null },
    }))
}
