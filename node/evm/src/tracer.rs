//! Observes transactions and returns geth's or parity's traces, or what a development chain prints. Every tracer has
//! a memory limit.

mod call_memory;
mod completed;
mod console;
mod flat;
mod gas;
mod kept;
mod logs;
mod looked_up;
mod prestate;
mod steps;
#[cfg(test)]
mod tests;

use std::{error::Error, mem};

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, Bytes, U256, map::HashSet};
use alloy_rpc_types_trace::{
    geth::{
        CallFrame, GethDebugBuiltInTracerType, GethDebugTracerType, GethDebugTracingOptions,
        GethTrace,
    },
    parity::{
        Action, CallAction, CallOutput, CallType, TraceOutput, TraceResults, TraceType,
        TransactionTrace,
    },
};
use revm::{
    Inspector,
    context::{BlockEnv, TxEnv},
    context_interface::result::ResultAndState,
};
use revm_inspectors::tracing::{
    DebugInspector, TraceLimitBehavior, TraceLimits, TracingInspector, TracingInspectorConfig,
    TransactionContext,
};
use serde_json::Value;
use storage::StateRead;

use super::{TraceError, machine::MachineContext, overlay::Overlay};
use call_memory::CallMemory;
pub(super) use completed::CompletingTracer;
use completed::Note;
pub use console::{ConsoleTrace, ConsoleTracer};
pub use gas::{ExecutionGas, WithGas};
pub(super) use kept::MAX_TRACE_BYTES;
use kept::{Recorded, Steps, TraceMemory};
use transactions::RecoveredTx;

/// The inspector of a tracer, with a memory limit and with notes that complete its results.
pub(super) type Watch<I> = (TraceMemory, CompletingTracer<I>);

/// A tracer, which creates the inspector for a transaction and returns the trace.
pub trait Tracer<S>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    /// The inspector.
    type Inspector: for<'a> Inspector<MachineContext<'a, S>>;
    /// The result.
    type Trace;

    /// Creates the inspector for one transaction.
    fn watch(&self) -> Result<Watch<Self::Inspector>, TraceError>;

    /// Returns whether the inspector itself ended the execution because the trace exceeded its limit.
    fn is_exceeded(inspector: &Self::Inspector) -> bool;

    /// Returns the trace of a transaction that was executed on `state` and not committed.
    fn trace(
        &self,
        inspector: &mut CompletingTracer<Self::Inspector>,
        tx: &FinishedTx<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<Self::Trace, TraceError>;

    /// Returns the trace of a Cosmos transaction, which the interpreter does not execute.
    fn trace_cosmos(&self, tx: &RecoveredTx, gas_used: u64) -> Self::Trace;
}

/// The position of a transaction in its block; the default value for a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TxPosition {
    pub(super) context: TransactionContext,
    /// Number of logs of the previous transactions.
    pub(super) logs_before: u64,
}

/// A transaction that was executed and not committed.
#[derive(Debug)]
pub struct FinishedTx<'a> {
    pub(super) position: TxPosition,
    pub(super) env: &'a TxEnv,
    pub(super) block: &'a BlockEnv,
    pub(super) result: &'a ResultAndState,
}

/// Returns the traces of the `debug_` methods.
#[derive(Clone, Debug, Default)]
pub struct GethTracer(pub GethDebugTracingOptions);

impl<S> Tracer<S> for GethTracer
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    type Inspector = DebugInspector;
    type Trace = GethTrace;

    fn watch(&self) -> Result<Watch<DebugInspector>, TraceError> {
        check(&self.0)?;
        let options = for_inspectors(self.0.clone());
        let mut inspector = DebugInspector::new(options).map_err(TraceError::from)?;
        let bare = Recorded { calls: true, inputs: false, outputs: false, steps: None };
        let recorded = match &mut inspector {
            DebugInspector::CallTracer(..) | DebugInspector::FlatCallTracer(_) => {
                Recorded { inputs: true, ..bare }
            }
            DebugInspector::PreStateTracer(..) => bare,
            DebugInspector::Default(_, options) => {
                let steps = Steps {
                    stack: !options.disable_stack.unwrap_or_default(),
                    // The output repeats the memory for every instruction, although it is stored once.
                    memory: options.is_memory_enabled(),
                    pushes: false,
                    max_steps: options.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX),
                };
                Recorded { steps: Some(steps), ..bare }
            }
            DebugInspector::Mux(..) => Recorded { inputs: true, ..bare },
            // The other tracers store only selectors, or nothing.
            _ => Recorded { calls: false, ..bare },
        };
        Ok((TraceMemory::new(recorded), CompletingTracer::new(inspector)))
    }

    fn is_exceeded(_: &DebugInspector) -> bool {
        false
    }

    fn trace(
        &self,
        inspector: &mut CompletingTracer<DebugInspector>,
        tx: &FinishedTx<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<GethTrace, TraceError> {
        let context = Some(tx.position.context);
        let CompletingTracer { tracer, notes, created, .. } = inspector;
        let trace = tracer.get_result(context, tx.env, tx.block, tx.result, state)?;
        let noted = Noted { notes, created };
        let mut trace = to_geth_form(trace, &self.0.tracer_config.0, noted, tx, state)?;
        if let GethTrace::Default(frame) = &mut trace {
            steps::cut(frame, self.0.config.limit.unwrap_or_default());
        }
        Ok(trace)
    }

    fn trace_cosmos(&self, tx: &RecoveredTx, gas_used: u64) -> GethTrace {
        GethTrace::CallTracer(CallFrame {
            from: tx.sender,
            to: tx.tx.to(),
            value: Some(tx.tx.value()),
            gas: U256::from(tx.tx.gas_limit()),
            gas_used: U256::from(gas_used),
            input: tx.raw.slice(1..),
            typ: "CALL".to_owned(),
            ..CallFrame::default()
        })
    }
}

