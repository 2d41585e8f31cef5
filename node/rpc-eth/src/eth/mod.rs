//! `eth_`: methods for blocks, state, gas prices, logs, calls and transactions, with the table of all of them.

mod blocks;
mod call;
mod call_many;
mod config;
mod fee_history;
mod fees;
mod filters;
mod logs;
mod observed;
mod proof;
mod request;
pub mod sign;
mod simulate;
mod state;
mod submit;
mod transactions;
mod wide_raw;

pub use blocks::{ReceiptContexts, header, receipts_of, with_receipts};
pub use call::{CallHost, call_error, gas_bound, gas_cap, on_block_with, on_state};
pub use call_many::MAX_CALLS;
pub use fee_history::{check_percentiles, fee_quantiles};
pub use filters::require_pool;
use logs::suggested_range;
pub use logs::{block_logs, removed_logs};
pub use request::{CallOverrides, Request, WithdrawalObject, read_block_overrides};
pub use transactions::raw_by_hash;

use crate::SyncStatus;
use crate::method::{Answer, Call, Method, QueueClass, Run, json, write_json};
use alloy_primitives::{Address, U64};

const BLOCK: &str = "block = latest";
const OVERRIDES: &str = "stateOverrides = {}";
const BLOCK_OVERRIDES: &str = "blockOverrides = {}";

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    method("eth_chainId", &[], "The chain ID of EIP-155.", Run::Inline(chain_id)),
    method("eth_protocolVersion", &[], "0x41, as in cosmos/evm.", Run::Inline(protocol_version)),
    method(
        "eth_syncing",
        &[],
        "False. On a node that follows others and is behind them: the first, the current and the highest block.",
        Run::Inline(syncing),
    ),
    method(
        "eth_accounts",
        &[],
        "The accounts whose keys the node has: those of the keyring that is configured, and the development accounts on a development chain.",
        Run::Inline(sign::accounts),
    ),
    method(
        "eth_sign",
        &["address", "data"],
        "Signs data with the prefix of EIP-191, with a key of the node.",
        Run::Inline(sign::sign_message),
    ),
    method(
        "eth_signTypedData",
        &["address", "typedData"],
        "Like eth_signTypedData_v4.",
        Run::Inline(sign::sign_typed_data),
    ),
    method(
        "eth_signTypedData_v4",
        &["address", "typedData"],
        "Signs typed data (EIP-712), passed as an object or as its JSON text, with a key of the node.",
        Run::Inline(sign::sign_typed_data),
    ),
    method(
        "eth_signTransaction",
        &["transaction"],
        "Fills in the missing fields of a transaction and signs it with a key of the node, without submitting it.",
        Run::Waiting(|call| Box::pin(sign::sign_transaction(call))),
    ),
    method(
        "eth_fillTransaction",
        &["transaction"],
        "The transaction that eth_signTransaction would sign, with nonce, gas and prices filled in. Needs no key.",
        Run::Queued(QueueClass::Short, sign::fill_transaction),
    ),
    method(
        "eth_sendTransaction",
        &["transaction"],
        "Fills in the missing fields of a transaction, signs it with a key of the node and submits it.",
        Run::Waiting(|call| Box::pin(sign::send_transaction(call))),
    ),
    method(
        "eth_sendUnsignedTransaction",
        &["transaction"],
        "Like eth_sendTransaction, of any account without its key. On development chains only.",
        Run::Waiting(|call| Box::pin(sign::send_unsigned_transaction(call))),
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
        "A block with the objects or the hashes of its transactions. Null if the block does not exist. As in geth, \
         hash, nonce and miner of the pending block are null.",
        Run::Quick {
            inline: blocks::block_by_number_inline,
            queued: blocks::block_by_number,
            queue: QueueClass::Short,
        },
    ),
    method(
        "eth_getBlockByHash",
        &["hash", "full"],
        "Like eth_getBlockByNumber.",
        Run::Quick {
            inline: blocks::block_by_hash_inline,
            queued: blocks::block_by_hash,
            queue: QueueClass::Short,
        },
    ),
    method(
        "eth_getBlockTransactionCountByNumber",
        &["block"],
        "The number of transactions of a block.",
        Run::Inline(blocks::count_by_number),
    ),
    method(
        "eth_getBlockTransactionCountByHash",
        &["hash"],
        "The number of transactions of a block.",
        Run::Inline(blocks::count_by_hash),
    ),
    method(
        "eth_getUncleCountByBlockNumber",
        &["block"],
        "The number of ommers of a block.",
        Run::Inline(blocks::uncle_count_by_number),
    ),
    method(
        "eth_getUncleCountByBlockHash",
        &["hash"],
        "The number of ommers of a block.",
        Run::Inline(blocks::uncle_count_by_hash),
    ),
    method(
        "eth_getUncleByBlockNumberAndIndex",
        &["block", "index"],
        "An ommer of a block, in the format of a block without transactions.",
        Run::Inline(blocks::uncle_by_number),
    ),
    method(
        "eth_getUncleByBlockHashAndIndex",
        &["hash", "index"],
        "An ommer of a block, in the format of a block without transactions.",
        Run::Inline(blocks::uncle_by_hash),
    ),
    method(
        "eth_getHeaderByNumber",
        &["block"],
        "A block without its body. Null if the block does not exist.",
        Run::Inline(blocks::header_by_number),
    ),
    method(
        "eth_getHeaderByHash",
        &["hash"],
        "Like eth_getHeaderByNumber.",
        Run::Inline(blocks::header_by_hash),
    ),
    method(
        "eth_getBlockReceipts",
        &["block"],
        "The receipts of all transactions of a block.",
        Run::Quick {
            inline: blocks::block_receipts_inline,
            queued: blocks::block_receipts,
            queue: QueueClass::Short,
        },
    ),
    method(
        "eth_getTransactionByHash",
        &["hash"],
        "A mined or pending transaction.",
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
        "A transaction of a block, which may be the pending block.",
        Run::Inline(transactions::by_block_number_and_index),
    ),
    method(
        "eth_getTransactionReceipt",
        &["hash"],
        "The receipt of a mined transaction. Null if the transaction is not mined.",
        Run::Quick {
            inline: transactions::receipt_inline,
            queued: transactions::receipt,
            queue: QueueClass::Short,
        },
    ),
    method(
        "eth_getRawTransactionByHash",
        &["hash"],
        "The encoding of a mined or pending transaction.",
        Run::Waiting(|call| Box::pin(transactions::raw_by_hash(call))),
    ),
    method(
        "eth_getRawTransactionByBlockHashAndIndex",
        &["hash", "index"],
        "The encoding of a mined transaction.",
        Run::Inline(transactions::raw_by_block_hash_and_index),
    ),
    method(
        "eth_getRawTransactionByBlockNumberAndIndex",
        &["block", "index"],
        "The encoding of a transaction of a block, which may be the pending block.",
        Run::Inline(transactions::raw_by_block_number_and_index),
    ),
    method(
        "eth_getTransactionBySenderAndNonce",
        &["address", "nonce"],
        "The mined transaction with this sender and nonce.",
        Run::Queued(QueueClass::Short, transactions::by_sender_and_nonce),
    ),
    method(
        "eth_getTransactionLogs",
        &["hash"],
        "The logs of a mined transaction.",
        Run::Quick {
            inline: transactions::logs_inline,
            queued: transactions::logs,
            queue: QueueClass::Short,
        },
    ),
    method("eth_coinbase", &[], "The fee recipient of the newest block.", Run::Inline(coinbase)),
    method(
        "eth_pendingTransactions",
        &[],
        "An empty list. See txpool_content.",
        Run::Inline(no_pending),
    ),
    method(
        "eth_sendRawTransactionSync",
        &["data", "timeout = 2000"],
        "Submits a transaction and waits for its receipt (EIP-7966). The timeout is in milliseconds, and at most \
         30,000.",
        Run::Waiting(|call| Box::pin(transactions::send_raw_sync(call))),
    ),
    method(
        "eth_sendRawTransaction",
        &["data"],
        "Submits a transaction and returns when the pool has accepted it. A transaction with a later nonce is queued \
         until the gap is closed. A node that produces no blocks refuses it with code -32000, unless \
         `mempool.accept-without-production` is set. A blob transaction must include its blobs, in the format of \
         EIP-4844 or EIP-7594. The node checks the blobs and does not store them. A native chain refuses it.",
        Run::Waiting(|call| Box::pin(transactions::send_raw(call))),
    ),
    method(
        "eth_getBalance",
        &["address", BLOCK],
        "The balance of an account in wei after a block.",
        Run::Inline(state::balance),
    ),
    method(
        "eth_getTransactionCount",
        &["address", BLOCK],
        "The next nonce of an account. At `pending` it includes the account's pending transactions, even if the \
         pending block has no space for them.",
        Run::Waiting(|call| Box::pin(state::transaction_count(call))),
    ),
    method(
        "eth_getCode",
        &["address", BLOCK],
        "The code of an account after a block.",
        Run::Inline(state::code),
    ),
    method(
        "eth_getStorageAt",
        &["address", "slot", BLOCK],
        "A storage slot after a block.",
        Run::Inline(state::storage_at),
    ),
    method(
        "eth_getLogs",
        &["filter"],
        "The logs that match a filter. An index of addresses and topics makes ranges of any length possible. If the \
         result exceeds `logs-cap`, `logs-timeout-ms` or the maximum length of a response, the error suggests a range \
         that fits. All logs of a single block are returned, even if they exceed the cap.",
        Run::Quick { inline: logs::logs_inline, queued: logs::logs, queue: QueueClass::Long },
    ),
    method(
        "eth_getProof",
        &["address", "slots", BLOCK],
        "The Merkle-Patricia proof of an account and its slots (EIP-1186) at a block. At most 200,000 accounts and \
         slots may have changed between that block and the last checkpoint of the trie, which can exclude the newest \
         blocks under full load. The pending block is not supported.",
        Run::Queued(QueueClass::Long, proof::get_proof),
    ),
    method(
        "eth_getAccount",
        &["address", BLOCK],
        "Balance, code hash, nonce and storage root of an account, as in reth. Null if the account does not exist. \
         Supports the same blocks as eth_getProof.",
        Run::Queued(QueueClass::Long, proof::get_account),
    ),
    method(
        "eth_getStorageValues",
        &["slots by address", BLOCK],
        "The values of at most 1,024 storage slots of any accounts.",
        Run::Quick {
            inline: proof::get_storage_values_inline,
            queued: proof::get_storage_values,
            queue: QueueClass::Short,
        },
    ),
    method(
        "eth_config",
        &[],
        "The current and future rules of the chain (EIP-7910).",
        Run::Inline(config::config),
    ),
    method(
        "eth_capabilities",
        &[],
        "The data that the node stores, and the first block of each kind. All of it is stored from genesis on.",
        Run::Inline(config::capabilities),
    ),
    method(
        "eth_simulateV1",
        &["payload", BLOCK],
        "Executes calls in simulated blocks.",
        Run::Queued(QueueClass::Long, simulate::simulate),
    ),
    method(
        "eth_createAccessList",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "The accounts and slots that a transaction touches, and its gas with this access list.",
        Run::Queued(QueueClass::Short, call::create_access_list),
    ),
    method(
        "eth_newFilter",
        &["filter"],
        "Creates a log filter. A filter that is not polled for `filter-lifetime-s` is removed.",
        Run::Inline(filters::new_filter),
    ),
    method(
        "eth_newBlockFilter",
        &[],
        "Creates a filter of new blocks.",
        Run::Inline(filters::new_block_filter),
    ),
    method(
        "eth_newPendingTransactionFilter",
        &["full = false"],
        "Creates a filter of the transactions that enter the pool. With `true` it returns the transactions, otherwise \
         their hashes.",
        Run::Inline(filters::new_pending_filter),
    ),
    method(
        "eth_getFilterChanges",
        &["id"],
        "The changes since the last poll of a filter.",
        Run::Quick {
            inline: filters::changes_inline,
            queued: filters::changes,
            queue: QueueClass::Long,
        },
    ),
    method(
        "eth_getFilterLogs",
        &["id"],
        "All logs of a log filter, like eth_getLogs.",
        Run::Queued(QueueClass::Long, filters::filter_logs),
    ),
    method(
        "eth_uninstallFilter",
        &["id"],
        "Removes a filter. False if it does not exist.",
        Run::Inline(filters::uninstall_filter),
    ),
    method(
        "eth_call",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "Executes a transaction without submitting it.",
        Run::Quick { inline: call::call_inline, queued: call::call, queue: QueueClass::Short },
    ),
    method(
        "eth_callMany",
        &["bundles", "stateContext = {}", OVERRIDES],
        "Executes bundles of calls, each on the state after the previous one, as in reth and Erigon. A bundle has \
         `transactions` and a `blockOverride`. The context has `blockNumber` and `transactionIndex`, before which the \
         first call is executed (-1: after the block). Each result has a `value` or an `error`. A request has at most \
         1,000 calls, which may together take `call-timeout-ms`.",
        Run::Queued(QueueClass::Long, call_many::call_many),
    ),
    method(
        "eth_estimateGas",
        &["transaction", BLOCK, OVERRIDES, BLOCK_OVERRIDES],
        "The minimum gas limit with which a transaction succeeds. On a development chain, the default block is `pending`.",
        Run::Queued(QueueClass::Short, call::estimate_gas),
    ),
    method(
        "eth_gasPrice",
        &[],
        "The sum of the next base fee and the suggested priority fee.",
        Run::Inline(fees::gas_price),
    ),
    method(
        "eth_maxPriorityFeePerGas",
        &[],
        "The priority fee that outbids 60 % of the gas of the last 20 non-empty blocks.",
        Run::Inline(fees::max_priority_fee),
    ),
    method(
        "eth_baseFee",
        &[],
        "The base fee of the next block. On a chain without a base fee, the median price, weighted by gas, of the last \
         20 non-empty blocks.",
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
        "Base fees, gas used ratios and priority fees of a range of blocks. The last base fee is that of the next \
         block.",
        Run::Quick {
            inline: fee_history::fee_history_inline,
            queued: fee_history::fee_history_queued,
            queue: QueueClass::Short,
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
    write_json(&U64::from(call.context.spec.chain_id))
}

fn protocol_version(call: &Call) -> Answer {
    call.no_arguments()?;
    json("0x41")
}

fn syncing(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&SyncStatus::of(&call.context.published))
}

fn coinbase(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.view.head.header.beneficiary)
}

fn no_pending(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&[Address::ZERO; 0])
}
