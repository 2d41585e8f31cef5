//! Stores the pairs of contradicting votes that this validator has seen in a file of its home folder.
//! The signatures of a pair prove that one key has signed both votes.

use crate::folder;
use alloy_primitives::{B256, Bytes};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

const FILE: &str = "evidence.json";
/// Maximum number of pairs of one key in the file, of at most 1 KB each. One pair is enough as a proof, and a faulty
/// validator must not fill the disk.
const MAX_PAIRS_OF_KEY: usize = 16;

/// A pair of votes that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Time at which this node received the second vote, in seconds since 1970.
    pub time: u64,
    /// The key that signed both votes.
    pub consensus_key: B256,
    /// The view of both votes.
    pub view: u64,
    /// What the votes are for.
    pub votes: EvidenceKind,
    /// Both votes with their signatures, in the encoding of the consensus engine.
    pub signed: Bytes,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, consensus_key, view, votes, .. } = self;
        let votes = match votes {
            EvidenceKind::TwoNotarized => "notarized two proposals",
            EvidenceKind::TwoFinalized => "finalized two proposals",
            EvidenceKind::FinalizedAndNullified => "finalized a proposal and nullified the view",
        };
        write!(f, "{time} {consensus_key} {votes} in view {view}")
    }
}

/// What two votes of one view are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// To notarize one block, and another one.
    TwoNotarized,
    /// To finalize one block, and another one.
    TwoFinalized,
    /// To finalize a block, and to skip the view.
    FinalizedAndNullified,
}

/// Why evidence cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a list of pairs.
    #[error("{} is not a list of pairs of votes; move it away to start a new one: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

/// The pairs that a home folder has, oldest first.
///
/// # Errors
/// [`EvidenceError`].
pub fn evidence(home: &Path) -> Result<Vec<Evidence>, EvidenceError> {
    read(&folder(home).join(FILE))
}

fn read(path: &Path) -> Result<Vec<Evidence>, EvidenceError> {
    match fs::read(path) {
        Ok(json) => serde_json::from_slice(&json)
            .map_err(|source| EvidenceError::Content { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(EvidenceError::Io { path: path.to_owned(), source }),
    }
}

/// Adds pairs to the file.
#[derive(Debug)]
pub struct EvidenceFile {
    path: PathBuf,
    pairs: Vec<Evidence>,
}

impl EvidenceFile {
    /// Opens the file of a home folder.
    ///
    /// # Errors
    /// [`EvidenceError`].
    pub fn open(home: &Path) -> Result<Self, EvidenceError> {
        let path = folder(home).join(FILE);
        let pairs = read(&path)?;
        Ok(Self { path, pairs })
    }

    /// Adds a pair and syncs the file, unless it has a pair of this key and view, or the maximum number of pairs of
    /// this key.
    ///
    /// # Errors
    /// If the file cannot be written. The pair is then dropped.
    pub fn add(&mut self, pair: Evidence) -> Result<(), EvidenceError> {
        let of_key = self.pairs.iter().filter(|known| known.consensus_key == pair.consensus_key);
        let views: Vec<u64> = of_key.map(|known| known.view).collect();
        if views.len() >= MAX_PAIRS_OF_KEY || views.contains(&pair.view) {
            return Ok(());
        }
        self.pairs.push(pair);
        let json = serde_json::to_vec_pretty(&self.pairs).expect("pairs have no maps");
        platform::whole_file::write(&self.path, &json).map_err(|source| {
            self.pairs.pop();
            EvidenceError::Io { path: self.path.clone(), source }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: u8, view: u64) -> Evidence {
        Evidence {
            time: 1,
            consensus_key: B256::repeat_byte(key),
            view,
            votes: EvidenceKind::TwoNotarized,
            signed: Bytes::from_static(&[1, 2]),
        }
    }

    #[test]
    fn pairs_are_stored_up_to_the_limit_of_a_key() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(evidence(home.path()).unwrap(), []);
        fs::create_dir(folder(home.path())).unwrap();
        let mut file = EvidenceFile::open(home.path()).unwrap();
        for view in [7, 7, 8] {
            file.add(pair(1, view)).unwrap();
        }
        file.add(pair(2, 8)).unwrap();
        let expected = vec![pair(1, 7), pair(1, 8), pair(2, 8)];
        assert_eq!(evidence(home.path()).unwrap(), expected);
        let mut file = EvidenceFile::open(home.path()).unwrap();
        assert_eq!(file.pairs, expected);
        for view in 0..2 * MAX_PAIRS_OF_KEY as u64 {
            file.add(pair(3, view)).unwrap();
        }
        file.add(pair(4, 1)).unwrap();
        let stored = evidence(home.path()).unwrap();
        let key = |pair: &Evidence| pair.consensus_key[0];
        let count = |byte: u8| stored.iter().filter(|pair| key(pair) == byte).count();
        assert_eq!([count(1), count(2), count(3), count(4)], [2, 1, MAX_PAIRS_OF_KEY, 1]);
        fs::write(folder(home.path()).join(FILE), "[{").unwrap();
        let error = evidence(home.path()).unwrap_err().to_string();
        assert!(error.contains("evidence.json is not a list of pairs of votes"), "{error}");
        fs::remove_dir_all(folder(home.path())).unwrap();
        for _ in 0..2 {
            assert!(file.add(pair(5, 1)).is_err(), "the folder is missing");
        }
    }
}
