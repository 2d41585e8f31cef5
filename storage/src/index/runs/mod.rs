//! Sorted runs: a table for entries that arrive in any key order, never change and are rarely read.
//!
//! A random insertion into a B-tree with millions of entries takes microseconds; an appended one takes a tenth
//! of that. Therefore, each flush writes its entries as one sorted *run* of packed pages, and [`FAN_IN`] runs of
//! a level are merged into one run of the next level. After each flush a merge advances by about a given number
//! of entries: keys up to `done` are in its output and are ignored in its inputs. Each entry is written once per
//! level, and the number of levels is about log8 of the number of flushes.
//!
//! Runs are ordered by age: the entries of every run belong to later blocks than those of older runs. Readers
//! use this to stop at the newest entry of a key that ends in a block number.
//!
//! Keys in the table: id of the run (u32 big-endian), first key of the page. The key of the directory of all runs
//! is the id zero, and the keys of filters also begin with the id zero. All of these rows have checksums. A table
//! must not contain two different values for one key.

mod audit;
mod directory;
mod filter;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod page;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::checked::CheckedTable;
use crate::env::Environment;
use crate::error::{DecodeError, WriteError};

use page::Page;

pub(super) use read::Entry;
pub(super) use write::{AddedRun, NewRun};

/// Runs per merge. A larger value means fewer writes per entry, but more runs to search.
pub(super) const FAN_IN: usize = 8;
/// Minimum number of entries by which a merge advances per flush (about 10 ms). Without it, small
/// flushes after large ones would leave long merges unfinished, and with them a large number of runs.
const MIN_MERGE_ENTRIES: usize = 65_536;
/// Entries per step of a merge (about 3 MB), and bytes of a new run that are collected before they are written.
/// Both fit into the CPU caches. Tests use small values.
const STEP_ENTRIES: usize = if cfg!(test) { 300 } else { 65_536 };
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// Bytes of a run's id in a key.
const ID_BYTES: usize = 4;
/// Id of the directory.
const DIRECTORY: [u8; ID_BYTES] = [0; ID_BYTES];

/// One table of runs whose keys all have the same length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// Pages, directory and filters.
    pub(super) pages: CheckedTable,
    pub(super) key_bytes: usize,
    /// Whether runs have filters. Filters need keys that are hashes, and are useful for keys that are looked
    /// up individually.
    pub(super) filtered: bool,
}

/// Error of a run.
#[derive(Debug)]
pub(super) enum RunError {
    /// Error of LMDB.
    Lmdb(heed::Error),
    /// A value that cannot be decoded, with its key.
    Corrupt(Vec<u8>, DecodeError),
}

impl From<heed::Error> for RunError {
    fn from(error: heed::Error) -> Self {
        Self::Lmdb(error)
    }
}

impl Runs {
    /// Converts an error of these runs into an error of a flush.
    pub(super) fn write_error(self, env: &Environment, error: RunError) -> WriteError {
        match error {
            RunError::Lmdb(error) => env.write_error(error),
            RunError::Corrupt(key, why) => env.corrupt(self.pages.name, &key, why).into(),
        }
    }

    /// Returns a verified page.
    fn page<'t>(self, key: &[u8], row: &'t [u8]) -> Result<Page<'t>, RunError> {
        let page = self.pages.rows.payload(key, row);
        let page = page.and_then(|page| Page::parse(page, self.key_bytes));
        page.map_err(|why| RunError::Corrupt(key.to_vec(), why))
    }
}

/// Returns the key of a page.
fn page_key(id: u32, first: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), first].concat()
}
