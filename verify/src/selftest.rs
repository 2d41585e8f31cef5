//! The self-test of a backend on the machine that uses it.
//!
//! A wrong recovery attributes a transaction to another sender, and no later check would detect it. Therefore, a
//! node compares the backend with known answers and with libsecp256k1 before its first use. Vector code has
//! cases that ordinary traffic seldom or never reaches: incomplete vectors, lanes whose message ends before the
//! others, the point at infinity. The self-test covers each of them in every lane.

mod rounding;
mod vectors;

use crate::{
    Backend, Job, Outcome, Reason, Recoverer, keccak256, keccak256_batch_on, lanes::LANES, scalar,
};
use core::fmt;
use std::sync::OnceLock;
use vectors::{HASHES, Vector};

/// Number of ordinary signatures: more than a vector has lanes, so that lanes differ.
const PLAIN: usize = 24;
/// Maximum batch length up to which every length is tested: two vectors and one more.
const MAX_LENGTH: usize = 2 * LANES + 1;
/// Number of signatures in the longest batch: more than one lockstep block of the engine.
const LONG: usize = 12 * LANES + 5;

/// The class of a signature of the self-test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VectorClass {
    /// An ordinary signature.
    Plain,
    /// The x of R is not on the curve.
    NotOnCurve,
    /// The recovered point is at infinity.
    Infinity,
    /// Recovery id 2 or 3: the x of R is r + n.
    XPlusOrder,
    /// Recovery id 2 or 3 with r + n not below p.
    XAbovePrime,
    /// r or s is zero, or not below n.
    OutOfRange,
    /// A recovery id above 3.
    RecoveryId,
}

impl fmt::Display for VectorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "an ordinary signature",
            Self::NotOnCurve => "a signature whose R is not on the curve",
            Self::Infinity => "a signature that recovers the point at infinity",
            Self::XPlusOrder => "a signature with recovery id 2 or 3",
            Self::XAbovePrime => "a signature with r + n not below p",
            Self::OutOfRange => "a signature with r or s out of range",
            Self::RecoveryId => "a signature with a recovery id above 3",
        })
    }
}

/// Why a backend must not be used on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// A recovery returned a wrong result.
    #[error(
        "self-test failed: the {backend} backend has a wrong result for {class} at position {position} \
         of a batch of {length}; {}",
        Remedy(*backend)
    )]
    Recovery {
        /// The backend under test.
        backend: Backend,
        /// Class of the signature with the wrong result.
        class: VectorClass,
        /// Number of signatures in the batch.
        length: usize,
        /// Position of that signature in the batch, starting at 0.
        position: usize,
    },
    /// A hash function returned a wrong result.
    #[error(
        "self-test failed: the {backend} backend has a wrong Keccak-256 of a message of {bytes} bytes at \
         position {position} of a batch of {length}; {}",
        Remedy(*backend)
    )]
    Keccak {
        /// The backend under test.
        backend: Backend,
        /// Length of the message with the wrong hash.
        bytes: usize,
        /// Number of messages in the batch.
        length: usize,
        /// Position of that message in the batch, starting at 0.
        position: usize,
    },
    /// Doubles are not rounded to the nearest, ties to even, which the backend requires.
    #[error(
        "self-test failed: the {backend} backend needs the default rounding mode of doubles (to the nearest, ties \
         to even), and another library has changed it; {}",
        Remedy(*backend)
    )]
    Rounding {
        /// The backend under test.
        backend: Backend,
    },
}

/// The remedy for a backend that failed.
struct Remedy(Backend);

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others: Vec<_> = Backend::available().into_iter().rev().collect();
        let others = others.iter().filter(|other| **other != self.0);
        let names: Vec<_> = others.map(|other| other.name()).collect();
        match names.as_slice() {
            [] => f.write_str("the processor or the memory of this machine may be faulty"),
            names => write!(
                f,
                "the processor or the memory of this machine may be faulty; {}={} uses another backend",
                crate::BACKEND_VARIABLE,
                names.join(" or ")
            ),
        }
    }
}

/// The functions under test: the batch functions of one backend.
trait Subject {
    fn backend(&self) -> Backend;
    fn recover_batch(&mut self, jobs: &[Job], outcomes: &mut [Outcome]);
    fn hash_batch(&self, messages: &[&[u8]], hashes: &mut [[u8; 32]]);
}

impl Subject for Recoverer {
    fn backend(&self) -> Backend {
        self.backend()
    }

    fn recover_batch(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        self.recover_batch(jobs, outcomes);
    }

    fn hash_batch(&self, messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
        keccak256_batch_on(self.backend(), messages, hashes);
    }
}

