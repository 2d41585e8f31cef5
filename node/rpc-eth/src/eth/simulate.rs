//! `eth_simulateV1`: executes calls in simulated blocks.

use super::{
    call::{CallHost, gas_cap, in_time, invalid_text},
    request::BlockOverridesParam,
    request::{AccountOverrides, Request},
};
use crate::{
    method::{Answer, Call, json},
    module_state::modules_after,
};
use alloy_primitives::{Bytes, U64};
use chain::ChainSpec;
use evm::{
    BlockOverrides, CallOutcome, CallSite, SimulateBlock, SimulateError, SimulateOptions,
    SimulatedBlock, SimulatedCall, StateError, halt_text,
};
use revm::context_interface::result::InvalidTransaction;
use rpc_types::{
    PendingDetail,
    block_id::BlockId,
    error::Error,
    fields,
    object::{BlockObject, LogObject, LogPosition, TransactionObject, Transactions},
    params::Param,
};
use serde::Serialize;
use serde_json::value::RawValue;
use state::stored::{self, MinedTx};
use storage::StateChanges;

/// Maximum number of blocks in a request. The simulation does not support more.
const MAX_BLOCKS: usize = evm::MAX_SIMULATED_BLOCKS as usize;
/// Maximum number of calls in all blocks together, which limits the work that a small request can cause.
const MAX_CALLS: usize = 10_000;
/// Error code of a call that halted.
const HALTED: i32 = -32015;
/// Error code of a call that reverted.
const REVERTED: i32 = 3;

/// The parameters of a simulation.
struct Payload {
    blocks: Vec<BlockRequest>,
    options: SimulateOptions,
    full: bool,
}

struct BlockRequest {
    block: BlockOverrides,
    accounts: AccountOverrides,
    calls: Vec<Request>,
}

/// The parameter as JSON.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    #[serde(borrow)]
    block_state_calls: Vec<BlockCallsObject<'a>>,
    trace_transfers: Option<bool>,
    validation: Option<bool>,
    return_full_transactions: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockCallsObject<'a> {
    #[serde(borrow, default)]
    block_overrides: Option<&'a RawValue>,
    #[serde(borrow, default)]
    state_overrides: Option<&'a RawValue>,
    #[serde(borrow, default)]
    calls: Option<Vec<&'a RawValue>>,
}

impl Param for Payload {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        fn read<T: Param + Default>(raw: Option<&RawValue>, spec: &ChainSpec) -> Result<T, String> {
            raw.map_or_else(|| Ok(T::default()), |raw| T::read(raw.get(), spec))
        }
        let object: Object<'_> = fields::read(json)?;
        let mut blocks = Vec::with_capacity(object.block_state_calls.len());
        for block in &object.block_state_calls {
            let calls = block.calls.iter().flatten();
            blocks.push(BlockRequest {
                block: read::<BlockOverridesParam>(block.block_overrides, spec)?.0,
                accounts: read(block.state_overrides, spec)?,
                calls: calls.map(|raw| Request::read(raw.get(), spec)).collect::<Result<_, _>>()?,
            });
        }
        let options = SimulateOptions {
            trace_transfers: object.trace_transfers.unwrap_or_default(),
            validation: object.validation.unwrap_or_default(),
            gas_cap: 0,
        };
        Ok(Self { blocks, options, full: object.return_full_transactions.unwrap_or_default() })
    }
}

pub(super) fn simulate(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let payload: Payload = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(BlockId::LATEST);
    if payload.blocks.is_empty() {
        return Err(Error::invalid_params("empty input"));
    }
    if payload.blocks.len() > MAX_BLOCKS {
        return Err(too_many_blocks());
    }
    let calls: usize = payload.blocks.iter().map(|block| block.calls.len()).sum();
    if calls > MAX_CALLS {
        return Err(Error::client_limit(format!("more than {MAX_CALLS} calls"), MAX_CALLS as u64));
    }
    if id.is_pending() {
        // The first simulated block contains the hash of the pending block.
        call.pending(PendingDetail::Roots)?;
    }
    let number = call.require(id)?;
    let spec = &call.context.spec;
    let mut blocks = Vec::with_capacity(payload.blocks.len());
    for block in payload.blocks {
        let calls = block.calls.into_iter().map(|request| request.check(spec));
        blocks.push(SimulateBlock {
            block: block.block,
            accounts: block.accounts.0,
            calls: calls.collect::<Result<_, _>>()?,
        });
    }
    let options = SimulateOptions { gas_cap: gas_cap(call), ..payload.options };
    let simulated = run(call, number, blocks, options)?;
    let objects = simulated.iter().map(|block| block_object(block, payload.full));
    json(&objects.collect::<Result<Vec<_>, _>>()?)
}

