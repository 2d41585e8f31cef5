//! Executes calls for interfaces other than JSON-RPC. The arguments have the same format, and the same limits apply.

use crate::eth::{CallHost, Request, call_error};
use alloy_consensus::Header;
use alloy_primitives::Address;
use chain::ChainSpec;
use config::JsonRpc;
use evm::{Call, CallError, CallSite, ExecutionCaches};
use rpc_types::{error::Error, params::Param};
use server::interrupt::Interrupt;
use state::stored;
use state::{StateReader, View};
use std::time::Duration;
use storage::ReadError;

/// The reason why a call has no result.
#[derive(Debug)]
pub enum CallRunnerError {
    /// The call is invalid or failed. Contains the error that JSON-RPC would return.
    Refused(Error),
    /// The call was cancelled at its deadline. Contains the error that JSON-RPC would return.
    TimedOut(Error),
}

impl From<Error> for CallRunnerError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<ReadError> for CallRunnerError {
    fn from(error: ReadError) -> Self {
        Self::Refused(error.into())
    }
}

/// The limits of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallLimits {
    /// Maximum gas.
    pub gas: u64,
    /// Maximum duration.
    pub time: Duration,
}

impl CallLimits {
    /// Returns the limits of calls over JSON-RPC.
    pub fn of(config: &JsonRpc) -> Self {
        let gas = crate::eth::gas_bound(config.gas_cap);
        Self { gas, time: Duration::from_millis(config.call_timeout_ms) }
    }
}

/// Executes a call on the state after a block.
#[derive(Debug)]
pub struct CallRunner<'a> {
    /// The rules of the chain.
    pub spec: &'a ChainSpec,
    /// The view that contains the state.
    pub view: &'a View,
    /// The call is executed on the state after this block of the view.
    pub number: u64,
    /// The fee recipient that the call sees; by default, the fee recipient of the block.
    pub proposer: Option<Address>,
    /// The limits of the call.
    pub limits: CallLimits,
    /// Reports whether the caller has disconnected.
    pub interrupt: &'a Interrupt,
    /// The caches that executions share.
    pub caches: Option<&'a ExecutionCaches>,
}

impl CallRunner<'_> {
    /// Executes a call with `run`, which receives its maximum gas. `arguments` is a transaction as in `eth_call`.
    ///
    /// # Errors
    /// Returns an error if the arguments are invalid, the call fails, or it takes too long.
    pub fn run<T>(
        &self,
        arguments: &str,
        run: impl FnOnce(&CallSite<'_, StateReader>, &Call, u64) -> Result<T, CallError>,
    ) -> Result<T, CallRunnerError> {
        let request = Request::read(arguments, self.spec);
        let request = request.map_err(|reason| Error::invalid_argument(0, &reason))?;
        let call = request.check(self.spec)?;
        let deadline = self.interrupt.within(self.limits.time);
        let header = self.header()?;
        let native = self.spec.native();
        let modules = native.map(|native| self.view.parameters_after(native, self.number));
        let modules = modules.transpose().map_err(Error::internal)?;
        let site = CallSite {
            spec: self.spec,
            modules: modules.as_deref(),
            state: &self.view.state.reader_at(self.number)?,
            host: &CallHost { view: self.view, deadline: &deadline, caches: self.caches },
            header: &header,
        };
        run(&site, &call, self.limits.gas).map_err(|error| {
            if deadline.passed() {
                let error = Error::timed_out("execution", self.limits.time);
                return CallRunnerError::TimedOut(error);
            }
            call_error(error, call.from).into()
        })
    }

    fn header(&self) -> Result<Header, Error> {
        let mut header = stored::header(&self.view.blocks()?, self.number)?.1;
        header.beneficiary = self.proposer.unwrap_or(header.beneficiary);
        Ok(header)
    }
}