/// The names of the supported tracers, for errors.
const TRACERS: &str =
    "callTracer, prestateTracer, 4byteTracer, flatCallTracer, muxTracer and noopTracer";
/// A setting of `callTracer`.
const ONLY_TOP_CALL: &str = "onlyTopCall";
/// A setting of `callTracer`.
const WITH_LOG: &str = "withLog";
/// A setting of `flatCallTracer`.
const PARITY_ERRORS: &str = "convertParityErrors";
/// A setting of `flatCallTracer`.
const PRECOMPILES: &str = "includePrecompiles";

/// Returns whether a setting of a tracer is present and true.
fn is_set(config: &Value, name: &str) -> bool {
    config[name].as_bool().unwrap_or_default()
}

/// Returns the settings of a tracer, if it is selected by itself or as part of a mux.
fn settings(options: &GethDebugTracingOptions, of: GethDebugBuiltInTracerType) -> Option<&Value> {
    let mux = GethDebugTracerType::from(GethDebugBuiltInTracerType::MuxTracer);
    let (of, config) = (GethDebugTracerType::from(of), &options.tracer_config.0);
    match options.tracer.as_ref()? {
        tracer if *tracer == of => Some(config),
        tracer if *tracer == mux => config.get(of.as_str()),
        _ => None,
    }
}

/// Refuses unsupported tracers and contradictory settings: tracers in JavaScript, and options that the inspectors
/// would accept with results that differ from geth's.
fn check(options: &GethDebugTracingOptions) -> Result<(), TraceError> {
    match &options.tracer {
        Some(GethDebugTracerType::JsTracer(name)) => return Err(unknown_tracer(name)),
        Some(tracer) if *tracer == GethDebugBuiltInTracerType::Erc7562Tracer.into() => {
            return Err(unknown_tracer(tracer.as_str()));
        }
        _ => {}
    }
    let prestate = settings(options, GethDebugBuiltInTracerType::PreStateTracer);
    if prestate.is_some_and(|config| is_set(config, "diffMode") && is_set(config, "includeEmpty")) {
        return Err(TraceError::Tracer("cannot use diffMode with includeEmpty".to_owned()));
    }
    Ok(())
}

/// Returns the error for an unsupported tracer. A text that is not a name is the code of a JavaScript tracer.
fn unknown_tracer(name: &str) -> TraceError {
    let what = match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => format!("unknown tracer {name:?}: JavaScript tracers"),
        false => "JavaScript tracers".to_owned(),
    };
    TraceError::Tracer(format!("{what} are not supported; the tracers are {TRACERS}"))
}

/// Returns the options for the inspectors, which must record more than is shown.
fn for_inspectors(mut options: GethDebugTracingOptions) -> GethDebugTracingOptions {
    options.config.limit = options.config.limit.map(steps::to_record);
    let calls = settings_mut(&mut options, GethDebugBuiltInTracerType::CallTracer);
    // Log indices also count the logs of calls that are not shown.
    if let Some(config) = calls.filter(|config| is_set(config, WITH_LOG)) {
        config[ONLY_TOP_CALL] = false.into();
    }
    let flat = settings_mut(&mut options, GethDebugBuiltInTracerType::FlatCallTracer);
    // The inspector would hide calls of precompiles, but the notes contain one entry per call.
    if let Some(config) = flat.filter(|config| config.is_null() || config.is_object()) {
        config[PRECOMPILES] = true.into();
    }
    options
}

fn settings_mut(
    options: &mut GethDebugTracingOptions,
    of: GethDebugBuiltInTracerType,
) -> Option<&mut Value> {
    let is_alone = options.tracer == Some(of.into());
    let config = &mut options.tracer_config.0;
    if is_alone { Some(config) } else { config.get_mut(GethDebugTracerType::from(of).as_str()) }
}

/// Notes about a transaction, taken during its execution.
#[derive(Clone, Copy)]
struct Noted<'a> {
    notes: &'a [Note],
    created: &'a [Address],
}