fn run(
    call: &Call,
    number: u64,
    blocks: Vec<SimulateBlock>,
    options: SimulateOptions,
) -> Result<Vec<SimulatedBlock>, Error> {
    let (hash, header) = stored::header_of(&call.view, number)?;
    let state = call.view.state.reader_at(number)?;
    let trie = call.view.trie_at(number)?;
    let state_root = |changes: &StateChanges| {
        let updated = storage::update_state_root(&trie, changes, header.state_root);
        updated.map(|(root, _)| root).map_err(StateError::new)
    };
    let deadline = call.call_deadline();
    let host = CallHost::new(call, &deadline);
    let spec = &call.context.spec;
    let modules = modules_after(call, number)?;
    let modules = modules.as_deref();
    let site = CallSite { spec, modules, state: &state, host: &host, header: &header };
    let simulated = site.simulate(hash, &state_root, blocks, options);
    simulated.map_err(|error| in_time(call, &deadline, simulate_error(error)))
}

/// A simulated block: a block object with the results of its calls.
#[derive(Serialize)]
struct SimulatedObject<'a> {
    #[serde(flatten)]
    block: BlockObject<'a>,
    calls: Vec<CallObject<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallObject<'a> {
    return_data: Bytes,
    logs: Vec<LogObject<'a>>,
    gas_used: U64,
    max_used_gas: U64,
    status: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

/// The error of a call.
#[derive(Serialize)]
struct Failure {
    message: String,
    code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Bytes>,
}

fn block_object(simulated: &SimulatedBlock, full: bool) -> Result<SimulatedObject<'_>, Error> {
    let block = &simulated.block;
    let transactions = if full {
        let objects = simulated.calls.iter().enumerate().map(|(index, call)| {
            let (tx, hash, sender) = (call.tx.clone(), call.hash, call.sender);
            let (raw, cosmos) = (Bytes::new(), None);
            TransactionObject::mined(&MinedTx { block, index, raw, tx, hash, sender, cosmos })
        });
        Transactions::Full(objects.collect())
    } else {
        Transactions::Hashes(simulated.calls.iter().map(|call| call.hash).collect())
    };
    let calls = simulated.calls.iter().enumerate();
    let calls = calls.map(|(index, call)| call_object(simulated, index, call));
    Ok(SimulatedObject { calls: calls.collect(), block: BlockObject::new(block, transactions) })
}

fn call_object<'a>(
    simulated: &'a SimulatedBlock,
    index: usize,
    call: &'a SimulatedCall,
) -> CallObject<'a> {
    let block = &simulated.block;
    let logs = call.logs.iter().map(|(log_index, log)| {
        let position = LogPosition {
            block_number: block.header.number,
            block_hash: block.hash,
            block_timestamp: block.header.timestamp,
            transaction_hash: call.hash,
            transaction_index: index,
            log_index: *log_index,
        };
        LogObject::new(log, position)
    });
    let (return_data, error) = match &call.outcome {
        CallOutcome::Success(output) => (output.clone(), None),
        CallOutcome::Revert(data) => {
            let message = Error::reverted(data).message().to_owned();
            let failure = Failure { message, code: REVERTED, data: Some(data.clone()) };
            (Bytes::new(), Some(failure))
        }
        CallOutcome::Halt(reason) => {
            let failure = Failure { message: halt_text(reason), code: HALTED, data: None };
            (Bytes::new(), Some(failure))
        }
    };
    CallObject {
        return_data,
        logs: logs.collect(),
        gas_used: U64::from(call.gas_used),
        max_used_gas: U64::from(call.max_used_gas),
        status: U64::from(u64::from(error.is_none())),
        error,
    }
}

fn too_many_blocks() -> Error {
    Error::coded(-38026, "too many blocks".to_owned())
}

/// Converts errors to the codes of the execution-apis specification.
fn simulate_error(error: SimulateError) -> Error {
    let text = error.to_string();
    let code = match &error {
        SimulateError::TooManyBlocks => return too_many_blocks(),
        SimulateError::Number { .. } => -38020,
        SimulateError::Time { .. } => -38021,
        SimulateError::BlockGas { .. } => -38015,
        SimulateError::Invalid { reason, sender, gas } => {
            let text = invalid_text(reason, *sender);
            let text = format!("err: {text} (supplied gas {gas})");
            return Error::coded(invalid_code(reason), text);
        }
        SimulateError::Override(_) => return Error::server(text),
        _ => return Error::internal(text),
    };
    Error::coded(code, text)
}

const fn invalid_code(reason: &InvalidTransaction) -> i32 {
    match reason {
        InvalidTransaction::NonceTooLow { .. } => -38010,
        InvalidTransaction::NonceTooHigh { .. } => -38011,
        InvalidTransaction::GasPriceLessThanBasefee => -38012,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
        | InvalidTransaction::GasFloorMoreThanGasLimit { .. } => -38013,
        InvalidTransaction::LackOfFundForMaxFee { .. }
        | InvalidTransaction::OverflowPaymentInTransaction => -38014,
        InvalidTransaction::CreateInitCodeSizeLimit => -38025,
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => -32602,
        _ => -32603,
    }
}
