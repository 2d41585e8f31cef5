//! Backends: the instruction set is detected once at run time and can be overridden.

use core::fmt;

/// Environment variable that forces a backend by name.
pub const BACKEND_VARIABLE: &str = "EVMD_VERIFY_BACKEND";

/// An implementation of recovery and hashing. All are compiled into one binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// libsecp256k1, one signature at a time, and scalar Keccak. Runs on every processor, and is
    /// the oracle for the others.
    Scalar,
    /// Eight-way batch recovery on AVX2, which multiplies 52-bit limbs as doubles (FMA), and
    /// four-way Keccak.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Eight-way batch recovery and Keccak on AVX-512 IFMA.
    #[cfg(target_arch = "x86_64")]
    Ifma,
}

/// Why a requested backend cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// There is no backend with this name.
    #[error("{BACKEND_VARIABLE}={name}: no such backend; use one of: {available}")]
    Unknown {
        /// The name as given.
        name: String,
        /// Comma-separated names this processor supports.
        available: String,
    },
    /// The processor cannot run this backend.
    #[error(
        "{BACKEND_VARIABLE}={name}: this processor lacks some of {needs}; use one of: {available}"
    )]
    Unsupported {
        /// The name as given.
        name: String,
        /// The processor features the backend needs.
        needs: &'static str,
        /// Comma-separated names this processor supports.
        available: String,
    },
}

impl Backend {
    /// Every backend of this build, fastest last.
    const ALL: &'static [Self] = &[
        Self::Scalar,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Ifma,
    ];

    /// Number of backends in this build.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Every backend this processor can run, fastest last.
    pub fn available() -> Vec<Self> {
        Self::ALL.iter().copied().filter(|backend| backend.is_available()).collect()
    }

    /// The backend named by `EVMD_VERIFY_BACKEND`, or the fastest available.
    ///
    /// # Errors
    /// If the variable names a backend that does not exist or that this processor cannot run.
    pub fn detect() -> Result<Self, BackendError> {
        match std::env::var(BACKEND_VARIABLE) {
            Ok(name) => Self::named(&name),
            Err(_) => Ok(*Self::available().last().expect("scalar is always available")),
        }
    }

    /// The backend with this name.
    ///
    /// # Errors
    /// If it does not exist, or this processor cannot run it.
    pub fn named(name: &str) -> Result<Self, BackendError> {
        let available = || {
            let names: Vec<_> = Self::available().iter().map(|b| b.name()).collect();
            names.join(", ")
        };
        let Some(backend) = Self::ALL.iter().find(|backend| backend.name() == name) else {
            return Err(BackendError::Unknown { name: name.to_owned(), available: available() });
        };
        if !backend.is_available() {
            return Err(BackendError::Unsupported {
                name: name.to_owned(),
                needs: backend.needs(),
                available: available(),
            });
        }
        Ok(*backend)
    }

    /// Whether this processor and operating system can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Ifma => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512ifma")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("bmi2")
            }
        }
    }

    /// Short lower-case name, as used in the environment variable, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Ifma => "ifma",
        }
    }

    /// The processor features it needs, for messages.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Scalar => "nothing",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2, fma and bmi2",
            #[cfg(target_arch = "x86_64")]
            Self::Ifma => "avx512f, ifma, dq, bw, vl, vbmi2 and bmi2",
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
}
