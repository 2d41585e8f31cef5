//! Declares the contract calls for the queries of the module `vm`. They behave like JSON-RPC's `eth_call` and
//! `eth_estimateGas`, but this crate does not depend on the crate for JSON-RPC: the program passes an
//! implementation of [`EthCalls`].

use alloy_primitives::Address;
use chain::ChainSpec;
use evm::{CallOutcome, CallResult};
use server::interrupt::Interrupt;
use state::View;
use std::fmt::Debug;

/// A call and the state it runs on.
#[derive(Clone, Copy, Debug)]
pub struct EthCall<'a> {
    /// The rules of the chain.
    pub spec: &'a ChainSpec,
    /// The view from which the state is read.
    pub view: &'a View,
    /// The number of the block after which the call runs. The view contains the block.
    pub number: u64,
    /// The block producer that the call sees. If it is `None`, the call sees the producer of the block.
    pub proposer: Option<Address>,
    /// Maximum gas stated by the request. The node's own cap applies as well.
    pub gas_cap: Option<u64>,
    /// Signals that the caller has disconnected.
    pub interrupt: &'a Interrupt,
    /// The transaction as JSON, as `eth_call` accepts it.
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

/// Runs contract calls.
pub trait EthCalls: Debug + Send + Sync {
    /// Returns the result of a call, even if the call reverts or halts.
    ///
    /// # Errors
    /// [`EthCallError`].
    fn call(&self, call: &EthCall<'_>) -> Result<CallResult, EthCallError>;

    /// Returns the gas that a call needs, or its outcome if it reverts with any amount of gas.
    ///
    /// # Errors
    /// [`EthCallError`], also if the call fails for another reason.
    fn estimate_gas(&self, call: &EthCall<'_>) -> Result<Result<u64, CallOutcome>, EthCallError>;
}
