//! What an execution needs from outside the state.

use alloy_primitives::B256;

use super::{caches::ExecutionCaches, error::StateError};

/// The host of an execution: hashes of earlier blocks, cancellation, and caches.
///
/// A closure that returns hashes is a host without caches, so blocks are executed on it by the plain executor.
pub trait ExecutionHost {
    /// The hash of block `number` on the chain being extended, for the BLOCKHASH instruction; `None` when it
    /// is not known. Only the last 256 are requested.
    ///
    /// # Errors
    /// When it could not be read.
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError>;

    /// Whether the execution can be cancelled. If it can, it polls [`Self::is_given_up`] regularly. Blocks
    /// are always executed to their end.
    fn may_be_given_up(&self) -> bool {
        false
    }

    /// Whether the execution has been cancelled.
    fn is_given_up(&self) -> bool {
        false
    }

    /// The caches that the execution uses. With them, blocks are executed by the fast paths of `fast`; without
    /// them, by the plain executor. The result is the same.
    fn caches(&self) -> Option<&ExecutionCaches> {
        None
    }
}

impl<F: Fn(u64) -> Option<B256>> ExecutionHost for F {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        Ok(self(number))
    }
}