/// Compares a backend with known answers and with libsecp256k1: every class of signatures in every lane,
/// incomplete vectors, and Keccak-256. It takes a few milliseconds, besides the cost of [`Recoverer::new`].
///
/// # Errors
/// The first wrong result. The backend must not be used in that case.
pub fn self_test(backend: Backend) -> Result<(), SelfTestError> {
    examine(&mut Recoverer::new(backend))
}

/// Runs [`self_test`] once per process and backend. Later calls return the first result.
///
/// # Errors
/// Any error from [`self_test`].
pub fn ensure_self_tested(backend: Backend) -> Result<(), SelfTestError> {
    static RESULTS: [OnceLock<Result<(), SelfTestError>>; Backend::COUNT] =
        [const { OnceLock::new() }; Backend::COUNT];
    *RESULTS[backend.index()].get_or_init(|| self_test(backend))
}

/// Returns whether the backend multiplies doubles, and therefore relies on the rounding mode.
const fn needs_rounding_mode(backend: Backend) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Backend::Avx2(_) = backend {
        return true;
    }
    let _ = backend;
    false
}

fn examine(subject: &mut impl Subject) -> Result<(), SelfTestError> {
    if needs_rounding_mode(subject.backend()) && !rounding::is_to_nearest_even() {
        return Err(SelfTestError::Rounding { backend: subject.backend() });
    }
    hashes(subject)?;
    let special = vectors::special();
    // The scalar backend is the reference for ordinary signatures, so it must match the known answers itself.
    for (position, vector) in special.iter().enumerate() {
        if scalar::recover(&vector.job) != vector.expected {
            let (class, length) = (vector.class, special.len());
            let backend = Backend::Scalar;
            return Err(SelfTestError::Recovery { backend, class, length, position });
        }
    }
    let plain = vectors::plain(PLAIN);
    let mut outcomes = Vec::new();
    for batch in batches(&special, &plain) {
        let jobs: Vec<_> = batch.iter().map(|vector| vector.job).collect();
        outcomes.clear();
        outcomes.resize(jobs.len(), Err(Reason::RecoveryId));
        subject.recover_batch(&jobs, &mut outcomes);
        for (position, (vector, outcome)) in batch.iter().zip(&outcomes).enumerate() {
            if *outcome != vector.expected {
                return Err(SelfTestError::Recovery {
                    backend: subject.backend(),
                    class: vector.class,
                    length: batch.len(),
                    position,
                });
            }
        }
    }
    Ok(())
}

/// Returns the batches with which the signatures are tested.
fn batches<'a>(special: &'a [Vector], plain: &'a [Vector]) -> Vec<Vec<&'a Vector>> {
    let ordinary = |length| plain.iter().cycle().take(length).collect::<Vec<_>>();
    let mut batches: Vec<_> = (1..=MAX_LENGTH).map(ordinary).collect();
    // One special signature at each position of each batch that fills at most one vector.
    let mut rest = special.iter().cycle();
    for length in 1..=LANES {
        for position in 0..length {
            let mut batch = ordinary(length);
            batch[position] = rest.next().expect("an endless cycle");
            batches.push(batch);
        }
    }
    // Each special signature in each lane: in lane 0 of the first vector, in lane 1 of the second, and so on.
    for vector in special.iter().filter(|vector| vector.reaches_lanes()) {
        let mut batch = ordinary(LANES * LANES);
        for lane in 0..LANES {
            batch[lane * LANES + lane] = vector;
        }
        batches.push(batch);
    }
    // All of them together: mixed with ordinary signatures, and without.
    let mixed = plain.iter().cycle().zip(special.iter().cycle());
    batches.push(mixed.flat_map(|(plain, special)| [plain, special]).take(LONG).collect());
    batches.push(special.iter().collect());
    batches
}

/// Checks the Keccak-256 of known messages, and of batches of every length up to two vectors and one more.
fn hashes(subject: &impl Subject) -> Result<(), SelfTestError> {
    let known: Vec<_> = HASHES.iter().map(|(bytes, _)| vectors::message(*bytes)).collect();
    let wrong = |backend, bytes, length, position| SelfTestError::Keccak {
        backend,
        bytes,
        length,
        position,
    };
    for (message, (bytes, hash)) in known.iter().zip(&HASHES) {
        if keccak256(message) != *hash {
            return Err(wrong(Backend::Scalar, *bytes, 1, 0));
        }
    }
    for length in 1..=MAX_LENGTH {
        // The first message of a batch depends on its length, so that each message is in each lane at some length.
        let order: Vec<_> = (0..length).map(|i| (i + length) % HASHES.len()).collect();
        let messages: Vec<_> = order.iter().map(|i| known[*i].as_slice()).collect();
        let mut found = vec![[0; 32]; length];
        subject.hash_batch(&messages, &mut found);
        for (position, (i, found)) in order.iter().zip(&found).enumerate() {
            let (bytes, hash) = HASHES[*i];
            if *found != hash {
                return Err(wrong(subject.backend(), bytes, length, position));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
