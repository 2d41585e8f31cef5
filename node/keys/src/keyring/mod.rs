//! Stores named keys in a file.
//!
//! A keyring is one file, which is replaced atomically at each change. The `file` backend encrypts it with a
//! passphrase ([`sealed`]). `os` encrypts it with a random secret that the operating system's secret service
//! stores ([`os_secret`]). `test` writes it in plain text, for keys without value. `memory` stores nothing. An
//! encrypted file reveals only its size without the passphrase: names, addresses and keys are all encrypted.
//!
//! Processes that change a keyring wait for a lock file. Readers need no lock.

#[cfg(feature = "os-keyring")]
mod os_secret;
#[cfg(not(feature = "os-keyring"))]
mod os_secret {
    //! Replaces the secret service in a build without the feature `os-keyring`.

    use super::KeyringError;
    use std::path::Path;

    pub(super) fn check() -> Result<(), KeyringError> {
        Err(KeyringError::NoOs)
    }

    pub(super) fn read(_: &Path) -> Result<zeroize::Zeroizing<String>, KeyringError> {
        Err(KeyringError::NoOs)
    }

    pub(super) fn read_or_create(path: &Path) -> Result<zeroize::Zeroizing<String>, KeyringError> {
        read(path)
    }
}
mod record;
mod sealed;

pub use record::{MAX_NAME_CHARS, Record};

use super::{KeyError, secret_file};
use alloy_primitives::Address;
use record::StoredRecord;
use sealed::Seal;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::FromStr,
};
use storage::{OpenError, folder_of, refuse_root};
use zeroize::Zeroizing;

/// Minimum number of characters of a new passphrase.
pub const MIN_PASSPHRASE_CHARS: usize = 8;
/// Maximum number of keys in a keyring. Users have tens of keys, and the file is read as a whole.
pub const MAX_RECORDS: usize = 10_000;
/// Maximum size of a keyring file in bytes: [`MAX_RECORDS`] records of at most about 1,000 bytes each, in base64.
const MAX_FILE_BYTES: usize = 16 << 20;
/// The backends of this build, for error messages.
const OFFERED: &str =
    if cfg!(feature = "os-keyring") { "file, os, test or memory" } else { "file, test or memory" };
/// Version of the file format.
const VERSION: u32 = 1;

/// The storage of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file that is encrypted with a passphrase.
    File,
    /// A file that is encrypted with a secret that the operating system stores.
    Os,
    /// A file in plain text, for keys without value.
    Test,
    /// In memory only, until the command ends.
    Memory,
}

impl Backend {
    /// Returns the folder inside the keyring folder; `None` if nothing is stored.
    const fn folder(self) -> Option<&'static str> {
        match self {
            Self::File => Some("keyring-file"),
            Self::Os => Some("keyring-os"),
            Self::Test => Some("keyring-test"),
            Self::Memory => None,
        }
    }
}

impl FromStr for Backend {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, KeyringError> {
        match text {
            "file" => Ok(Self::File),
            "os" => Ok(Self::Os),
            "test" => Ok(Self::Test),
            "memory" => Ok(Self::Memory),
            other => Err(KeyringError::Backend(other.to_owned())),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Os => "os",
            Self::Test => "test",
            Self::Memory => "memory",
        })
    }
}

/// Why an operation on a keyring fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The backend does not exist.
    #[error("keyring backend {0:?} is not supported: use {OFFERED}")]
    Backend(String),
    /// The backend of the operating system is not part of this build.
    #[error(
        "keyring backend \"os\" is not available: this build has no support for the operating system's \
         secret service (cargo build --features os-keyring makes one that does); use {OFFERED}"
    )]
    NoOs,
    /// A file or folder cannot be read or written.
    #[error("keyring {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// This process belongs to root, and the folder to another user.
    #[error(transparent)]
    OfOtherUser(#[from] OpenError),
    /// The file is truncated, altered, or not a keyring.
    #[error("keyring {} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Decryption failed. The two causes cannot be distinguished.
    #[error("incorrect keyring passphrase, or the keyring was altered")]
    WrongPassphrase,
    /// A passphrase is required.
    #[error("the keyring needs a passphrase")]
    NoPassphrase,
    /// The new passphrase is too short.
    #[error("password must be at least {MIN_PASSPHRASE_CHARS} characters")]
    ShortPassphrase,
    /// No key has this name or address.
    #[error("{0} is not a valid name or address: key not found")]
    Unknown(String),
    /// The name is in use.
    #[error("a key named {0:?} exists already")]
    Exists(String),
    /// The key is already stored under another name.
    #[error("the keyring has this key already, as {0:?}")]
    Duplicate(String),
    /// The text is not a valid name.
    #[error("{0:?} is no name for a key: want 1 to {MAX_NAME_CHARS} printable characters")]
    Name(String),
    /// The keyring is full.
    #[error("the keyring holds {MAX_RECORDS} keys, its most")]
    Full,
    /// The record has no private key.
    #[error("{0:?} holds a public key only")]
    Offline(String),
    /// A key of a record is invalid, or the private and the public key do not match.
    #[error("record {0:?} is inconsistent: {1}")]
    Record(String, KeyError),
    /// The operating system does not store secrets for this program.
    #[error("the operating system's secret service: {0}; --keyring-backend file needs none")]
    OsSecret(String),
    /// The operating system cannot provide random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

/// Whether a passphrase is needed to open a keyring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassphraseNeed {
    /// No passphrase is needed.
    None,
    /// The passphrase of an existing keyring is needed.
    Existing,
    /// The keyring does not exist yet. A new passphrase is needed to store a key.
    New,
}

