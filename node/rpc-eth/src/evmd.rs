//! `evmd_`: methods for the fee market and module events of a native chain, fee quantiles, and the state of the node.

use crate::{
    eth::fee_quantiles,
    method::{Answer, Call, Method, QueueClass, Run, json},
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
        help: "The counters of the stages of the pipeline, the fill levels of the rings between them, and whether a stage \
               has failed.",
        run: Run::Inline(pipeline),
    },
    Method {
        name: "evmd_feeQuantiles",
        parameters: &["from", "to", "bucketBlocks", "percentiles = []"],
        help: "The fee history of up to 100,000 blocks in up to 2,048 buckets: base fees, gas, and \
               quantiles of the priority fees, weighted by gas.",
        run: Run::Queued(QueueClass::Long, fee_quantiles),
    },
    Method {
        name: "evmd_feemarketParams",
        parameters: &["block = latest"],
        help: "The parameters of the fee market after a block, including its base fee.",
        run: Run::Quick {
            inline: |call| of_head(call, params),
            queued: params,
            queue: QueueClass::Short,
        },
    },
    Method {
        name: "evmd_feemarketBaseFee",
        parameters: &["block = latest"],
        help: "The base fee of a block with all its decimals, or zero without a base fee.",
        run: Run::Quick {
            inline: |call| of_head(call, base_fee),
            queued: base_fee,
            queue: QueueClass::Short,
        },
    },
    Method {
        name: "evmd_feemarketBlockGas",
        parameters: &["block = latest"],
        help: "The gas of a block that determines the next base fee.",
        run: Run::Quick {
            inline: |call| of_head(call, block_gas),
            queued: block_gas,
            queue: QueueClass::Short,
        },
    },
    Method {
        name: "evmd_endpoints",
        parameters: &[],
        help: "The addresses of all servers of the node.",
        run: Run::Inline(endpoints),
    },
    Method {
        name: "evmd_blockEvents",
        parameters: &["block = latest"],
        help: "The events of the modules in a block. Genesis has none.",
        run: Run::Queued(QueueClass::Short, block_events),
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

/// Returns the response inline for the newest block. Reading an older one takes longer, because its record contains the
/// events of all its transactions.
fn of_head(call: &Call, answer: fn(&Call) -> Answer) -> Result<Option<Json>, Error> {
    if number(call)? == call.view.number() { answer(call).map(Some) } else { Ok(None) }
}

/// Returns the number of the block in the only parameter.
fn number(call: &Call) -> Result<u64, Error> {
    let id: BlockId = call.arguments()?.optional()?.unwrap_or(BlockId::LATEST);
    call.require(id)
}

/// Reads the record of the block in the only parameter.
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
