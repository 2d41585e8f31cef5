//! Defines the interface through which an execution reads data that is not in the state.

use alloy_primitives::B256;

use super::{caches::ExecutionCaches, error::StateError};

/// The host of an execution: hashes of earlier blocks, cancellation, and caches.
///
/// A closure that returns hashes is a host without caches, so the plain executor executes its blocks.
pub trait ExecutionHost {
    /// Returns the hash of block `number` on the chain being extended, for the BLOCKHASH instruction, or `None` if the
    /// hash is not known. Only the hashes of the last 256 blocks are requested.
    ///
    /// # Errors
    /// If the hash cannot be read.
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError>;

    /// Returns whether the execution can be cancelled. If so, the execution polls [`Self::is_cancelled`] regularly. The
    /// execution of a block that is stored is never cancelled.
    fn is_cancellable(&self) -> bool {
        false
    }

    /// Returns whether the execution has been cancelled.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// Returns the caches that the execution uses. With caches, blocks are executed with the fast paths; without
    /// caches, by the plain executor. The result is the same.
    fn caches(&self) -> Option<&ExecutionCaches> {
        None
    }
}

impl<F: Fn(u64) -> Option<B256>> ExecutionHost for F {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        Ok(self(number))
    }
}
