//! Stores producer terms that other nodes have started, and starts terms on this node (ADR 0035).

use super::{
    Home, HomeError, PRODUCER_KEY_FILE,
    authority::{
        AUTHORITY_KEY, ProducerError, encode, key_in, new_key, producer_key, stored,
        stored_authority, write_key, write_key_to,
    },
    environments::open_for_writing,
};
use certificates::{
    Authority, BlockId, Certificate, CertificateError, PublicKey, SecretKey, Signer, Term,
};
use config::Config;
use std::path::{Path, PathBuf};
use storage::{ChainDb, HomeLock};

/// Maximum number of terms of a chain. Each start of one is a decision of an operator.
pub const MAX_TERMS: usize = 1_024;

/// Adds terms to the chain environment of a running node.
#[derive(Clone, Debug)]
pub struct TermStore {
    chain: ChainDb,
    path: PathBuf,
}

/// Why a node does not start a term.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartTermError {
    /// The chain has no producer.
    #[error("blocks of this chain are not signed, so it has no producer terms")]
    NotSigned,
    /// Validators decide about the blocks.
    #[error("validators decide about the blocks of this chain, so it has no producer terms")]
    Validators,
    /// The key may not sign a term.
    #[error(
        "the key {found} may not start a producer term: only the producer key {producer} may{}",
        recovery.as_ref().map_or_else(
            || " (the genesis names no recovery key)".to_owned(),
            |key| format!(", and the recovery key {key}")
        )
    )]
    Key {
        /// The public key.
        found: String,
        /// The key of the newest term.
        producer: String,
        /// The recovery key in the genesis.
        recovery: Option<String>,
    },
    /// The home has the key of a producer of this chain.
    #[error(
        "{} has the key {key}, which is that of a producer of this chain: two nodes with one key could sign blocks of one term; \
         remove the file, so that a new key is made, and keep a copy elsewhere to sign the term",
        path.display()
    )]
    UsedKey {
        /// The file.
        path: PathBuf,
        /// The public key.
        key: String,
    },
    /// The newest block is not part of the chain.
    #[error(
        "{reason}. Blocks after {keep} are not part of the chain: `evmd rollback --height {keep} --home {}` removes them",
        path.display()
    )]
    Head {
        /// What is wrong with its certificate.
        reason: CertificateError,
        /// The newest block of this home that is part of the chain.
        keep: u64,
        /// The home folder.
        path: PathBuf,
    },
    /// The file of the key that signs the term is missing.
    #[error("{} does not exist: it must have the recovery key or the old producer key", .0.display())]
    NoKeyFile(PathBuf),
    /// The chain has [`MAX_TERMS`] terms.
    #[error("the chain has {MAX_TERMS} producer terms, which is the maximum")]
    TooMany,
}

impl TermStore {
    /// Returns the keys that sign the blocks; `None` if blocks are not signed.
    ///
    /// # Errors
    /// If the chain environment cannot be read.
    pub fn authority(&self) -> Result<Option<Authority>, HomeError> {
        stored_authority(&self.chain, &self.path)
    }

    /// Stores terms that follow the known ones.
    ///
    /// # Errors
    /// If a term is invalid, if there are too many, and if reading or writing fails. Nothing is stored then.
    pub fn add(&self, terms: &[Term]) -> Result<(), HomeError> {
        let Some(mut authority) = self.authority()? else {
            return Err(StartTermError::NotSigned.into());
        };
        let mut stored = stored(&self.chain)?;
        for term in terms {
            authority.add(*term).map_err(ProducerError::from)?;
            stored.terms.push(*term);
        }
        if stored.terms.len() > MAX_TERMS {
            return Err(StartTermError::TooMany.into());
        }
        Ok(self.chain.put_meta(AUTHORITY_KEY, &encode(&stored))?)
    }
}

impl Home {
    /// Returns a handle that adds terms to the chain environment.
    pub fn terms(&self) -> TermStore {
        TermStore { chain: self.chain.clone(), path: self.path.clone() }
    }

    /// Checks that the newest block was made in the term in force at its height. If another node has started a later
    /// term, the block may not be part of the chain.
    ///
    /// # Errors
    /// [`StartTermError::Head`], and if the chain environment cannot be read.
    pub fn check_head_term(&self, authority: &Authority) -> Result<(), HomeError> {
        check_head(&self.chain, authority, &self.path).map(drop)
    }

