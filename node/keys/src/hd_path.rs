//! Derivation paths from a seed to a key (BIP-32, BIP-44): `m/44'/60'/0'/0/0`.

use bip32::{ChildNumber, DerivationPath};
use std::{fmt, str::FromStr};

/// Coin type of Ethereum (SLIP-44).
pub const COIN_TYPE: u32 = 60;
/// BIP-44's purpose.
const PURPOSE: u32 = 44;
/// Number of steps of a BIP-44 path: purpose, coin type, account, change, index.
const STEPS: usize = 5;
/// Number of steps at the start that are hardened. The others are not.
const HARDENED_STEPS: usize = 3;
/// The names of the steps.
const NAMES: [&str; STEPS] = ["purpose", "coin type", "account", "change", "index"];
/// The first index that is out of range, because the highest bit marks hardened steps.
const INDEX_LIMIT: u32 = 1 << 31;

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The text is not `m` with five steps.
    #[error("path {0:?} is not of the form m/44'/60'/0'/0/0")]
    Form(String),
    /// A step is not a number below 2^31.
    #[error("path step {0:?} is not a number below 2147483648")]
    Step(String),
    /// The purpose is not 44'.
    #[error("path purpose is {0}, BIP-44 wants 44'")]
    Purpose(u32),
    /// A step must be hardened.
    #[error("path {0} must be hardened: write {1}'")]
    NotHardened(&'static str, u32),
    /// A step must not be hardened.
    #[error("path {0} must not be hardened: write {1}")]
    Hardened(&'static str, u32),
}

/// A full BIP-44 path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HdPath {
    steps: [u32; STEPS],
}

impl HdPath {
    /// Creates the path `m/44'/coin_type'/account'/0/index`.
    ///
    /// # Errors
    /// If a number reaches 2^31.
    pub fn new(coin_type: u32, account: u32, index: u32) -> Result<Self, PathError> {
        let steps = [PURPOSE, coin_type, account, 0, index];
        match steps.into_iter().find(|&step| step >= INDEX_LIMIT) {
            Some(step) => Err(PathError::Step(step.to_string())),
            None => Ok(Self { steps }),
        }
    }

    pub(super) fn derivation(&self) -> DerivationPath {
        let mut path = DerivationPath::default();
        for (position, &step) in self.steps.iter().enumerate() {
            let hardened = position < HARDENED_STEPS;
            path.push(ChildNumber::new(step, hardened).expect("steps are below 2^31"));
        }
        path
    }
}

impl Default for HdPath {
    fn default() -> Self {
        Self { steps: [PURPOSE, COIN_TYPE, 0, 0, 0] }
    }
}

impl fmt::Display for HdPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [purpose, coin_type, account, change, index] = self.steps;
        write!(f, "m/{purpose}'/{coin_type}'/{account}'/{change}/{index}")
    }
}

impl FromStr for HdPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let form = || PathError::Form(text.to_owned());
        let mut parts = text.split('/');
        if parts.next() != Some("m") || parts.clone().count() != STEPS {
            return Err(form());
        }
        let mut steps = [0; STEPS];
        for (position, part) in parts.enumerate() {
            let (digits, hardened) = match part.strip_suffix(['\'', 'h', 'H']) {
                Some(digits) => (digits, true),
                None => (part, false),
            };
            let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits);
            let step = number.and_then(|digits| digits.parse().ok()).filter(|&s| s < INDEX_LIMIT);
            let step = step.ok_or_else(|| PathError::Step(part.to_owned()))?;
            match (position < HARDENED_STEPS, hardened) {
                (true, false) => return Err(PathError::NotHardened(NAMES[position], step)),
                (false, true) => return Err(PathError::Hardened(NAMES[position], step)),
                _ => steps[position] = step,
            }
        }
        if steps[0] != PURPOSE {
            return Err(PathError::Purpose(steps[0]));
        }
        Ok(Self { steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_path_is_parsed_to_the_same_path() {
        let path = HdPath::new(118, 2, 7).unwrap();
        assert_eq!(path.to_string(), "m/44'/118'/2'/0/7");
        assert_eq!(path.to_string().parse(), Ok(path));
        assert_eq!("m/44h/60H/0'/0/0".parse(), Ok(HdPath::default()));
    }

    #[test]
    fn errors_name_the_step() {
        let fault = |text: &str| text.parse::<HdPath>().unwrap_err();
        assert_eq!(fault("m/44'/60/0'/0/0"), PathError::NotHardened("coin type", 60));
        assert_eq!(fault("m/44'/60'/0'/0/0'"), PathError::Hardened("index", 0));
        assert_eq!(fault("m/49'/60'/0'/0/0"), PathError::Purpose(49));
        for text in ["", "m", "m/44'/60'/0'/0", "44'/60'/0'/0/0", "m/44'/60'/0'/0/0/0"] {
            assert!(matches!(fault(text), PathError::Form(_)), "{text}");
        }
        for step in ["", "x", "+1", "-1", "2147483648", "99999999999"] {
            let text = format!("m/44'/60'/0'/0/{step}");
            assert_eq!(fault(&text), PathError::Step(step.to_owned()));
        }
        assert!(HdPath::new(60, 0, INDEX_LIMIT).is_err());
    }
}
