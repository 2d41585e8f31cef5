//! `evmd_`: what this chain has in addition to Ethereum: its fee market and the events of its modules.

use crate::{
    eth::fee_quantiles,
    method::{Answer, Call, Line, Method, Run, json},
    module_state::parameters_after,
};
use feemarket::{
    Market,
    query::{BaseFeeResponse, BlockGasResponse, ParamsResponse},
    store::Record,
};
use rpc_types::{block_id::BlockId, error::Error, text::Json};
use serde_json::json as value;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "evmd_pipeline",
        parameters: &[],
        help: "What the stages of the pipeline have done, how full the rings between them are, and \
               whether one has failed.",
        run: Run::Inline(pipeline),
    },
    Method {
        name: "evmd_feeQuantiles",
        parameters: &["from", "to", "bucketBlocks", "percentiles = []"],
        help: "The fee history of up to 100,000 blocks in up to 2,048 buckets: base fees, gas, and \
               quantiles of the tips over all gas of a bucket.",
        run: Run::Line(Line::Long, fee_quantiles),
    },
    Method {
        name: "evmd_feemarketParams",
        parameters: &["block = latest"],
        help: "Parameters of the fee market after a block, its base fee among them.",
        run: Run::Quick { at_once: |call| of_head(call, params), whole: params, line: Line::Short },
    },
    Method {
        name: "evmd_feemarketBaseFee",
        parameters: &["block = latest"],
        help: "The base fee of a block with all its decimals; zero where there is none.",
        run: Run::Quick {
            at_once: |call| of_head(call, base_fee),
            whole: base_fee,
            line: Line::Short,
        },
    },
    Method {
        name: "evmd_feemarketBlockGas",
        parameters: &["block = latest"],
        help: "The gas of a block from which the base fee of the next follows.",
        run: Run::Quick {
            at_once: |call| of_head(call, block_gas),
            whole: block_gas,
            line: Line::Short,
        },
    },
    Method {
        name: "evmd_endpoints",
        parameters: &[],
        help: "Addresses of all that the node serves, JSON-RPC and others.",
        run: Run::Inline(endpoints),
    },
    Method {
        name: "evmd_blockEvents",
        parameters: &["block = latest"],
        help: "Events of the modules in a block; none in genesis.",
        run: Run::Line(Line::Short, block_events),
    },
];

fn pipeline(call: &Call) -> Answer {
    call.no_arguments()?;
    let monitor = &call.context.monitor;
    json(&value!({
        "head": alloy_primitives::U64::from(call.view.number()),
        "fault": monitor.fault(),
        "stages": monitor.readings(),
        "rings": monitor.rings(),
    }))
}

fn params(call: &Call) -> Answer {
    json(&ParamsResponse::of(&market(call)?))
}

fn base_fee(call: &Call) -> Answer {
    json(&BaseFeeResponse::of(&market(call)?))
}

fn block_gas(call: &Call) -> Answer {
    json(&BlockGasResponse::of(&market(call)?))
}

fn endpoints(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.context.endpoints)
}

fn block_events(call: &Call) -> Answer {
    json(&record(call)?.events)
}

fn market(call: &Call) -> Result<Market, Error> {
    let modules = parameters_after(call, number(call)?)?.ok_or_else(no_market)?;
    Ok(modules.market.clone())
}

/// The answer if the newest block is asked about. The record of an older one has the events of all its
/// transactions.
fn of_head(call: &Call, answer: fn(&Call) -> Answer) -> Result<Option<Json>, Error> {
    if number(call)? == call.view.number() { answer(call).map(Some) } else { Ok(None) }
}

/// The block that the only parameter names.
fn number(call: &Call) -> Result<u64, Error> {
    let id: BlockId = call.arguments()?.optional()?.unwrap_or(BlockId::LATEST);
    call.require(id)
}

/// What is stored of the block that the only parameter names.
fn record(call: &Call) -> Result<Record, Error> {
    let id: BlockId = call.arguments()?.optional()?.unwrap_or(BlockId::LATEST);
    let number = call.require_canonical(id)?;
    if call.context.spec.native().is_none() {
        return Err(no_market());
    }
    let bytes = call.view.blocks()?.module(number)?;
    let bytes = bytes.ok_or_else(|| Error::internal(format_args!("block {number} has no row")))?;
    Record::from_bytes(&bytes).map_err(Error::internal)
}

fn no_market() -> Error {
    Error::server("this chain has no fee market: it follows Ethereum's rules")
}
