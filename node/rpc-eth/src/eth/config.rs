//! `eth_config` (EIP-7910) and `eth_capabilities`, which return the rules of the forks and the data that is stored.

use crate::method::{Answer, Call, json};
use alloy_eip2124::ForkHash;
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use alloy_primitives::{Address, B256, Bytes, U64};
use chain::{ChainSpec, Fork};
use rpc_types::error::Error;
use serde::Serialize;
use serde_json::{Value, json as value};
use state::stored;
use std::collections::BTreeMap;

/// The precompiles with the fork that introduced them. EIP-7910 defines the names.
const PRECOMPILES: [(Fork, &str, u64); 18] = [
    (Fork::Frontier, "ECREC", 0x01),
    (Fork::Frontier, "SHA256", 0x02),
    (Fork::Frontier, "RIPEMD160", 0x03),
    (Fork::Frontier, "ID", 0x04),
    (Fork::Byzantium, "MODEXP", 0x05),
    (Fork::Byzantium, "BN254_ADD", 0x06),
    (Fork::Byzantium, "BN254_MUL", 0x07),
    (Fork::Byzantium, "BN254_PAIRING", 0x08),
    (Fork::Istanbul, "BLAKE2F", 0x09),
    (Fork::Cancun, "KZG_POINT_EVALUATION", 0x0a),
    (Fork::Prague, "BLS12_G1ADD", 0x0b),
    (Fork::Prague, "BLS12_G1MSM", 0x0c),
    (Fork::Prague, "BLS12_G2ADD", 0x0d),
    (Fork::Prague, "BLS12_G2MSM", 0x0e),
    (Fork::Prague, "BLS12_PAIRING_CHECK", 0x0f),
    (Fork::Prague, "BLS12_MAP_FP_TO_G1", 0x10),
    (Fork::Prague, "BLS12_MAP_FP2_TO_G2", 0x11),
    (Fork::Osaka, "P256VERIFY", 0x100),
];

/// The rules that apply from an activation time.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigObject {
    activation_time: u64,
    blob_schedule: Option<Value>,
    chain_id: U64,
    fork_id: Bytes,
    precompiles: BTreeMap<&'static str, Address>,
    system_contracts: BTreeMap<&'static str, Address>,
}

pub(super) fn config(call: &Call) -> Answer {
    call.no_arguments()?;
    let (genesis, first) = stored::header(&call.view.blocks()?, 0)?;
    let spec = &call.context.spec;
    let now = call.view.head.header.timestamp;
    let times = spec.fork_times();
    let current = times.iter().rev().find(|time| **time <= now).copied().unwrap_or(0);
    let next = times.iter().find(|time| **time > now).copied();
    let last = times.last().copied().filter(|last| *last > now);
    let config = |time: u64| config_at(spec, genesis, first.timestamp, time);
    json(&value!({
        "current": config(current)?,
        "next": next.map(config).transpose()?,
        "last": last.map(config).transpose()?,
    }))
}

fn config_at(
    spec: &ChainSpec,
    genesis: B256,
    genesis_time: u64,
    time: u64,
) -> Result<Value, Error> {
    // EIP-7910 describes only forks that are activated by time, and those come after the merge.
    let fork = spec.fork(u64::MAX, time, true);
    let precompiles = PRECOMPILES.iter().filter(|(since, ..)| *since <= fork);
    let mut system_contracts = BTreeMap::new();
    if fork >= Fork::Cancun {
        system_contracts.insert("BEACON_ROOTS_ADDRESS", BEACON_ROOTS_ADDRESS);
    }
    if fork >= Fork::Prague {
        system_contracts.extend([
            ("CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS", CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS),
            ("DEPOSIT_CONTRACT_ADDRESS", spec.deposit_contract),
            ("HISTORY_STORAGE_ADDRESS", HISTORY_STORAGE_ADDRESS),
            ("WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS", WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS),
        ]);
    }
    let blob_schedule = spec.blob_params(time).map(|params| {
        value!({
            "target": params.target_blob_count,
            "max": params.max_blob_count,
            "baseFeeUpdateFraction": u64::try_from(params.update_fraction).unwrap_or(u64::MAX),
        })
    });
    let object = ConfigObject {
        activation_time: time,
        blob_schedule,
        chain_id: U64::from(spec.chain_id),
        fork_id: fork_id(spec, genesis, genesis_time, time),
        precompiles: precompiles
            .map(|(_, name, number)| (*name, Address::left_padding_from(&number.to_be_bytes())))
            .collect(),
        system_contracts,
    };
    serde_json::to_value(object).map_err(Error::internal)
}

/// Returns the fork hash of EIP-2124 and EIP-6122 at `time`, after all forks that are activated by number.
fn fork_id(spec: &ChainSpec, genesis: B256, genesis_time: u64, time: u64) -> Bytes {
    let mut hash = ForkHash::from(genesis);
    for height in spec.fork_heights() {
        hash += height;
    }
    let times = spec.fork_times();
    for fork in times.into_iter().filter(|fork| *fork > genesis_time && *fork <= time) {
        hash += fork;
    }
    Bytes::copy_from_slice(&hash.0)
}

pub(super) fn capabilities(call: &Call) -> Answer {
    call.no_arguments()?;
    let all = value!({ "disabled": false, "oldestBlock": "0x0" });
    json(&value!({
        "head": { "number": U64::from(call.view.number()), "hash": call.view.head.hash },
        "state": all, "tx": all, "logs": all, "receipts": all, "blocks": all, "stateproofs": all,
    }))
}
