//! Runs the contract calls of the Cosmos interfaces in the same way as those of JSON-RPC.

use config::JsonRpc;
use cosmos_api::{EthCall, EthCallError, EthCalls};
use evm::{CallError, CallOutcome, CallResult, ExecutionCaches};
use rpc_eth::{Bounds, Trial, TrialError};
use std::sync::Arc;

/// Runs contract calls within the limits of JSON-RPC.
#[derive(Clone, Debug)]
pub struct JsonRpcCalls {
    bounds: Bounds,
    caches: Option<Arc<ExecutionCaches>>,
}

impl JsonRpcCalls {
    /// Uses the gas cap and the timeout in these settings.
    pub fn new(config: &JsonRpc, caches: Option<Arc<ExecutionCaches>>) -> Self {
        Self { bounds: Bounds::of(config), caches }
    }

    fn trial<'a>(&'a self, call: &EthCall<'a>) -> Trial<'a> {
        let EthCall { spec, view, number, proposer, gas_cap, interrupt, arguments: _ } = *call;
        let (mut bounds, caches) = (self.bounds, self.caches.as_deref());
        bounds.gas = gas_cap.map_or(bounds.gas, |cap| cap.min(bounds.gas));
        Trial { spec, view, number, proposer, bounds, interrupt, caches }
    }
}

impl EthCalls for JsonRpcCalls {
    fn call(&self, call: &EthCall<'_>) -> Result<CallResult, EthCallError> {
        let run = self.trial(call).run(call.arguments, |site, call, cap| site.call(call, cap));
        run.map_err(error_of)
    }

    fn estimate_gas(&self, call: &EthCall<'_>) -> Result<Result<u64, CallOutcome>, EthCallError> {
        let estimate = self.trial(call).run(call.arguments, |site, call, cap| {
            match site.estimate_gas(call, cap) {
                Err(CallError::Failed(reverted @ CallOutcome::Revert(_))) => Ok(Err(reverted)),
                estimate => estimate.map(Ok),
            }
        });
        estimate.map_err(error_of)
    }
}

fn error_of(error: TrialError) -> EthCallError {
    match error {
        TrialError::Refused(error) if error.is_internal() => {
            EthCallError::Internal(format!("{error:?}"))
        }
        TrialError::Refused(error) => EthCallError::Invalid(error.message().to_owned()),
        TrialError::TooLong(error) => EthCallError::TooLong(error.message().to_owned()),
    }
}
