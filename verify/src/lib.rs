//! Batch secp256k1 public-key recovery and batch Keccak-256.
//!
//! The crate takes slices of jobs and fills slices of outcomes. It starts no threads, opens no files, and does
//! not depend on transactions, chains or storage. All inputs are public, so the running time may depend on them.
//!
//! - [`Recoverer`]: recovers public key and address from digest and signature, or returns why there is none.
//! - [`keccak256_batch`]: hashes messages of different lengths.
//! - [`Backend`]: the instruction set, chosen once at run time. It contains the proof that the
//!   processor has it.
//! - [`self_test`]: compares a backend with known answers before its results are used.

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
#[cfg(target_arch = "x86_64")]
mod processor;
mod recover;
mod scalar;
mod selftest;
#[cfg(target_arch = "x86_64")]
mod transpose;

pub use backend::{BACKEND_VARIABLE, Backend, BackendError};
pub use keccak::{keccak256, keccak256_batch, keccak256_batch_on, keccak256_spans};
#[cfg(target_arch = "x86_64")]
pub use processor::{Avx2, Avx512Ifma};
pub use recover::{Job, Key, Outcome, Reason, Recoverer};
pub use selftest::{SelfTestError, VectorClass, ensure_self_tested, self_test};
