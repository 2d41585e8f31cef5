//! Implements the precompile at address 1 with the libsecp256k1 that the rest of the node uses. `revm` offers an older
//! version of that library, which would have to be compiled as well, or `k256`, which is slower.

use std::sync::Once;

use alloy_primitives::{B256, keccak256};
use revm::precompile::{Crypto, PrecompileHalt, install_crypto};
use secp256k1::{
    Message,
    ecdsa::{RecoverableSignature, RecoveryId},
};

/// Number of bytes before the address in a word.
const ADDRESS_PADDING: usize = 12;

/// Implements only the recovery. `revm`'s own functions do everything else.
#[derive(Debug)]
struct NodeCrypto;

impl Crypto for NodeCrypto {
    fn secp256k1_ecrecover(
        &self,
        signature: &[u8; 64],
        recovery_id: u8,
        digest: &[u8; 32],
    ) -> Result<[u8; 32], PrecompileHalt> {
        recover(signature, recovery_id, digest).ok_or(PrecompileHalt::Secp256k1RecoverFailed)
    }
}

/// Returns the address of the signer as a word, or `None` if no key can be recovered. Signatures with a high `s` are
/// valid here (Yellow Paper, appendix E.1).
fn recover(signature: &[u8; 64], recovery_id: u8, digest: &[u8; 32]) -> Option<[u8; 32]> {
    let id = RecoveryId::try_from(i32::from(recovery_id)).ok()?;
    let signature = RecoverableSignature::from_compact(signature, id).ok()?;
    let key = signature.recover_ecdsa(Message::from_digest(*digest)).ok()?;
    let mut word: B256 = keccak256(&key.serialize_uncompressed()[1..]);
    word[..ADDRESS_PADDING].fill(0);
    Some(word.0)
}

/// Installs this implementation for the whole process on the first call.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        assert!(install_crypto(NodeCrypto), "nothing runs a precompile before this");
    });
}
