//! `debug_`: raw blocks, and traces of transactions that are executed again. Disabled by default, because a trace can
//! cost more than the execution of its block.

mod modified;
mod options;
mod preimages;
mod ranges;
mod rerun;
mod roots;
mod witness;

use crate::replay::{Replay, TraceList, TxPosition, trace_error, trace_json};
use alloy_primitives::{B256, Bytes};
use alloy_rpc_types_trace::geth::{GethDebugTracingOptions, GethTrace};
use chain::{
    ChainSpec,
    block::{Block, join},
};
use evm::{BlockOverrides, CallSite, GethTracer, encode_receipt, logs_bloom};
use options::{Options, tracing_options};
use rpc_eth::{
    eth::{CallOverrides, Request, gas_cap, on_block_with, raw_by_hash},
    method::{Answer, Call, Method, QueueClass, Run, json},
    module_state::modules_within,
};
use rpc_types::{
    block_id::{BlockId, BlockTag},
    error::Error,
    fields,
    params::Param,
    text::Json,
    trace_timeout::{TraceTimeout, timeout},
};
use serde::Serialize;
use serde_json::value::RawValue;
use state::stored::{self, MinedTx, StoredBlock, StoredError, locate};
use std::{ops::ControlFlow, time::Duration};

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "debug_getRawHeader",
        parameters: &["block"],
        help: "The RLP encoding of a header.",
        run: Run::Inline(raw_header),
    },
    Method {
        name: "debug_getRawBlock",
        parameters: &["block"],
        help: "The RLP encoding of a block.",
        run: Run::Quick {
            inline: |call| small_block(call, required_block, raw_block),
            queued: raw_block,
            queue: QueueClass::Short,
        },
    },
    Method {
        name: "debug_getRawReceipts",
        parameters: &["block"],
        help: "The consensus encoding of each receipt of a block.",
        run: Run::Queued(QueueClass::Short, raw_receipts),
    },
    Method {
        name: "debug_getRawTransaction",
        parameters: &["hash"],
        help: "The encoding of a mined or pending transaction.",
        run: Run::Waiting(|call| Box::pin(raw_by_hash(call))),
    },
    Method {
        name: "debug_getHeaderRlp",
        parameters: &["block"],
        help: "Like debug_getRawHeader, by tag or number. The number may be a JSON number.",
        run: Run::Inline(header_rlp),
    },
    Method {
        name: "debug_getBlockRlp",
        parameters: &["block"],
        help: "Like debug_getRawBlock, by tag or number. The number may be a JSON number.",
        run: Run::Quick {
            inline: |call| small_block(call, tagged_block, block_rlp),
            queued: block_rlp,
            queue: QueueClass::Short,
        },
    },
    Method {
        name: "debug_getBadBlocks",
        parameters: &[],
        help: "An empty list, because the node does not store blocks that it refused.",
        run: Run::Inline(bad_blocks),
    },
    Method {
        name: "debug_traceTransaction",
        parameters: &["hash", "options = {}"],
        help: "Executes a mined transaction again and returns its trace: struct logs, callTracer, prestateTracer, \
               4byteTracer, flatCallTracer, muxTracer or noopTracer. JavaScript tracers and erc7562Tracer are not \
               supported.",
        run: Run::Queued(QueueClass::Long, trace_transaction),
    },
    Method {
        name: "debug_traceBlockByNumber",
        parameters: &["block", "options = {}"],
        help: "The trace of every transaction of a block.",
        run: Run::Queued(QueueClass::Long, trace_block_by_number),
    },
    Method {
        name: "debug_traceBlockByHash",
        parameters: &["hash", "options = {}"],
        help: "The trace of every transaction of a block.",
        run: Run::Queued(QueueClass::Long, trace_block_by_hash),
    },
    Method {
        name: "debug_traceBlock",
        parameters: &["rlp", "options = {}"],
        help: "The trace of every transaction of a block of this chain, which is passed as RLP.",
        run: Run::Queued(QueueClass::Long, trace_block_by_rlp),
    },
    Method {
        name: "debug_traceCall",
        parameters: &["transaction", "block = latest", "options = {}"],
        help: "The trace of a call. The options may contain stateOverrides and blockOverrides. With txIndex, the call \
               is executed before the transaction with this index in the block.",
        run: Run::Queued(QueueClass::Long, trace_call),
    },
    Method {
        name: "debug_intermediateRoots",
        parameters: &["hash", "options = {}"],
        help: "The state root after each transaction of a block, which is executed again.",
        run: Run::Queued(QueueClass::Long, roots::intermediate_roots),
    },
    Method {
        name: "debug_storageRangeAt",
        parameters: &["block", "txIndex", "address", "startKey", "limit"],
        help: "At most 1,024 slots of an account before a transaction of a block, in the order of their hashes, with \
               `nextKey`. The `key` of a slot that is no longer set is null.",
        run: Run::Queued(QueueClass::Long, ranges::storage_range_at),
    },
    Method {
        name: "debug_accountRange",
        parameters: &[
            "block",
            "startKey",
            "limit = 256",
            "noCode = false",
            "noStorage = false",
            "incompletes = false",
        ],
        help: "At most 256 accounts after a block, in the order of the hashes of their addresses and in the format of \
               geth's dump, with `next` in base64. The addresses of accounts that no longer exist are unknown; such \
               accounts are returned only with `incompletes`. The accounts may have at most 65,536 slots together.",
        run: Run::Queued(QueueClass::Long, ranges::account_range),
    },
    Method {
        name: "debug_getModifiedAccountsByNumber",
        parameters: &["start", "end = start"],
        help: "The accounts that exist after block `end` and differ from their state after block `start`. With one \
               block, they are compared with its parent. At most 200,000 changes are compared.",
        run: Run::Queued(QueueClass::Long, modified::by_number),
    },
    Method {
        name: "debug_getModifiedAccountsByHash",
        parameters: &["startHash", "endHash = startHash"],
        help: "Like debug_getModifiedAccountsByNumber.",
        run: Run::Queued(QueueClass::Long, modified::by_hash),
    },
    Method {
        name: "debug_executionWitness",
        parameters: &["block"],
        help: "The data that is needed to execute a block without the state, in reth's format: trie nodes, code, \
               preimages of the keys in the nodes, and headers. The block is executed again.",
        run: Run::Queued(QueueClass::Long, witness::execution_witness),
    },
];

