//! Stores the votes of this validator in a file of their own.
//!
//! A validator that votes for two blocks in one view, or that votes to finalize a view and to skip it, breaks the
//! protocol. The engine's journal prevents this only as long as the journal exists. This record outlives the journal: a
//! vote is written and synced before the validator sends it.
//!
//! The file is a sequence of entries of [`ENTRY_BYTES`] with a checksum each. Only the last one may be incomplete,
//! after a crash; its vote was not sent. Entries of old views are removed when the file is opened, and when it has
//! [`MAX_ENTRIES`].
//!
//! A copied record may lack later votes of the original. A second file, next to the record, contains the inode number
//! of that second file, which a copy does not have. So a validator with a copied or restored home does not vote before
//! an operator confirms that the record is the newest one. A copy of a whole disk is not recognized.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Bytes of an entry: kind, epoch, view, hash of what was voted for, zeros, checksum. It is a part of a sector of the
/// disk, so it is written completely or not at all.
const ENTRY_BYTES: usize = 64;
/// Offset of the checksum in an entry.
const CHECKSUM_AT: usize = ENTRY_BYTES - 4;
/// Number of views below the newest one whose votes are kept. The engine votes only in views above its last finalized
/// one, so it needs older votes only if no block has become final for this many views.
const KEPT_VIEWS: u64 = 10_000;
/// Number of entries, 4 MiB, at which the file is written anew. At most two votes for each kept view remain.
const MAX_ENTRIES: u64 = 1 << 16;

/// Maximum bytes that are read from the file with the inode number.
const MAX_PLACE_BYTES: u64 = 32;

/// Epoch and view, which order votes in time.
pub(super) type At = (u64, u64);

/// What a vote is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum VoteKind {
    Notarize = 1,
    Nullify = 2,
    Finalize = 3,
}

impl VoteKind {
    const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Notarize),
            2 => Some(Self::Nullify),
            3 => Some(Self::Finalize),
            _ => None,
        }
    }
}

/// Why the record cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VoteRecordError {
    /// The file is missing.
    #[error(
        "{0} is missing: without the record of its votes a validator could vote for two blocks in one view. Restore the \
         file, or read `evmd validator new-record --help`"
    )]
    Missing(PathBuf),
    /// An entry is damaged.
    #[error(
        "entry {entry} of {path} is damaged: this validator may have sent votes that are not in it. Restore the file, \
         or move it away and read `evmd validator new-record --help`"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the entry, from 0.
        entry: usize,
    },
    /// The record was copied.
    #[error(
        "{0} was copied or restored, and may lack votes that this key has sent since: if the original was not used after the copy \
         was made, `evmd validator accept-record --is-newest` accepts it"
    )]
    Copied(PathBuf),
    /// Another process uses the record.
    #[error("{0} is in use by another process with the same key")]
    InUse(PathBuf),
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The votes of one view.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    notarize: Option<[u8; 32]>,
    finalize: Option<[u8; 32]>,
    nullify: bool,
}

/// The record; see the module documentation.
#[derive(Debug)]
pub struct VoteRecord {
    path: PathBuf,
    /// Locked, so that one process at a time uses the record.
    _lock: File,
    file: File,
    /// Number of entries in the file.
    entries: u64,
    votes: BTreeMap<At, Votes>,
}