    /// Makes the key of a home folder, whose node is stopped, the producer key of the blocks after the head. It creates
    /// a missing key. `signing` signs the term: it is the key of the newest term, or the recovery key in the genesis.
    ///
    /// # Errors
    /// [`StartTermError`], and if the home cannot be read or written.
    pub fn start_term(path: &Path, signing: &SecretKey) -> Result<Term, HomeError> {
        Self::require_chain(path)?;
        let _lock = HomeLock::acquire(path)?;
        let (chain, _index) = open_for_writing(path, &Config::load(path)?)?;
        let authority = stored_authority(&chain, path)?.ok_or(StartTermError::NotSigned)?;
        let signer = signer(&authority, signing)?;
        let last = check_head(&chain, &authority, path)?;
        let key = match producer_key(path)? {
            Some(key) if is_used(&authority, key.public()) => {
                let path = path.join(PRODUCER_KEY_FILE);
                return Err(StartTermError::UsedKey { path, key: key.public().to_string() }.into());
            }
            Some(key) => key,
            None => {
                let key = new_key(path)?;
                write_key(path, &key)?;
                key
            }
        };
        let next = authority.newest_term().saturating_add(1);
        let term = Term::sign((signer, signing), authority.genesis(), next, last, key.public());
        let mut stored = stored(&chain)?;
        if stored.terms.len() >= MAX_TERMS {
            return Err(StartTermError::TooMany.into());
        }
        stored.terms.push(term);
        stored.needs_new_term = false;
        chain.put_meta(AUTHORITY_KEY, &encode(&stored))?;
        Ok(term)
    }
}

/// Returns the newest block, which must be one of the term in force at its height.
fn check_head(chain: &ChainDb, authority: &Authority, path: &Path) -> Result<BlockId, HomeError> {
    let blocks = chain.reader()?;
    let (number, hash) = blocks.head()?.ok_or_else(|| HomeError::Empty(path.to_owned()))?;
    let head = BlockId { number, hash };
    let certificate = blocks.certificate(number)?.map(|row| Certificate::decode(&row));
    let (term, checked) = match certificate {
        Some(Ok(certificate)) => (certificate.term(), authority.verify(head, &certificate)),
        Some(Err(error)) => (0, Err(error)),
        None => (0, authority.check_term_start(head)),
    };
    let failed = |reason| {
        let keep = last_of_term(authority, term, number);
        StartTermError::Head { reason, keep, path: path.to_owned() }
    };
    Ok(checked.map(|()| head).map_err(failed)?)
}

/// Returns the newest block below `head` that a producer of `term` may have made.
fn last_of_term(authority: &Authority, term: u64, head: u64) -> u64 {
    let later = authority.terms().iter().filter(|later| later.term > term);
    let ends = later.map(|later| later.last.number).min();
    ends.unwrap_or(head).min(head.saturating_sub(1))
}

/// Returns whether a key is or was that of the producer.
fn is_used(authority: &Authority, key: PublicKey) -> bool {
    authority.first_producer() == Some(key)
        || authority.terms().iter().any(|term| term.producer == key)
}

/// Returns which of the keys that may sign a term is `key`.
fn signer(authority: &Authority, key: &SecretKey) -> Result<Signer, StartTermError> {
    let found = key.public();
    let producer = authority.newest_producer().ok_or(StartTermError::Validators)?;
    if found == producer {
        return Ok(Signer::Producer);
    }
    if Some(found) == authority.recovery() {
        return Ok(Signer::Recovery);
    }
    Err(StartTermError::Key {
        found: found.to_string(),
        producer: producer.to_string(),
        recovery: authority.recovery().map(|key| key.to_string()),
    })
}

/// Reads a secret key from any file, such as a copy of `producer.key` or a recovery key.
///
/// # Errors
/// If the file does not exist, or has no key.
pub fn read_key(path: &Path) -> Result<SecretKey, HomeError> {
    key_in(path)?.ok_or_else(|| StartTermError::NoKeyFile(path.to_owned()).into())
}

/// Reads the secret key of a file, or writes a new one to it if it does not exist.
///
/// # Errors
/// If the file has no key, or cannot be read or written.
pub fn read_or_create_key(path: &Path) -> Result<SecretKey, HomeError> {
    if let Some(key) = key_in(path)? {
        return Ok(key);
    }
    let key = SecretKey::random()
        .map_err(|source| HomeError::from(ProducerError::Key { path: path.to_owned(), source }))?;
    write_key_to(path, &key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;

    #[test]
    fn blocks_of_a_term_are_kept_up_to_the_start_of_a_later_one() {
        let [first, second] = [1, 2].map(|byte| SecretKey::from_bytes(&[byte; 32]));
        let genesis = B256::repeat_byte(9);
        let mut authority = Authority::new(genesis, first.public(), None);
        let at = |number| BlockId { number, hash: B256::repeat_byte(number as u8) };
        let signer = (Signer::Producer, &first);
        authority.add(Term::sign(signer, genesis, 1, at(10), second.public())).unwrap();
        let signer = (Signer::Producer, &second);
        authority.add(Term::sign(signer, genesis, 2, at(20), first.public())).unwrap();
        for (term, head, keep) in [(0, 15, 10), (0, 25, 10), (1, 25, 20)] {
            assert_eq!(last_of_term(&authority, term, head), keep, "term {term}, head {head}");
        }
        // The newest block has the number of the last one of a term, and another hash.
        assert_eq!([10, 20].map(|head| last_of_term(&authority, 1, head)), [9, 19]);
    }
}
