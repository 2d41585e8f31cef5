//! Which instruction set does the work: detected once, overridable, never a compile-time choice.

use core::fmt;

/// Environment variable that forces a backend by name.
pub(crate) const BACKEND_VARIABLE: &str = "EVMD_VERIFY_BACKEND";

/// An implementation of recovery. All are compiled into one binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// libsecp256k1, one signature at a time. Runs everywhere; the oracle of the others.
    Scalar,
}

/// Why a requested backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The name is none of ours.
    #[error("{BACKEND_VARIABLE}={name}: no such backend; use one of: {available}")]
    Unknown {
        /// The name as given.
        name: String,
        /// Comma-separated names this processor supports.
        available: String,
    },
}

impl Backend {
    /// Every backend this processor can run, fastest last.
    pub fn available() -> Vec<Self> {
        vec![Self::Scalar]
    }

    /// The backend named by `EVMD_VERIFY_BACKEND`, or the fastest available.
    pub fn detect() -> Result<Self, BackendError> {
        let available = Self::available();
        match std::env::var(BACKEND_VARIABLE) {
            Ok(name) => available.iter().copied().find(|b| b.name() == name).ok_or_else(|| {
                let names: Vec<_> = available.iter().map(|b| b.name()).collect();
                BackendError::Unknown { name, available: names.join(", ") }
            }),
            Err(_) => Ok(*available.last().expect("the scalar backend is always available")),
        }
    }

    /// Short lower-case name, as used in the environment variable, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
