//! `eth_`: the chain, its state, prices, execution, sending.

mod blocks;
mod call;
mod call_many;
mod config;
mod fee_history;
mod fees;
mod filters;
mod logs;
mod proof;
mod request;
pub mod sign;
mod simulate;
mod state;
mod transactions;
mod wide_raw;

pub use blocks::{ReceiptPlaces, header, receipts_of, with_receipts};
pub use call::{CallHost, call_error, gas_bound, gas_cap, on_block_with, on_state};
pub use call_many::MAX_CALLS;
pub use fee_history::{check_percentiles, fee_quantiles};
pub use logs::block_logs;
use logs::suggest;
pub use request::{GivenOverrides, Request, WithdrawalObject, read_block_overrides};
pub use transactions::raw_by_hash;

use crate::method::{Answer, Call, Line, Method, Run, json, put};
use alloy_primitives::{Address, U64};

const BLOCK: &str = "block = latest";
const OVERRIDES: &str = "stateOverrides = {}";
const BLOCK_OVERRIDES: &str = "blockOverrides = {}";

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    method("eth_chainId", &[], "The chain id of EIP-155.", Run::Inline(chain_id)),
    method(
        "eth_protocolVersion",
        &[],
        "0x41, as cosmos/evm answers.",
        Run::Inline(protocol_version),
    ),
    method("eth_syncing", &[], "False: what is served is complete.", Run::Inline(syncing)),
    method(
        "eth_accounts",
        &[],
        "Accounts of the node's keyring; none unless it is given one.",
        Run::Inline(sign::accounts),
    ),
    method(
        "eth_sign",
        &["address", "data"],
        "Signs data under the prefix of EIP-191, with a key of the node.",
        Run::Inline(sign::sign_message),
    ),
    method(
        "eth_signTypedData",
        &["address", "typedData"],
        "As eth_signTypedData_v4.",
        Run::Inline(sign::sign_typed_data),
    ),
    method(
        "eth_signTypedData_v4",
        &["address", "typedData"],
        "Signs typed data (EIP-712), an object or its text, with a key of the node.",
        Run::Inline(sign::sign_typed_data),
    ),
    method(
        "eth_signTransaction",
        &["transaction"],
        "Fills in a transaction and signs it with a key of the node; does not submit it.",
        Run::Waiting(|call| Box::pin(sign::sign_transaction(call))),
    ),
    method(
        "eth_fillTransaction",
        &["transaction"],
        "What eth_signTransaction would sign: nonce, gas and prices filled in. Needs no key.",
        Run::Line(Line::Short, sign::fill_transaction),
    ),
    method(
        "eth_sendTransaction",
        &["transaction"],
        "Fills in a transaction, signs it with a key of the node and submits it.",
        Run::Waiting(|call| Box::pin(sign::send_transaction(call))),
    ),
    method(
        "eth_blockNumber",
        &[],
        "The number of the newest block.",
        Run::Inline(blocks::block_number),
    ),
    method(
        "eth_getBlockByNumber",
        &["block", "full"],
        "A block with its transactions whole, or their hashes; null for a block that is not there. As in geth, \
         hash, nonce and miner of the pending block are null.",
        Run::Quick {
            at_once: blocks::block_by_number_at_once,
            whole: blocks::block_by_number,
            line: Line::Short,
        },
    ),
    method(
        "eth_getBlockByHash",
        &["hash", "full"],
        "As eth_getBlockByNumber.",
        Run::Quick {
            at_once: blocks::block_by_hash_at_once,
            whole: blocks::block_by_hash,
            line: Line::Short,
        },
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
        "eth_getUncleByBlockNumberAndIndex",
        &["block", "index"],
        "An ommer of a block, as a block without transactions.",
        Run::Inline(blocks::uncle_by_number),
    ),
    method(
        "eth_getUncleByBlockHashAndIndex",
        &["hash", "index"],
        "An ommer of a block, as a block without transactions.",
        Run::Inline(blocks::uncle_by_hash),
    ),
    method(
        "eth_getHeaderByNumber",
        &["block"],
        "A block without its body; null for one that is not there.",
        Run::Inline(blocks::header_by_number),
    ),
    method(
        "eth_getHeaderByHash",
        &["hash"],
        "As eth_getHeaderByNumber.",
        Run::Inline(blocks::header_by_hash),
    ),
    method(
        "eth_getBlockReceipts",
        &["block"],
        "The receipts of all transactions of a block.",
        Run::Quick {
            at_once: blocks::block_receipts_at_once,
            whole: blocks::block_receipts,
            line: Line::Short,
        },
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
        "A transaction of a block, which may be the pending one.",
        Run::Inline(transactions::by_block_number_and_index),
    ),
    method(
        "eth_getTransactionReceipt",
        &["hash"],
        "A receipt; null at once while there is none.",
        Run::Quick {
            at_once: transactions::receipt_at_once,
            whole: transactions::receipt,
            line: Line::Short,
        },
    ),
    method(
        "eth_getRawTransactionByHash",
        &["hash"],
        "The bytes of a transaction, mined or waiting in the pool.",
        Run::Waiting(|call| Box::pin(transactions::raw_by_hash(call))),
    ),
    method(
        "eth_getRawTransactionByBlockHashAndIndex",
        &["hash", "index"],
        "The bytes of a mined transaction.",
        Run::Inline(transactions::raw_by_block_hash_and_index),
    ),
    method(
        "eth_getRawTransactionByBlockNumberAndIndex",
        &["block", "index"],
        "The bytes of a transaction of a block, which may be the pending one.",
        Run::Inline(transactions::raw_by_block_number_and_index),
    ),
    method(
        "eth_getTransactionBySenderAndNonce",
        &["address", "nonce"],
        "The mined transaction of a sender with this nonce.",
        Run::Line(Line::Short, transactions::by_sender_and_nonce),
    ),
    method(
        "eth_getTransactionLogs",
        &["hash"],
        "The logs of a mined transaction.",
        Run::Quick {
            at_once: transactions::logs_at_once,
            whole: transactions::logs,
            line: Line::Short,
        },
    ),
    method(
        "eth_coinbase",
        &[],
        "The fee recipient of the blocks that the node makes: that of the newest block.",
        Run::Inline(coinbase),
    ),
    method("eth_pendingTransactions", &[], "None: see txpool_content.", Run::Inline(no_pending)),
    method(
        "eth_sendRawTransactionSync",
        &["data", "timeout = 2000"],
        "Submits a transaction and waits up to the timeout, in milliseconds and at most 30,000, \
         for its receipt (EIP-7966).",
        Run::Waiting(|call| Box::pin(transactions::send_raw_sync(call))),
    ),
    method(
        "eth_sendRawTransaction",
        &["data"],
        "Submits a transaction; answers once the pool has it. A nonce ahead of the account's is \
         kept until the gap closes. A node that produces no blocks refuses it with code -32000, \
         unless `mempool.accept-without-production` is set. A blob transaction comes wrapped with its blobs, in the form of \
         EIP-4844 or EIP-7594, which are checked and not kept; a native chain refuses it.",
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
        "The next nonce of an account; at `pending` with what the pool holds without a gap, whether or not the \
         pending block has room for it.",
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
        "Logs that match, found by an index of addresses and topics over any range of blocks. Beyond \
         `logs-cap`, `logs-timeout-ms` or the size of a response the error suggests a range that fits; \
         the logs of one block come whole, whatever the cap.",
        Run::Quick { at_once: logs::logs_at_once, whole: logs::logs, line: Line::Long },
    ),
    method(
        "eth_getProof",
        &["address", "slots", BLOCK],
        "Merkle-Patricia proof of an account and of slots (EIP-1186), at any block between \
         which and the last checkpoint of the trie at most 200,000 accounts and slots have changed; \
         under full load that can leave out the newest. Not of the pending block.",
        Run::Line(Line::Long, proof::get_proof),
    ),
    method(
        "eth_getAccount",
        &["address", BLOCK],
        "Balance, code hash, nonce and storage root of an account, as reth; null for an account that is not \
         there. At the blocks of eth_getProof.",
        Run::Line(Line::Long, proof::get_account),
    ),
    method(
        "eth_getStorageValues",
        &["slots by address", BLOCK],
        "Up to 1,024 storage slots of any accounts.",
        Run::Quick {
            at_once: proof::get_storage_values_at_once,
            whole: proof::get_storage_values,
            line: Line::Short,
        },
    ),
    method(
        "eth_config",
        &[],
        "The rules in force and those to come (EIP-7910).",
        Run::Inline(config::config),
    ),
    method(
        "eth_capabilities",
        &[],
        "What is kept, and from which block on: everything.",
        Run::Inline(config::capabilities),
    ),
    method(
        "eth_simulateV1",
        &["payload", BLOCK],
        "Runs blocks of transactions that never were.",
        Run::Line(Line::Long, simulate::simulate),
    ),
    method(
        "eth_createAccessList",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "The accounts and slots a transaction touches, and its gas when it declares them.",
        Run::Line(Line::Short, call::create_access_list),
    ),
    method(
        "eth_newFilter",
        &["filter"],
        "Installs a log filter. One that is not polled for five minutes is forgotten.",
        Run::Inline(filters::new_filter),
    ),
    method(
        "eth_newBlockFilter",
        &[],
        "Installs a filter of new blocks.",
        Run::Inline(filters::new_block_filter),
    ),
    method(
        "eth_newPendingTransactionFilter",
        &["full = false"],
        "Installs a filter of transactions the pool takes: their hashes; whole with true.",
        Run::Inline(filters::new_pending_filter),
    ),
    method(
        "eth_getFilterChanges",
        &["id"],
        "What is new since the last poll of a filter.",
        Run::Quick { at_once: filters::changes_at_once, whole: filters::changes, line: Line::Long },
    ),
    method(
        "eth_getFilterLogs",
        &["id"],
        "All logs of a log filter, as eth_getLogs.",
        Run::Line(Line::Long, filters::filter_logs),
    ),
    method(
        "eth_uninstallFilter",
        &["id"],
        "Forgets a filter; false if there was none.",
        Run::Inline(filters::uninstall_filter),
    ),
    method(
        "eth_call",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "Runs a transaction without mining it.",
        Run::Quick { at_once: call::call_at_once, whole: call::call, line: Line::Short },
    ),
    method(
        "eth_callMany",
        &["bundles", "stateContext = {}", OVERRIDES],
        "Runs bundles of calls, each call on the state that those before it left, as reth and Erigon. A bundle \
         has `transactions` and a `blockOverride`; the context has `blockNumber` and `transactionIndex`, before \
         which the first call runs (-1: after the block). Each call has a `value` or an `error`. At most 1,000 \
         calls, together within `call-timeout-ms`.",
        Run::Line(Line::Long, call_many::call_many),
    ),
    method(
        "eth_estimateGas",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "The least gas limit with which a transaction succeeds.",
        Run::Line(Line::Short, call::estimate_gas),
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
        Run::Quick {
            at_once: fee_history::fee_history_at_once,
            whole: fee_history::fee_history_whole,
            line: Line::Short,
        },
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
    put(&U64::from(call.context.spec.chain_id))
}

fn protocol_version(call: &Call) -> Answer {
    call.no_arguments()?;
    json("0x41")
}

fn syncing(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&false)
}

fn coinbase(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.view.head.header.beneficiary)
}

fn no_pending(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&[Address::ZERO; 0])
}