impl VoteRecord {
    /// Creates a record without votes.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path) -> Result<(), VoteRecordError> {
        let io_error = |source| VoteRecordError::Io { path: path.to_owned(), source };
        let file = new_file(path).map_err(io_error)?;
        file.sync_all().map_err(io_error)?;
        write_place_file(path).map_err(io_error)
    }

    /// Accepts a copied record as the newest one.
    ///
    /// # Errors
    /// If the record does not exist, or if it cannot be written.
    pub fn accept_copy(path: &Path) -> Result<(), VoteRecordError> {
        let io_error = |source| VoteRecordError::Io { path: path.to_owned(), source };
        File::open(path).map_err(io_error)?;
        write_place_file(path).map_err(io_error)
    }

    /// Opens the record.
    ///
    /// # Errors
    /// [`VoteRecordError`].
    pub fn open(path: &Path) -> Result<Self, VoteRecordError> {
        let io_error = |source| VoteRecordError::Io { path: path.to_owned(), source };
        let missing_or_io = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => VoteRecordError::Missing(path.to_owned()),
            _ => io_error(source),
        };
        let lock = File::create(path.with_extension("lock")).map_err(missing_or_io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => VoteRecordError::InUse(path.to_owned()),
            TryLockError::Error(source) => io_error(source),
        })?;
        let bytes = fs::read(path).map_err(missing_or_io)?;
        if !is_original(path).map_err(io_error)? {
            return Err(VoteRecordError::Copied(path.to_owned()));
        }
        let mut votes = BTreeMap::<At, Votes>::new();
        let count = bytes.len().div_ceil(ENTRY_BYTES);
        for (entry, bytes) in bytes.chunks(ENTRY_BYTES).enumerate() {
            match decode(bytes) {
                Some((at, kind, hash)) => insert(&mut votes, at, kind, hash),
                // A crash interrupted the write, before the vote was sent.
                None if entry + 1 == count && is_unwritten(bytes) => {}
                None => return Err(VoteRecordError::Damaged { path: path.to_owned(), entry }),
            }
        }
        let file = File::open(path).map_err(io_error)?;
        let mut this = Self { path: path.to_owned(), _lock: lock, file, entries: 0, votes };
        this.rewrite().map_err(io_error)?;
        Ok(this)
    }

    /// The newest view with a vote.
    pub(super) fn newest(&self) -> Option<At> {
        self.votes.last_key_value().map(|(at, _)| *at)
    }

    /// Records a vote, unless it contradicts an earlier one. `hash` is that of the proposal, and zero for
    /// [`VoteKind::Nullify`]. Returns whether the vote may be sent.
    ///
    /// # Errors
    /// If the vote cannot be stored. It must not be sent then.
    pub(super) fn record(&mut self, at: At, kind: VoteKind, hash: [u8; 32]) -> io::Result<bool> {
        match self.check(at, kind, hash) {
            Check::Contradicts => return Ok(false),
            Check::Repeats => return Ok(true),
            Check::New => {}
        }
        if self.entries >= MAX_ENTRIES {
            self.rewrite()?;
        }
        let offset = self.entries * ENTRY_BYTES as u64;
        self.file.write_all_at(&encode(at, kind, hash), offset)?;
        self.file.sync_data()?;
        self.entries += 1;
        insert(&mut self.votes, at, kind, hash);
        Ok(true)
    }

    fn check(&self, at: At, kind: VoteKind, hash: [u8; 32]) -> Check {
        if self.newest().is_some_and(|newest| is_too_old(at, newest)) {
            return Check::Contradicts;
        }
        let votes = self.votes.get(&at).copied().unwrap_or_default();
        let compare = |earlier: Option<[u8; 32]>| match earlier {
            None => Check::New,
            Some(earlier) if earlier == hash => Check::Repeats,
            Some(_) => Check::Contradicts,
        };
        let differs = |earlier: Option<[u8; 32]>| earlier.is_some_and(|earlier| earlier != hash);
        match kind {
            VoteKind::Notarize if differs(votes.finalize) => Check::Contradicts,
            VoteKind::Notarize => compare(votes.notarize),
            // A vote to finalize promises that this validator votes neither to skip the view nor for another block.
            VoteKind::Finalize if votes.nullify || differs(votes.notarize) => Check::Contradicts,
            VoteKind::Finalize => compare(votes.finalize),
            VoteKind::Nullify if votes.finalize.is_some() => Check::Contradicts,
            VoteKind::Nullify if votes.nullify => Check::Repeats,
            VoteKind::Nullify => Check::New,
        }
    }

    /// Writes the votes of the newest views to a new file, which replaces the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        if let Some(newest) = self.newest() {
            self.votes.retain(|at, _| !is_too_old(*at, newest));
        }
        let mut bytes = Vec::new();
        for (at, votes) in &self.votes {
            let hashes =
                [(VoteKind::Notarize, votes.notarize), (VoteKind::Finalize, votes.finalize)];
            let nullify = votes.nullify.then_some((VoteKind::Nullify, [0; 32]));
            let hashes = hashes.into_iter().filter_map(|(kind, hash)| Some((kind, hash?)));
            hashes.chain(nullify).for_each(|(kind, hash)| bytes.extend(encode(*at, kind, hash)));
        }
        let next = self.path.with_extension("new");
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = new_file(&next)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&next, &self.path)?;
        sync_folder(&self.path)?;
        self.entries = (bytes.len() / ENTRY_BYTES) as u64;
        self.file = file;
        Ok(())
    }
}

/// How a vote relates to the recorded ones.
enum Check {
    New,
    Repeats,
    Contradicts,
}

