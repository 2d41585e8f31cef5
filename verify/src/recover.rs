//! The batch interface of all backends.

use crate::{Backend, scalar};
#[cfg(target_arch = "x86_64")]
use crate::{
    engine::Engine,
    field::{Doubles, Limbs52},
    lanes::{fma::Fma, ifma::Ifma},
};

/// A signature to recover. All numbers are big-endian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The signed 32-byte digest; any value is valid.
    pub digest: [u8; 32],
    /// Signature `r`.
    pub r: [u8; 32],
    /// Signature `s`. High values are accepted; enforcing EIP-2 is up to the caller.
    pub s: [u8; 32],
    /// 0 to 3: bit 0 is the parity of R's y; if bit 1 is set, R's x is `r + n`.
    pub recovery_id: u8,
}

/// A recovered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Uncompressed public key without its 0x04 prefix: x then y, big-endian.
    pub public_key: [u8; 64],
    /// Last 20 bytes of the Keccak-256 of `public_key`.
    pub address: [u8; 20],
}

/// Why a signature has no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Reason {
    /// `r` or `s` is zero, or not below the group order.
    ScalarOutOfRange,
    /// The recovery id is above 3.
    RecoveryId,
    /// R's x is not below p or not on the curve, or the recovered point is at infinity.
    NoPublicKey,
}

/// The result of one [`Job`].
pub type Outcome = Result<Key, Reason>;

/// Recovers batches on one backend. It owns the workspace, so that recovery does not allocate.
#[derive(Debug)]
pub struct Recoverer {
    backend: Backend,
    engine: Work,
}

/// The implementation of a backend.
#[derive(Debug)]
enum Work {
    /// libsecp256k1, one signature at a time.
    Single,
    #[cfg(target_arch = "x86_64")]
    Avx2(Box<Engine<Doubles<Fma>>>),
    #[cfg(target_arch = "x86_64")]
    Ifma(Box<Engine<Limbs52<Ifma>>>),
}

impl Recoverer {
    /// Allocates the workspace for `backend`. The first vector backend of a process also builds the
    /// shared table of multiples of G, which takes about 20 milliseconds.
    pub fn new(backend: Backend) -> Self {
        let engine = match backend {
            Backend::Scalar => Work::Single,
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2(processor) => Work::Avx2(Box::new(Engine::new(processor))),
            #[cfg(target_arch = "x86_64")]
            Backend::Ifma(processor) => Work::Ifma(Box::new(Engine::new(processor))),
        };
        Self { backend, engine }
    }

    /// Returns the backend in use.
    pub const fn backend(&self) -> Backend {
        self.backend
    }

    /// Recovers `jobs[i]` into `outcomes[i]`. Any length is allowed; batches of about 256 or more are most efficient.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn recover_batch(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        assert_eq!(jobs.len(), outcomes.len(), "one outcome slot per job");
        match &mut self.engine {
            Work::Single => {
                for (job, outcome) in jobs.iter().zip(outcomes) {
                    *outcome = scalar::recover(job);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Work::Avx2(engine) => engine.recover_batch(jobs, outcomes),
            #[cfg(target_arch = "x86_64")]
            Work::Ifma(engine) => engine.recover_batch(jobs, outcomes),
        }
    }
}
