//! Executing a block before its parent's hash is known, as when the parent is still being sealed.
//!
//! A transaction can see that hash in two places: BLOCKHASH of the parent, and the slot of the
//! history contract (EIP-2935) that the block sets before its first transaction. Both give
//! [`ParentUnknown`]; the block is then executed again once the hash is there. Nobody else can tell,
//! so in the changes of a block that never asked, the slot is simply set to the hash.

use std::sync::LazyLock;

use alloy_eips::eip2935::{HISTORY_SERVE_WINDOW, HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE};
use alloy_primitives::{B256, U256, keccak256};
use storage::StateChanges;

use super::{ExecutionError, StateError};

/// Stands for the hash until it is known. No Keccak-256 is ever this text.
pub const PARENT_UNKNOWN: B256 = B256::new(*b"the hash of the parent (unknown)");

/// The code of EIP-2935; of other code at its address nothing is known.
static HISTORY_CODE_HASH: LazyLock<B256> = LazyLock::new(|| keccak256(&HISTORY_STORAGE_CODE));

/// Execution asked for the hash of the parent block, which is not known yet.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the hash of the parent block is not known yet")]
pub struct ParentUnknown;

impl ParentUnknown {
    /// Whether this is why execution failed.
    pub fn is_reason(error: &ExecutionError) -> bool {
        matches!(error, ExecutionError::State { source, .. } if source.0.is::<Self>())
    }
}

impl From<ParentUnknown> for StateError {
    fn from(reason: ParentUnknown) -> Self {
        Self::new(reason)
    }
}

/// Whether the history contract does what EIP-2935 says.
pub(super) fn is_history_code(code_hash: B256) -> bool {
    code_hash == *HISTORY_CODE_HASH
}

/// The slot of the history contract that holds the hash of the parent of block `number`.
pub(super) fn parent_slot(number: u64) -> U256 {
    U256::from(number.saturating_sub(1) % HISTORY_SERVE_WINDOW as u64)
}

/// Sets the parent's hash in what block `number` changed, if it was executed without.
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
