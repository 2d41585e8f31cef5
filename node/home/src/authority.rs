//! The keys that sign the blocks of a chain: those in the genesis, the producer terms in the chain environment, and the
//! secret key of the producer, which is a file of its home folder (ADR 0035).

use super::{Home, HomeError, stored_genesis, stored_spec};
use alloy_primitives::B256;
use certificates::{
    Authority, AuthorityError, BlockId, Certificate, KeyError, ProducerCertificate, PublicKey,
    SecretKey, Signer, Term,
};
use chain::ChainSpec;
use platform::whole_file::is_present;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use storage::ChainDb;

/// File of the producer's secret key in the home folder: 64 hex digits. Only the user of the node can read it.
pub const PRODUCER_KEY_FILE: &str = "producer.key";
/// File of the secret key with which a validator votes, in the same form.
pub const VALIDATOR_KEY_FILE: &str = "validator.key";
/// Maximum size of such a file in bytes: the digits, a prefix and white space.
const MAX_KEY_FILE_BYTES: usize = 128;
/// Key of [`StoredAuthority`] in the chain environment.
pub(super) const AUTHORITY_KEY: &str = "authority";

/// Why a node cannot sign blocks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProducerError {
    /// The file has no valid key.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: KeyError,
    },
    /// The file is missing, and the chain has a producer.
    #[error(
        "{} is missing, and blocks of this chain are signed with the secret key of {expected}: copy the file from a \
         backup of the producer, or start without block production (--no-produce)",
        path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
        /// The producer key.
        expected: B256,
    },
    /// The file has another key than the producer's.
    #[error(
        "{} has the secret key of {found}, but the producer key of this chain is {expected} (term {term}): follow that \
         producer (--follow URL), copy its file, or start without block production (--no-produce)",
        path.display()
    )]
    OtherKey {
        /// The file.
        path: PathBuf,
        /// The public key of the file.
        found: B256,
        /// The producer key.
        expected: B256,
        /// The newest term.
        term: u64,
    },
    /// The home was restored, or signed blocks were removed from it without the key of the producer.
    #[error(
        "blocks after the head of this chain may have been signed already, and replicas refuse a second block of one \
         producer term at one height: run `evmd rollback --new-term --home {}`, which keeps the head and starts a new \
         term, or start without block production (--no-produce)",
        path.display()
    )]
    NeedsNewTerm {
        /// The home folder.
        path: PathBuf,
    },
    /// Validators decide about the blocks.
    #[error("validators decide about the blocks of this chain, and no producer")]
    Validators,
    /// A term cannot follow the known ones.
    #[error(transparent)]
    Term(#[from] AuthorityError),
}

/// The JSON object under [`AUTHORITY_KEY`] in the chain environment.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StoredAuthority {
    /// The producer key of a chain whose genesis names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    producer: Option<PublicKey>,
    /// The terms from 1 on.
    #[serde(default)]
    pub(super) terms: Vec<Term>,
    /// Whether signed blocks after the head may exist in another home, so that the next block needs a new term.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) needs_new_term: bool,
}

/// Signs the blocks of a producer.
#[derive(Debug)]
pub struct Certifier {
    key: SecretKey,
    genesis: B256,
    term: u64,
}

impl Certifier {
    /// Returns the certificate of a block that this node has made.
    pub fn certify(&self, block: BlockId) -> Certificate {
        Certificate::Producer(ProducerCertificate::sign(&self.key, self.genesis, self.term, block))
    }

    /// Returns the public key, and the term in which it signs.
    pub fn producer(&self) -> (PublicKey, u64) {
        (self.key.public(), self.term)
    }
}

impl Home {
    /// Returns the hash of block 0.
    ///
    /// # Errors
    /// If the chain environment cannot be read.
    pub fn genesis_hash(&self) -> Result<B256, HomeError> {
        genesis_hash(&self.chain, &self.path)
    }

    /// Returns the keys that sign the blocks of the chain. `None` if the genesis names no producer and no home has
    /// become the producer yet, as on a development chain.
    ///
    /// # Errors
    /// If the chain environment cannot be read.
    pub fn authority(&self) -> Result<Option<Authority>, HomeError> {
        authority(&self.chain, &self.spec, &self.path)
    }

    /// Returns the signer of the blocks that this node produces; `None` on a development chain. If the genesis names no
    /// producer and no block has been signed yet, the key of this home becomes the producer key; it is created if it
    /// does not exist.
    ///
    /// # Errors
    /// [`HomeError::Producer`], and if the home folder cannot be read or written.
    pub fn certifier(&self) -> Result<Option<Certifier>, HomeError> {
        if self.spec.is_development() {
            return Ok(None);
        }
        let (key, authority) = match self.authority()? {
            Some(authority) => (self.key_of_producer(&authority)?, authority),
            None => self.become_producer()?,
        };
        if stored(&self.chain)?.needs_new_term {
            return Err(ProducerError::NeedsNewTerm { path: self.path.clone() }.into());
        }
        Ok(Some(Certifier { key, genesis: authority.genesis(), term: authority.newest_term() }))
    }

