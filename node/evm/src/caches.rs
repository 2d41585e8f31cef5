//! Caches data that later executions need and that is expensive to compute: analysed code, and the access patterns of
//! functions. The caches never change a result.

mod access_pattern;
mod code;

use std::fmt;

use alloy_primitives::{B256, Bytes};
use revm::bytecode::Bytecode;

pub(crate) use access_pattern::{AccessPattern, CalldataWords, Function, MAX_TX_SLOTS, Pair};
pub(crate) use code::analysed;

/// The caches that all executions of a process share. The size of each is limited.
pub struct ExecutionCaches {
    codes: code::CodeCache,
    pub(crate) patterns: access_pattern::AccessPatterns,
}

impl Default for ExecutionCaches {
    fn default() -> Self {
        Self { codes: code::empty_cache(), patterns: access_pattern::empty_cache() }
    }
}

impl ExecutionCaches {
    /// Returns the code with this hash in the form that the interpreter needs; calls `read` if it is not cached.
    ///
    /// # Errors
    /// Any error from `read`.
    pub(crate) fn code<E>(
        &self,
        hash: B256,
        read: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytecode, E> {
        code::code(&self.codes, hash, read)
    }
}

impl fmt::Debug for ExecutionCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (codes, patterns) = (self.codes.len(), self.patterns.len());
        f.debug_struct("ExecutionCaches")
            .field("codes", &codes)
            .field("patterns", &patterns)
            .finish()
    }
}
