//! Batch secp256k1 public-key recovery and batch Keccak-256.
//!
//! Takes slices of plain jobs, fills slices of plain outcomes. Starts no threads, opens no files,
//! knows nothing of transactions, chains or storage. Every input is public, so running time may
//! depend on it.
//!
//! - [`Recoverer`]: digest and signature in; public key and address, or the reason why not, out.
//! - [`keccak256_batch`]: any mix of message lengths in, 32-byte hashes out.
//! - [`Backend`]: which instruction set does the work, chosen once at run time.
//! - [`self_test`]: compares a backend with known answers, before its results are relied on.

mod backend;
mod engine;
mod field;
mod inverse;
mod keccak;
mod lanes;
mod limbs;
#[cfg(test)]
mod oracle;
mod order;
mod recover;
mod scalar;
mod selftest;
#[cfg(target_arch = "x86_64")]
mod transpose;

pub use backend::{BACKEND_VARIABLE, Backend, BackendError};
pub use keccak::{keccak256, keccak256_batch, keccak256_batch_on, keccak256_spans};
pub use recover::{Job, Key, Outcome, Reason, Recoverer};
pub use selftest::{SelfTestError, VectorClass, ensure_self_tested, self_test};