    /// Returns the secret key in the home folder, which must be that of the newest term.
    fn key_of_producer(&self, authority: &Authority) -> Result<SecretKey, HomeError> {
        let path = self.path.join(PRODUCER_KEY_FILE);
        let expected = authority.newest_producer().ok_or(ProducerError::Validators)?;
        let term = authority.newest_term();
        let Some(key) = producer_key(&self.path)? else {
            return Err(ProducerError::Missing { path, expected: expected.bytes() }.into());
        };
        let found = key.public();
        if found == expected {
            return Ok(key);
        }
        let (found, expected) = (found.bytes(), expected.bytes());
        Err(ProducerError::OtherKey { path, found, expected, term }.into())
    }

    /// Makes the key of this home the producer key of the chain.
    fn become_producer(&self) -> Result<(SecretKey, Authority), HomeError> {
        let key = match producer_key(&self.path)? {
            Some(key) => key,
            None => {
                let key = new_key(&self.path)?;
                write_key(&self.path, &key)?;
                key
            }
        };
        let producer = key.public();
        store(
            &self.chain,
            &StoredAuthority { producer: Some(producer), ..StoredAuthority::default() },
        )?;
        tracing::info!(%producer, "blocks are signed from now on");
        Ok((key, Authority::new(genesis_hash(&self.chain, &self.path)?, producer, None)))
    }
}

/// What a rollback stores under [`AUTHORITY_KEY`].
pub(super) enum AfterRollback {
    /// Nothing: no signed block is removed, and no producer term becomes invalid.
    Unchanged,
    /// A new producer term, which this home has signed.
    NewTerm(Vec<u8>),
    /// That blocks must not be signed before a new term: this home cannot sign one.
    NeedsTerm(Vec<u8>),
}

/// Returns what must be stored with the removal of the blocks above `keep`. `new_term` requests a new term even if no
/// signed block is removed. Replicas refuse two blocks of one term at one height.
///
/// # Errors
/// [`HomeError::OnlyValidator`], if the chain or the key cannot be read, and if a new term cannot be added.
pub(super) fn after_rollback(
    path: &Path,
    chain: &ChainDb,
    keep: u64,
    new_term: bool,
) -> Result<AfterRollback, HomeError> {
    let text = stored_genesis(chain)?.ok_or_else(|| HomeError::Empty(path.to_owned()))?;
    let spec = stored_spec(chain, &text)?;
    let Some(mut authority) = authority(chain, &spec, path)? else {
        return Ok(AfterRollback::Unchanged);
    };
    let blocks = chain.reader()?;
    let is_signed = blocks.is_signed_from(keep.saturating_add(1))?;
    let ends_term = authority.terms().iter().any(|term| term.last.number > keep);
    let mut stored = stored(chain)?;
    match authority.validators() {
        [] => {}
        [only] if validator_key(path)?.is_some_and(|key| key.public() == *only) => {
            return Err(HomeError::OnlyValidator);
        }
        // The node receives the same blocks again from the other validators.
        _ => return Ok(AfterRollback::Unchanged),
    }
    if !is_signed && !ends_term && !new_term {
        return Ok(AfterRollback::Unchanged);
    }
    let key = producer_key(path)?.filter(|key| Some(key.public()) == authority.newest_producer());
    let Some(key) = key else {
        stored.needs_new_term = true;
        return Ok(AfterRollback::NeedsTerm(encode(&stored)));
    };
    let missing =
        || HomeError::Damaged { number: keep, reason: "its header is missing".to_owned() };
    let hash = blocks.hash(keep)?.ok_or_else(missing)?;
    let (number, last) =
        (authority.newest_term().saturating_add(1), BlockId { number: keep, hash });
    let signer = (Signer::Producer, &key);
    let term = Term::sign(signer, authority.genesis(), number, last, key.public());
    authority.add(term).map_err(ProducerError::from)?;
    stored.terms.push(term);
    stored.needs_new_term = false;
    Ok(AfterRollback::NewTerm(encode(&stored)))
}

/// Stores that a restored chain must not be continued in its newest term: later blocks of it may exist.
pub(super) fn require_new_term(chain: &ChainDb, is_signed: bool) -> Result<(), HomeError> {
    let mut stored = stored(chain)?;
    if is_signed && !stored.needs_new_term {
        stored.needs_new_term = true;
        store(chain, &stored)?;
    }
    Ok(())
}

/// Does the same as [`Home::authority`] with the chain environment of a folder whose node may be running.
///
/// # Errors
/// If the environment has no chain, or if it cannot be read.
pub fn stored_authority(chain: &ChainDb, path: &Path) -> Result<Option<Authority>, HomeError> {
    let text = stored_genesis(chain)?.ok_or_else(|| HomeError::Empty(path.to_owned()))?;
    authority(chain, &stored_spec(chain, &text)?, path)
}

