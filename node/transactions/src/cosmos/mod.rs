//! Implements Cosmos transactions. Each is an SDK `Tx` that is signed with an `eth_secp256k1` key.
//!
//! The node handles a Cosmos transaction as an EIP-2718 transaction with its own type: the byte [`TX_TYPE`] and
//! the bytes of the `TxRaw` (ADR 0009). It is therefore hashed, pooled, journalled, included in blocks, given a
//! receipt and found by its hash like all others. This module contains what is specific to it: decoding
//! ([`CosmosTx`]), the sign bytes ([`CosmosTx::sign_bytes`]), and its checks ([`check()`]). The crates `evm` and
//! `modules` execute its messages.
//!
//! This module has no I/O, no clock and no state.

mod amino;
mod base_fee;
mod check;
mod coin;
mod eip712;
pub mod error;
mod form;
mod gas_price;
mod message;
mod normal;
mod price;
mod responses;
mod sign;
mod tx;
mod wire;

pub use base_fee::{base_fee, stored_base_fee};
pub use check::{ChainFacts, Passed, check};
pub use check::{check_names, check_sequence, check_unit, sequence_mismatch};
pub use coin::parse_coin;
pub use error::Refusal;
pub use error::{
    gov_inactive as inactive_proposal, gov_invalid_proposal as invalid_proposal,
    gov_invalid_vote as no_voter, gov_min_deposit_too_small as min_deposit_too_small,
    insufficient_funds, not_supported as unsupported, unauthorized,
};
pub use gas_price::{GasPrice, GasPriceError};
pub use message::MessageAccount;
pub use message::{Deposit, Message, Send, Submission, Vote, read_update};
pub use normal::normalised;
pub use price::FeePrice;
pub use responses::{SUBMIT_EVENT, response_data, responses};
pub use sign::{ACCOUNT_NUMBER, SignMode};
pub use tx::{CosmosTx, MAX_MEMO_CHARS, Signatures};

use alloy_primitives::{Address, B256, Bytes};
use keys::module_address;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The EIP-2718 type of a Cosmos transaction. Ethereum has no type with this number.
pub const TX_TYPE: u8 = 0x0a;
/// Gas per byte of a transaction (the SDK's `tx_size_cost_per_byte`).
pub const GAS_PER_BYTE: u64 = 10;
/// Gas of the verification of a signature, as in cosmos/evm.
pub const GAS_PER_SIGNATURE: u64 = 21_000;

/// Returns the governance account, which holds the deposits. Only governance can change parameters.
pub fn gov_address() -> Address {
    static ADDRESS: LazyLock<Address> = LazyLock::new(|| module_address("gov"));
    *ADDRESS
}

/// Returns whether EIP-2718 bytes are a Cosmos transaction.
pub fn is_cosmos(raw: &[u8]) -> bool {
    raw.first() == Some(&TX_TYPE)
}

/// Returns the hash that the Cosmos interfaces use: SHA-256 of the `TxRaw`, which is `raw` without its type byte.
pub fn cosmos_hash(raw: &[u8]) -> B256 {
    let bytes = raw.get(1..).unwrap_or_default();
    B256::from_slice(&Sha256::digest(bytes))
}

/// Returns the additional hashes by which the Cosmos transactions of a block can be found. In the index, they
/// follow the hashes of all transactions, in block order.
pub fn further_hashes<'a>(
    transactions: impl IntoIterator<Item = &'a Bytes>,
) -> impl Iterator<Item = B256> {
    transactions.into_iter().filter(|raw| is_cosmos(raw)).map(|raw| cosmos_hash(raw))
}

/// Converts a position in the index to the position of that transaction in the block. See [`further_hashes`] for the
/// order of the index.
pub fn position(transactions: &[Bytes], index: usize) -> Option<usize> {
    match index.checked_sub(transactions.len()) {
        None => Some(index),
        Some(further) => {
            let mut cosmos = (0..transactions.len()).filter(|at| is_cosmos(&transactions[*at]));
            cosmos.nth(further)
        }
    }
}
