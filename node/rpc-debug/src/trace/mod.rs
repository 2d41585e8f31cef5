//! `trace_`: the calls, instructions and state changes of transactions, in the formats of OpenEthereum's trace module,
//! which Erigon, Nethermind and reth support too. Disabled by default, because a trace can cost more than the
//! execution of its block.

mod calls;
mod filter;
mod mined;

use alloy_primitives::map::HashSet;
use alloy_rpc_types_trace::parity::TraceType;
use chain::ChainSpec;
use evm::ParityTracer;
use rpc_eth::method::{Method, QueueClass, Run};
use rpc_types::params::Param;

const TYPES: &str = "types";
const BLOCK: &str = "block = latest";

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "trace_block",
        parameters: &["block"],
        help: "Every call, creation and self-destruct of the transactions of a block, and the rewards of proof of \
               work. Null if the block does not exist.",
        run: Run::Queued(QueueClass::Long, mined::block),
    },
    Method {
        name: "trace_transaction",
        parameters: &["hash"],
        help: "Every call, creation and self-destruct of a mined transaction. Null if it does not exist.",
        run: Run::Queued(QueueClass::Long, mined::transaction),
    },
    Method {
        name: "trace_get",
        parameters: &["hash", "traceAddress"],
        help: "One trace of a mined transaction. Its position is the list of the indices of the calls that lead to \
               it. An empty list selects the transaction itself.",
        run: Run::Queued(QueueClass::Long, mined::get),
    },
    Method {
        name: "trace_filter",
        parameters: &["filter"],
        help: "The traces in a range of blocks (fromBlock = earliest, toBlock = latest) by fromAddress and toAddress, \
               which may be lists. Mode `union` selects traces that match either of them. The first `after` traces are \
               skipped, and at most `count` are returned. The blocks are executed again, so a wide range takes long, \
               up to json-rpc.trace-timeout-ms.",
        run: Run::Queued(QueueClass::Long, filter::filter),
    },
    Method {
        name: "trace_replayTransaction",
        parameters: &["hash", TYPES],
        help: "Executes a mined transaction again and returns the listed types of traces: `trace`, `vmTrace` and \
               `stateDiff`. A Cosmos transaction has no vmTrace and no stateDiff.",
        run: Run::Queued(QueueClass::Long, mined::replay_transaction),
    },
    Method {
        name: "trace_replayBlockTransactions",
        parameters: &["block", TYPES],
        help: "Like trace_replayTransaction, for every transaction of a block. Null if the block does not exist.",
        run: Run::Queued(QueueClass::Long, mined::replay_block),
    },
    Method {
        name: "trace_call",
        parameters: &["transaction", TYPES, BLOCK, "stateOverrides = {}", "blockOverrides = {}"],
        help: "The traces of a call. The call is executed as by eth_call.",
        run: Run::Queued(QueueClass::Long, calls::call),
    },
    Method {
        name: "trace_callMany",
        parameters: &["calls", BLOCK],
        help: "The traces of several calls, each of which is a list of a transaction and types of traces. Each call is \
               executed on the state after the previous one.",
        run: Run::Queued(QueueClass::Long, calls::call_many),
    },
    Method {
        name: "trace_rawTransaction",
        parameters: &["data", TYPES, BLOCK],
        help: "The traces of a signed transaction that is executed on the state after a block. Its nonce is assumed \
               to be the next one of its sender.",
        run: Run::Queued(QueueClass::Long, calls::raw_transaction),
    },
];

/// The types of traces by name.
const TRACE_TYPES: [(&str, TraceType); 3] = [
    ("trace", TraceType::Trace),
    ("vmTrace", TraceType::VmTrace),
    ("stateDiff", TraceType::StateDiff),
];

/// The parameter with the types of traces.
#[derive(Debug)]
struct TraceTypes(ParityTracer);

impl Param for TraceTypes {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        let words: Vec<String> =
            serde_json::from_str(json).map_err(|_| "not a list of strings".to_owned())?;
        let kind = |word: &String| {
            let known = TRACE_TYPES.iter().find(|(name, _)| name == word).map(|(_, kind)| *kind);
            known.ok_or_else(|| format!("no trace type {word:?}: trace, vmTrace or stateDiff"))
        };
        words
            .iter()
            .map(kind)
            .collect::<Result<HashSet<_>, _>>()
            .map(|kinds| Self(ParityTracer(kinds)))
    }
}

/// Returns a tracer that records calls only.
fn calls_tracer() -> ParityTracer {
    ParityTracer(HashSet::from_iter([TraceType::Trace]))
}
