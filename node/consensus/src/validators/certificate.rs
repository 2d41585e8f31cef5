//! Converts the engine's proof that a block is final to and from the form in which it is stored and sent to replicas.

use super::{
    application::CertifiedBlock,
    block::{ProposalContext, ProposedBlock},
    guarded_scheme::GuardedScheme,
};
use alloy_primitives::{B256, Bytes};
use certificates::{Certificate, MAX_SIGNERS};
use commonware_codec::{Copying, DecodeExt};
use commonware_consensus::{
    CertifiableBlock,
    simplex::types::{Finalization, Proposal},
    types::{Epoch, Participant, Round, View},
};
use commonware_cryptography::{
    Digestible,
    certificate::Signers,
    ed25519::{self, PublicKey, Signature},
    keccak256::Digest,
};

pub(super) type FinalBlock = (ProposedBlock, Finalization<GuardedScheme, Digest>);

/// Converts the engine's proof of a block to its certificate.
///
/// `None` if it is the proof of another block, or if a signature or the number of a signer cannot be encoded. The
/// certificate of a later block then covers this one.
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

/// Rebuilds a stored block and the engine's proof from its certificate. `None` if they cannot be those of a set of
/// `validators` validators. The signatures are not checked here.
pub(super) fn final_block(stored: &CertifiedBlock, validators: u32) -> Option<FinalBlock> {
    let certificate = Certificate::decode(&stored.certificate).ok()?;
    let Certificate::Validators(finalization) = certificate else { return None };
    let leader = PublicKey::decode(Copying(finalization.leader.as_slice())).ok()?;
    let (round, parent_view) = (
        Round::new(Epoch::zero(), View::new(finalization.view)),
        View::new(finalization.parent_view),
    );
    let parent = (parent_view, Digest(finalization.parent.0));
    let context = ProposalContext { round, leader, parent };
    let block = ProposedBlock::new(context, stored.block.clone())?;
    let positions = (0..u64::BITS).filter(|at| finalization.signers >> at & 1 == 1);
    let signers = Signers::new(validators, positions.map(Participant::new)).ok()?;
    let signature =
        |bytes: &[u8; 64]| Signature::decode(Copying(bytes.as_slice())).ok().map(Into::into);
    let signatures = finalization.signatures.iter().map(signature).collect::<Option<_>>()?;
    let certificate = ed25519::certificate::Certificate { signers, signatures };
    let proposal = Proposal::new(round, parent_view, block.digest());
    Some((block, Finalization { proposal, certificate }))
}
