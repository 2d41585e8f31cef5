//! Batch secp256k1 public-key recovery and batch Keccak-256.
//!
//! The crate takes slices of jobs and fills slices of outcomes. It starts no threads, opens no files, and does
//! not depend on transactions, chains or storage. All inputs must be public, because the running time depends on them.
//!
//! - [`Recoverer`]: recovers the public key and address from a digest and a signature, or returns why there is none.
//! - [`keccak256_batch`]: hashes messages of different lengths.
//! - [`Backend`]: the instruction set, chosen at run time. A value is also the proof that the processor has this
//!   instruction set.
//! - [`self_test`]: compares a backend with known answers; call it before you use the backend.
//!
//! # Example
//!
//! ```
//! use secp256k1::{Message, PublicKey, SecretKey, ecdsa::RecoverableSignature};
//! use secp256k1_batch_recovery::{Backend, Job, Reason, Recoverer, keccak256, self_test};
//!
//! let backend = Backend::detect()?;
//! self_test(backend)?; // some milliseconds, once per process
//! let mut recoverer = Recoverer::new(backend);
//!
//! let key = SecretKey::from_secret_bytes([7; 32])?;
//! let digest = keccak256(b"message");
//! let signature = RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(digest), &key);
//! let (recovery_id, bytes) = signature.serialize_compact();
//! let (r, s) = bytes.split_at(32);
//! let job = Job {
//!     digest,
//!     r: r.try_into()?,
//!     s: s.try_into()?,
//!     recovery_id: recovery_id.to_u8(),
//! };
//! let jobs = vec![job; 100];
//! let mut outcomes = vec![Err(Reason::NoPublicKey); jobs.len()];
//! recoverer.recover_batch(&jobs, &mut outcomes);
//!
//! let expected = PublicKey::from_secret_key(&key).serialize_uncompressed();
//! for outcome in outcomes {
//!     assert_eq!(outcome.expect("the signature is valid").public_key, expected[1..]);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Versions
//!
//! The crate follows semantic versioning. Results are part of the interface: a version that returns another outcome for
//! the same job has a new major number (before 1.0: a new minor number), except to correct a difference from
//! libsecp256k1. Faster or additional backends and a newer minimum Rust version require only a new minor number. The
//! modules of backends are not public.

mod backend;
#[cfg(any(target_arch = "x86_64", test))]
mod engine;
#[cfg(any(target_arch = "x86_64", test))]
mod field;
#[cfg(any(target_arch = "x86_64", test))]
mod inverse;
mod keccak;
#[cfg_attr(
    not(any(target_arch = "x86_64", test)),
    allow(dead_code, reason = "the self-test uses a part of it")
)]
mod lanes;
#[cfg_attr(
    not(any(target_arch = "x86_64", test)),
    allow(dead_code, reason = "the self-test uses a part of it")
)]
mod limbs;
#[cfg(test)]
mod oracle;
#[cfg(any(target_arch = "x86_64", test))]
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
