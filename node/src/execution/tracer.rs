//! What watches a transaction run, and what it tells afterwards: geth's tracers and parity's, both with a
//! bound on what they keep.

mod kept;

use std::error::Error;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Bytes, U256, map::HashSet};
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
use storage::StateRead;

use super::{
    RecoveredTx, TraceError,
    machine::MachineContext,
    overlay::Overlay,
    words::{Form, translate},
};
pub(super) use kept::KEPT_BYTES_MAX;
use kept::{Kept, Steps};

/// A tracer's inspector, with what bounds it before it.
pub(super) type Watch<I> = (Kept, I);

/// A kind of trace.
pub(crate) trait Tracer<S>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    /// What watches.
    type Inspector: for<'a> Inspector<MachineContext<'a, S>>;
    /// What is told.
    type Trace;

    /// What watches one transaction.
    fn watch(&self) -> Result<Watch<Self::Inspector>, TraceError>;

    /// What is told of one that ran on `state` and is not committed.
    fn trace(
        &self,
        inspector: &mut Self::Inspector,
        ran: &Ran<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<Self::Trace, TraceError>;

    /// What is told of a Cosmos transaction: one call that the interpreter never saw.
    fn trace_cosmos(&self, tx: &RecoveredTx, gas_used: u64) -> Self::Trace;
}

/// A transaction that ran.
pub(crate) struct Ran<'a> {
    pub(super) context: TransactionContext,
    pub(super) env: &'a TxEnv,
    pub(super) block: &'a BlockEnv,
    pub(super) result: &'a ResultAndState,
}

/// Traces as `debug_` gives them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GethTracer(pub(crate) GethDebugTracingOptions);

impl<S> Tracer<S> for GethTracer
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    type Inspector = DebugInspector;
    type Trace = GethTrace;

    fn watch(&self) -> Result<Watch<DebugInspector>, TraceError> {
        let inspector = DebugInspector::new(self.0.clone()).map_err(TraceError::from)?;
        Ok((Kept::new(geth_steps(&self.0)), inspector))
    }

    fn trace(
        &self,
        inspector: &mut DebugInspector,
        ran: &Ran<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<GethTrace, TraceError> {
        let trace = inspector.get_result(Some(ran.context), ran.env, ran.block, ran.result, state);
        let mut trace = translate(trace?, Form::of(&self.0));
        if let GethTrace::FlatCallTracer(frames) = &mut trace
            && let Some(first) = frames.first_mut()
        {
            // Like its limit, the whole transaction's.
            first.set_gas_used(ran.result.result.tx_gas_used());
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

/// What one of geth's tracers keeps of each instruction.
fn geth_steps(options: &GethDebugTracingOptions) -> Option<Steps> {
    let whole = Steps { stack: true, memory: true, most: u64::MAX };
    let erc7562 = GethDebugTracerType::from(GethDebugBuiltInTracerType::Erc7562Tracer);
    match &options.tracer {
        Some(tracer) if *tracer == erc7562 => Some(whole),
        // The one it has inside that keeps instructions.
        Some(tracer) if !tracer.as_str().is_empty() => {
            options.tracer_config.0.get(erc7562.as_str()).map(|_| whole)
        }
        _ => Some(Steps {
            stack: !options.config.disable_stack.unwrap_or_default(),
            memory: options.config.is_memory_enabled(),
            most: options.config.limit.filter(|limit| *limit > 0).unwrap_or(u64::MAX),
        }),
    }
}

/// Traces as `trace_` gives them: of calls, of instructions, of changes to the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParityTracer(pub(crate) HashSet<TraceType>);

impl<S> Tracer<S> for ParityTracer
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
{
    type Inspector = TracingInspector;
    type Trace = TraceResults;

    fn watch(&self) -> Result<Watch<TracingInspector>, TraceError> {
        let config = TracingInspectorConfig::from_parity_config(&self.0);
        // What instructions write to memory is counted there, the instructions here.
        let limits = TraceLimits::default()
            .set_max_recorded_bytes(Some(KEPT_BYTES_MAX))
            .set_behavior(TraceLimitBehavior::Halt);
        let steps = Steps { stack: false, memory: false, most: u64::MAX };
        let steps = config.record_steps.then_some(steps);
        Ok((Kept::new(steps), TracingInspector::new(config).with_limits(limits)))
    }

    fn trace(
        &self,
        inspector: &mut TracingInspector,
        ran: &Ran<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<TraceResults, TraceError> {
        let inspector = std::mem::take(inspector);
        let builder = inspector.into_parity_builder();
        Ok(builder.into_trace_results_with_state(ran.result, &self.0, &*state)?)
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
