//! The signature scheme of votes: ed25519. The [`VoteRecord`] must allow each vote before it is signed.

use super::vote_record::{At, VoteKind, VoteRecord};
use commonware_codec::{Encode, Read};
use commonware_consensus::{
    Epochable, Viewable,
    simplex::{
        scheme::Namespace,
        types::{Proposal, Subject},
    },
};
use commonware_cryptography::{
    Digest, Hasher, Sha256,
    certificate::{
        AssemblyError, Attestation, Membership, Scheme, Verification, Verifier,
        verify_then_assemble,
    },
    ed25519::{
        PrivateKey, PublicKey, Signature,
        certificate::{Certificate, Generic},
    },
};
use commonware_parallel::Strategy;
use commonware_utils::{N3f1, iter::NonEmpty, ordered::Set};
use rand_core::CryptoRng;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Debug)]
pub(super) struct GuardedScheme {
    generic: Generic<Namespace>,
    record: Arc<Mutex<VoteRecord>>,
}

impl GuardedScheme {
    /// Creates a scheme that signs with `key`. `None` if this is not the key of a participant.
    pub(super) fn signer(
        namespace: &[u8],
        participants: Set<PublicKey>,
        key: PrivateKey,
        record: VoteRecord,
    ) -> Option<Self> {
        let generic = Generic::signer(namespace, participants, key)?;
        Some(Self { generic, record: Arc::new(Mutex::new(record)) })
    }

    /// Whether a vote may be sent. A vote that cannot be recorded is not sent, as if this validator were offline.
    fn allows<D: Digest>(&self, subject: &Subject<'_, D>) -> bool {
        let (at, kind, hash) = vote(subject);
        let (epoch, view) = at;
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = record.record(at, kind, hash);
        drop(record);
        match recorded {
            Ok(true) => true,
            Ok(false) => {
                tracing::warn!(
                    epoch,
                    view,
                    ?kind,
                    "did not send a vote: it contradicts an earlier one, or is in a view whose votes are not kept"
                );
                false
            }
            Err(error) => {
                tracing::error!(epoch, view, ?kind, %error, "did not send a vote that cannot be recorded");
                false
            }
        }
    }
}

/// The view of a vote, its kind, and the hash of its proposal.
fn vote<D: Digest>(subject: &Subject<'_, D>) -> (At, VoteKind, [u8; 32]) {
    let hash = |proposal: &Proposal<D>| Sha256::hash(&[&proposal.encode()]).0;
    let (epoch, kind, hash) = match subject {
        Subject::Notarize { proposal } => (proposal.epoch(), VoteKind::Notarize, hash(proposal)),
        Subject::Nullify { round } => (round.epoch(), VoteKind::Nullify, [0; 32]),
        Subject::Finalize { proposal } => (proposal.epoch(), VoteKind::Finalize, hash(proposal)),
    };
    ((epoch.get(), subject.view().get()), kind, hash)
}

impl Verifier for GuardedScheme {
    type Subject<'a, D: Digest> = Subject<'a, D>;
    type Faults = N3f1;
    type PublicKey = PublicKey;
    type Certificate = Certificate;

    fn verify_certificate<R, D>(
        &self,
        rng: &mut R,
        subject: Subject<'_, D>,
        certificate: &Certificate,
        strategy: &impl Strategy,
    ) -> bool
    where
        R: CryptoRng,
        D: Digest,
    {
        self.generic.verify_certificate::<Self, _>(rng, subject, certificate, strategy)
    }

    fn verify_certificates<'a, R, D, I>(
        &self,
        rng: &mut R,
        certificates: NonEmpty<I>,
        strategy: &impl Strategy,
    ) -> bool
    where
        R: CryptoRng,
        D: Digest,
        I: Iterator<Item = (Subject<'a, D>, &'a Certificate)>,
    {
        self.generic.verify_certificates::<Self, _, _, _>(rng, certificates, strategy)
    }

    fn is_batchable() -> bool {
        Generic::<Namespace>::is_batchable()
    }

    fn max_certificate_size(participants: u32) -> usize {
        Generic::<Namespace>::max_certificate_size(participants)
    }

    fn certificate_codec_config(&self) -> <Certificate as Read>::Cfg {
        self.generic.certificate_codec_config()
    }

    fn certificate_codec_config_unbounded() -> <Certificate as Read>::Cfg {
        Generic::<Namespace>::certificate_codec_config_unbounded()
    }
}

impl Scheme for GuardedScheme {
    type Signature = Signature;

    fn me(&self) -> Option<Membership> {
        self.generic.signer_index().map(Membership::Signer)
    }

    fn participants(&self) -> &Set<PublicKey> {
        &self.generic.participants
    }

    fn sign<D: Digest>(&self, subject: Subject<'_, D>) -> Option<Attestation<Self>> {
        if !self.allows(&subject) {
            return None;
        }
        self.generic.sign(subject)
    }

    fn verify_attestation<R, D>(
        &self,
        _rng: &mut R,
        subject: Subject<'_, D>,
        attestation: &Attestation<Self>,
        _strategy: &impl Strategy,
    ) -> bool
    where
        R: CryptoRng,
        D: Digest,
    {
        self.generic.verify_attestation(subject, attestation)
    }

    fn verify_attestations<R, D, I>(
        &self,
        rng: &mut R,
        subject: Subject<'_, D>,
        attestations: I,
        strategy: &impl Strategy,
    ) -> Verification<Self>
    where
        R: CryptoRng,
        D: Digest,
        I: IntoIterator<Item = Attestation<Self>>,
        I::IntoIter: Send,
    {
        self.generic.verify_attestations(rng, subject, attestations, strategy)
    }

    fn optimistic_assemble<'a, R, D, I, J>(
        &self,
        rng: &mut R,
        subject: Subject<'_, D>,
        pending: I,
        verified: J,
        strategy: &impl Strategy,
    ) -> Result<Certificate, Verification<Self>>
    where
        R: CryptoRng,
        D: Digest,
        I: IntoIterator<Item = Attestation<Self>>,
        I::IntoIter: ExactSizeIterator + Send,
        J: IntoIterator<Item = &'a Attestation<Self>>,
        J::IntoIter: Send,
    {
        verify_then_assemble::<Self, _, D, _, _>(self, rng, subject, pending, verified, strategy)
    }

    fn assemble<I>(
        &self,
        attestations: NonEmpty<I>,
        _strategy: &impl Strategy,
    ) -> Result<Certificate, AssemblyError>
    where
        I: Iterator<Item = Attestation<Self>> + Send,
    {
        self.generic.assemble::<Self, _>(attestations)
    }

    fn is_attributable() -> bool {
        Generic::<Namespace>::is_attributable()
    }
}
