//! Sorted runs: a table for entries that come in any key order, are never changed and seldom read.
//!
//! A random put into a B-tree of millions costs microseconds, an appended one a tenth. So each
//! flush writes its entries as one sorted *run* of packed pages, and runs of a level are merged
//! into one run of the next level, [`FAN_IN`] at a time. A merge goes on a bounded piece after each flush:
//! keys up to `done` are in its output already, and gone from its inputs. An entry is so written
//! once a level, of which there are log8 of the number of flushes.
//!
//! Runs are ordered by age: every run holds what was flushed in blocks after those of the runs
//! before it. Readers use that to stop at the newest entry of a key that ends in a block number.
//!
//! Keys in the table: id of the run (u32 big-endian), first key of the page. The directory of all
//! runs is under the id zero, and behind it are the filters. All of these rows carry checksums. Must never hold two values that matter for one key.

mod audit;
mod directory;
mod filter;
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

/// Runs merged into one: more means fewer levels to write an entry to, and more runs to look into.
pub(super) const FAN_IN: usize = 8;
/// Entries a merge goes on at least in each flush: about ten milliseconds, so that small flushes
/// after large ones do not leave long merges, and with them many runs, behind.
const MIN_MERGE_ENTRIES: usize = 65_536;
/// Entries that one step of a merge takes, and bytes of a run made before they are written: some 3 and 1
/// MB, which stay in the caches and in memory that serves again. The tests have small runs.
const STEP_ENTRIES: usize = if cfg!(test) { 300 } else { 65_536 };
const PIECE_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// Bytes of a run's id in a key.
const ID_BYTES: usize = 4;
/// Id under which the directory is.
const DIRECTORY: [u8; ID_BYTES] = [0; ID_BYTES];

/// One table of runs whose keys all have the same length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// Pages, directory and filters.
    pub(super) pages: CheckedTable,
    pub(super) key_bytes: usize,
    /// Runs have filters: keys are hashes, and looked for one by one.
    pub(super) filtered: bool,
}

/// What can go wrong below.
#[derive(Debug)]
pub(super) enum RunError {
    /// LMDB says so.
    Lmdb(heed::Error),
    /// A value that does not decode, with its key.
    Corrupt(Vec<u8>, DecodeError),
}

impl From<heed::Error> for RunError {
    fn from(error: heed::Error) -> Self {
        Self::Lmdb(error)
    }
}

impl Runs {
    /// The error as a flush tells it.
    pub(super) fn write_error(self, env: &Environment, error: RunError) -> WriteError {
        match error {
            RunError::Lmdb(error) => env.write_error(error),
            RunError::Corrupt(key, why) => env.corrupt(self.pages.name, &key, why).into(),
        }
    }
}

impl Runs {
    /// A stored page, verified.
    fn page<'t>(self, key: &[u8], row: &'t [u8]) -> Result<Page<'t>, RunError> {
        let page = self.pages.rows.payload(key, row);
        let page = page.and_then(|page| Page::parse(page, self.key_bytes));
        page.map_err(|why| RunError::Corrupt(key.to_vec(), why))
    }
}

/// Key of a page.
fn page_key(id: u32, first: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), first].concat()
}
