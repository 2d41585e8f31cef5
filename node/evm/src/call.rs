//! Executes single calls on a state, for `eth_call` and `eth_estimateGas`. Their changes are never stored.
//!
//! The skipped checks, the environment and the search for a gas limit are the same as in geth, because tools compare
//! results with geth's.

use std::error::Error;

use alloy_consensus::{Header, Transaction as _};
use alloy_eips::{eip2930::AccessList, eip4844::DATA_GAS_PER_BLOB, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, Log, TxKind, U256};
use revm::{
    context::{TransactionType, TxEnv, either::Either},
    context_interface::result::{EVMError, ExecutionResult, HaltReason, InvalidTransaction},
};
use storage::{Account, StateRead};

use super::{
    AccountOverride, ExecutionHost, StateError,
    environment::Environment,
    machine::{CANCELLED, Machine, MachineError},
    overlay::Overlay,
    overrides::{self, OverrideError},
    prices::WidePrices,
};
use chain::{ChainSpec, Fork};
use modules::Modules;
use transactions::RecoveredTx;

/// Gas of a plain transfer, the minimum of any transaction.
const TRANSFER_GAS: u64 = 21_000;
/// Gas stipend of a call that transfers value.
const CALL_STIPEND: u64 = 2_300;
/// The search for an estimate stops when its bounds differ by less than 1.5 % of the upper bound, as in geth.
const ESTIMATE_ERROR_PER_MILLE: u64 = 15;

/// A call as described by a client.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// Caller; the zero address if the client specifies none.
    pub from: Address,
    /// The called address, or a creation.
    pub to: TxKind,
    /// Gas limit; if absent, the gas cap of calls or the gas left in a simulated block.
    pub gas: Option<u64>,
    /// Legacy gas price, or fee cap of an EIP-1559 call, in wei.
    pub max_fee_per_gas: u128,
    /// Priority fee in wei; if present, the call is an EIP-1559 call.
    pub max_priority_fee_per_gas: Option<u128>,
    /// Value in wei.
    pub value: U256,
    /// Input or init code.
    pub input: Bytes,
    /// EIP-2930 access list.
    pub access_list: Option<AccessList>,
    /// EIP-4844 blob hashes.
    pub blob_hashes: Vec<B256>,
    /// EIP-4844 fee cap in wei. Before Cancun a call with this field is refused, even without blobs.
    pub max_fee_per_blob_gas: Option<u128>,
    /// EIP-7702 authorizations.
    pub authorizations: Vec<SignedAuthorization>,
    /// The caller's nonce. Only simulated blocks with validation check it.
    pub nonce: Option<u64>,
    /// Whether the price is a legacy gas price.
    pub is_legacy: bool,
    /// Overrides of the block's state.
    pub overrides: Vec<AccountOverride>,
    /// Price of blob gas instead of the block's, in wei.
    pub blob_base_fee: Option<u128>,
    /// The prices, if one of them exceeds 128 bits. The call is never executed then.
    pub wide_prices: Option<WidePrices>,
}

