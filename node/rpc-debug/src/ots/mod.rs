//! `ots_` and one method of `erigon_`: the requests of the explorer Otterscan, in the formats of its API level 8
//! (`custom-jsonrpc.md` in its documentation). Disabled by default, because a trace can cost more than the execution
//! of its block.

mod blocks;
mod creator;
mod search;
mod trace;

use alloy_primitives::Address;
use chain::ChainSpec;
use modules::decorator::has_code as is_code;
use rpc_eth::{
    eth,
    method::{Answer, Call, Method, QueueClass, Run, json},
};
use rpc_types::{
    block_id::{BlockId, BlockTag},
    error::Error,
    params::{Number, Param},
};
use storage::StateRead;

/// The API level that is completely supported.
const API_LEVEL: u64 = 8;
/// Maximum number of transactions of a page. Otterscan requests 25. A search may exceed the page size, because it
/// completes the last block.
const MAX_PAGE_TXS: u64 = 1_000;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "ots_getApiLevel",
        parameters: &[],
        help: "The API level that is completely supported: 8.",
        run: Run::Inline(api_level),
    },
    Method {
        name: "ots_hasCode",
        parameters: &["address", "block = latest"],
        help: "Whether an account has code after a block.",
        run: Run::Inline(has_code),
    },
    Method {
        name: "ots_getBlockDetails",
        parameters: &["block"],
        help: "A block without its transactions and its bloom filter, with the number of transactions, the issuance \
               (rewards of proof of work) and the total fees.",
        run: Run::Queued(QueueClass::Short, blocks::details_by_number),
    },
    Method {
        name: "ots_getBlockDetailsByHash",
        parameters: &["hash"],
        help: "Like ots_getBlockDetails.",
        run: Run::Queued(QueueClass::Short, blocks::details_by_hash),
    },
    Method {
        name: "ots_getBlockTransactions",
        parameters: &["block", "page", "pageSize"],
        help: "A page of the transactions of a block, with the first four bytes of their input, and their receipts \
               without logs. Page 0 contains the last transactions of the block. A page has at most 1,000.",
        run: Run::Queued(QueueClass::Short, blocks::transactions),
    },
    Method {
        name: "ots_searchTransactionsBefore",
        parameters: &["address", "bound", "pageSize"],
        help: "The newest transactions before a block (0: of all blocks) that the address sent, that were sent to it, \
               or that created it, with their receipts, newest first. At most 1,000 are returned, but the last block \
               is always complete. Calls inside transactions are not searched.",
        run: Run::Queued(QueueClass::Long, search::before),
    },
    Method {
        name: "ots_searchTransactionsAfter",
        parameters: &["address", "bound", "pageSize"],
        help: "The oldest such transactions after a block (0: of all blocks), newest first.",
        run: Run::Queued(QueueClass::Long, search::after),
    },
    Method {
        name: "ots_getTransactionBySenderAndNonce",
        parameters: &["address", "nonce"],
        help: "The hash of the mined transaction with this sender and nonce.",
        run: Run::Queued(QueueClass::Short, search::hash_by_sender_and_nonce),
    },
    Method {
        name: "ots_getContractCreator",
        parameters: &["address"],
        help: "The transaction that created the contract which exists at the address now, and its creator: an account \
               or another contract. Null for contracts in genesis, and for accounts that delegate (EIP-7702).",
        run: Run::Queued(QueueClass::Long, creator::contract_creator),
    },
    Method {
        name: "ots_traceTransaction",
        parameters: &["hash"],
        help: "The calls of a mined transaction in order, each with its depth.",
        run: Run::Queued(QueueClass::Long, trace::calls),
    },
    Method {
        name: "ots_getInternalOperations",
        parameters: &["hash"],
        help: "The transfers of ether (0), self-destructs (1) and creations (2; with CREATE2: 3) inside a mined \
               transaction, without those that were reverted.",
        run: Run::Queued(QueueClass::Long, trace::internal_operations),
    },
    Method {
        name: "ots_getTransactionError",
        parameters: &["hash"],
        help: "The return data of a mined transaction that failed, or 0x if it succeeded.",
        run: Run::Queued(QueueClass::Long, trace::error),
    },
    Method {
        name: "erigon_getHeaderByNumber",
        parameters: &["block"],
        help: "Like eth_getHeaderByNumber. Otterscan calls it to detect a supported node.",
        run: Run::Inline(header_by_number),
    },
];

/// A block by tag or number. The number may be a JSON number.
struct Block(BlockTag);

impl Param for Block {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        match json.parse() {
            Ok(number) => Ok(Self(BlockTag::Number(number))),
            Err(_) => BlockTag::read(json, spec).map(Self),
        }
    }
}

/// Checks the size of a page.
fn page_size(Number(size): Number) -> Result<usize, Error> {
    match size {
        1..=MAX_PAGE_TXS => Ok(size as usize),
        _ => Err(Error::invalid_params(format!(
            "page size {size} is not within 1 to {MAX_PAGE_TXS}"
        ))),
    }
}

fn api_level(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&API_LEVEL)
}

fn has_code(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let Block(tag) = arguments.optional()?.unwrap_or(Block(BlockTag::Latest));
    let number = call.require(BlockId::Tag(tag))?;
    let account = call.view.state.reader_at(number)?.account(address)?;
    json(&account.is_some_and(|account| is_code(&account)))
}

fn header_by_number(call: &Call) -> Answer {
    let Block(tag) = call.arguments()?.required()?;
    eth::header(call, BlockId::Tag(tag))
}
