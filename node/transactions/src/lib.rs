//! Ethereum and Cosmos transactions: decoding and sender recovery.
//!
//! - [`DecodedTx`] is a transaction, and [`RecoveredTx`] has its sender as well. [`Senders`] creates them in batches.
//! - [`cosmos`] implements Cosmos transactions.
//! - [`may_be_participant`] excludes transactions from a search by address before they are decoded.
//! - [`SidecarError`] states why the blobs of a submitted transaction are rejected.
//! - [`code`] defines the registered errors of the Cosmos SDK that rejections use.
//!
//! This crate has no I/O, no clock and no account state.

pub mod code;
pub mod cosmos;
mod recipient;
mod senders;
mod sidecar;
mod tx;
mod update;

pub use code::Code;
pub use recipient::may_be_participant;
pub use senders::{Senders, recover_senders};
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, is_blob_tx, split, without_blobs};
pub use tx::{
    DecodeError, DecodedTx, RecoverError, RecoveredTx, Transaction, created_contract,
    impersonated_signature, participants,
};
pub use update::Update;