impl Call {
    /// Returns the call that a signed transaction makes.
    pub fn of(tx: &RecoveredTx) -> Self {
        let RecoveredTx { tx, sender, .. } = tx;
        let authorizations = tx.authorization_list().unwrap_or_default().to_vec();
        Self {
            from: *sender,
            to: tx.kind(),
            gas: Some(tx.gas_limit()),
            max_fee_per_gas: tx.max_fee_per_gas(),
            max_priority_fee_per_gas: tx.max_priority_fee_per_gas(),
            value: tx.value(),
            input: tx.input().clone(),
            access_list: tx.access_list().cloned(),
            blob_hashes: tx.blob_versioned_hashes().unwrap_or_default().to_vec(),
            max_fee_per_blob_gas: tx.max_fee_per_blob_gas(),
            authorizations,
            nonce: Some(tx.nonce()),
            is_legacy: !tx.is_dynamic_fee(),
            overrides: Vec::new(),
            blob_base_fee: None,
            wide_prices: None,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call returned these bytes.
    Success(Bytes),
    /// The call reverted with these bytes.
    Revert(Bytes),
    /// The call failed and used all gas.
    Halt(HaltReason),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallResult {
    /// How the call ended.
    pub outcome: CallOutcome,
    /// Gas used, after refunds.
    pub gas_used: u64,
    /// Gas used before refunds.
    pub gas_spent: u64,
    /// Logs emitted.
    pub logs: Vec<Log>,
}

/// Why a call was not executed, or why an estimate has no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call is not a valid transaction.
    #[error("{0}")]
    Invalid(InvalidTransaction),
    /// The balance of the caller does not exceed the value plus the cost of the blobs.
    #[error("insufficient funds for transfer")]
    InsufficientFunds,
    /// The call reverts or fails at the highest gas limit allowed, but not for lack of gas.
    #[error("execution failed")]
    Failed(CallOutcome),
    /// The call runs out of gas at the highest gas limit allowed.
    #[error("gas required exceeds allowance ({0})")]
    Allowance(u64),
    /// The call has a price above 128 bits, and the balance of its sender covers it.
    #[error("a price of gas above 2^128-1 wei is not supported, whatever the balance is")]
    PriceTooHigh,
    /// The overrides are invalid.
    #[error(transparent)]
    Override(OverrideError),
    /// A read failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The client has disconnected, or the time limit has passed.
    #[error("execution was cancelled")]
    Cancelled,
    /// The interpreter failed.
    #[error("interpreter: {0}")]
    Interpreter(String),
}

/// The context of a call: a chain, the state after a block, and that block's header.
#[derive(Clone, Copy)]
pub struct CallSite<'a, S> {
    /// The chain's rules.
    pub spec: &'a ChainSpec,
    /// A native chain's modules after the block, whose access rules apply. Without them, access is not
    /// restricted.
    pub modules: Option<&'a Modules>,
    /// The state before the call.
    pub state: &'a S,
    /// Hashes for BLOCKHASH.
    pub host: &'a dyn ExecutionHost,
    /// Number, time, coinbase, base fee and other values that the call can read.
    pub header: &'a Header,
}

impl<S> CallSite<'_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Executes one call with at most `gas_cap` gas. Nonce, sender code, block gas limit and EIP-7825 are not checked.
    /// Without a gas price, the base fee is not checked either, and is zero in the call. The balance of the caller must
    /// cover the value, and the gas at the price that the call offers.
    ///
    /// # Errors
    /// If the call is not valid or a read fails. A revert or a halt is a result and not an error.
    pub fn call(&self, call: &Call, gas_cap: u64) -> Result<CallResult, CallError> {
        self.run(call, call.gas.unwrap_or(gas_cap).min(gas_cap))
    }

    /// Does the same as [`Self::call`] with at most `reduced_gas` gas, which limits the cost of this attempt. Returns
    /// the result only if the call would certainly have the same result with its own gas limit.
    pub fn call_with_reduced_gas(
        &self,
        call: &Call,
        gas_cap: u64,
        reduced_gas: u64,
    ) -> Option<CallOutcome> {
        // A price makes the required balance depend on the gas limit. Before Byzantium, results depend more on gas.
        let free = call.max_fee_per_gas == 0 && call.wide_prices.is_none();
        if !free || self.spec.fork_of(self.header) < Fork::Byzantium {
            return None;
        }
        let gas = call.gas.unwrap_or(gas_cap).min(gas_cap);
        let mut machine = self.machine(call, ()).ok()?;
        if gas > reduced_gas {
            machine.fail_if_gas_matters();
        }
        let result = machine.transact(transaction(self.spec, call, gas.min(reduced_gas))).ok()?;
        match outcome(result).outcome {
            CallOutcome::Halt(_) => None,
            ended => Some(ended),
        }
    }

