//! Recovery of one signature with libsecp256k1: the backend for every processor, and the oracle for the others.

use crate::{Job, Key, Outcome, Reason, keccak256};
use secp256k1::{
    Message,
    ecdsa::{RecoverableSignature, RecoveryId},
};

pub(crate) fn recover(job: &Job) -> Outcome {
    let id = RecoveryId::try_from(i32::from(job.recovery_id)).map_err(|_| Reason::RecoveryId)?;
    let mut compact = [0u8; 64];
    compact[..32].copy_from_slice(&job.r);
    compact[32..].copy_from_slice(&job.s);
    if job.r == [0; 32] || job.s == [0; 32] {
        return Err(Reason::ScalarOutOfRange);
    }
    let signature =
        RecoverableSignature::from_compact(&compact, id).map_err(|_| Reason::ScalarOutOfRange)?;
    let key = signature
        .recover_ecdsa(Message::from_digest(job.digest))
        .map_err(|_| Reason::NoPublicKey)?;
    let uncompressed = key.serialize_uncompressed();
    let mut public_key = [0u8; 64];
    public_key.copy_from_slice(&uncompressed[1..]);
    let mut address = [0u8; 20];
    address.copy_from_slice(&keccak256(&public_key)[12..]);
    Ok(Key { public_key, address })
}
