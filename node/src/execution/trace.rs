//! Watching transactions run: traces for `debug_` and access lists for `eth_createAccessList`.
//!
//! The tracers are those of `revm-inspectors`.

use std::error::Error;

use alloy_consensus::{Header, Transaction as _};
use alloy_eips::eip2930::AccessList;
use alloy_evm::FromRecoveredTx;
use alloy_primitives::{Address, B256, TxKind, U256};
use alloy_rpc_types_trace::geth::{CallFrame, GethDebugTracingOptions, GethTrace};
use revm::{
    DatabaseCommit,
    context::TxEnv,
    context_interface::result::{EVMError, ResultAndState},
};
use revm_inspectors::{
    access_list::AccessListInspector,
    tracing::{DebugInspector, DebugInspectorError, TransactionContext},
};
use storage::StateRead;

use super::{
    BlockBuilder, BlockHashes, Call, CallError, CallResult, CallSite, ExecutionError, RecoveredTx,
    StateError, StateRoot, TxError,
    block::fatal,
    call::{machine_error, outcome, transaction},
    cosmos::session,
    environment::Environment,
    machine::Machine,
    overlay::Overlay,
    words::{Form, translate},
};
use crate::{
    chain::{ChainSpec, Fork},
    modules::Modules,
};

/// Most runs until an access list is the one the call uses with it; each run only adds to it.
const ACCESS_LIST_RUNS: usize = 16;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The tracer or its settings are not known.
    #[error("{0}")]
    Tracer(String),
    /// A transaction does not run, which one of a real block always does.
    #[error(transparent)]
    Transaction(#[from] TxError),
    /// A call does not run.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The block does not run.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
}

impl<E: std::fmt::Display> From<DebugInspectorError<E>> for TraceError {
    fn from(error: DebugInspectorError<E>) -> Self {
        Self::Tracer(error.to_string())
    }
}

/// A block being run again under a tracer.
#[derive(Debug)]
pub struct TracedBlock<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    builder: BlockBuilder<'a, S, DebugInspector>,
    number: u64,
    hash: B256,
    index: usize,
    form: Form,
}

impl<'a, S> TracedBlock<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Starts the block with this header and hash on its parent's state; `modules` are a
    /// native chain's at its beginning, by whose rules its transactions were charged.
    ///
    /// # Errors
    /// A tracer that is not known, or a failed read.
    pub fn start(
        spec: &'a ChainSpec,
        state: &'a S,
        hashes: &'a dyn BlockHashes,
        header: &Header,
        hash: B256,
        modules: Option<&'a Modules>,
        options: GethDebugTracingOptions,
    ) -> Result<Self, TraceError> {
        let form = Form::of(&options);
        let inspector = DebugInspector::new(options).map_err(tracer_error)?;
        let mut environment = Environment::new(spec, modules, header);
        environment.charge_shares(modules);
        let overlay = Overlay::new(state, hashes, environment.fork < Fork::SpuriousDragon);
        let mut builder = BlockBuilder::over(spec, overlay, environment, header.number, inspector);
        builder.gov = session(spec, modules, header);
        builder.begin(header)?;
        Ok(Self { builder, number: header.number, hash, index: 0, form })
    }

    /// Runs the next transaction unwatched. `state_root` as in [`super::execute_block`].
    ///
    /// # Errors
    /// When the transaction does not run.
    pub fn pass(&mut self, tx: &RecoveredTx, state_root: &StateRoot<'_>) -> Result<(), TraceError> {
        self.builder.push(tx, state_root)??;
        self.index += 1;
        Ok(())
    }

    /// Runs the next transaction and gives its trace.
    ///
    /// # Errors
    /// When the transaction does not run.
    pub fn trace(
        &mut self,
        tx: &RecoveredTx,
        state_root: &StateRoot<'_>,
    ) -> Result<GethTrace, TraceError> {
        if tx.cosmos.is_some() {
            // Nothing of it runs in the interpreter.
            self.pass(tx, state_root)?;
            return Ok(GethTrace::CallTracer(plain_call(tx)));
        }
        let form = self.form;
        let machine = self.builder.machine_mut();
        machine.inspector_mut().fuse().map_err(tracer_error)?;
        let env = TxEnv::from_recovered_tx(&tx.tx, tx.sender);
        let result = match machine.inspect(env.clone()) {
            Ok(result) => result,
            Err(EVMError::Transaction(reason)) => return Err(TxError::Invalid(reason).into()),
            Err(error) => return Err(fatal(self.number, error).into()),
        };
        let context = TransactionContext {
            block_hash: Some(self.hash),
            tx_index: Some(self.index),
            tx_hash: Some(tx.hash),
        };
        let trace = finish(machine, context, &env, &result, form)?;
        machine.overlay_mut().commit(result.state);
        let tx_type = alloy_consensus::Typed2718::ty(&tx.tx);
        self.builder.account(tx_type, tx.blob_gas(), result.result, state_root)?;
        self.index += 1;
        Ok(trace)
    }
}