/// Returns which passphrase is needed to open a keyring in this folder.
pub fn passphrase_need(backend: Backend, folder: &Path) -> PassphraseNeed {
    match (backend, file_path(backend, folder)) {
        (Backend::File, Some(path)) if path.exists() => PassphraseNeed::Existing,
        (Backend::File, _) => PassphraseNeed::New,
        _ => PassphraseNeed::None,
    }
}

/// Whether an opened keyring may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The keyring is only read, and nothing is created on disk.
    Read,
    /// The keyring may be changed. Other processes that change it wait until this one is dropped.
    Write,
}

/// An opened keyring.
#[derive(Debug)]
pub struct Keyring {
    path: Option<PathBuf>,
    seal: Option<Seal>,
    records: Vec<Record>,
    _lock: Option<File>,
}

/// The content of a keyring file, before it is encrypted.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    records: Vec<StoredRecord>,
}

impl Keyring {
    /// Creates a keyring that is not stored.
    pub const fn memory() -> Self {
        Self { path: None, seal: None, records: Vec::new(), _lock: None }
    }

    /// Opens the keyring of `backend` inside `folder`; a missing one is empty. See [`passphrase_need`] for the
    /// passphrase.
    ///
    /// # Errors
    /// If the passphrase is wrong or missing, or if the file is damaged or cannot be read.
    pub fn open(
        backend: Backend,
        folder: &Path,
        access: Access,
        passphrase: Option<&str>,
    ) -> Result<Self, KeyringError> {
        let Some(path) = file_path(backend, folder) else { return Ok(Self::memory()) };
        if backend == Backend::Os {
            os_secret::check()?;
        }
        let lock = match access {
            Access::Read => None,
            Access::Write => Some(take_lock(&path)?),
        };
        let secret = match backend {
            Backend::Os if path.exists() => Some(os_secret::read(&path)?),
            Backend::Os if access == Access::Write => Some(os_secret::read_or_create(&path)?),
            _ => None,
        };
        let passphrase = secret.as_ref().map(|secret| secret.as_str()).or(passphrase);
        let text = match read_file(&path)? {
            Some(text) => text,
            None => {
                let seal = match (backend, passphrase) {
                    (Backend::File | Backend::Os, Some(passphrase)) => Some(new_seal(passphrase)?),
                    (Backend::File | Backend::Os, None) if access == Access::Write => {
                        return Err(KeyringError::NoPassphrase);
                    }
                    _ => None,
                };
                return Ok(Self { path: Some(path), seal, records: Vec::new(), _lock: lock });
            }
        };
        let (seal, text) = match backend {
            Backend::File | Backend::Os => {
                let passphrase = passphrase.ok_or(KeyringError::NoPassphrase)?;
                let (seal, text) = Seal::open(&path, &text, passphrase)?;
                (Some(seal), text)
            }
            _ => (None, text),
        };
        let records = read_contents(&path, &text)?;
        Ok(Self { path: Some(path), seal, records, _lock: lock })
    }

