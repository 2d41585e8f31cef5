//! Byte layouts of every value in the environments.
//!
//! Compact, explicit and canonical: each value has exactly one encoding, and any other byte string
//! is an error. Decoding never panics and never allocates more than the input can fill. Values have
//! no version tags; the format number of the environment versions all of them.
//! `docs/storage-format.md` describes the layouts and must be changed with them.

mod block;
#[cfg(test)]
mod encode_node;
mod node;
mod primitive;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use block::{
    decode_header, decode_receipts, decode_senders, encode_header, encode_receipts, encode_senders,
    header_of_format_3,
};
#[cfg(test)]
pub(crate) use encode_node::encode_node;
pub(crate) use node::{PLAIN_ACCOUNT_END, decode_node, encode_path_key, record};
pub use primitive::DecodeError;
pub(crate) use primitive::{Input, put_count, put_counted_bytes, put_varint};
pub(crate) use state::{
    decode_account, decode_account_entry, decode_changes, decode_word, encode_account_entry,
    encode_changes, encode_word,
};
