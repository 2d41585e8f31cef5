//! Calls of contracts for the queries of the module `vm`. They run as JSON-RPC's `eth_call` and
//! `eth_estimateGas` do, and this crate does not depend on JSON-RPC: the program passes an [`EthCalls`] in.

use alloy_primitives::Address;
use chain::ChainSpec;
use evm::{CallOutcome, CallResult};
use server::interrupt::Interrupt;
use state::View;
use std::fmt::Debug;

/// A call, and where it runs.
#[derive(Clone, Copy, Debug)]
pub struct EthCall<'a> {
    /// The rules of the chain.
    pub spec: &'a ChainSpec,
    /// The view that has the state.
    pub view: &'a View,
    /// The call runs on the state after this block of the view.
    pub number: u64,
    /// The block producer that the call sees; by default that of the block.
    pub proposer: Option<Address>,
    /// Maximum gas, if the request states one; the cap of the node holds as well.
    pub gas_cap: Option<u64>,
    /// Tells that the caller has gone away.
    pub interrupt: &'a Interrupt,
    /// The JSON of a transaction, as `eth_call` takes it.
    pub arguments: &'a str,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EthCallError {
    /// The request is not valid.
    Invalid(String),
    /// The call took too long.
    TooLong(String),
    /// The node failed.
    Internal(String),
}

/// Runs calls of contracts.
pub trait EthCalls: Debug + Send + Sync {
    /// The result of a call; a call that fails has one too.
    ///
    /// # Errors
    /// [`EthCallError`].
    fn call(&self, call: &EthCall<'_>) -> Result<CallResult, EthCallError>;

    /// The gas that a call needs, or the revert of a call that reverts with any gas.
    ///
    /// # Errors
    /// [`EthCallError`], also for a call that fails otherwise.
    fn estimate_gas(&self, call: &EthCall<'_>) -> Result<Result<u64, CallOutcome>, EthCallError>;
}
