//! What the chain knows of an account.

use super::PublicKey;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};

/// An account as queries tell it: Ethereum's fields, and those the Cosmos interfaces add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthAccount {
    /// Its address.
    pub address: Address,
    /// Transactions sent; the `sequence` of the Cosmos interfaces.
    pub nonce: u64,
    /// Balance, in wei.
    pub balance: U256,
    /// Keccak-256 of its code. The code of a delegating account (EIP-7702) is its designation.
    pub code_hash: B256,
    /// Public key, once a signature has shown it.
    pub public_key: Option<PublicKey>,
    /// What signatures of Cosmos transactions take for its number.
    pub account_number: u64,
}

impl EthAccount {
    /// Says whether the account has code, a delegation included.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK256_EMPTY && !self.code_hash.is_zero()
    }
}
