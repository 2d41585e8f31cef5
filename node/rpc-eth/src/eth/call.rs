//! `eth_call`, `eth_estimateGas` and `eth_createAccessList`. This module parses the requests, and formats errors as
//! geth does. The crate `evm` executes the calls.

use super::{
    observed,
    request::{AccountOverrides, CallOverrides, Request},
};
use crate::{
    method::{Answer, Call, json, write_json},
    module_state::parameters_after,
};
use alloy_consensus::Header;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, U64};
use chain::Fork;
use evm::{
    BlockOverrides, Call as Execution, CallError, CallOutcome, CallSite, ExecutionCaches,
    ExecutionHost, StateError, halt_text,
};
use revm::context_interface::result::InvalidTransaction;
use rpc_types::{block_id::BlockId, error::Error, text::Json};
use serde::Serialize;
use server::interrupt::Deadline;
use state::stored;
use state::{StateReader, View};
use std::time::{Duration, SystemTime};

/// Gas limit of a call if the settings have no cap, as in geth.
const GAS_UNCAPPED: u64 = u64::MAX / 2;

/// The host of an execution. It returns the block hashes of a view, and cancels the execution at a deadline.
#[derive(Debug)]
pub struct CallHost<'a> {
    /// The view that contains the blocks.
    pub view: &'a View,
    /// The time at which the execution is cancelled.
    pub deadline: &'a Deadline,
    /// The caches that executions share.
    pub caches: Option<&'a ExecutionCaches>,
}

impl<'a> CallHost<'a> {
    /// Creates the host of the execution for a request.
    pub fn new(call: &'a Call, deadline: &'a Deadline) -> Self {
        Self { view: &call.view, deadline, caches: call.context.caches.as_deref() }
    }
}

impl ExecutionHost for CallHost<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        // Few calls read block hashes, so no reader is kept open for them.
        self.view.blocks().and_then(|blocks| blocks.hash(number)).map_err(StateError::new)
    }

    fn is_cancellable(&self) -> bool {
        true
    }

    fn is_cancelled(&self) -> bool {
        self.deadline.passed()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.caches
    }
}

/// Maximum gas of an inline call, which suffices for a few reads of a token.
const MAX_INLINE_GAS: u64 = 100_000;
/// Maximum duration of an inline call.
const MAX_INLINE_TIME: Duration = Duration::from_micros(500);

/// Maximum bytes of the parameters of an inline call. The deadline is not checked while overrides are applied.
const MAX_INLINE_PARAMS_BYTES: usize = 8 * 1024;

/// Executes a call inline. Returns `None` if it is too expensive, or is passed to an observer.
pub(super) fn call_inline(call: &Call) -> Result<Option<Json>, Error> {
    if call.params.len() > MAX_INLINE_PARAMS_BYTES || observed::is_observed(call) {
        return Ok(None);
    }
    let deadline = call.interrupt.within(MAX_INLINE_TIME);
    let outcome = on_block_until(call, &deadline, BlockId::LATEST, |site, execution| {
        Ok(site.call_with_reduced_gas(execution, gas_cap(call), MAX_INLINE_GAS))
    })?;
    match outcome {
        Some(CallOutcome::Success(output)) => write_json(&output).map(Some),
        Some(failed) => Err(failure(failed)),
        None => Ok(None),
    }
}

pub(super) fn call(call: &Call) -> Answer {
    let cap = gas_cap(call);
    let result = on_block(call, |site, execution| {
        let result = site.call(execution, cap).map_err(|error| match error {
            CallError::Invalid(reason) => {
                let gas = execution.gas.unwrap_or(cap).min(cap);
                let reason = invalid_text(&reason, execution.from);
                Error::server(format!("err: {reason} (supplied gas {gas})"))
            }
            error => call_error(error, execution.from),
        });
        observed::observe(call, site, execution, result.as_ref().err());
        result
    })?;
    match result.outcome {
        CallOutcome::Success(output) => write_json(&output),
        failed => Err(failure(failed)),
    }
}

pub(super) fn estimate_gas(call: &Call) -> Answer {
    let default = estimate_block(call);
    let gas = on_block_until(call, &call.call_deadline(), default, |site, execution| {
        let gas = estimate(call, site, execution);
        observed::observe(call, site, execution, gas.as_ref().err());
        gas
    })?;
    write_json(&U64::from(gas))
}

/// Returns the default block of an estimate. On a development chain it is the pending block, as in anvil and Hardhat,
/// because clients set the time and the fees of the next block.
fn estimate_block(call: &Call) -> BlockId {
    if call.context.spec.is_development() { BlockId::PENDING } else { BlockId::LATEST }
}