/// Whether the votes of view `at` may have been removed from the record. A new vote in this view could contradict them.
const fn is_too_old(at: At, newest: At) -> bool {
    at.0 < newest.0 || at.1 < newest.1.saturating_sub(KEPT_VIEWS) && at.0 == newest.0
}

fn insert(votes: &mut BTreeMap<At, Votes>, at: At, kind: VoteKind, hash: [u8; 32]) {
    let votes = votes.entry(at).or_default();
    match kind {
        VoteKind::Notarize => votes.notarize = Some(hash),
        VoteKind::Finalize => votes.finalize = Some(hash),
        VoteKind::Nullify => votes.nullify = true,
    }
}

fn encode((epoch, view): At, kind: VoteKind, hash: [u8; 32]) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[0] = kind as u8;
    bytes[1..9].copy_from_slice(&epoch.to_be_bytes());
    bytes[9..17].copy_from_slice(&view.to_be_bytes());
    bytes[17..49].copy_from_slice(&hash);
    let checksum = crc32fast::hash(&bytes[..CHECKSUM_AT]);
    bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(At, VoteKind, [u8; 32])> {
    let bytes: &[u8; ENTRY_BYTES] = bytes.try_into().ok()?;
    let number = |at: usize| Some(u64::from_be_bytes(bytes[at..at + 8].try_into().ok()?));
    let checksum = u32::from_be_bytes(bytes[CHECKSUM_AT..].try_into().ok()?);
    if crc32fast::hash(&bytes[..CHECKSUM_AT]) != checksum {
        return None;
    }
    let hash = bytes[17..49].try_into().ok()?;
    Some(((number(1)?, number(9)?), VoteKind::of(bytes[0])?, hash))
}

