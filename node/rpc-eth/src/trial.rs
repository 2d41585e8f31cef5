//! Calls for those who ask by another way than JSON-RPC: their arguments are read as here, and they run
//! under the same bounds.

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

/// Why a call gave nothing.
#[derive(Debug)]
pub enum TrialError {
    /// As JSON-RPC refuses it.
    Refused(Error),
    /// It was given up.
    TooLong(Error),
}

impl From<Error> for TrialError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<ReadError> for TrialError {
    fn from(error: ReadError) -> Self {
        Self::Refused(error.into())
    }
}

/// The bounds of one call.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most gas.
    pub gas: u64,
    /// Longest it may take.
    pub time: Duration,
}

impl Bounds {
    /// Those of JSON-RPC's calls.
    pub fn of(config: &JsonRpc) -> Self {
        let gas = crate::eth::gas_bound(config.gas_cap);
        Self { gas, time: Duration::from_millis(config.call_timeout_ms) }
    }
}

/// Where a call runs, and how far.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The rules of the chain.
    pub spec: &'a ChainSpec,
    /// The view that has the state.
    pub view: &'a View,
    /// On the state after this block of the view.
    pub number: u64,
    /// Who makes the block, as the call sees it; its own proposer without.
    pub proposer: Option<Address>,
    /// The bounds of the call.
    pub bounds: Bounds,
    /// Ends the call if its client has gone.
    pub interrupt: &'a Interrupt,
    /// The caches that executions share.
    pub caches: Option<&'a ExecutionCaches>,
}

impl Trial<'_> {
    /// Runs the call that `arguments` describe, the JSON of a transaction as `eth_call` takes it.
    ///
    /// # Errors
    /// For arguments that make no sense, a call that is not valid, and one that takes too long.
    pub fn run<T>(
        &self,
        arguments: &str,
        run: impl FnOnce(&CallSite<'_, StateReader>, &Call, u64) -> Result<T, CallError>,
    ) -> Result<T, TrialError> {
        let request = Request::read(arguments, self.spec);
        let request = request.map_err(|reason| Error::invalid_argument(0, &reason))?;
        let call = request.check(self.spec)?;
        let deadline = self.interrupt.within(self.bounds.time);
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
        run(&site, &call, self.bounds.gas).map_err(|error| {
            if deadline.passed() {
                let error = Error::timed_out("execution", self.bounds.time);
                return TrialError::TooLong(error);
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
