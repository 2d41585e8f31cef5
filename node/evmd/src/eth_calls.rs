//! Runs the contract calls of the Cosmos interfaces with the limits and caches of JSON-RPC.

use config::JsonRpc;
use cosmos_api::{EthCall, EthCallError, EthCalls};
use evm::{CallError, CallOutcome, CallResult, ExecutionCaches};
use rpc_eth::{CallLimits, CallRunner, CallRunnerError};
use std::sync::Arc;

/// Runs contract calls within the limits of JSON-RPC.
#[derive(Clone, Debug)]
pub struct JsonRpcCalls {
    limits: CallLimits,
    caches: Option<Arc<ExecutionCaches>>,
}

impl JsonRpcCalls {
    /// Uses the gas cap and the timeout in these settings.
    pub fn new(config: &JsonRpc, caches: Option<Arc<ExecutionCaches>>) -> Self {
        Self { limits: CallLimits::of(config), caches }
    }

    fn runner<'a>(&'a self, call: &EthCall<'a>) -> CallRunner<'a> {
        let EthCall { spec, view, number, proposer, gas_cap, interrupt, arguments: _ } = *call;
        let (mut limits, caches) = (self.limits, self.caches.as_deref());
        limits.gas = gas_cap.map_or(limits.gas, |cap| cap.min(limits.gas));
        CallRunner { spec, view, number, proposer, limits, interrupt, caches }
    }
}

impl EthCalls for JsonRpcCalls {
    fn call(&self, call: &EthCall<'_>) -> Result<CallResult, EthCallError> {
        let run = self.runner(call).run(call.arguments, |site, call, cap| site.call(call, cap));
        run.map_err(error_of)
    }

    fn estimate_gas(&self, call: &EthCall<'_>) -> Result<Result<u64, CallOutcome>, EthCallError> {
        let estimate = self.runner(call).run(call.arguments, |site, call, cap| {
            match site.estimate_gas(call, cap) {
                Err(CallError::Failed(reverted @ CallOutcome::Revert(_))) => Ok(Err(reverted)),
                estimate => estimate.map(Ok),
            }
        });
        estimate.map_err(error_of)
    }
}

fn error_of(error: CallRunnerError) -> EthCallError {
    match error {
        CallRunnerError::Refused(error) if error.is_internal() => {
            EthCallError::Internal(format!("{error:?}"))
        }
        CallRunnerError::Refused(error) => EthCallError::Invalid(error.message().to_owned()),
        CallRunnerError::TimedOut(error) => EthCallError::TooLong(error.message().to_owned()),
    }
}