/// Whether a crash prevented that an entry was written: the file ends within the entry, or its bytes are still zero.
fn is_unwritten(bytes: &[u8]) -> bool {
    bytes.len() < ENTRY_BYTES || bytes.iter().all(|byte| *byte == 0)
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The second file of a record, which shows whether the record was copied.
fn place_file(record: &Path) -> PathBuf {
    record.with_extension("place")
}

/// Creates the second file of a record, which contains the inode number of this new file.
fn write_place_file(record: &Path) -> io::Result<()> {
    let path = place_file(record);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = new_file(&path)?;
    writeln!(file, "{}", file.metadata()?.ino())?;
    file.sync_all()?;
    sync_folder(record)
}

fn is_original(record: &Path) -> io::Result<bool> {
    let mut file = match File::open(place_file(record)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut written = String::new();
    (&mut file).take(MAX_PLACE_BYTES).read_to_string(&mut written)?;
    Ok(written.trim() == file.metadata()?.ino().to_string())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use VoteKind::{Finalize, Notarize, Nullify};

    const A: [u8; 32] = [1; 32];
    const B: [u8; 32] = [2; 32];

    fn new() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("votes");
        VoteRecord::create(&path).unwrap();
        (folder, path)
    }

    /// Tries all sequences of three votes in one view, and opens the record again before each vote.
    #[test]
    fn contradicting_votes_are_rejected() {
        let all = [(Notarize, A), (Notarize, B), (Finalize, A), (Finalize, B), (Nullify, [0; 32])];
        let contradicts =
            |(kind, hash): (VoteKind, [u8; 32]), (other_kind, other_hash): (VoteKind, [u8; 32])| {
                match (kind, other_kind) {
                    (Nullify, Finalize) | (Finalize, Nullify) => true,
                    (Nullify, _) | (_, Nullify) => false,
                    // The record also rejects a vote to notarize another block after a vote to finalize one.
                    _ => hash != other_hash,
                }
            };
        for first in all {
            for second in all {
                for third in all {
                    let (_folder, path) = new();
                    let mut sent: Vec<(VoteKind, [u8; 32])> = Vec::new();
                    for vote in [first, second, third] {
                        let mut record = VoteRecord::open(&path).unwrap();
                        let expected = sent.iter().all(|earlier| !contradicts(*earlier, vote));
                        let allowed = record.record((0, 7), vote.0, vote.1).unwrap();
                        assert_eq!(allowed, expected, "{vote:?} after {sent:?}");
                        if allowed {
                            sent.push(vote);
                        }
                        // The record that is still open allows or rejects the repeated vote, too.
                        assert_eq!(record.record((0, 7), vote.0, vote.1).unwrap(), expected);
                    }
                }
            }
        }
    }

    /// Votes in different views are independent of each other. Votes in views below the limit are rejected.
    #[test]
    fn votes_in_old_views_are_rejected() {
        let (_folder, path) = new();
        let mut record = VoteRecord::open(&path).unwrap();
        let newest = KEPT_VIEWS + 100;
        assert!(record.record((3, newest), Notarize, A).unwrap());
        for (at, allowed) in [
            ((3, 99), false),
            ((3, 100), true),
            ((3, 101), true),
            ((2, u64::MAX), false),
            ((4, 0), true),
            ((3, newest), false),
        ] {
            assert_eq!(record.record(at, Notarize, B).unwrap(), allowed, "{at:?}");
        }
        assert_eq!(record.newest(), Some((4, 0)));
    }

    /// A crash while an entry is written leaves a part of it; its vote was not sent. Any other damage is an error.
    #[test]
    fn incomplete_last_entry_is_ignored_and_damage_is_an_error() {
        let (_folder, path) = new();
        let mut record = VoteRecord::open(&path).unwrap();
        for view in 0..3 {
            assert!(record.record((0, view), Notarize, A).unwrap());
        }
        drop(record);
        let whole = fs::read(&path).unwrap();
        assert_eq!(whole.len(), 3 * ENTRY_BYTES);
        for length in 2 * ENTRY_BYTES..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let mut record = VoteRecord::open(&path).unwrap();
            assert_eq!(record.newest(), Some((0, 1)), "{length}");
            assert!(record.record((0, 2), Notarize, B).unwrap());
            assert!(!record.record((0, 1), Notarize, B).unwrap());
        }
        fs::write(&path, [&whole[..2 * ENTRY_BYTES], &[0; ENTRY_BYTES]].concat()).unwrap();
        assert_eq!(VoteRecord::open(&path).unwrap().newest(), Some((0, 1)));
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1;
            fs::write(&path, &damaged).unwrap();
            let error = VoteRecord::open(&path).unwrap_err();
            let expected = byte / ENTRY_BYTES;
            assert!(
                matches!(error, VoteRecordError::Damaged { entry, .. } if entry == expected),
                "{byte}: {error}"
            );
        }
        fs::write(&path, &whole).unwrap();
        let record = VoteRecord::open(&path).unwrap();
        assert!(matches!(VoteRecord::open(&path), Err(VoteRecordError::InUse(_))));
        drop(record);
        fs::remove_file(&path).unwrap();
        assert!(matches!(VoteRecord::open(&path), Err(VoteRecordError::Missing(_))));
    }

    /// A copy of the folder is rejected until it is accepted, and so is a record without its second file.
    #[test]
    fn copies_are_rejected_until_they_are_accepted() {
        let (folder, path) = new();
        assert!(VoteRecord::open(&path).unwrap().record((0, 7), Notarize, A).unwrap());
        let copy = folder.path().join("copy");
        fs::create_dir(&copy).unwrap();
        for name in ["votes", "votes.place"] {
            fs::copy(folder.path().join(name), copy.join(name)).unwrap();
        }
        let copied = copy.join("votes");
        assert!(matches!(VoteRecord::open(&copied), Err(VoteRecordError::Copied(_))));
        fs::remove_file(copy.join("votes.place")).unwrap();
        assert!(matches!(VoteRecord::open(&copied), Err(VoteRecordError::Copied(_))));
        VoteRecord::accept_copy(&copied).unwrap();
        assert!(!VoteRecord::open(&copied).unwrap().record((0, 7), Notarize, B).unwrap());
        // The original and a renamed folder are still valid.
        let renamed = folder.path().join("renamed");
        fs::rename(&copy, &renamed).unwrap();
        VoteRecord::open(&renamed.join("votes")).unwrap();
        VoteRecord::open(&path).unwrap();
        assert!(VoteRecord::accept_copy(&folder.path().join("none")).is_err());
    }

    #[test]
    fn full_file_is_rewritten_with_the_newest_votes() {
        let (_folder, path) = new();
        let mut record = VoteRecord::open(&path).unwrap();
        record.entries = MAX_ENTRIES - 1;
        record.file.set_len((MAX_ENTRIES - 1) * ENTRY_BYTES as u64).unwrap();
        for view in 0..3 {
            assert!(record.record((0, KEPT_VIEWS * view), Notarize, A).unwrap());
        }
        assert!(record.entries <= 3);
        drop(record);
        let mut record = VoteRecord::open(&path).unwrap();
        assert!(!record.record((0, 2 * KEPT_VIEWS), Notarize, B).unwrap());
        assert!(!record.record((0, KEPT_VIEWS), Notarize, B).unwrap());
    }
}
