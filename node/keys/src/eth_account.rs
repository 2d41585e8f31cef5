//! The data of an account in query responses.

use super::PublicKey;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};

/// An account in a query response, with the fields of Ethereum and of the Cosmos interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthAccount {
    /// Address.
    pub address: Address,
    /// Nonce; the `sequence` of the Cosmos interfaces.
    pub nonce: u64,
    /// Balance, in wei.
    pub balance: U256,
    /// Keccak-256 of the code. The code of a delegating account (EIP-7702) is the delegation designator.
    pub code_hash: B256,
    /// Public key, if it could be recovered from a signature.
    pub public_key: Option<PublicKey>,
    /// The account number in signatures of Cosmos transactions.
    pub account_number: u64,
}

impl EthAccount {
    /// Returns whether the account has code. A delegation counts as code.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK256_EMPTY && !self.code_hash.is_zero()
    }
}
