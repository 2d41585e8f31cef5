//! The methods of a development chain: `evm_`, `anvil_` and `hardhat_`, with the parameters of anvil. Other chains do
//! not have them (ADR 0033).

mod accounts;
mod dump;
mod head;
mod mining;
mod node;

use alloy_primitives::B256;
use pipeline::{Develop, DevelopError, Developed, MiningControl};
use rpc_eth::{
    development::Development,
    method::{Answer, Call, Method, QueueClass, Run, json},
};
use rpc_types::error::Error;

/// The namespaces that exist on development chains only.
pub const NAMESPACES: [&str; 3] = ["evm", "anvil", "hardhat"];

const MINE: (&[&str], &str) = (
    &["count = 1", "interval = null"],
    "Produces blocks, also without transactions. Their timestamps are `interval` seconds apart.",
);
const SET_AUTOMINE: &str = "Enables or disables mining as soon as there is a transaction. If it is disabled and no interval is set, blocks are produced on request only.";
const SET_INTERVAL: &str =
    "Sets the seconds between blocks. With 0, blocks are produced on request only.";
const INCREASE_TIME: &str =
    "Moves the clock forward. Returns the seconds by which it is ahead of the machine.";
const SET_TIMESTAMP: &str =
    "Sets the timestamp of the next block. Later timestamps continue from it.";
const SNAPSHOT: &str = "Stores the head, the pool, the clock, the settings of the next block and the mining mode. Returns an id. At most 1,024 snapshots are stored.";
const REVERT: &str =
    "Returns to a snapshot, and removes it and all later ones. Returns false if it does not exist.";
const DROP: &str = "Removes a transaction from the pool. Returns its hash, or null.";
const RESET: &str = "Returns to block 0 with an empty pool. Forking a network is not supported.";
const SET_BALANCE: &str = "Sets the balance of an account, in wei, in a block of its own.";
const SET_NONCE: &str = "Sets the nonce of an account in a block of its own.";
const SET_CODE: &str = "Sets the code of an account in a block of its own.";
const SET_STORAGE: &str = "Sets a storage slot of an account in a block of its own.";
const IMPERSONATE: &str =
    "Lets eth_sendTransaction send transactions of an account without its key, also of a contract.";
const STOP_IMPERSONATING: &str = "Ends the impersonation of an account.";
const IMPERSONATE_ALL: &str = "Whether eth_sendTransaction sends transactions of every account.";
const SET_BASE_FEE: &str = "Sets the base fee of the next block, in wei.";
const SET_COINBASE: &str = "Sets the fee recipient of the next block and of those after it.";
const SET_LOGGING: &str = "Whether the terminal shows transactions, failed calls and console.log.";
const DUMP: &str = "All accounts, as hexadecimal digits of compressed JSON.";
const LOAD: &str = "Sets every account of a dump in a block of its own.";
const METADATA: &str = "Version and instance of the node, chain id and head.";

const fn method(
    name: &'static str,
    parameters: &'static [&'static str],
    help: &'static str,
    run: Run,
) -> Method {
    Method { name, parameters, help, run }
}

const MINE_RUN: Run = Run::Waiting(|call| Box::pin(mining::mine(call)));
const AUTOMINE_RUN: Run = Run::Inline(mining::set_automine);
const INTERVAL_RUN: Run = Run::Inline(mining::set_interval);
const TIME_RUN: Run = Run::Waiting(|call| Box::pin(mining::increase_time(call)));
const TIMESTAMP_RUN: Run = Run::Waiting(|call| Box::pin(mining::set_next_timestamp(call)));
const SNAPSHOT_RUN: Run = Run::Waiting(|call| Box::pin(head::snapshot(call)));
const REVERT_RUN: Run = Run::Waiting(|call| Box::pin(head::revert(call)));
const DROP_RUN: Run = Run::Waiting(|call| Box::pin(mining::drop_transaction(call)));
const BALANCE_RUN: Run = Run::Waiting(|call| Box::pin(accounts::set_balance(call)));
const NONCE_RUN: Run = Run::Waiting(|call| Box::pin(accounts::set_nonce(call)));
const CODE_RUN: Run = Run::Waiting(|call| Box::pin(accounts::set_code(call)));
const STORAGE_RUN: Run = Run::Waiting(|call| Box::pin(accounts::set_storage(call)));
const IMPERSONATE_RUN: Run = Run::Inline(accounts::impersonate);
const STOP_RUN: Run = Run::Inline(accounts::stop_impersonating);
const IMPERSONATE_ALL_RUN: Run = Run::Inline(accounts::impersonate_all);
const BASE_FEE_RUN: Run = Run::Waiting(|call| Box::pin(mining::set_next_base_fee(call)));
const COINBASE_RUN: Run = Run::Waiting(|call| Box::pin(mining::set_coinbase(call)));
const LOGGING_RUN: Run = Run::Inline(node::set_logging);
const DUMP_RUN: Run = Run::Queued(QueueClass::Long, dump::dump);
const LOAD_RUN: Run = Run::Waiting(|call| Box::pin(dump::load(call)));
const RESET_RUN: Run = Run::Waiting(|call| Box::pin(head::reset(call)));

