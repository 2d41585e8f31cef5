//! Byte layouts of headers, senders, receipts, accounts, storage words and state changes.
//!
//! The layouts are compact, explicit and canonical: each value has exactly one encoding, and any other byte
//! string is an error. Decoding never panics, and allocates memory only for as many items as the input can
//! contain. These values have no version tags; the format number of the environment is their version.
//! `docs/storage-format.md` describes the layouts and must be updated together with them.

mod block;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use block::{
    decode_header, decode_outcomes, decode_senders, encode_header, encode_receipts, encode_senders,
    header_of_format_3,
};
pub use block::{decode_receipts, decode_receipts_checked};
pub(crate) use state::{
    decode_account, decode_account_entry, decode_word, encode_account_entry, encode_changes,
    encode_word,
};
pub use state::{decode_changes, decode_changes_within};
