//! Transactions of the Cosmos interfaces: an SDK `Tx` signed with an `eth_secp256k1` key.
//!
//! One travels like any other transaction, as an EIP-2718 envelope of a type of its own: the byte
//! [`TX_TYPE`] and the bytes of its `TxRaw` (ADR 0012). So it is hashed, pooled, journalled, put in
//! blocks, given a receipt and found by hash like the others. What is particular is here: reading it
//! ([`CosmosTx`]), what was signed ([`CosmosTx::sign_bytes`]), and the checks of its own
//! ([`check()`]); what its messages do is in [`evm`] and [`modules::gov`].
//!
//! Pure: no I/O, no clock, no state.

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
pub use sign::{ACCOUNT_NUMBER, SignMode};
pub use tx::{CosmosTx, MAX_MEMO_CHARS, Signatures};

use alloy_primitives::{Address, B256, Bytes};
use keys::module_address;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The EIP-2718 type of a Cosmos transaction. No type of Ethereum has this number.
pub const TX_TYPE: u8 = 0x0a;
/// Gas of each byte of a transaction (the SDK's `tx_size_cost_per_byte`).
pub const GAS_PER_BYTE: u64 = 10;
/// Gas of a signature (reference, 2.7).
pub const GAS_PER_SIGNATURE: u64 = 21_000;

/// The account of governance: deposits lie there, and it alone may change parameters.
pub fn gov_address() -> Address {
    static ADDRESS: LazyLock<Address> = LazyLock::new(|| module_address("gov"));
    *ADDRESS
}

/// Whether EIP-2718 bytes are a Cosmos transaction.
pub fn is_cosmos(raw: &[u8]) -> bool {
    raw.first() == Some(&TX_TYPE)
}

/// The hash of the Cosmos interfaces: SHA-256 of the `TxRaw`, which is `raw` without its type.
pub fn cosmos_hash(raw: &[u8]) -> B256 {
    let bytes = raw.get(1..).unwrap_or_default();
    B256::from_slice(&Sha256::digest(bytes))
}

/// The hashes by which the Cosmos transactions of a block can be found in addition to their own: they follow
/// those of all transactions in the index, in block order.
pub fn further_hashes<'a>(
    transactions: impl IntoIterator<Item = &'a Bytes>,
) -> impl Iterator<Item = B256> {
    transactions.into_iter().filter(|raw| is_cosmos(raw)).map(|raw| cosmos_hash(raw))
}

/// Where in a block the transaction is that the index names by `index`; see [`further_hashes`].
pub fn position(transactions: &[Bytes], index: usize) -> Option<usize> {
    match index.checked_sub(transactions.len()) {
        None => Some(index),
        Some(further) => {
            let mut cosmos = (0..transactions.len()).filter(|at| is_cosmos(&transactions[*at]));
            cosmos.nth(further)
        }
    }
}