    /// Finds the lowest gas limit, to within 1.5 %, at which the call succeeds.
    ///
    /// # Errors
    /// If the call is not valid, a read fails, or the call fails at the highest limit allowed: the minimum of its own
    /// limit (or else the block's), the gas that the caller can pay for, EIP-7825's limit and `gas_cap`.
    pub fn estimate_gas(&self, call: &Call, gas_cap: u64) -> Result<u64, CallError> {
        let mut high = self.highest_limit(call)?.min(gas_cap);
        if call.wide_prices.is_some() && high < TRANSFER_GAS {
            return Err(CallError::Allowance(high));
        }
        if call.input.is_empty()
            && let TxKind::Call(to) = call.to
            && self.account(call, to)?.code_hash == KECCAK256_EMPTY
            && self.is_transfer(call)?
        {
            return Ok(TRANSFER_GAS);
        }
        let first = match self.run(call, high) {
            Err(CallError::Invalid(reason)) if is_gas_too_low(&reason) => {
                return Err(CallError::Allowance(high));
            }
            result => result?,
        };
        match first.outcome {
            CallOutcome::Success(_) => {}
            CallOutcome::Halt(HaltReason::OutOfGas(_)) => return Err(CallError::Allowance(high)),
            outcome => return Err(CallError::Failed(outcome)),
        }
        let mut low = first.gas_used.saturating_sub(1);
        // Most calls succeed with the gas that they used, a stipend, and the gas that the 63/64 rule reserves.
        let optimistic = first.gas_spent.saturating_add(CALL_STIPEND).saturating_mul(64) / 63;
        if optimistic < high {
            if self.succeeds(call, optimistic)? {
                high = optimistic;
            } else {
                low = optimistic;
            }
        }
        while low + 1 < high {
            if u128::from(high - low) * 1000
                < u128::from(high) * u128::from(ESTIMATE_ERROR_PER_MILLE)
            {
                break;
            }
            // Most results are near the lower bound.
            let middle = (low + (high - low) / 2).min(low.saturating_mul(2));
            if self.succeeds(call, middle)? {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }

    fn highest_limit(&self, call: &Call) -> Result<u64, CallError> {
        let mut high = match call.gas {
            Some(gas) if gas >= TRANSFER_GAS => gas,
            _ => self.header.gas_limit,
        };
        if let Some(cap) = self.spec.fork_of(self.header).max_tx_gas() {
            high = high.min(cap);
        }
        let price = call.wide_prices.map_or(U256::from(call.max_fee_per_gas), |wide| wide.fee_cap);
        if !price.is_zero() {
            let balance = self.account(call, call.from)?.balance;
            // The price of blobs does not depend on the gas limit.
            let available = balance
                .checked_sub(call.value)
                .and_then(|rest| rest.checked_sub(max_blob_fee(call)))
                .filter(|rest| !rest.is_zero())
                .ok_or(CallError::InsufficientFunds)?;
            let allowance = available / price;
            high = u64::try_from(allowance).map_or(high, |allowance| high.min(allowance));
        }
        Ok(high)
    }

    /// Returns an account as it is after the call's overrides and before its execution.
    fn account(&self, call: &Call, address: Address) -> Result<Account, CallError> {
        let mut machine = self.machine(call, ())?;
        Ok(machine.overlay_mut().account(address)?.unwrap_or_default())
    }

    /// Returns whether the call succeeds with the gas of a plain transfer. Returns false if the call is not valid with
    /// it, because the execution with the highest limit reports the reason.
    fn is_transfer(&self, call: &Call) -> Result<bool, CallError> {
        match self.succeeds(call, TRANSFER_GAS) {
            Err(CallError::Invalid(_)) => Ok(false),
            result => result,
        }
    }

    fn succeeds(&self, call: &Call, gas: u64) -> Result<bool, CallError> {
        match self.run(call, gas) {
            Ok(result) => Ok(matches!(result.outcome, CallOutcome::Success(_))),
            Err(CallError::Invalid(reason)) if is_gas_too_low(&reason) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn run(&self, call: &Call, gas: u64) -> Result<CallResult, CallError> {
        let mut machine = self.machine(call, ())?;
        check_prices(call, gas, machine.overlay_mut())?;
        let result = machine.transact(transaction(self.spec, call, gas));
        result.map(outcome).map_err(machine_error)
    }

    /// Does the same as [`Self::call`] on the state after other calls, and also returns the state after this call.
    ///
    /// # Errors
    /// As [`Self::call`], and if the execution was cancelled.
    pub fn call_on<'m>(
        &self,
        overlay: Overlay<'m, S>,
        call: &Call,
        gas_cap: u64,
    ) -> Result<(CallResult, Overlay<'m, S>), CallError> {
        if self.host.is_cancelled() {
            return Err(CallError::Cancelled);
        }
        let mut machine = self.machine_over(overlay, call, ())?;
        let gas = call.gas.unwrap_or(gas_cap).min(gas_cap);
        check_prices(call, gas, machine.overlay_mut())?;
        let result = machine.transact(transaction(self.spec, call, gas)).map_err(machine_error)?;
        Ok((outcome(result), machine.into_overlay()))
    }

    /// Returns the state before any call.
    pub fn overlay(&self) -> Overlay<'_, S> {
        let keep_empty = self.spec.fork_of(self.header) < Fork::SpuriousDragon;
        Overlay::new(self.state, self.host, keep_empty)
    }

    /// Creates the machine that executes a call, with some checks disabled and the overrides applied.
    pub(super) fn machine<'m, I>(
        &'m self,
        call: &Call,
        inspector: I,
    ) -> Result<Machine<'m, S, I>, CallError> {
        self.machine_over(self.overlay(), call, inspector)
    }

