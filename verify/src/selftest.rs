//! The test at start: the chosen backend against libsecp256k1 and the scalar Keccak, on the
//! machine that is going to trust it.

use crate::{Backend, Job, Reason, Recoverer, keccak256, keccak256_batch_on, scalar};

/// Jobs compared: more than a vector of groups in lockstep, so that every stage sees full and
/// partial blocks; about 5 milliseconds.
const JOBS: usize = 100;

/// What the self-test found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelfTestError {
    /// A recovery differs from libsecp256k1's.
    #[error(
        "self-test: the {backend} backend recovers signature {index} unlike libsecp256k1; \
         force another one with EVMD_VERIFY_BACKEND"
    )]
    Recovery {
        /// The backend under test.
        backend: Backend,
        /// Which of the test's signatures.
        index: usize,
    },
    /// A hash differs from the scalar one.
    #[error(
        "self-test: the {backend} backend hashes message {index} unlike scalar Keccak; \
         force another one with EVMD_VERIFY_BACKEND"
    )]
    Keccak {
        /// The backend under test.
        backend: Backend,
        /// Which of the test's messages.
        index: usize,
    },
}

impl Recoverer {
    /// Compares this backend with libsecp256k1 on a fixed batch of valid and invalid signatures,
    /// and its hashing with scalar Keccak. To be run once before the answers are relied on.
    ///
    /// # Errors
    /// The first difference. The backend must then not be used.
    pub fn selftest(&mut self) -> Result<(), SelfTestError> {
        let backend = self.backend();
        let jobs: Vec<_> = (0..JOBS as u64).map(job).collect();
        let mut outcomes = vec![Err(Reason::RecoveryId); JOBS];
        self.recover_batch(&jobs, &mut outcomes);
        for (index, (job, outcome)) in jobs.iter().zip(&outcomes).enumerate() {
            if *outcome != scalar::recover(job) {
                return Err(SelfTestError::Recovery { backend, index });
            }
        }
        let buffer = [0x5a; 600];
        let messages: Vec<_> = (0..JOBS).map(|i| &buffer[..i * 6]).collect();
        let mut hashes = vec![[0; 32]; JOBS];
        keccak256_batch_on(backend, &messages, &mut hashes);
        for (index, (message, hash)) in messages.iter().zip(&hashes).enumerate() {
            if *hash != keccak256(message) {
                return Err(SelfTestError::Keccak { backend, index });
            }
        }
        Ok(())
    }
}

/// A job of numbers nobody chose: about half have a key, some are out of range.
fn job(i: u64) -> Job {
    let number = |tag: u64| keccak256(&[i.to_be_bytes(), tag.to_be_bytes()].concat());
    let r = if i % 17 == 16 { [0xff; 32] } else { number(1) };
    Job { digest: number(0), r, s: number(2), recovery_id: (i % 5).min(3) as u8 & 3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_passes() {
        for backend in Backend::available() {
            assert_eq!(Recoverer::new(backend).selftest(), Ok(()));
        }
    }
}