fn required_block(call: &Call) -> Result<u64, Error> {
    let id: BlockId = call.arguments()?.required()?;
    call.require_canonical(id)
}

/// A block by tag or number. As in cosmos/evm, the number may be a JSON number.
struct PlainTag(BlockTag);

impl Param for PlainTag {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        match json.parse() {
            Ok(number) => Ok(Self(BlockTag::Number(number))),
            Err(_) => BlockTag::read(json, spec).map(Self),
        }
    }
}

fn tagged_block(call: &Call) -> Result<u64, Error> {
    let PlainTag(tag) = call.arguments()?.required()?;
    call.require_canonical(BlockId::Tag(tag))
}

fn header_rlp(call: &Call) -> Answer {
    raw_header_at(call, tagged_block(call)?)
}

fn block_rlp(call: &Call) -> Answer {
    raw_block_at(call, tagged_block(call)?)
}

fn raw_header(call: &Call) -> Answer {
    raw_header_at(call, required_block(call)?)
}

fn raw_header_at(call: &Call, number: u64) -> Answer {
    let header = call.view.blocks()?.header(number)?;
    json(&header.map(|(_, rlp)| rlp))
}

fn raw_block(call: &Call) -> Answer {
    raw_block_at(call, required_block(call)?)
}

/// Maximum length of a body that is converted to hex inline. This takes about 0.2 ms.
const MAX_INLINE_RAW_BODY_BYTES: usize = 128 * 1024;