    /// Returns all records, in order of name.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the record with this name.
    pub fn by_name(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    /// Returns the record with this address.
    pub fn by_address(&self, address: Address) -> Option<&Record> {
        self.records.iter().find(|record| record.address() == address)
    }

    /// Adds a record and saves. With `replace`, it replaces a record with the same name.
    ///
    /// # Errors
    /// If the name is invalid or in use, or if the key is stored under another name; and those of saving.
    pub fn add(&mut self, record: Record, replace: bool) -> Result<(), KeyringError> {
        record::check_name(&record.name)?;
        if !replace && self.by_name(&record.name).is_some() {
            return Err(KeyringError::Exists(record.name));
        }
        let other = self.by_address(record.address()).filter(|other| other.name != record.name);
        if let Some(other) = other {
            return Err(KeyringError::Duplicate(other.name.clone()));
        }
        let mut records = self.records.clone();
        records.retain(|other| other.name != record.name);
        if records.len() >= MAX_RECORDS {
            return Err(KeyringError::Full);
        }
        records.push(record);
        self.save(records)
    }

    /// Removes records and saves.
    ///
    /// # Errors
    /// If a name is unknown, in which case none is removed; and those of saving.
    pub fn remove(&mut self, names: &[String]) -> Result<(), KeyringError> {
        if let Some(unknown) = names.iter().find(|name| self.by_name(name).is_none()) {
            return Err(KeyringError::Unknown(unknown.clone()));
        }
        let mut records = self.records.clone();
        records.retain(|record| !names.contains(&record.name));
        self.save(records)
    }

    /// Renames a record and saves.
    ///
    /// # Errors
    /// If the old name is unknown, or the new one invalid or in use; and those of saving.
    pub fn rename(&mut self, old: &str, new: &str) -> Result<(), KeyringError> {
        record::check_name(new)?;
        if self.by_name(new).is_some() {
            return Err(KeyringError::Exists(new.to_owned()));
        }
        let mut records = self.records.clone();
        let record = records.iter_mut().find(|record| record.name == old);
        let record = record.ok_or_else(|| KeyringError::Unknown(old.to_owned()))?;
        new.clone_into(&mut record.name);
        self.save(records)
    }

    /// Writes the keyring in the current format, with a new salt and the current scrypt parameters.
    ///
    /// # Errors
    /// Those of saving.
    pub fn rewrite(&mut self, passphrase: Option<&str>) -> Result<(), KeyringError> {
        if self.seal.is_some() {
            self.seal = Some(Seal::new(passphrase.ok_or(KeyringError::NoPassphrase)?)?);
        }
        self.save(self.records.clone())
    }

    fn save(&mut self, mut records: Vec<Record>) -> Result<(), KeyringError> {
        records.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(path) = &self.path {
            let stored = records.iter().map(StoredRecord::from).collect();
            let contents = Contents { version: VERSION, records: stored };
            // The buffer is large enough from the start, because growing it would leave copies in memory.
            let bytes: usize = records.iter().map(|record| record.name.len() * 6 + 256).sum();
            let mut text = Zeroizing::new(Vec::with_capacity(bytes + 64));
            serde_json::to_writer(&mut *text, &contents).expect("strings and numbers are JSON");
            let text = match &self.seal {
                Some(seal) => Zeroizing::new(seal.close(&text)?),
                None => text,
            };
            let io = |source| KeyringError::Io { path: path.clone(), source };
            secret_file::write_secret(path, &text).map_err(io)?;
        }
        self.records = records;
        Ok(())
    }
}

fn new_seal(passphrase: &str) -> Result<Seal, KeyringError> {
    if passphrase.chars().count() < MIN_PASSPHRASE_CHARS {
        return Err(KeyringError::ShortPassphrase);
    }
    Seal::new(passphrase)
}

fn file_path(backend: Backend, folder: &Path) -> Option<PathBuf> {
    backend.folder().map(|name| folder.join(name).join("keyring.json"))
}

fn take_lock(path: &Path) -> Result<File, KeyringError> {
    let folder = path.parent().expect("a keyring file is in a folder");
    let path = folder.join("keyring.lock");
    // The folder of the keyring may not exist yet, so its parent folder is checked too.
    for folder in [folder, folder_of(folder)] {
        refuse_root(folder)?;
    }
    let take = || {
        secret_file::make_folder(folder)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        lock.lock()?;
        secret_file::remove_unfinished(folder)?;
        Ok(lock)
    };
    take().map_err(|source| KeyringError::Io { path: path.clone(), source })
}

fn read_file(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, KeyringError> {
    match secret_file::read_secret(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyringError::Io { path: path.to_owned(), source }),
    }
}

fn read_contents(path: &Path, text: &[u8]) -> Result<Vec<Record>, KeyringError> {
    let damaged = |reason: String| KeyringError::Damaged { path: path.to_owned(), reason };
    // The message of the JSON parser may quote the file, so only the position is reported.
    let contents: Contents = serde_json::from_slice(text).map_err(|error| {
        damaged(format!("it is not a keyring: line {} column {}", error.line(), error.column()))
    })?;
    if contents.version != VERSION {
        return Err(damaged(format!("version {} is not known", contents.version)));
    }
    contents.records.into_iter().map(Record::try_from).collect()
}

#[cfg(test)]
mod tests;