/// The methods of `evm`.
pub const EVM: &[Method] = &[
    method(
        "evm_mine",
        &["timestamp = null"],
        "Produces a block, also without transactions, with this timestamp if it is given. An object can name `timestamp` and `blocks`.",
        Run::Waiting(|call| Box::pin(mining::evm_mine(call))),
    ),
    method("evm_setAutomine", &["enabled"], SET_AUTOMINE, AUTOMINE_RUN),
    method("evm_setIntervalMining", &["seconds"], SET_INTERVAL, INTERVAL_RUN),
    method("evm_increaseTime", &["seconds"], INCREASE_TIME, TIME_RUN),
    method("evm_setNextBlockTimestamp", &["timestamp"], SET_TIMESTAMP, TIMESTAMP_RUN),
    method("evm_snapshot", &[], SNAPSHOT, SNAPSHOT_RUN),
    method("evm_revert", &["id"], REVERT, REVERT_RUN),
    method("evm_setAccountBalance", &["address", "balance"], SET_BALANCE, BALANCE_RUN),
    method("evm_setAccountNonce", &["address", "nonce"], SET_NONCE, NONCE_RUN),
    method("evm_setAccountCode", &["address", "code"], SET_CODE, CODE_RUN),
    method("evm_setAccountStorageAt", &["address", "slot", "value"], SET_STORAGE, STORAGE_RUN),
];

/// The methods of `anvil`.
pub const ANVIL: &[Method] = &[
    method("anvil_mine", MINE.0, MINE.1, MINE_RUN),
    method("anvil_setAutomine", &["enabled"], SET_AUTOMINE, AUTOMINE_RUN),
    method(
        "anvil_getAutomine",
        &[],
        "Returns whether a block is mined as soon as there is a transaction.",
        Run::Inline(mining::get_automine),
    ),
    method("anvil_setIntervalMining", &["seconds"], SET_INTERVAL, INTERVAL_RUN),
    method(
        "anvil_getIntervalMining",
        &[],
        "Seconds between blocks, or null.",
        Run::Inline(mining::get_interval),
    ),
    method("anvil_increaseTime", &["seconds"], INCREASE_TIME, TIME_RUN),
    method("anvil_setNextBlockTimestamp", &["timestamp"], SET_TIMESTAMP, TIMESTAMP_RUN),
    method(
        "anvil_setBlockTimestampInterval",
        &["seconds"],
        "Sets the seconds from each block to the next, whatever the clock says.",
        Run::Waiting(|call| Box::pin(mining::set_timestamp_interval(call))),
    ),
    method(
        "anvil_removeBlockTimestampInterval",
        &[],
        "Lets the clock decide on timestamps again. Returns whether an interval was set.",
        Run::Waiting(|call| Box::pin(mining::remove_timestamp_interval(call))),
    ),
    method("anvil_setLoggingEnabled", &["enabled"], SET_LOGGING, LOGGING_RUN),
    method("anvil_snapshot", &[], SNAPSHOT, SNAPSHOT_RUN),
    method("anvil_revert", &["id"], REVERT, REVERT_RUN),
    method("anvil_setBalance", &["address", "balance"], SET_BALANCE, BALANCE_RUN),
    method("anvil_setNonce", &["address", "nonce"], SET_NONCE, NONCE_RUN),
    method("anvil_setCode", &["address", "code"], SET_CODE, CODE_RUN),
    method("anvil_setStorageAt", &["address", "slot", "value"], SET_STORAGE, STORAGE_RUN),
    method("anvil_impersonateAccount", &["address"], IMPERSONATE, IMPERSONATE_RUN),
    method("anvil_stopImpersonatingAccount", &["address"], STOP_IMPERSONATING, STOP_RUN),
    method("anvil_autoImpersonateAccount", &["enabled"], IMPERSONATE_ALL, IMPERSONATE_ALL_RUN),
    method("anvil_setNextBlockBaseFeePerGas", &["baseFee"], SET_BASE_FEE, BASE_FEE_RUN),
    method("anvil_setCoinbase", &["address"], SET_COINBASE, COINBASE_RUN),
    method("anvil_dumpState", &["historical = false"], DUMP, DUMP_RUN),
    method("anvil_loadState", &["dump"], LOAD, LOAD_RUN),
    method("anvil_dropTransaction", &["hash"], DROP, DROP_RUN),
    method("anvil_reset", &["forking = null"], RESET, RESET_RUN),
    method("anvil_metadata", &[], METADATA, Run::Inline(node::metadata)),
    method(
        "anvil_nodeInfo",
        &[],
        "The head, the environment of the next block, and the hard fork.",
        Run::Inline(node::node_info),
    ),
];