    /// Does the same as [`Self::machine`] on the state after other calls.
    pub(super) fn machine_over<'m, I>(
        &self,
        overlay: Overlay<'m, S>,
        call: &Call,
        inspector: I,
    ) -> Result<Machine<'m, S, I>, CallError> {
        let Environment { fork, mut cfg, mut block, native, .. } =
            Environment::new(self.spec, self.modules, self.header);
        if call.max_fee_per_blob_gas.is_some() && fork < Fork::Cancun {
            return Err(CallError::Invalid(InvalidTransaction::Eip4844NotSupported));
        }
        cfg.disable_nonce_check = true;
        cfg.disable_eip3607 = true;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        if call.max_fee_per_gas == 0 && call.max_priority_fee_per_gas.unwrap_or_default() == 0 {
            cfg.disable_base_fee = true;
            block.basefee = 0;
        }
        if let Some(blob) = &mut block.blob_excess_gas_and_price {
            if !call.blob_hashes.is_empty() && call.max_fee_per_blob_gas.unwrap_or_default() == 0 {
                blob.blob_gasprice = 0;
            } else if let Some(price) = call.blob_base_fee {
                blob.blob_gasprice = price;
            }
        }
        let mut machine = Machine::new(overlay, cfg, block, fork, native, inspector);
        let (overlay, precompiles) = machine.overlay_and_precompiles();
        overrides::apply(&call.overrides, overlay, precompiles).map_err(|error| match error {
            OverrideError::State(error) => CallError::State(error),
            error => CallError::Override(error),
        })?;
        Ok(machine)
    }
}

/// Converts the reason why the machine did not execute a call.
pub(super) fn machine_error(error: MachineError) -> CallError {
    match error {
        EVMError::Transaction(reason) => CallError::Invalid(reason),
        EVMError::Database(source) => CallError::State(source),
        EVMError::Custom(reason) if reason == CANCELLED => CallError::Cancelled,
        error => CallError::Interpreter(error.to_string()),
    }
}

impl<S> std::fmt::Debug for CallSite<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSite").field("block", &self.header.number).finish_non_exhaustive()
    }
}

/// Returns whether the gas limit is below the minimum for the transaction's data. A higher limit may suffice.
const fn is_gas_too_low(reason: &InvalidTransaction) -> bool {
    matches!(
        reason,
        InvalidTransaction::CallGasCostMoreThanGasLimit { .. }
            | InvalidTransaction::GasFloorMoreThanGasLimit { .. }
    )
}

/// Returns the balance that a call's blobs require of the sender (EIP-4844), in wei.
fn max_blob_fee(call: &Call) -> U256 {
    let gas = U256::from(call.blob_hashes.len()) * U256::from(DATA_GAS_PER_BLOB);
    let price = U256::from(call.max_fee_per_blob_gas.unwrap_or_default());
    gas.saturating_mul(call.wide_prices.map_or(price, |wide| wide.blob_fee_cap))
}

/// Refuses a call with prices above 128 bits. `overlay` is the state on which the call would be executed.
///
/// # Errors
/// If the call has such prices, or a read fails.
pub(super) fn check_prices<S>(
    call: &Call,
    gas: u64,
    overlay: &mut Overlay<'_, S>,
) -> Result<(), CallError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let Some(prices) = &call.wide_prices else { return Ok(()) };
    let balance = overlay.account(call.from)?.unwrap_or_default().balance;
    Err(prices.refusal(call, gas, balance))
}

pub(super) fn transaction(spec: &ChainSpec, call: &Call, gas_limit: u64) -> TxEnv {
    let tx_type = if !call.authorizations.is_empty() {
        TransactionType::Eip7702
    } else if !call.blob_hashes.is_empty() {
        TransactionType::Eip4844
    } else if call.max_priority_fee_per_gas.is_some() {
        TransactionType::Eip1559
    } else if call.access_list.is_some() {
        TransactionType::Eip2930
    } else {
        TransactionType::Legacy
    };
    TxEnv {
        tx_type: tx_type as u8,
        caller: call.from,
        gas_limit,
        gas_price: call.max_fee_per_gas,
        kind: call.to,
        value: call.value,
        data: call.input.clone(),
        nonce: call.nonce.unwrap_or_default(),
        chain_id: Some(spec.chain_id),
        access_list: call.access_list.clone().unwrap_or_default(),
        gas_priority_fee: call.max_priority_fee_per_gas,
        blob_hashes: call.blob_hashes.clone(),
        max_fee_per_blob_gas: call.max_fee_per_blob_gas.unwrap_or_default(),
        authorization_list: call.authorizations.iter().cloned().map(Either::Left).collect(),
    }
}

pub(super) fn outcome(result: ExecutionResult) -> CallResult {
    let gas = *result.gas();
    let (gas_used, gas_spent) = (gas.tx_gas_used(), gas.total_gas_spent());
    let (outcome, logs) = match result {
        ExecutionResult::Success { output, logs, .. } => {
            (CallOutcome::Success(output.into_data()), logs)
        }
        ExecutionResult::Revert { output, logs, .. } => (CallOutcome::Revert(output), logs),
        ExecutionResult::Halt { reason, logs, .. } => (CallOutcome::Halt(reason), logs),
    };
    CallResult { outcome, gas_used, gas_spent, logs }
}
