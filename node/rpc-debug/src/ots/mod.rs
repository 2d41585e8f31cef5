//! `ots_`, and one method of `erigon_`: what the explorer Otterscan requests, in
//! the shapes of its API level 8 (`custom-jsonrpc.md` among its documents). Off unless enabled, because traces cost
//! what their block cost.

mod blocks;
mod creator;
mod search;
mod trace;

use alloy_primitives::Address;
use chain::ChainSpec;
use modules::decorator::has_code as is_code;
use rpc_eth::{
    eth,
    method::{Answer, Call, Line, Method, Run, json},
};
use rpc_types::{
    block_id::{BlockId, BlockTag},
    error::Error,
    params::{Number, Param},
};
use storage::StateRead;

/// The level of the API that is served in full.
const API_LEVEL: u64 = 8;
/// Most transactions a page may have. Otterscan asks for 25; a search gives the rest of its last block
/// beyond them.
const MAX_PAGE_TXS: u64 = 1_000;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "ots_getApiLevel",
        parameters: &[],
        help: "The level of the API that is served in full: 8.",
        run: Run::Inline(api_level),
    },
    Method {
        name: "ots_hasCode",
        parameters: &["address", "block = latest"],
        help: "Whether an account has code, at any block.",
        run: Run::Inline(has_code),
    },
    Method {
        name: "ots_getBlockDetails",
        parameters: &["block"],
        help: "A block without its transactions and bloom, with their number, what it issued (rewards of \
               proof of work) and the fees its senders paid.",
        run: Run::Line(Line::Short, blocks::details_by_number),
    },
    Method {
        name: "ots_getBlockDetailsByHash",
        parameters: &["hash"],
        help: "As ots_getBlockDetails.",
        run: Run::Line(Line::Short, blocks::details_by_hash),
    },
    Method {
        name: "ots_getBlockTransactions",
        parameters: &["block", "page", "pageSize"],
        help: "A page of a block's transactions with the first four bytes of their input, and their \
               receipts without logs. Page 0 is the last of the block; a page has up to 1,000.",
        run: Run::Line(Line::Short, blocks::transactions),
    },
    Method {
        name: "ots_searchTransactionsBefore",
        parameters: &["address", "bound", "pageSize"],
        help: "The newest transactions before a block (0: of all) that the address sent, that were sent to \
               it, or that created it, newest first and up to 1,000, with their receipts; those of the last \
               block come all. Calls inside transactions are not searched.",
        run: Run::Line(Line::Long, search::before),
    },
    Method {
        name: "ots_searchTransactionsAfter",
        parameters: &["address", "bound", "pageSize"],
        help: "The oldest such transactions after a block (0: of all), newest first.",
        run: Run::Line(Line::Long, search::after),
    },
    Method {
        name: "ots_getTransactionBySenderAndNonce",
        parameters: &["address", "nonce"],
        help: "The hash of the mined transaction of a sender with this nonce.",
        run: Run::Line(Line::Short, search::hash_by_sender_and_nonce),
    },
    Method {
        name: "ots_getContractCreator",
        parameters: &["address"],
        help: "The transaction in which the contract that is there now was created, and who created it: an \
               account or another contract. Null for what genesis has, and for accounts that delegate (EIP-7702).",
        run: Run::Line(Line::Long, creator::contract_creator),
    },
    Method {
        name: "ots_traceTransaction",
        parameters: &["hash"],
        help: "The calls of a mined transaction in order, each with its depth.",
        run: Run::Line(Line::Long, trace::calls),
    },
    Method {
        name: "ots_getInternalOperations",
        parameters: &["hash"],
        help: "The transfers of ether (0), self-destructs (1) and creations (2, 3: CREATE2) inside a mined \
               transaction, without those that were reverted.",
        run: Run::Line(Line::Long, trace::internal_operations),
    },
    Method {
        name: "ots_getTransactionError",
        parameters: &["hash"],
        help: "What a mined transaction that failed returned; 0x of one that succeeded.",
        run: Run::Line(Line::Long, trace::error),
    },
    Method {
        name: "erigon_getHeaderByNumber",
        parameters: &["block"],
        help: "As eth_getHeaderByNumber; by this Otterscan knows a node it can use.",
        run: Run::Inline(header_by_number),
    },
];

/// A block by tag or number, which may be a plain one.
struct Block(BlockTag);

impl Param for Block {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        match json.parse() {
            Ok(number) => Ok(Self(BlockTag::Number(number))),
            Err(_) => BlockTag::read(json, spec).map(Self),
        }
    }
}

/// The size of a page: as asked, within bounds.
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