/// The methods of `hardhat`.
pub const HARDHAT: &[Method] = &[
    method("hardhat_mine", MINE.0, MINE.1, MINE_RUN),
    method(
        "hardhat_getAutomine",
        &[],
        "Returns whether a block is mined as soon as there is a transaction.",
        Run::Inline(mining::get_automine),
    ),
    method("hardhat_setLoggingEnabled", &["enabled"], SET_LOGGING, LOGGING_RUN),
    method("hardhat_setBalance", &["address", "balance"], SET_BALANCE, BALANCE_RUN),
    method("hardhat_setNonce", &["address", "nonce"], SET_NONCE, NONCE_RUN),
    method("hardhat_setCode", &["address", "code"], SET_CODE, CODE_RUN),
    method("hardhat_setStorageAt", &["address", "slot", "value"], SET_STORAGE, STORAGE_RUN),
    method("hardhat_impersonateAccount", &["address"], IMPERSONATE, IMPERSONATE_RUN),
    method("hardhat_stopImpersonatingAccount", &["address"], STOP_IMPERSONATING, STOP_RUN),
    method("hardhat_autoImpersonateAccount", &["enabled"], IMPERSONATE_ALL, IMPERSONATE_ALL_RUN),
    method("hardhat_setNextBlockBaseFeePerGas", &["baseFee"], SET_BASE_FEE, BASE_FEE_RUN),
    method("hardhat_setCoinbase", &["address"], SET_COINBASE, COINBASE_RUN),
    method("hardhat_dumpState", &["historical = false"], DUMP, DUMP_RUN),
    method("hardhat_loadState", &["dump"], LOAD, LOAD_RUN),
    method(
        "hardhat_setPrevRandao",
        &["hash"],
        "Sets the random value of the next block (EIP-4399).",
        Run::Waiting(|call| Box::pin(mining::set_prev_randao(call))),
    ),
    method(
        "hardhat_dropTransaction",
        &["hash"],
        "Removes a transaction from the pool. Returns whether it was there.",
        Run::Waiting(|call| Box::pin(mining::hardhat_drop_transaction(call))),
    ),
    method("hardhat_reset", &["forking = null"], RESET, RESET_RUN),
    method("hardhat_metadata", &[], METADATA, Run::Inline(node::metadata)),
];

/// Returns the state that clients of a development chain control, or an error on another chain.
fn development(call: &Call) -> Result<&Development, Error> {
    let missing =
        || Error::server("this is not a development chain: create one with `evmd init --dev`");
    call.context.development.as_deref().ok_or_else(missing)
}

/// Returns the control of block production, or an error if this is not a development chain that produces blocks.
fn mining(call: &Call) -> Result<&MiningControl, Error> {
    development(call)?;
    call.context
        .mining
        .as_ref()
        .ok_or_else(|| DevelopError::NoProduction.to_string())
        .map_err(Error::server)
}

/// Sends a request to the stage that proposes blocks.
async fn develop(call: &Call, request: Develop) -> Result<Developed, Error> {
    development(call)?;
    let developed = call.context.pool.develop(request).await;
    developed.map_err(|error| Error::server(error.to_string()))
}