/// A Cosmos transaction as the call it comes to.
fn plain_call(tx: &RecoveredTx) -> CallFrame {
    CallFrame {
        from: tx.sender,
        to: tx.tx.to(),
        value: Some(tx.tx.value()),
        gas: U256::from(tx.tx.gas_limit()),
        gas_used: U256::from(tx.cosmos.as_ref().map_or(0, |cosmos| cosmos.gas_used())),
        input: tx.raw.slice(1..),
        typ: "CALL".to_owned(),
        ..CallFrame::default()
    }
}

/// The trace of a transaction that has run and is not committed.
fn finish<S>(
    machine: &mut Machine<'_, S, DebugInspector>,
    context: TransactionContext,
    env: &TxEnv,
    result: &ResultAndState,
    form: Form,
) -> Result<GethTrace, TraceError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let block = machine.block().clone();
    let (overlay, inspector) = machine.overlay_and_inspector();
    let trace = inspector.get_result(Some(context), env, &block, result, overlay)?;
    Ok(translate(trace, form))
}

fn tracer_error(error: DebugInspectorError) -> TraceError {
    TraceError::from(error)
}

impl<S> CallSite<'_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Runs a call under a tracer.
    ///
    /// # Errors
    /// As [`Self::call`], or a tracer that is not known.
    pub fn trace(
        &self,
        call: &Call,
        gas_cap: u64,
        options: GethDebugTracingOptions,
    ) -> Result<GethTrace, TraceError> {
        let form = Form::of(&options);
        let inspector = DebugInspector::new(options).map_err(tracer_error)?;
        let mut machine = self.machine(call, inspector)?;
        let env = transaction(self.spec, call, call.gas.unwrap_or(gas_cap).min(gas_cap));
        let result = machine.inspect(env.clone()).map_err(machine_error)?;
        finish(&mut machine, TransactionContext::default(), &env, &result, form)
    }

    /// The accounts and slots a call touches beside those that are warm for it anyway, and how it
    /// ends when it declares them.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn access_list(
        &self,
        call: &Call,
        gas_cap: u64,
    ) -> Result<(AccessList, CallResult), CallError> {
        let mut call = call.clone();
        let gas = call.gas.unwrap_or(gas_cap).min(gas_cap);
        let excluded = self.warm(&call)?;
        let mut runs = 0;
        loop {
            let before = call.access_list.clone().unwrap_or_default();
            let inspector = AccessListInspector::from(before.clone());
            let mut machine = self.machine(&call, inspector)?;
            let result = machine.inspect(transaction(self.spec, &call, gas));
            let result = result.map_err(machine_error)?;
            let mut found = machine.inspector_mut().access_list();
            // A warm account still needs its slots declared.
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

    /// Accounts that are warm without being declared: sender, callee or created contract,
    /// precompiles.
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

impl From<StateError> for TraceError {
    fn from(error: StateError) -> Self {
        Self::Call(CallError::State(error))
    }
}