/// Runs a method inline if the block is small.
fn small_block(
    call: &Call,
    number: fn(&Call) -> Result<u64, Error>,
    answer: fn(&Call) -> Answer,
) -> Result<Option<Json>, Error> {
    let bytes = call.view.blocks()?.body_bytes(number(call)?)?;
    if bytes > MAX_INLINE_RAW_BODY_BYTES { Ok(None) } else { answer(call).map(Some) }
}

fn raw_block_at(call: &Call, number: u64) -> Answer {
    let blocks = call.view.blocks()?;
    let (header, body) = (blocks.header(number)?, blocks.body(number)?);
    json(&header.zip(body).map(|((_, header), body)| Bytes::from(join(&header, &body))))
}

fn raw_receipts(call: &Call) -> Answer {
    let number = required_block(call)?;
    let receipts = stored::receipts(&call.view.blocks()?, number)?;
    let encoded = receipts.iter().map(|receipt| {
        let mut out = Vec::new();
        encode_receipt(receipt, &logs_bloom(&receipt.logs), &mut out);
        Bytes::from(out)
    });
    json(&encoded.collect::<Vec<_>>())
}

fn bad_blocks(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&[(); 0])
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Traced {
    tx_hash: B256,
    result: GethTrace,
}

fn trace_transaction(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    let Options(options) = arguments.optional()?.unwrap_or_default();
    let Some((stored, index)) = locate(&call.context.spec, &call.view, hash)? else {
        return Err(Error::server("transaction not found"));
    };
    let replay = Replay::with_timeout(call, timeout(&options)?);
    trace_json(call, &replay.transaction(&stored, index, GethTracer(options))?)
}

/// Returns the number of the block, or geth's error if it does not exist.
fn block_number(call: &Call, id: BlockId) -> Result<u64, Error> {
    call.find_canonical(id)?.ok_or_else(|| {
        Error::server(match id {
            BlockId::Tag(tag) => format!("block #{} not found", tag.number(&call.view)),
            BlockId::Hash(hash) => format!("block {hash} not found"),
        })
    })
}

fn trace_block_by_number(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    let Options(options) = arguments.optional()?.unwrap_or_default();
    trace_block(call, block_number(call, BlockId::Tag(tag))?, options)
}

fn trace_block_by_hash(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    let Options(options) = arguments.optional()?.unwrap_or_default();
    trace_block(call, block_number(call, BlockId::Hash(hash))?, options)
}

fn trace_block_by_rlp(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let rlp: Bytes = arguments.required()?;
    let Options(options) = arguments.optional()?.unwrap_or_default();
    let block =
        Block::decode(&rlp).map_err(|error| Error::invalid_argument(0, &error.to_string()))?;
    trace_block(call, block_number(call, BlockId::Hash(block.hash))?, options)
}

fn trace_block(call: &Call, number: u64, options: GethDebugTracingOptions) -> Answer {
    let stored = StoredBlock::read(&call.context.spec, &call.view.blocks()?, number)?;
    let mut list = TraceList::new(call);
    let replay = Replay::with_timeout(call, timeout(&options)?);
    let tracer = GethTracer(options);
    replay.block(&stored, tracer, .., |TxPosition { hash: tx_hash, .. }, result| {
        list.push(&Traced { tx_hash, result })?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(list.end())
}

/// The options of the trace of a call.
#[derive(Default)]
struct CallOptions {
    options: GethDebugTracingOptions,
    /// The overrides, which are fields of the options.
    overrides: CallOverrides,
    inside: Option<InBlock>,
}

/// The options for executing the call inside its block, before the transaction at an index.
struct InBlock {
    index: u64,
    block: BlockOverrides,
    /// Maximum duration of the trace.
    timeout: Option<Duration>,
}

impl Param for CallOptions {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Given<'a> {
            #[serde(borrow, default)]
            state_overrides: Option<&'a RawValue>,
            #[serde(borrow, default)]
            block_overrides: Option<&'a RawValue>,
            #[serde(borrow, default)]
            tx_index: Option<&'a RawValue>,
        }
        let Given { state_overrides, block_overrides, tx_index } = fields::read(json)?;
        let overrides = CallOverrides::read(state_overrides, block_overrides, spec)?;
        let inside = match tx_index.map(RawValue::get).filter(|index| *index != "null") {
            Some(index) => {
                let block =
                    block_overrides.map(|raw| rpc_eth::eth::read_block_overrides(raw.get(), spec));
                let block = block.transpose()?.unwrap_or_default();
                Some(InBlock { index: u64::read(index, spec)?, block, timeout: None })
            }
            None => None,
        };
        Ok(Self { options: tracing_options(json)?, overrides, inside })
    }
}

