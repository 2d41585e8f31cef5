//! The engine's proof that a block is final, in the form in which it is stored and sent to replicas.

use super::{block::ProposedBlock, guarded_scheme::GuardedScheme};
use alloy_primitives::{B256, Bytes};
use certificates::{Certificate, MAX_SIGNERS};
use commonware_consensus::{CertifiableBlock, simplex::types::Finalization};
use commonware_cryptography::{Digestible, keccak256::Digest};

/// The certificate of a block, from the proof that the engine has of it.
///
/// `None` if it is the proof of another block, or if a signature cannot be decoded. A later block has another certificate, which covers
/// this one.
pub(super) fn certificate(
    block: &ProposedBlock,
    proof: &Finalization<GuardedScheme, Digest>,
) -> Option<Bytes> {
    if proof.proposal.payload != block.digest() {
        return None;
    }
    let context = block.context();
    let (parent_view, parent) = context.parent;
    let positions = || proof.certificate.signers.iter().map(usize::from);
    if positions().any(|position| position >= MAX_SIGNERS) {
        return None;
    }
    let signatures = proof.certificate.signatures.iter().map(|signature| {
        let bytes: &[u8] = signature.get()?.as_ref();
        bytes.try_into().ok()
    });
    let finalization = certificates::Finalization {
        view: context.round.view().get(),
        parent_view: parent_view.get(),
        leader: B256::from_slice(context.leader.as_ref()),
        parent: B256::from(parent.0),
        signers: positions().fold(0, |bits, position| bits | 1 << position),
        signatures: signatures.collect::<Option<_>>()?,
    };
    Some(Certificate::Validators(finalization).encode().into())
}
