//! Executes a block before its parent's hash is known, while the parent is still being sealed.
//!
//! A transaction can observe the hash in two ways: with BLOCKHASH, and by reading the slot of the history contract
//! (EIP-2935) that the block sets before its first transaction. Both fail with
//! [`ParentUnknown`], and the block is executed again when the hash is known. Nothing else depends on the
//! hash, so if no transaction reads it, inserting it into the slot in the block's changes is sufficient.

use std::sync::LazyLock;

use alloy_eips::eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE};
use alloy_primitives::{B256, U256, keccak256};
use storage::StateChanges;

use super::{ExecutionError, StateError};

/// Placeholder for the unknown hash. No input with this Keccak-256 is known.
pub const PARENT_UNKNOWN: B256 = B256::new(*b"the hash of the parent (unknown)");

/// Code hash of EIP-2935's contract. Other code at its address might use the hash in any way.
static HISTORY_CODE_HASH: LazyLock<B256> = LazyLock::new(|| keccak256(&HISTORY_STORAGE_CODE));

/// Execution requested the hash of the parent block, which is not known yet.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the hash of the parent block is not known yet")]
pub struct ParentUnknown;

impl ParentUnknown {
    /// Returns whether an execution failed for this reason.
    pub fn is_reason(error: &ExecutionError) -> bool {
        matches!(error, ExecutionError::State { source, .. } if source.0.is::<Self>())
    }
}

impl From<ParentUnknown> for StateError {
    fn from(reason: ParentUnknown) -> Self {
        Self::new(reason)
    }
}

/// Returns whether the history contract has the code of EIP-2935.
pub(super) fn is_history_code(code_hash: B256) -> bool {
    code_hash == *HISTORY_CODE_HASH
}

/// Returns the slot of the history contract that holds the hash of the parent of block `number`.
pub(super) fn parent_slot(number: u64) -> U256 {
    U256::from(number.saturating_sub(1) % HISTORY_SERVE_WINDOW as u64)
}

/// Replaces the placeholder with the parent's hash in the changes of block `number`, if it was executed without
/// the hash.
pub fn put_parent_hash(changes: &mut StateChanges, number: u64, hash: B256) {
    let accounts = &mut changes.accounts;
    let at = accounts.binary_search_by_key(&HISTORY_STORAGE_ADDRESS, |change| change.address);
    let Ok(at) = at else { return };
    let slot = parent_slot(number);
    let slots = accounts[at].slots.iter_mut();
    for (_, value) in slots.filter(|(key, value)| *key == slot && *value == unknown()) {
        *value = hash.into();
    }
}

fn unknown() -> U256 {
    PARENT_UNKNOWN.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_the_parent_wraps_after_8191_blocks() {
        for (number, slot) in [
            (1, 0),
            (2, 1),
            (8_190, 8_189),
            (8_191, 8_190),
            (8_192, 0),
            (8_193, 1),
            (2 * 8_191, 8_190),
            (2 * 8_191 + 1, 0),
        ] {
            assert_eq!(parent_slot(number), U256::from(slot), "block {number}");
        }
    }
}
