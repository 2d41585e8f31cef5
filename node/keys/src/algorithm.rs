//! Checks the name of the only supported key algorithm.

/// ECDSA on secp256k1 with Ethereum's addresses and hashes.
pub const ALGORITHM: &str = "eth_secp256k1";
/// A misspelling in the documentation of chains with this algorithm. It is accepted, but never written.
const ALIAS: &str = "eth_secp265k1";

/// A name that is not that of the chain's key algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key algorithm {0:?}: this chain has {ALGORITHM}")]
pub struct UnknownAlgorithm(pub String);

/// Checks the name of an algorithm and returns its correct spelling.
///
/// # Errors
/// For any name except [`ALGORITHM`] and its known misspelling.
pub fn check_algorithm(name: &str) -> Result<&'static str, UnknownAlgorithm> {
    match name {
        ALGORITHM | ALIAS => Ok(ALGORITHM),
        other => Err(UnknownAlgorithm(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelling_is_accepted_and_corrected() {
        assert_eq!(check_algorithm("eth_secp265k1"), Ok("eth_secp256k1"));
        assert!(check_algorithm("secp256k1").is_err());
    }
}
