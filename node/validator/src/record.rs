//! Creates the key of a validator and the record of its votes in its home folder.

use certificates::PublicKey;
use home::{HomeError, VALIDATOR_KEY_FILE, create_validator_key, validator_key};
use std::path::{Path, PathBuf};

/// Why a program that was built without the engine cannot do what validators do.
pub const NEEDS_ENGINE: &str = "this evmd was built without the consensus engine: use a released package, or build it with \
     `cargo build --release --features consensus`";

/// Folder in the home folder with the record of votes and the files of the consensus engine.
const FOLDER: &str = "consensus";

/// Why a key or a record of votes cannot be created or accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The folder cannot be created.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The record of votes cannot be created or accepted.
    #[cfg(feature = "consensus")]
    #[error(transparent)]
    Record(#[from] consensus::validators::VoteRecordError),
    /// The home has a key. The key may have signed votes, so `create_validator` must not add an empty record.
    #[error("{} exists: `evmd validator show` prints its public key", .0.display())]
    KeyExists(PathBuf),
    /// The key cannot be read or created.
    #[error(transparent)]
    Key(#[from] HomeError),
    /// The program has no engine.
    #[error("{NEEDS_ENGINE}")]
    NoEngine,
}

/// Fails if this program has no engine.
///
/// # Errors
/// [`RecordError::NoEngine`].
pub(crate) const fn require_engine() -> Result<(), RecordError> {
    if cfg!(feature = "consensus") { Ok(()) } else { Err(RecordError::NoEngine) }
}

/// Creates the key of a validator in a home folder, and an empty record of its votes. Returns the public key.
///
/// # Errors
/// If the home has a key or a record, or if they cannot be written; [`RecordError::NoEngine`].
pub fn create_validator(home: &Path) -> Result<PublicKey, RecordError> {
    if validator_key(home)?.is_some() {
        return Err(RecordError::KeyExists(home.join(VALIDATOR_KEY_FILE)));
    }
    // The record is created first, so that a key without a record always means that the record was lost.
    create_record(home)?;
    Ok(create_validator_key(home)?.public())
}

/// The folder of the validator's own files in a home folder.
pub fn folder(home: &Path) -> PathBuf {
    home.join(FOLDER)
}

/// Creates an empty record of votes in a home folder.
///
/// # Errors
/// If the record exists, or if it cannot be written; [`RecordError::NoEngine`].
#[cfg(feature = "consensus")]
pub fn create_record(home: &Path) -> Result<(), RecordError> {
    let path = folder(home);
    match std::fs::create_dir_all(&path) {
        Ok(()) => Ok(consensus::validators::Validator::create_vote_record(&path)?),
        Err(source) => Err(RecordError::Folder { path, source }),
    }
}

/// Accepts a copied record of votes as the newest one.
///
/// # Errors
/// If the record does not exist, or if it cannot be written; [`RecordError::NoEngine`].
#[cfg(feature = "consensus")]
pub fn accept_record(home: &Path) -> Result<(), RecordError> {
    Ok(consensus::validators::Validator::accept_vote_record(&folder(home))?)
}

/// Fails, because this program has no engine.
///
/// # Errors
/// [`RecordError::NoEngine`].
#[cfg(not(feature = "consensus"))]
pub const fn create_record(_: &Path) -> Result<(), RecordError> {
    Err(RecordError::NoEngine)
}

/// Fails, because this program has no engine.
///
/// # Errors
/// [`RecordError::NoEngine`].
#[cfg(not(feature = "consensus"))]
pub const fn accept_record(_: &Path) -> Result<(), RecordError> {
    Err(RecordError::NoEngine)
}
