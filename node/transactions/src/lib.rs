//! Transactions: Ethereum's and Cosmos ones, from bytes to a known sender.
//!
//! - [`DecodedTx`] and [`RecoveredTx`] are what every later stage works with; [`Senders`] makes them in batches.
//! - [`cosmos`] has what is particular to Cosmos transactions.
//! - [`SidecarError`] says why the blobs of a submitted transaction are refused.
//! - [`code`] has the registered errors of the Cosmos SDK that refusals are reported with.
//!
//! Pure: no I/O, no clock, no state of accounts.

pub mod code;
pub mod cosmos;
mod senders;
mod sidecar;
mod tx;
mod update;

pub use code::Code;
pub use senders::{Senders, recover_senders};
pub use sidecar::{MAX_SIDECAR_BYTES, SidecarError, is_blob_tx, split, without_blobs};
pub use tx::{
    DecodeError, DecodedTx, RecoverError, RecoveredTx, Transaction, created_contract, participants,
};
pub use update::Update;
