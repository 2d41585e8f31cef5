//! Adds the gas of a transaction to the trace of another tracer.

use super::{CompletingTracer, FinishedTx, Tracer, Watch};
use crate::{TraceError, overlay::Overlay};
use std::error::Error;
use storage::StateRead;
use transactions::RecoveredTx;

/// Returns the trace of another tracer and the gas.
#[derive(Clone, Debug, Default)]
pub struct WithGas<T>(pub T);

/// The gas of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutionGas {
    /// Gas of all instructions and of the transaction itself, before the refund.
    pub spent: u64,
    /// The refund (EIP-3529).
    pub refunded: u64,
}

impl<S, T> Tracer<S> for WithGas<T>
where
    S: StateRead<Error: Error + Send + Sync + 'static> + 'static,
    T: Tracer<S>,
{
    type Inspector = T::Inspector;
    type Trace = (T::Trace, ExecutionGas);

    fn watch(&self) -> Result<Watch<T::Inspector>, TraceError> {
        self.0.watch()
    }

    fn is_exceeded(inspector: &T::Inspector) -> bool {
        T::is_exceeded(inspector)
    }

    fn trace(
        &self,
        inspector: &mut CompletingTracer<T::Inspector>,
        tx: &FinishedTx<'_>,
        state: &mut Overlay<'_, S>,
    ) -> Result<Self::Trace, TraceError> {
        let gas = tx.result.result.gas();
        let gas = ExecutionGas { spent: gas.total_gas_spent(), refunded: gas.final_refunded() };
        Ok((self.0.trace(inspector, tx, state)?, gas))
    }

    fn trace_cosmos(&self, tx: &RecoveredTx, gas_used: u64) -> Self::Trace {
        (self.0.trace_cosmos(tx, gas_used), ExecutionGas { spent: gas_used, refunded: 0 })
    }
}