/// Estimates the gas of an execution under the rules of the block that will include it.
pub(super) fn estimate(
    call: &Call,
    site: &CallSite<'_, StateReader>,
    execution: &Execution,
) -> Result<u64, Error> {
    let next = next_header(call, site.header);
    let header = next.as_ref().unwrap_or(site.header);
    let later = header_one_second_later(call, header);
    let site = CallSite { header: later.as_ref().unwrap_or(header), ..*site };
    let gas = site.estimate_gas(execution, gas_cap(call));
    gas.map_err(|error| call_error(error, execution.from))
}

/// Returns a header with the next timestamp, if `header` is the next block of a development chain and has the timestamp
/// of the newest block. The transaction may be mined in this second or in the next one, and some contracts use more gas
/// in the first transaction of a second. For example, a Uniswap V3 pool then stores a price.
fn header_one_second_later(call: &Call, header: &Header) -> Option<Header> {
    let newest = call.pending.as_ref().map_or(&call.view, |pending| &pending.parent);
    let newest = &newest.head.header;
    let is_same = header.number > newest.number && header.timestamp == newest.timestamp;
    (is_same && call.context.spec.is_development())
        .then(|| Header { timestamp: header.timestamp.saturating_add(1), ..header.clone() })
}

/// Returns the header of the next block, if `header` is the head and a call may have a different result in the next
/// block: because a fork activates there, or because clients of a development chain set its time and fees. Without
/// this, a transaction with the estimated gas could fail in that block.
fn next_header(call: &Call, header: &Header) -> Option<Header> {
    let (spec, head) = (&call.context.spec, &call.view.head);
    // The pending block is already the next block.
    if *header != *head.header || call.pending.is_some() {
        return None;
    }
    let settings = call.context.pool.next_block_settings();
    let step = spec.rules.timestamp_step();
    let timestamp = settings.clock.timestamp(SystemTime::now(), header.timestamp, step);
    let fork = spec.fork_after(header, timestamp);
    if fork == spec.fork_of(header) && !spec.is_development() {
        return None;
    }
    Some(Header {
        number: header.number.saturating_add(1),
        timestamp,
        beneficiary: settings.header.coinbase.unwrap_or(header.beneficiary),
        mix_hash: settings.header.prev_randao.unwrap_or(header.mix_hash),
        base_fee_per_gas: (fork >= Fork::London).then_some(call.next_base_fee()),
        ..header.clone()
    })
}

/// The result of `eth_createAccessList`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccessListObject {
    access_list: AccessList,
    gas_used: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) fn create_access_list(call: &Call) -> Answer {
    let (access_list, result) = on_block(call, |site, execution| {
        let found = site.access_list(execution, gas_cap(call));
        found.map_err(|error| call_error(error, execution.from))
    })?;
    let error = match result.outcome {
        CallOutcome::Success(_) => None,
        // As in geth, the error does not contain the revert reason.
        CallOutcome::Revert(_) => Some("execution reverted".to_owned()),
        CallOutcome::Halt(reason) => Some(halt_text(&reason)),
    };
    json(&AccessListObject { access_list, gas_used: U64::from(result.gas_used), error })
}

