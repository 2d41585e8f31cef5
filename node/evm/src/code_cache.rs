//! Contracts' code as the interpreter takes it, kept between blocks and calls: to look for the jump
//! targets of a contract takes about as long as a short call into it.
//!
//! Code is named by its hash and says the same wherever it is, so one table serves all chains and all
//! threads of the process, and nothing in it grows old. Bound: bytes; what is not asked for again
//! makes room.

use std::sync::LazyLock;

use alloy_primitives::{B256, Bytes};
use platform::memory::derived;
use quick_cache::{Weighter, sync::Cache};
use revm::bytecode::Bytecode;

/// Bytes kept on a machine with enough memory: some thousand of the largest contracts, or ten thousand usual
/// ones.
const FULL_BYTES: u64 = 64 << 20;
/// Minimum of it.
const MIN_BYTES: u64 = 4 << 20;
/// Bytes of a usual contract: sizes the table.
const CONTRACT_BYTES: u64 = 6 * 1024;
/// Bytes that one takes beside its code.
const ENTRY_BYTES: u64 = 256;

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<B256, Bytecode> for Weight {
    fn weight(&self, _: &B256, code: &Bytecode) -> u64 {
        // A bit for each byte says whether it is a jump target.
        let bytes = code.bytes_slice().len() as u64;
        ENTRY_BYTES + bytes + bytes / 8
    }
}

static KEPT: LazyLock<Cache<B256, Bytecode, Weight>> = LazyLock::new(|| {
    let bytes = derived(FULL_BYTES, MIN_BYTES);
    Cache::with_weighter((bytes / CONTRACT_BYTES) as usize, bytes, Weight)
});

/// The code with this hash, which `read` gives where it is not kept.
///
/// # Errors
/// Those of `read`.
pub(super) fn code<E>(hash: B256, read: impl FnOnce() -> Result<Bytes, E>) -> Result<Bytecode, E> {
    if let Some(code) = KEPT.get(&hash) {
        return Ok(code);
    }
    // Two threads may do this at once: better than that one waits for the other.
    let code = analysed(read()?);
    KEPT.insert(hash, code.clone());
    Ok(code)
}

/// Code with its jump targets. A malformed delegation (EIP-7702) cannot be stored by any valid
/// transaction; should a genesis carry one, it is ordinary code.
pub(super) fn analysed(code: Bytes) -> Bytecode {
    Bytecode::new_raw_checked(code.clone()).unwrap_or_else(|_| Bytecode::new_legacy(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{hex, keccak256};
    use std::convert::Infallible;

    #[test]
    fn code_is_read_once_and_kept_as_it_was() {
        // Its fourth byte is a jump target; the second is what PUSH1 pushes, and none.
        let code = Bytes::from_static(&hex!("605b505b00"));
        let hash = keccak256(&code);
        let first = super::code(hash, || Ok::<_, Infallible>(code.clone())).unwrap();
        let again = super::code(hash, || Err("read again")).unwrap();
        for kept in [first, again] {
            assert_eq!(kept.original_bytes(), code);
            let targets = kept.legacy_jump_table().unwrap();
            assert_eq!([1, 3].map(|at| targets.is_valid(at)), [false, true]);
        }
    }

    #[test]
    fn a_failed_read_is_tried_again() {
        let hash = B256::repeat_byte(0xcd);
        assert_eq!(code(hash, || Err("lost")), Err("lost"));
        assert!(code(hash, || Ok::<_, Infallible>(Bytes::new())).unwrap().is_empty());
    }

    #[test]
    fn a_malformed_delegation_is_ordinary_code() {
        let delegation = [&hex!("ef0100")[..], &[7; 20]].concat();
        assert!(analysed(delegation.clone().into()).is_eip7702());
        assert!(analysed(delegation[..22].to_vec().into()).is_legacy());
    }
}