/// Converts a trace to geth's form, with the settings of its tracer.
fn to_geth_form<S>(
    trace: GethTrace,
    config: &Value,
    noted: Noted<'_>,
    tx: &FinishedTx<'_>,
    state: &Overlay<'_, S>,
) -> Result<GethTrace, TraceError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    Ok(match trace {
        GethTrace::Default(mut frame) => {
            steps::complete(&mut frame);
            frame.into()
        }
        GethTrace::CallTracer(mut frame) => {
            completed::set_geth_errors(&mut frame, noted.notes);
            if is_set(config, WITH_LOG) {
                logs::number(&mut frame, tx.position.logs_before);
            }
            if is_set(config, ONLY_TOP_CALL) {
                logs::keep_only_top_call(&mut frame);
            }
            frame.into()
        }
        GethTrace::FlatCallTracer(mut frames) => {
            if let Some(first) = frames.first_mut() {
                // Like its gas limit, the gas used by the outermost call is the value for the whole transaction.
                first.set_gas_used(tx.result.result.tx_gas_used());
            }
            let (parity, precompiles) =
                (is_set(config, PARITY_ERRORS), is_set(config, PRECOMPILES));
            flat::complete(&mut frames, noted.notes, parity, precompiles);
            frames.into()
        }
        GethTrace::PreStateTracer(mut frame) => {
            let looked_up = looked_up::addresses(tx.env, noted.created);
            let touched = &tx.result.state;
            looked_up::add(&mut frame, config, &looked_up, touched, state)?;
            // Accounts with the same code share its bytes here, but each has its own copy in the JSON text.
            if prestate::code_digits(&frame) > MAX_TRACE_BYTES {
                return Err(TraceError::TooLarge);
            }
            // The inspector's type has no field for the code hash.
            let to = tx.env.kind.to();
            GethTrace::JS(prestate::show(frame, config, to, &looked_up, touched, state)?)
        }
        GethTrace::MuxTracer(mut mux) => {
            for (tracer, trace) in &mut mux.0 {
                let config = &config[tracer.as_str()];
                *trace = to_geth_form(mem::take(trace), config, noted, tx, state)?;
            }
            GethTrace::MuxTracer(mux)
        }
        trace => trace,
    })
}

/// Returns the limit for an inspector that counts its own memory. The inspector ends the execution above the limit.
fn inspector_limits() -> TraceLimits {
    TraceLimits::default()
        .set_max_recorded_bytes(Some(MAX_TRACE_BYTES))
        .set_behavior(TraceLimitBehavior::Halt)
}

/// Returns the traces of the `trace_` methods: of calls, of instructions, and of state changes.
#[derive(Clone, Debug, Default)]
pub struct ParityTracer(pub HashSet<TraceType>);

impl<S> Tracer<S> for ParityTracer
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    type Inspector = (CallMemory, TracingInspector);
    type Trace = TraceResults;

    fn watch(&self) -> Result<Watch<Self::Inspector>, TraceError> {
        let config = TracingInspectorConfig::from_parity_config(&self.0);
        let recorded = Recorded {
            calls: true,
            inputs: config.record_inputs,
            outputs: config.record_steps,
            // The inspector's own limit counts the memory that instructions write.
            steps: config.record_steps.then_some(Steps::pushes()),
        };
        let inspector = TracingInspector::new(config).with_limits(inspector_limits());
        let inspector = (CallMemory::new(config.record_steps), inspector);
        Ok((TraceMemory::new(recorded), CompletingTracer::new(inspector)))
    }

    fn is_exceeded((_, inspector): &Self::Inspector) -> bool {
        inspector.limit_exceeded()
    }

    fn trace(
        &self,
        inspector: &mut CompletingTracer<Self::Inspector>,
        tx: &FinishedTx<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<TraceResults, TraceError> {
        let (memory, tracer) = &mut inspector.tracer;
        let builder = mem::take(tracer).into_parity_builder();
        let mut results = builder.into_trace_results_with_state(tx.result, &self.0, &*state)?;
        if let Some(trace) = &mut results.vm_trace {
            memory.complete(trace);
        }
        Ok(results)
    }

    fn trace_cosmos(&self, tx: &RecoveredTx, gas_used: u64) -> TraceResults {
        let action = Action::Call(CallAction {
            from: tx.sender,
            call_type: CallType::Call,
            gas: tx.tx.gas_limit(),
            input: tx.raw.slice(1..),
            to: tx.tx.to().unwrap_or_default(),
            value: tx.tx.value(),
        });
        let result = TraceOutput::Call(CallOutput { gas_used, output: Bytes::new() });
        let mut results = TraceResults {
            output: Bytes::new(),
            state_diff: None,
            trace: Vec::new(),
            vm_trace: None,
        };
        if self.0.contains(&TraceType::Trace) {
            results.trace.push(TransactionTrace {
                action,
                result: Some(result),
                ..Default::default()
            });
        }
        results
    }
}