fn trace_call(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let request: Request = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    let CallOptions { options, overrides, inside } = arguments.optional()?.unwrap_or_default();
    if id.is_pending() {
        return Err(Error::server("tracing on top of pending is not supported"));
    }
    let number = block_number(call, id)?;
    let timeout = timeout(&options)?;
    let tracer = GethTracer(options);
    if let Some(inside) = inside {
        let inside = InBlock { timeout, ..inside };
        let trace = trace_in_block(call, request, number, &inside, overrides, &tracer)?;
        return trace_json(call, &trace);
    }
    let id = BlockId::Tag(BlockTag::Number(number));
    let trace = on_block_with(call, request, id, overrides, |site, execution| {
        let time = TraceTimeout::new(site.host, timeout);
        let CallSite { spec, modules, state, header, .. } = *site;
        let site = CallSite { spec, modules, state, host: &time, header };
        time.begin();
        let trace = site.trace(execution, &tracer, gas_cap(call));
        time.end()?;
        trace.map_err(|error| trace_error(error, execution.from))
    })?;
    trace_json(call, &trace)
}

/// Returns an error if the block has no transaction at the index. A block without transactions accepts index 0.
fn check_index(stored: &StoredBlock, index: u64) -> Result<(), Error> {
    if index < stored.block.transactions.len().max(1) as u64 {
        return Ok(());
    }
    let hash = stored.block.hash;
    Err(Error::server(format!("transaction index {index} out of range for block {hash}")))
}

/// Traces a call inside a block. Computes the state at that point from the state of the parent.
fn trace_in_block(
    call: &Call,
    request: Request,
    number: u64,
    inside: &InBlock,
    overrides: CallOverrides,
    tracer: &GethTracer,
) -> Result<GethTrace, Error> {
    let parent = number.checked_sub(1).ok_or_else(|| Error::server("no transaction in genesis"))?;
    let stored = StoredBlock::read(&call.context.spec, &call.view.blocks()?, number)?;
    let (header, hash, index) = (&stored.block.header, stored.block.hash, inside.index);
    check_index(&stored, index)?;
    let before = stored.txs().take(index as usize).map(|tx| tx.map(MinedTx::recovered));
    let before = before.collect::<Result<Vec<_>, StoredError>>()?;
    let mut seen = header.clone();
    inside.block.apply(&mut seen);
    let parent = BlockId::Tag(BlockTag::Number(parent));
    let within = modules_within(call, number)?;
    on_block_with(call, request, parent, overrides, |site, execution| {
        let failed = |error| trace_error(error, execution.from);
        let time = TraceTimeout::new(site.host, inside.timeout);
        let CallSite { spec, state, .. } = *site;
        let (modules, host) = (within.as_deref(), &time);
        let site = CallSite { spec, modules, state, host, header: site.header };
        let overlay = site.overlay_after(header, hash, &before).map_err(failed)?;
        let site = CallSite { spec, modules, state, host, header: &seen };
        time.begin();
        let trace = site.trace_on(overlay, execution, tracer, gas_cap(call));
        time.end()?;
        let (trace, _) = trace.map_err(failed)?;
        Ok(trace)
    })
}
