//! Traces transactions for the `debug_` and `trace_` methods, and computes access lists for `eth_createAccessList`.
//!
//! [`Tracer`] selects one of the tracers of `revm-inspectors`.

use std::error::Error;

use alloy_consensus::Header;
use alloy_eips::eip2930::AccessList;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256, TxKind};
use revm::{
    DatabaseCommit,
    context::TxEnv,
    context_interface::result::{EVMError, ResultAndState},
};
use revm_inspectors::{
    access_list::AccessListInspector,
    tracing::{DebugInspectorError, TransactionContext},
};
use storage::{StateChanges, StateRead};

use super::{
    BlockBuilder, Call, CallError, CallResult, CallSite, ExecutionError, ExecutionHost, StateError,
    StateRoot, TxError,
    block::Outcome,
    call::{check_prices, machine_error, outcome, transaction},
    cosmos::session,
    environment::Environment,
    machine::{Machine, MachineError, fatal},
    overlay::Overlay,
    tracer::{FinishedTx, GethTracer, MAX_TRACE_BYTES, Tracer, TxPosition, Watch},
};
use chain::{ChainSpec, Fork};
use modules::Modules;
use transactions::RecoveredTx;

/// Maximum number of executions of a call, each with the access list of the previous one, until the list is stable.
const ACCESS_LIST_RUNS: usize = 16;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The tracer or its settings are unknown.
    #[error("{0}")]
    Tracer(String),
    /// The trace of one transaction would exceed its memory limit.
    #[error(
        "trace exceeds {MAX_TRACE_BYTES} bytes; a tracer of calls, or one without memory and stack, \
         keeps less"
    )]
    TooLarge,
    /// A transaction is not valid. This cannot happen in a block of the chain.
    #[error(transparent)]
    Transaction(#[from] TxError),
    /// A call is not valid.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The block is not valid.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

impl<E: std::fmt::Display> From<DebugInspectorError<E>> for TraceError {
    fn from(error: DebugInspectorError<E>) -> Self {
        Self::Tracer(error.to_string())
    }
}

impl From<StateError> for TraceError {
    fn from(error: StateError) -> Self {
        Self::Call(CallError::State(error))
    }
}

/// A block that is executed again under a tracer.
#[expect(missing_debug_implementations, reason = "it holds an interpreter, which has none")]
pub struct TracedBlock<'a, S, T>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
    T: Tracer<S>,
{
    builder: BlockBuilder<'a, S, Watch<T::Inspector>>,
    tracer: T,
    number: u64,
    hash: B256,
    index: usize,
    /// Number of logs of the transactions so far.
    logs: u64,
}

impl<'a, S, T> TracedBlock<'a, S, T>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
    T: Tracer<S>,
{
    /// Starts the block with this header and hash on its parent's state. For a native chain, `modules` holds its
    /// modules as of the beginning of the block, which determined the charges of its transactions.
    ///
    /// # Errors
    /// If the tracer is unknown, or a read fails.
    pub fn start(
        spec: &'a ChainSpec,
        state: &'a S,
        host: &'a dyn ExecutionHost,
        header: &Header,
        hash: B256,
        modules: Option<&'a Modules>,
        tracer: T,
    ) -> Result<Self, TraceError> {
        let mut environment = Environment::new(spec, modules, header);
        environment.set_min_gas_multiplier(modules);
        let overlay = Overlay::new(state, host, environment.fork < Fork::SpuriousDragon);
        let watch = tracer.watch()?;
        let mut builder = BlockBuilder::over(spec, overlay, environment, header.number, watch);
        builder.gov = session(spec, modules, header);
        builder.begin(header)?;
        Ok(Self { builder, tracer, number: header.number, hash, index: 0, logs: 0 })
    }

    /// Executes the next transaction without tracing it. For `state_root` see [`super::execute_block`].
    ///
    /// # Errors
    /// If the transaction is not valid.
    pub fn pass(&mut self, tx: &RecoveredTx, state_root: &StateRoot<'_>) -> Result<(), TraceError> {
        self.builder.push(tx, state_root)??;
        self.count();
        Ok(())
    }

    /// Counts a finished transaction and its logs.
    fn count(&mut self) {
        let receipt = self.builder.executed.receipts.last();
        self.logs += receipt.map_or(0, |receipt| receipt.logs.len() as u64);
        self.index += 1;
    }

    /// Returns the state after the transactions so far.
    pub fn into_overlay(self) -> Overlay<'a, S> {
        self.builder.machine.into_overlay()
    }

    /// Executes the next transaction and returns its trace.
    ///
    /// # Errors
    /// If the transaction is not valid, or its trace is too large.
    pub fn trace(
        &mut self,
        tx: &RecoveredTx,
        state_root: &StateRoot<'_>,
    ) -> Result<T::Trace, TraceError> {
        if let Some(cosmos) = &tx.cosmos {
            // The interpreter does not execute Cosmos transactions.
            self.pass(tx, state_root)?;
            return Ok(self.tracer.trace_cosmos(tx, cosmos.gas_used()));
        }
        let context = TransactionContext {
            block_hash: Some(self.hash),
            tx_index: Some(self.index),
            tx_hash: Some(tx.hash),
        };
        let position = TxPosition { context, logs_before: self.logs };
        let env = TxEnv::from_recovered_tx(&tx.tx, tx.sender);
        let number = self.number;
        let machine = self.builder.machine_mut();
        let (trace, result) =
            trace_tx(machine, &self.tracer, position, &env, |error| match error {
                EVMError::Transaction(reason) => TxError::Invalid(reason).into(),
                error => fatal(number, error).into(),
            })?;
        machine.overlay_mut().commit(result.state);
        let tx_type = alloy_consensus::Typed2718::ty(&tx.tx);
        let outcome = Outcome::interpreted(tx_type, tx.blob_gas(), result.result);
        self.builder.record(outcome, state_root)?;
        self.count();
        Ok(trace)
    }
}

