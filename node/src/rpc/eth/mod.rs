//! `eth_`: the chain, its state, prices, execution, sending.

mod blocks;
mod call;
mod fees;
mod logs;
mod revert;
mod state;
mod transactions;

pub(super) use revert::revert_reason;

use super::method::{Answer, Call, Method, Run, json};
use alloy_primitives::{Address, U64};

const BLOCK: &str = "block = latest";

pub(super) const METHODS: &[Method] = &[
    method("eth_chainId", &[], "The chain id of EIP-155.", Run::Inline(chain_id)),
    method("eth_syncing", &[], "False: what is served is complete.", Run::Inline(syncing)),
    method("eth_accounts", &[], "None: the node signs for nobody.", Run::Inline(accounts)),
    method(
        "eth_blockNumber",
        &[],
        "The number of the newest block.",
        Run::Inline(blocks::block_number),
    ),
    method(
        "eth_getBlockByNumber",
        &["block", "full"],
        "A block with its transactions whole, or their hashes; null for a block that is not there.",
        Run::Worker(blocks::block_by_number),
    ),
    method(
        "eth_getBlockByHash",
        &["hash", "full"],
        "As eth_getBlockByNumber.",
        Run::Worker(blocks::block_by_hash),
    ),
    method(
        "eth_getBlockTransactionCountByNumber",
        &["block"],
        "Transactions of a block.",
        Run::Inline(blocks::count_by_number),
    ),
    method(
        "eth_getBlockTransactionCountByHash",
        &["hash"],
        "Transactions of a block.",
        Run::Inline(blocks::count_by_hash),
    ),
    method(
        "eth_getUncleCountByBlockNumber",
        &["block"],
        "Ommers of a block.",
        Run::Inline(blocks::uncle_count_by_number),
    ),
    method(
        "eth_getUncleCountByBlockHash",
        &["hash"],
        "Ommers of a block.",
        Run::Inline(blocks::uncle_count_by_hash),
    ),
    method(
        "eth_getBlockReceipts",
        &["block"],
        "The receipts of all transactions of a block.",
        Run::Worker(blocks::block_receipts),
    ),
    method(
        "eth_getTransactionByHash",
        &["hash"],
        "A transaction, mined or waiting in the pool.",
        Run::Waiting(|call| Box::pin(transactions::by_hash(call))),
    ),
    method(
        "eth_getTransactionByBlockHashAndIndex",
        &["hash", "index"],
        "A mined transaction.",
        Run::Inline(transactions::by_block_hash_and_index),
    ),
    method(
        "eth_getTransactionByBlockNumberAndIndex",
        &["block", "index"],
        "A mined transaction.",
        Run::Inline(transactions::by_block_number_and_index),
    ),
    method(
        "eth_getTransactionReceipt",
        &["hash"],
        "A receipt; null at once while there is none.",
        Run::Inline(transactions::receipt),
    ),
    method(
        "eth_sendRawTransaction",
        &["data"],
        "Submits a transaction; answers once the pool has it. A nonce ahead of the account's is \
         kept until the gap closes.",
        Run::Waiting(|call| Box::pin(transactions::send_raw(call))),
    ),
    method(
        "eth_getBalance",
        &["address", BLOCK],
        "Wei of an account, at any block.",
        Run::Inline(state::balance),
    ),
    method(
        "eth_getTransactionCount",
        &["address", BLOCK],
        "The next nonce of an account; at `pending` with what the pool holds without a gap.",
        Run::Waiting(|call| Box::pin(state::transaction_count(call))),
    ),
    method(
        "eth_getCode",
        &["address", BLOCK],
        "Code of an account, at any block.",
        Run::Inline(state::code),
    ),
    method(
        "eth_getStorageAt",
        &["address", "slot", BLOCK],
        "A storage slot, at any block.",
        Run::Inline(state::storage_at),
    ),
    method(
        "eth_getLogs",
        &["filter"],
        "Logs that match. Beyond 10,000 blocks or logs the error suggests a range that fits.",
        Run::Worker(logs::logs),
    ),
    method(
        "eth_call",
        &["transaction", BLOCK],
        "Runs a transaction without mining it.",
        Run::Worker(call::call),
    ),
    method(
        "eth_estimateGas",
        &["transaction", BLOCK],
        "The least gas limit with which a transaction succeeds.",
        Run::Worker(call::estimate_gas),
    ),
    method(
        "eth_gasPrice",
        &[],
        "The base fee of the next block and the suggested tip.",
        Run::Inline(fees::gas_price),
    ),
    method(
        "eth_maxPriorityFeePerGas",
        &[],
        "The tip that outbids 60 % of the gas of the last 20 blocks with transactions.",
        Run::Inline(fees::max_priority_fee),
    ),
    method(
        "eth_baseFee",
        &[],
        "The base fee of the next block; on a chain without one the median price by gas of the \
         last 20 blocks with transactions.",
        Run::Inline(fees::base_fee),
    ),
    method(
        "eth_blobBaseFee",
        &[],
        "The price of blob gas in the newest block.",
        Run::Inline(fees::blob_base_fee),
    ),
    method(
        "eth_feeHistory",
        &["count", "newest", "percentiles = []"],
        "Prices, fill and tips of a range of blocks. The last base fee is that of the next block.",
        Run::Worker(fees::fee_history),
    ),
];

const fn method(
    name: &'static str,
    parameters: &'static [&'static str],
    help: &'static str,
    run: Run,
) -> Method {
    Method { name, parameters, help, run }
}

fn chain_id(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U64::from(call.context.spec.chain_id))
}

fn syncing(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&false)
}

fn accounts(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&[Address::ZERO; 0])
}