/// Runs a function on the call in the parameters and the state after the block in them, with their overrides.
fn on_block<T>(
    call: &Call,
    run: impl FnOnce(&CallSite<'_, StateReader>, &Execution) -> Result<T, Error>,
) -> Result<T, Error> {
    on_block_until(call, &call.call_deadline(), BlockId::LATEST, run)
}

/// Like [`on_block`], but with another deadline and another default block.
fn on_block_until<T>(
    call: &Call,
    deadline: &Deadline,
    default: BlockId,
    run: impl FnOnce(&CallSite<'_, StateReader>, &Execution) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut arguments = call.arguments()?;
    let request: Request = arguments.required()?;
    let id: BlockId = arguments.optional()?.unwrap_or(default);
    let overrides = CallOverrides::next(&mut arguments)?;
    run_request(call, deadline, request, id, overrides, run)
}

/// Runs a function on a call and the state after a block, with overrides.
pub fn on_block_with<T>(
    call: &Call,
    request: Request,
    id: BlockId,
    overrides: CallOverrides,
    run: impl FnOnce(&CallSite<'_, StateReader>, &Execution) -> Result<T, Error>,
) -> Result<T, Error> {
    run_request(call, &call.call_deadline(), request, id, overrides, run)
}

fn run_request<T>(
    call: &Call,
    deadline: &Deadline,
    request: Request,
    id: BlockId,
    overrides: CallOverrides,
    run: impl FnOnce(&CallSite<'_, StateReader>, &Execution) -> Result<T, Error>,
) -> Result<T, Error> {
    let CallOverrides { accounts: AccountOverrides(accounts), block } = overrides;
    check_overrides(&block)?;
    let execution = request.check(&call.context.spec)?;
    let blob_base_fee = block.blob_base_fee;
    let execution = Execution { overrides: accounts, blob_base_fee, ..execution };
    let number = call.require(id)?;
    run_on(call, deadline, number, &block, |site| run(site, &execution))
}

/// Returns an error for overrides that affect more than a single block.
pub(super) fn check_overrides(block: &BlockOverrides) -> Result<(), Error> {
    let Some(field) = block.beyond_header() else { return Ok(()) };
    Err(Error::server(format!("block override {field:?} is not supported for this RPC method")))
}

/// Runs a function on the state after a block.
pub fn on_state<T>(
    call: &Call,
    id: BlockId,
    run: impl FnOnce(&CallSite<'_, StateReader>) -> Result<T, Error>,
) -> Result<T, Error> {
    let number = call.require(id)?;
    run_on(call, &call.call_deadline(), number, &BlockOverrides::default(), run)
}

/// Runs a function on the state after the block `number`, with overrides of its header.
fn run_on<T>(
    call: &Call,
    deadline: &Deadline,
    number: u64,
    overrides: &BlockOverrides,
    run: impl FnOnce(&CallSite<'_, StateReader>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (_, mut header) = stored::header_of(&call.view, number)?;
    overrides.apply(&mut header);
    let state = call.view.state.reader_at(number)?;
    let host = CallHost::new(call, deadline);
    let spec = &call.context.spec;
    let modules = parameters_after(call, number)?;
    let modules = modules.as_deref();
    let result = run(&CallSite { spec, modules, state: &state, host: &host, header: &header });
    result.map_err(|error| in_time(call, deadline, error))
}

/// Replaces the error of an execution that was cancelled at its deadline with the timeout error.
pub(super) fn in_time(call: &Call, deadline: &Deadline, error: Error) -> Error {
    if deadline.passed() {
        Error::timed_out("execution", call.services.limits.call_timeout)
    } else {
        error
    }
}

/// Returns the maximum gas of a call.
pub fn gas_cap(call: &Call) -> u64 {
    gas_bound(call.context.gas_cap)
}

/// Returns the maximum gas of a call for a value of the setting `gas-cap`.
pub const fn gas_bound(cap: u64) -> u64 {
    if cap == 0 { GAS_UNCAPPED } else { cap }
}

/// Converts the error of a call without a result to a JSON-RPC error.
pub fn call_error(error: CallError, from: Address) -> Error {
    match error {
        CallError::Invalid(reason) => Error::server(invalid_text(&reason, from)),
        CallError::Failed(outcome) => failure(outcome),
        CallError::State(_) | CallError::Interpreter(_) => Error::internal(error),
        refused => Error::server(refused.to_string()),
    }
}

/// Converts the outcome of a call that was executed and failed to a JSON-RPC error.
fn failure(outcome: CallOutcome) -> Error {
    match outcome {
        CallOutcome::Revert(data) => Error::reverted(&data),
        CallOutcome::Halt(reason) => Error::server(halt_text(&reason)),
        CallOutcome::Success(_) => Error::internal("a successful call was treated as a failure"),
    }
}

pub(super) fn invalid_text(reason: &InvalidTransaction, from: Address) -> String {
    match reason {
        InvalidTransaction::LackOfFundForMaxFee { fee, balance } => format!(
            "insufficient funds for gas * price + value: address {from} have {balance} want {fee}"
        ),
        InvalidTransaction::OverflowPaymentInTransaction => format!(
            "insufficient funds for gas * price + value: address {from} required balance exceeds \
             256 bits"
        ),
        InvalidTransaction::GasPriceLessThanBasefee => {
            "max fee per gas less than block base fee".to_owned()
        }
        InvalidTransaction::PriorityFeeGreaterThanMaxFee => {
            "max priority fee per gas higher than max fee per gas".to_owned()
        }
        InvalidTransaction::CallGasCostMoreThanGasLimit { initial_gas, gas_limit } => {
            format!("intrinsic gas too low: have {gas_limit}, want {initial_gas}")
        }
        InvalidTransaction::GasFloorMoreThanGasLimit { gas_floor, gas_limit } => {
            format!("insufficient gas for floor data gas cost: have {gas_limit}, want {gas_floor}")
        }
        InvalidTransaction::NonceTooLow { tx, state } => {
            format!("nonce too low: address {from}, tx: {tx} state: {state}")
        }
        InvalidTransaction::NonceTooHigh { tx, state } => {
            format!("nonce too high: address {from}, tx: {tx} state: {state}")
        }
        InvalidTransaction::CreateInitCodeSizeLimit => "max initcode size exceeded".to_owned(),
        InvalidTransaction::Eip2930NotSupported => unsupported("access list", from),
        InvalidTransaction::Eip4844NotSupported => unsupported("blob", from),
        InvalidTransaction::Eip7702NotSupported => unsupported("setcode", from),
        other => other.to_string(),
    }
}

/// Returns the error text for a transaction type that the fork of the block does not support.
fn unsupported(kind: &str, from: Address) -> String {
    format!("transaction type not supported: {kind} tx (sender {from})")
}