/// Reads the secret producer key of a home folder; `None` if there is none.
///
/// # Errors
/// [`ProducerError::Key`], and if the file cannot be read.
pub fn producer_key(home: &Path) -> Result<Option<SecretKey>, HomeError> {
    key_in(&home.join(PRODUCER_KEY_FILE))
}

/// Reads the secret key with which this home votes; `None` if there is none.
///
/// # Errors
/// [`ProducerError::Key`], and if the file cannot be read.
pub fn validator_key(home: &Path) -> Result<Option<SecretKey>, HomeError> {
    key_in(&home.join(VALIDATOR_KEY_FILE))
}

/// Creates the secret key with which a home votes.
///
/// # Errors
/// If the file exists, and if it cannot be written.
pub fn create_validator_key(home: &Path) -> Result<SecretKey, HomeError> {
    let path = home.join(VALIDATOR_KEY_FILE);
    if is_present(&path) {
        let source = std::io::ErrorKind::AlreadyExists.into();
        return Err(HomeError::Io { path, source });
    }
    let wrong = |source| ProducerError::Key { path: path.clone(), source };
    let key = SecretKey::random().map_err(wrong)?;
    write_key_to(&path, &key)?;
    Ok(key)
}

/// Reads the secret key of a file; `None` if it does not exist.
pub(super) fn key_in(path: &Path) -> Result<Option<SecretKey>, HomeError> {
    if !is_present(path) {
        return Ok(None);
    }
    let io = |source| HomeError::Io { path: path.to_owned(), source };
    let bytes = keys::read_secret(path, MAX_KEY_FILE_BYTES).map_err(io)?;
    let wrong = |source| HomeError::from(ProducerError::Key { path: path.to_owned(), source });
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong(KeyError::Hex))?;
    SecretKey::from_hex(text).map(Some).map_err(wrong)
}

/// Creates a secret key for a home folder. It is not written yet.
pub(super) fn new_key(home: &Path) -> Result<SecretKey, HomeError> {
    let wrong = |source| ProducerError::Key { path: home.join(PRODUCER_KEY_FILE), source };
    Ok(SecretKey::random().map_err(wrong)?)
}

/// Writes the secret producer key of a home folder whose lock is held.
pub(super) fn write_key(home: &Path, key: &SecretKey) -> Result<(), HomeError> {
    write_key_to(&home.join(PRODUCER_KEY_FILE), key)
}

pub(super) fn write_key_to(path: &Path, key: &SecretKey) -> Result<(), HomeError> {
    // The text is allocated once, because growing it would leave a copy of the key in memory.
    let hex = key.to_hex();
    let mut text = zeroize::Zeroizing::new(String::with_capacity(hex.len() + 1));
    text.push_str(&hex);
    text.push('\n');
    let io = |source| HomeError::Io { path: path.to_owned(), source };
    keys::write_secret(path, text.as_bytes()).map_err(io)
}

pub(super) fn authority(
    chain: &ChainDb,
    spec: &ChainSpec,
    path: &Path,
) -> Result<Option<Authority>, HomeError> {
    let stored = stored(chain)?;
    if let Some(native) = spec.native() {
        let keys = native.gov.consensus_keys();
        if !keys.is_empty() {
            return Ok(Some(Authority::of_validators(genesis_hash(chain, path)?, keys)));
        }
    }
    let named = spec.native().and_then(|native| native.producer);
    let (producer, recovery) = match (named, stored.producer) {
        (Some(named), _) => (named.key, named.recovery),
        (None, Some(producer)) => (producer, None),
        (None, None) => return Ok(None),
    };
    let mut authority = Authority::new(genesis_hash(chain, path)?, producer, recovery);
    for term in stored.terms {
        authority.add(term).map_err(|error| HomeError::Authority(error.to_string()))?;
    }
    Ok(Some(authority))
}

pub(super) fn stored(chain: &ChainDb) -> Result<StoredAuthority, HomeError> {
    let Some(text) = chain.meta(AUTHORITY_KEY)? else { return Ok(StoredAuthority::default()) };
    serde_json::from_slice(&text).map_err(|error| HomeError::Authority(error.to_string()))
}

fn store(chain: &ChainDb, authority: &StoredAuthority) -> Result<(), HomeError> {
    Ok(chain.put_meta(AUTHORITY_KEY, &encode(authority))?)
}

pub(super) fn encode(authority: &StoredAuthority) -> Vec<u8> {
    serde_json::to_vec(authority).expect("keys and numbers are JSON")
}

fn genesis_hash(chain: &ChainDb, path: &Path) -> Result<B256, HomeError> {
    let first = chain.reader()?.first()?;
    first.map(|(_, hash)| hash).ok_or_else(|| HomeError::Empty(path.to_owned()))
}
