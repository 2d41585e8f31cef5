//! Caches contract code in the form that the interpreter needs, across blocks and calls: finding the jump
//! targets of a contract takes about as long as a short call into it.
//!
//! The key is the hash of the code, so one cache serves all chains and threads of the process, and entries
//! never become stale. The cache is limited in bytes; entries that are not used are evicted.

use alloy_primitives::{B256, Bytes};
use platform::memory::derived;
use quick_cache::{Weighter, sync::Cache};
use revm::bytecode::Bytecode;

/// Cache size on a machine with enough memory: about 2,400 contracts of the maximum size, or 9,000 of the usual
/// size.
const FULL_BYTES: u64 = 64 << 20;
/// Minimum cache size.
const MIN_BYTES: u64 = 4 << 20;
/// Usual size of a contract, from which the number of entries is estimated.
const CONTRACT_BYTES: u64 = 6 * 1024;
/// Memory of an entry in addition to its code.
const ENTRY_BYTES: u64 = 256;

#[derive(Clone, Debug)]
pub(super) struct Weight;

impl Weighter<B256, Bytecode> for Weight {
    fn weight(&self, _: &B256, code: &Bytecode) -> u64 {
        // The table of jump targets has one bit per byte of code.
        let bytes = code.bytes_slice().len() as u64;
        ENTRY_BYTES + bytes + bytes / 8
    }
}

/// Analysed code by its hash.
pub(super) type CodeCache = Cache<B256, Bytecode, Weight>;

/// Creates a cache without code.
pub(super) fn empty_cache() -> CodeCache {
    let bytes = derived(FULL_BYTES, MIN_BYTES);
    Cache::with_weighter((bytes / CONTRACT_BYTES) as usize, bytes, Weight)
}

/// Returns the code with this hash; calls `read` if it is not cached.
///
/// # Errors
/// Any error from `read`.
pub(super) fn code<E>(
    cache: &CodeCache,
    hash: B256,
    read: impl FnOnce() -> Result<Bytes, E>,
) -> Result<Bytecode, E> {
    if let Some(code) = cache.get(&hash) {
        return Ok(code);
    }
    // Two threads may do this at the same time, which is better than making one wait for the other.
    let code = analysed(read()?);
    cache.insert(hash, code.clone());
    Ok(code)
}

/// Analyses code. No valid transaction can store a malformed delegation (EIP-7702); if genesis contains one,
/// it is treated as ordinary code.
pub(crate) fn analysed(code: Bytes) -> Bytecode {
    Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{hex, keccak256};
    use std::convert::Infallible;

    #[test]
    fn code_is_read_once_and_cached_unchanged() {
        // The fourth byte is a jump target. The second is not, because it is the operand of PUSH1.
        let code = Bytes::from_static(&hex!("605b505b00"));
        let (hash, cache) = (keccak256(&code), empty_cache());
        let first = super::code(&cache, hash, || Ok::<_, Infallible>(code.clone())).unwrap();
        let again = super::code(&cache, hash, || Err("read again")).unwrap();
        for cached in [first, again] {
            assert_eq!(cached.original_bytes(), code);
            let targets = cached.legacy_jump_table().unwrap();
            assert_eq!([1, 3].map(|at| targets.is_valid(at)), [false, true]);
        }
    }

    #[test]
    fn failed_read_is_repeated() {
        let (hash, cache) = (B256::repeat_byte(0xcd), empty_cache());
        assert_eq!(code(&cache, hash, || Err("lost")), Err("lost"));
        assert!(code(&cache, hash, || Ok::<_, Infallible>(Bytes::new())).unwrap().is_empty());
    }

    #[test]
    fn malformed_delegation_is_ordinary_code() {
        let delegation = [&hex!("ef0100")[..], &[7; 20]].concat();
        assert!(analysed(delegation.clone().into()).is_eip7702());
        assert!(analysed(delegation[..22].to_vec().into()).is_legacy());
    }
}
