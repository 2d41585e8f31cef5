//! Selects the backend: the instruction set is detected once at run time and can be overridden.

#[cfg(target_arch = "x86_64")]
use crate::processor::{Avx2, Avx512Ifma};
use core::fmt;

/// Environment variable that forces a backend by name.
pub const BACKEND_VARIABLE: &str = "EVMD_VERIFY_BACKEND";

/// An implementation of recovery and hashing. All are compiled into one binary.
///
/// A vector backend contains the proof that this processor can run it, so every value is safe to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// libsecp256k1, one signature at a time, and scalar Keccak. It runs on every processor, and is the oracle
    /// for the other backends.
    Scalar,
    /// Eight-way batch recovery on AVX2, with field elements of five doubles (FMA), and
    /// four-way Keccak.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// Eight-way batch recovery and Keccak on AVX-512 IFMA.
    #[cfg(target_arch = "x86_64")]
    Ifma(Avx512Ifma),
}

/// A backend of this build, which this processor may not support.
struct Candidate {
    name: &'static str,
    /// The required processor features, for messages.
    needs: &'static str,
    /// The backend, if this processor and operating system can run it.
    detect: fn() -> Option<Backend>,
}

/// Every backend of this build, fastest last.
const CANDIDATES: &[Candidate] = &[
    Candidate { name: "scalar", needs: "nothing", detect: || Some(Backend::Scalar) },
    #[cfg(target_arch = "x86_64")]
    Candidate {
        name: "avx2",
        needs: "avx2, fma and bmi2",
        detect: || Avx2::detect().map(Backend::Avx2),
    },
    #[cfg(target_arch = "x86_64")]
    Candidate {
        name: "ifma",
        needs: "avx512f, ifma, dq, bw, vl, vbmi2 and bmi2",
        detect: || Avx512Ifma::detect().map(Backend::Ifma),
    },
];

/// Why a requested backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend with this name.
    #[error("{BACKEND_VARIABLE}={name}: no such backend; use one of: {available}")]
    Unknown {
        /// The requested name.
        name: String,
        /// Comma-separated names of the backends that this processor supports.
        available: String,
    },
    /// The processor cannot run this backend.
    #[error(
        "{BACKEND_VARIABLE}={name}: this processor lacks some of {needs}; use one of: {available}"
    )]
    Unsupported {
        /// The requested name.
        name: String,
        /// The processor features that the backend requires.
        needs: &'static str,
        /// Comma-separated names of the backends that this processor supports.
        available: String,
    },
}

impl Backend {
    /// Number of backends in this build.
    pub(crate) const COUNT: usize = CANDIDATES.len();

    /// Returns every backend that this processor can run, fastest last.
    pub fn available() -> Vec<Self> {
        CANDIDATES.iter().filter_map(|candidate| (candidate.detect)()).collect()
    }

    /// Returns the backend in `EVMD_VERIFY_BACKEND`, or the fastest available one.
    ///
    /// # Errors
    /// If the variable names a backend that does not exist or that this processor cannot run.
    pub fn detect() -> Result<Self, BackendError> {
        match std::env::var(BACKEND_VARIABLE) {
            Ok(name) => Self::named(&name),
            Err(_) => Ok(*Self::available().last().expect("scalar is always available")),
        }
    }

    /// Returns the backend with this name.
    ///
    /// # Errors
    /// If it does not exist, or if this processor cannot run it.
    pub fn named(name: &str) -> Result<Self, BackendError> {
        let available = || {
            let names: Vec<_> = Self::available().iter().map(|b| b.name()).collect();
            names.join(", ")
        };
        let Some(candidate) = CANDIDATES.iter().find(|candidate| candidate.name == name) else {
            return Err(BackendError::Unknown { name: name.to_owned(), available: available() });
        };
        (candidate.detect)().ok_or_else(|| BackendError::Unsupported {
            name: name.to_owned(),
            needs: candidate.needs,
            available: available(),
        })
    }

    /// Returns the short lower-case name that is used in the environment variable, logs and metrics.
    pub const fn name(self) -> &'static str {
        CANDIDATES[self.index()].name
    }

    /// Returns the required processor features, for messages.
    pub const fn needs(self) -> &'static str {
        CANDIDATES[self.index()].needs
    }

    /// Returns the position of this backend in the list of all backends of this build.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Scalar => 0,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => 1,
            #[cfg(target_arch = "x86_64")]
            Self::Ifma(_) => 2,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_name_lists_the_available_backends() {
        let message = Backend::named("sse9").expect_err("no such backend").to_string();
        assert!(message.contains("sse9") && message.contains("scalar"), "{message}");
    }

    #[test]
    fn available_backends_are_found_by_name() {
        for backend in Backend::available() {
            assert_eq!(Backend::named(backend.name()), Ok(backend));
        }
    }

    #[test]
    fn index_of_every_backend_is_that_of_its_candidate() {
        for candidate in CANDIDATES {
            if let Some(backend) = (candidate.detect)() {
                assert_eq!(backend.name(), candidate.name);
            }
        }
    }
}