/// Executes a transaction with a tracer, without committing its changes. `error` converts the reason why the
/// transaction was not executed.
fn trace_tx<S, T>(
    machine: &mut Machine<'_, S, Watch<T::Inspector>>,
    tracer: &T,
    position: TxPosition,
    env: &TxEnv,
    error: impl FnOnce(MachineError) -> TraceError,
) -> Result<(T::Trace, ResultAndState), TraceError>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
    T: Tracer<S>,
{
    *machine.inspector_mut() = tracer.watch()?;
    let result = machine.inspect(env.clone());
    let (memory, inspector) = machine.inspector_mut();
    if memory.is_exceeded() || T::is_exceeded(&inspector.tracer) {
        return Err(TraceError::TooLarge);
    }
    let result = result.map_err(error)?;
    let block = machine.block().clone();
    let (overlay, (_, inspector)) = machine.overlay_and_inspector();
    let finished = FinishedTx { position, env, block: &block, result: &result };
    let trace = tracer.trace(inspector, &finished, overlay)?;
    Ok((trace, result))
}

impl<'a, S> CallSite<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Returns the state after `txs`, the first transactions of the next block, which has this header and hash.
    ///
    /// # Errors
    /// If one of them is not valid, a read fails, or the execution was cancelled.
    pub fn overlay_after(
        &self,
        header: &Header,
        hash: B256,
        txs: &[RecoveredTx],
    ) -> Result<Overlay<'a, S>, TraceError>
    where
        S: 'static,
    {
        let Self { spec, modules, state, host, .. } = *self;
        let tracer = GethTracer::default();
        let mut block = TracedBlock::start(spec, state, host, header, hash, modules, tracer)?;
        // The receipts are discarded, so the state roots in them do not matter.
        let no_root = |_: &StateChanges| Ok::<_, StateError>(B256::ZERO);
        for tx in txs {
            let passed = block.pass(tx, &no_root);
            if host.is_cancelled() {
                return Err(CallError::Cancelled.into());
            }
            passed?;
        }
        Ok(block.into_overlay())
    }

    /// Executes a call with a tracer and returns its trace.
    ///
    /// # Errors
    /// As [`Self::call`], or if the tracer is unknown or the trace is too large.
    pub fn trace<T>(&self, call: &Call, tracer: &T, gas_cap: u64) -> Result<T::Trace, TraceError>
    where
        S: 'static,
        T: Tracer<S>,
    {
        self.trace_on(self.overlay(), call, tracer, gas_cap).map(|(trace, _)| trace)
    }

    /// Does the same as [`Self::trace`] on the state after other calls, and also returns the state after this call.
    ///
    /// # Errors
    /// As [`Self::trace`].
    pub fn trace_on<'m, T>(
        &self,
        overlay: Overlay<'m, S>,
        call: &Call,
        tracer: &T,
        gas_cap: u64,
    ) -> Result<(T::Trace, Overlay<'m, S>), TraceError>
    where
        S: 'static,
        T: Tracer<S>,
    {
        if self.host.is_cancelled() {
            return Err(CallError::Cancelled.into());
        }
        let mut machine = self.machine_over(overlay, call, tracer.watch()?)?;
        let gas = call.gas.unwrap_or(gas_cap).min(gas_cap);
        check_prices(call, gas, machine.overlay_mut())?;
        let env = transaction(self.spec, call, gas);
        let error = |error| machine_error(error).into();
        let (trace, result) = trace_tx(&mut machine, tracer, TxPosition::default(), &env, error)?;
        let mut overlay = machine.into_overlay();
        overlay.commit(result.state);
        Ok((trace, overlay))
    }

    /// Returns the accounts and slots that a call touches, and the result of the call with this access list. Omits
    /// accounts that are warm in any case and have no slots.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn access_list(
        &self,
        call: &Call,
        gas_cap: u64,
    ) -> Result<(AccessList, CallResult), CallError> {
        let mut call = call.clone();
        // With an empty list, the first execution fails on a fork without access lists.
        call.access_list.get_or_insert_default();
        let gas = call.gas.unwrap_or(gas_cap).min(gas_cap);
        let excluded = self.warm(&call)?;
        let mut runs = 0;
        loop {
            let before = call.access_list.clone().unwrap_or_default();
            let inspector = AccessListInspector::from(before.clone());
            let mut machine = self.machine(&call, inspector)?;
            check_prices(&call, gas, machine.overlay_mut())?;
            let result = machine.inspect(transaction(self.spec, &call, gas));
            let result = result.map_err(machine_error)?;
            let mut found = machine.inspector_mut().access_list();
            // A warm account still needs its slots to be declared.
            found
                .0
                .retain(|item| !item.storage_keys.is_empty() || !excluded.contains(&item.address));
            found.0.sort_unstable_by_key(|item| item.address);
            runs += 1;
            if found == before || runs == ACCESS_LIST_RUNS {
                return Ok((found, outcome(result.result)));
            }
            call.access_list = Some(found);
        }
    }

    /// Returns accounts that are warm without being declared: sender, recipient or created contract, and precompiles.
    fn warm(&self, call: &Call) -> Result<Vec<Address>, CallError> {
        let mut machine = self.machine(call, ())?;
        let to = match call.to {
            TxKind::Call(to) => to,
            TxKind::Create => {
                let sender = machine.overlay_mut().account(call.from)?;
                let nonce = sender.unwrap_or_default().nonce;
                call.from.create(call.nonce.unwrap_or(nonce))
            }
        };
        let mut warm = vec![call.from, to];
        warm.extend(machine.precompiles());
        Ok(warm)
    }
}
