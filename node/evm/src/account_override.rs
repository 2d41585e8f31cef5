//! Defines the overrides of one account, for calls, simulated blocks and the setters of development chains.

use alloy_primitives::{Address, Bytes, U256};

/// Overrides of one account. Absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// The address of the account.
    pub address: Address,
    /// Balance in wei.
    pub balance: Option<U256>,
    /// Nonce.
    pub nonce: Option<u64>,
    /// Code.
    pub code: Option<Bytes>,
    /// The whole storage: slots that are not listed are cleared.
    pub state: Option<Vec<(U256, U256)>>,
    /// A part of the storage: slots that are not listed are unchanged.
    pub state_diff: Option<Vec<(U256, U256)>>,
    /// The address to which the precompile at this address is moved.
    pub move_precompile_to: Option<Address>,
}
