//! Determines which key signs the blocks at a height.

use super::{BlockId, Certificate, CertificateError, ProducerCertificate, PublicKey, Signer, Term};
use alloy_primitives::B256;

/// Why a term cannot follow those that are known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// Terms are numbered without a gap.
    #[error("producer term {found} cannot follow term {newest}: the next one is {}", newest.saturating_add(1))]
    Number {
        /// The number of the term.
        found: u64,
        /// The newest known term.
        newest: u64,
    },
    /// Validators decide about the blocks.
    #[error("producer term {0} is not valid: validators decide about the blocks of this chain")]
    Validators(u64),
    /// The chain has no recovery key.
    #[error("producer term {0} is signed by a recovery key, but the genesis names none")]
    NoRecoveryKey(u64),
    /// The signature is not one of the key that must have made it.
    #[error("producer term {term} is not signed by {key}")]
    Signature {
        /// The number of the term.
        term: u64,
        /// The public key that must have signed it.
        key: B256,
    },
}

/// The keys that sign the blocks of a chain: those of one producer at a time, or those of validators.
///
/// The start of a term after a block ends the previous term at that block. If a later term starts after a lower block,
/// the terms between have no blocks above the lower one: the newest term counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    genesis: B256,
    keys: Keys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Keys {
    Producers(Box<Producers>),
    /// In ascending order of their bytes.
    Validators(Vec<PublicKey>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Producers {
    first: PublicKey,
    recovery: Option<PublicKey>,
    terms: Vec<Term>,
}

impl Authority {
    /// Returns the keys of a chain with a producer whose first term has not ended.
    pub fn new(genesis: B256, producer: PublicKey, recovery: Option<PublicKey>) -> Self {
        let producers = Producers { first: producer, recovery, terms: Vec::new() };
        Self { genesis, keys: Keys::Producers(Box::new(producers)) }
    }

    /// Returns the keys of a chain whose blocks validators decide.
    pub fn of_validators(genesis: B256, mut keys: Vec<PublicKey>) -> Self {
        keys.sort_unstable_by_key(PublicKey::bytes);
        Self { genesis, keys: Keys::Validators(keys) }
    }

    /// Adds the next term.
    ///
    /// # Errors
    /// [`AuthorityError`]. Nothing is added then.
    pub fn add(&mut self, term: Term) -> Result<(), AuthorityError> {
        let newest = self.newest_term();
        if Some(term.term) != newest.checked_add(1) {
            return Err(AuthorityError::Number { found: term.term, newest });
        }
        let producer = self.newest_producer().ok_or(AuthorityError::Validators(term.term))?;
        let key = match term.signer {
            Signer::Producer => producer,
            Signer::Recovery => self.recovery().ok_or(AuthorityError::NoRecoveryKey(term.term))?,
        };
        if !term.is_signed_by(&key, self.genesis) {
            return Err(AuthorityError::Signature { term: term.term, key: key.bytes() });
        }
        if let Keys::Producers(producers) = &mut self.keys {
            producers.terms.push(term);
        }
        Ok(())
    }

    /// Returns the same keys without the terms from 1 on.
    #[must_use]
    pub fn without_terms(&self) -> Self {
        let mut keys = self.keys.clone();
        if let Keys::Producers(producers) = &mut keys {
            producers.terms.clear();
        }
        Self { genesis: self.genesis, keys }
    }

    /// Returns the hash of the genesis block.
    pub const fn genesis(&self) -> B256 {
        self.genesis
    }

    /// Returns the keys of the validators, or no keys if a producer signs.
    pub fn validators(&self) -> &[PublicKey] {
        match &self.keys {
            Keys::Producers(_) => &[],
            Keys::Validators(keys) => keys,
        }
    }

    /// Returns the key of term 0; `None` if validators decide.
    pub fn first_producer(&self) -> Option<PublicKey> {
        match &self.keys {
            Keys::Producers(producers) => Some(producers.first),
            Keys::Validators(_) => None,
        }
    }

    /// Returns the key that may start a term if the producer is lost.
    pub fn recovery(&self) -> Option<PublicKey> {
        match &self.keys {
            Keys::Producers(producers) => producers.recovery,
            Keys::Validators(_) => None,
        }
    }

    /// Returns the terms from 1 on.
    pub fn terms(&self) -> &[Term] {
        match &self.keys {
            Keys::Producers(producers) => &producers.terms,
            Keys::Validators(_) => &[],
        }
    }

    /// Returns the number of the newest term.
    pub fn newest_term(&self) -> u64 {
        self.terms().last().map_or(0, |term| term.term)
    }

    /// Returns the key of the newest term; `None` if validators decide.
    pub fn newest_producer(&self) -> Option<PublicKey> {
        self.terms().last().map(|term| term.producer).or_else(|| self.first_producer())
    }

    /// Returns the term whose producer makes the block with this number.
    pub fn term_at(&self, number: u64) -> u64 {
        let newest_first = self.terms().iter().rev();
        newest_first.clone().find(|term| term.last.number < number).map_or(0, |term| term.term)
    }

    /// Checks a block after which a term starts. Other blocks pass.
    ///
    /// # Errors
    /// [`CertificateError::OtherBlock`].
    pub fn check_term_start(&self, block: BlockId) -> Result<(), CertificateError> {
        let BlockId { number, hash } = block;
        // A term counts only if no later one starts at a lower block.
        let newest_first = self.terms().iter().rev();
        let ends_here = newest_first.clone().find(|term| term.last.number <= number);
        match ends_here.filter(|term| term.last.number == number && term.last.hash != hash) {
            None => Ok(()),
            Some(&Term { term, last, .. }) => {
                Err(CertificateError::OtherBlock { number, hash, term, expected: last.hash })
            }
        }
    }

    /// Checks that the producer in force at the height of a block, or a quorum of the validators, has signed it.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn verify(
        &self,
        block: BlockId,
        certificate: &Certificate,
    ) -> Result<(), CertificateError> {
        let BlockId { number, hash } = block;
        let kinds = ["a producer", "validators"];
        match (&self.keys, certificate) {
            (Keys::Producers(_), Certificate::Producer(certificate)) => {
                self.verify_producer(block, certificate)
            }
            (Keys::Validators(keys), Certificate::Validators(finalization)) => {
                match finalization.proves(keys, self.genesis, block) {
                    true => Ok(()),
                    false => Err(CertificateError::Quorum { number, hash, validators: keys.len() }),
                }
            }
            (Keys::Producers(_), Certificate::Validators(_)) => {
                Err(CertificateError::OtherKind { number, found: kinds[1], expected: kinds[0] })
            }
            (Keys::Validators(_), Certificate::Producer(_)) => {
                Err(CertificateError::OtherKind { number, found: kinds[0], expected: kinds[1] })
            }
        }
    }

    fn verify_producer(
        &self,
        block: BlockId,
        certificate: &ProducerCertificate,
    ) -> Result<(), CertificateError> {
        self.check_term_start(block)?;
        let (number, hash, term) = (block.number, block.hash, certificate.term);
        let newest = self.newest_term();
        if term > newest {
            return Err(CertificateError::UnknownTerm { number, term, newest });
        }
        let expected = self.term_at(number);
        if term != expected {
            return Err(CertificateError::OtherTerm { number, term, expected });
        }
        let key = self.key_of(term).expect("a producer signs");
        if certificate.is_signed_by(&key, self.genesis, block) {
            Ok(())
        } else {
            Err(CertificateError::Signature { number, hash, key: key.bytes() })
        }
    }

    /// Returns the key of a known term.
    fn key_of(&self, term: u64) -> Option<PublicKey> {
        let term = self.terms().iter().find(|known| known.term == term);
        term.map(|term| term.producer).or_else(|| self.first_producer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    const GENESIS: B256 = B256::repeat_byte(1);

    fn key(n: u8) -> SecretKey {
        SecretKey::from_bytes(&[n; 32])
    }

    fn block(number: u64) -> BlockId {
        BlockId { number, hash: B256::repeat_byte(number as u8) }
    }

    fn sign(key: &SecretKey, genesis: B256, term: u64, block: BlockId) -> Certificate {
        Certificate::Producer(ProducerCertificate::sign(key, genesis, term, block))
    }

    /// Term 1 of key 2 after block 10, signed by the producer; term 2 of key 3 after block 20, by the recovery key.
    fn three_terms() -> Authority {
        let mut authority = Authority::new(GENESIS, key(1).public(), Some(key(9).public()));
        let first = Term::sign((Signer::Producer, &key(1)), GENESIS, 1, block(10), key(2).public());
        authority.add(first).unwrap();
        let second =
            Term::sign((Signer::Recovery, &key(9)), GENESIS, 2, block(20), key(3).public());
        authority.add(second).unwrap();
        authority
    }

    #[test]
    fn a_term_ends_at_its_last_block() {
        let authority = three_terms();
        for (number, term, signer) in
            [(1, 0, 1), (10, 0, 1), (11, 1, 2), (20, 1, 2), (21, 2, 3), (u64::MAX, 2, 3)]
        {
            assert_eq!(authority.term_at(number), term, "{number}");
            for (other, producer) in [(0, 1), (1, 2), (2, 3)] {
                let certificate = sign(&key(producer), GENESIS, other, block(number));
                let checked = authority.verify(block(number), &certificate);
                assert_eq!(checked.is_ok(), (other, producer) == (term, signer), "{checked:?}");
            }
        }
        let unknown = sign(&key(3), GENESIS, 3, block(21));
        let error = authority.verify(block(21), &unknown).unwrap_err();
        assert_eq!(error, CertificateError::UnknownTerm { number: 21, term: 3, newest: 2 });
    }

    #[test]
    fn a_term_starts_after_one_block() {
        let authority = three_terms();
        let other = BlockId { hash: B256::repeat_byte(0xee), ..block(10) };
        let certificate = sign(&key(1), GENESIS, 0, other);
        let error = authority.verify(other, &certificate).unwrap_err();
        assert!(matches!(error, CertificateError::OtherBlock { term: 1, .. }), "{error}");
        authority.check_term_start(BlockId { number: 9, ..other }).unwrap();
        authority.check_term_start(block(20)).unwrap();
        assert!(authority.check_term_start(BlockId { number: 20, ..other }).is_err());
        // Term 3 starts after block 5, so terms 1 and 2 no longer say anything about later blocks.
        let mut authority = authority;
        let third = Term::sign((Signer::Producer, &key(3)), GENESIS, 3, block(5), key(1).public());
        authority.add(third).unwrap();
        authority.check_term_start(other).unwrap();
        assert!(authority.check_term_start(BlockId { number: 5, ..other }).is_err());
    }

    #[test]
    fn a_certificate_of_another_key_is_refused_by_its_key() {
        let authority = three_terms();
        let certificate = sign(&key(1), GENESIS, 2, block(21));
        let error = authority.verify(block(21), &certificate).unwrap_err();
        assert!(
            matches!(error, CertificateError::Signature { key: found, .. } if found == key(3).public().bytes())
        );
    }

    #[test]
    fn a_later_term_may_end_the_chain_lower() {
        let mut authority = three_terms();
        let third = Term::sign((Signer::Producer, &key(3)), GENESIS, 3, block(5), key(1).public());
        authority.add(third).unwrap();
        assert_eq!([5, 6, 11, 21].map(|number| authority.term_at(number)), [0, 3, 3, 3]);
    }

    #[test]
    fn terms_need_the_next_number_and_the_right_signature() {
        let mut authority = three_terms();
        let sign = |signer, signing: u8, term| {
            Term::sign((signer, &key(signing)), GENESIS, term, block(30), key(4).public())
        };
        for (term, expected) in [
            (sign(Signer::Producer, 3, 2), "cannot follow term 2: the next one is 3"),
            (sign(Signer::Producer, 3, 4), "cannot follow term 2: the next one is 3"),
            (sign(Signer::Producer, 2, 3), "is not signed by"),
            (sign(Signer::Producer, 9, 3), "is not signed by"),
            (sign(Signer::Recovery, 3, 3), "is not signed by"),
        ] {
            let error = authority.add(term).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let mut altered = sign(Signer::Producer, 3, 3);
        altered.last.number += 1;
        assert!(authority.add(altered).is_err());
        let mut without = Authority::new(GENESIS, key(1).public(), None);
        let error = without.add(sign(Signer::Recovery, 9, 1)).unwrap_err();
        assert_eq!(error, AuthorityError::NoRecoveryKey(1));
        authority.add(sign(Signer::Producer, 3, 3)).unwrap();
    }

    #[test]
    fn terms_are_stored_as_json() {
        let term = three_terms().terms()[1];
        let text = serde_json::to_string(&term).unwrap();
        assert_eq!(serde_json::from_str::<Term>(&text).unwrap(), term);
    }
}
