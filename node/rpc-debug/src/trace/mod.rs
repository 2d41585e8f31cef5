//! `trace_`: calls, instructions and changes to the state of transactions, in the shapes of OpenEthereum's
//! trace module, which Erigon, Nethermind and reth serve too. Off unless enabled, because a trace costs what
//! its block cost, and more.

mod calls;
mod filter;
mod mined;

use alloy_primitives::map::HashSet;
use alloy_rpc_types_trace::parity::TraceType;
use chain::ChainSpec;
use evm::ParityTracer;
use rpc_eth::method::{Line, Method, Run};
use rpc_types::params::Param;

const TYPES: &str = "types";
const BLOCK: &str = "block = latest";

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "trace_block",
        parameters: &["block"],
        help: "Every call, creation and self-destruct of a block's transactions, and the rewards of \
               proof of work. Null for a block that is not there.",
        run: Run::Line(Line::Long, mined::block),
    },
    Method {
        name: "trace_transaction",
        parameters: &["hash"],
        help: "Those of a mined transaction. Null for one that is not there.",
        run: Run::Line(Line::Long, mined::transaction),
    },
    Method {
        name: "trace_get",
        parameters: &["hash", "traceAddress"],
        help: "The one of them at a position: the indices on the way to it, none for the transaction \
               itself.",
        run: Run::Line(Line::Long, mined::get),
    },
    Method {
        name: "trace_filter",
        parameters: &["filter"],
        help: "Those of a range of blocks (fromBlock = earliest, toBlock = latest) by fromAddress and \
               toAddress, which may be lists; mode `union` takes what fits either. `after` are left out \
               first, `count` given at most. The blocks are run again: a wide range takes long, up to \
               json-rpc.trace-timeout-ms.",
        run: Run::Line(Line::Long, filter::filter),
    },
    Method {
        name: "trace_replayTransaction",
        parameters: &["hash", TYPES],
        help: "A mined transaction run again for a list of `trace`, `vmTrace` and `stateDiff`. A Cosmos \
               transaction has no vmTrace and no stateDiff.",
        run: Run::Line(Line::Long, mined::replay_transaction),
    },
    Method {
        name: "trace_replayBlockTransactions",
        parameters: &["block", TYPES],
        help: "Every transaction of a block likewise. Null for a block that is not there.",
        run: Run::Line(Line::Long, mined::replay_block),
    },
    Method {
        name: "trace_call",
        parameters: &["transaction", TYPES, BLOCK, "stateOverrides = {}", "blockOverrides = {}"],
        help: "A call, as eth_call runs it.",
        run: Run::Line(Line::Long, calls::call),
    },
    Method {
        name: "trace_callMany",
        parameters: &["calls", BLOCK],
        help: "Calls one after another, each a list of transaction and types, on the state that those \
               before it left.",
        run: Run::Line(Line::Long, calls::call_many),
    },
    Method {
        name: "trace_rawTransaction",
        parameters: &["data", TYPES, BLOCK],
        help: "What a signed transaction would do on the state after a block. Its nonce is taken for its \
               sender's next.",
        run: Run::Line(Line::Long, calls::raw_transaction),
    },
];

/// Which traces are wanted, in words.
const KINDS: [(&str, TraceType); 3] = [
    ("trace", TraceType::Trace),
    ("vmTrace", TraceType::VmTrace),
    ("stateDiff", TraceType::StateDiff),
];

/// The traces that a parameter names.
#[derive(Debug)]
struct Kinds(ParityTracer);

impl Param for Kinds {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        let words: Vec<String> =
            serde_json::from_str(json).map_err(|_| "not a list of strings".to_owned())?;
        let kind = |word: &String| {
            let known = KINDS.iter().find(|(name, _)| name == word).map(|(_, kind)| *kind);
            known.ok_or_else(|| format!("no trace type {word:?}: trace, vmTrace or stateDiff"))
        };
        words
            .iter()
            .map(kind)
            .collect::<Result<HashSet<_>, _>>()
            .map(|kinds| Self(ParityTracer(kinds)))
    }
}

/// Calls only.
fn calls_tracer() -> ParityTracer {
    ParityTracer(HashSet::from_iter([TraceType::Trace]))
}
