//! The read transactions of other processes, from LMDB's reader table.
//!
//! LMDB's own function for this needs the address of the environment, which `heed` does not return. The table is
//! in `lock.mdb`, which all processes map into memory, so reading the file returns the current table. Its layout
//! is that of `MDB_txninfo` in LMDB's `mdb.c`; a table with another layout is not read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Maximum number of concurrent read transactions, one per RPC request or batch. LMDB's default of 126 is too
/// low for a busy server; a slot takes 64 bytes.
pub const MAX_READERS: u32 = 1024;
/// Name of the file in the folder of an environment.
const FILE: &str = "lock.mdb";
/// `MDB_MAGIC` and `MDB_LOCK_FORMAT` on little-endian 64-bit Linux with a `pthread_mutex_t` of 40 bytes.
const MAGIC: u32 = 0xbeef_c0de;
const FORMAT: u32 = 0x2c2f_6002;
/// Size of the header: magic, format, last transaction, number of slots, and two mutexes.
const HEADER_BYTES: usize = 128;
/// Offset in the header of the number of slots that have ever been used.
const SLOTS_AT: usize = 16;
/// Size of a slot: transaction id, process id, thread id, and padding.
const SLOT_BYTES: usize = 64;
const PROCESS_AT: usize = 8;
/// Transaction id in a reserved slot without a read transaction.
const NOT_READING: u64 = u64::MAX;

/// A read transaction of another process: slot, process id, and transaction id.
type Reader = (usize, u32, u64);

/// The reader table of an environment that is open in this process.
///
/// It must be dropped after the environment has been closed. Closing any descriptor of a file releases all locks
/// that the process has on it (POSIX), and LMDB uses such a lock to detect whether the process of a reader is
/// alive.
pub(crate) struct ReaderTable {
    /// `None` if another process removed the file while this process opened the environment, as `evmd reindex` does
    /// before it rebuilds the index. No other process can have readers in the removed file.
    file: Option<File>,
    /// The time at which each reader of another process was first found.
    found: Mutex<BTreeMap<Reader, Instant>>,
}

impl ReaderTable {
    /// Opens the table of the environment in the folder `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = match File::open(path.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        Ok(Self { file, found: Mutex::default() })
    }

    /// Returns the number of open read transactions of other processes. Because the table contains no times, the
    /// start of the oldest one is reported as the time at which this function first found it.
    pub(crate) fn others(&self) -> io::Result<(u32, Option<Instant>)> {
        let now = Instant::now();
        let open = self.read(std::process::id())?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().map(|reader| (*reader, found.get(reader).copied().unwrap_or(now)));
        *found = known.collect();
        Ok((found.len() as u32, found.values().min().copied()))
    }

    fn read(&self, own: u32) -> io::Result<Vec<Reader>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0)?;
        if word(&header, 0) != MAGIC || word(&header, 4) != FORMAT {
            return Ok(Vec::new());
        }
        let slots = word(&header, SLOTS_AT).min(MAX_READERS) as usize;
        let mut table = vec![0; slots * SLOT_BYTES];
        file.read_exact_at(&mut table, HEADER_BYTES as u64)?;
        let readers = table.chunks_exact(SLOT_BYTES).enumerate().map(|(slot, bytes)| {
            let txn = u64::from(word(bytes, 0)) | u64::from(word(bytes, 4)) << 32;
            (slot, word(bytes, PROCESS_AT), txn)
        });
        let is_other =
            |(_, process, txn): &Reader| ![0, own].contains(process) && *txn != NOT_READING;
        Ok(readers.filter(is_other).collect())
    }
}

/// Reads the 32-bit number at an offset.
fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainDb, ChainOptions};

    /// A process id that no process has: Linux uses ids up to 2^22.
    const OTHER: u32 = u32::MAX;

    #[test]
    fn read_transactions_of_lmdb_are_found_in_its_table() {
        let folder = tempfile::tempdir().unwrap();
        let chain = ChainDb::open(folder.path(), ChainOptions { map_bytes: 1 << 20 }).unwrap();
        // It must not be dropped before the environment, and is therefore never dropped.
        let table = std::mem::ManuallyDrop::new(ReaderTable::open(folder.path()).unwrap());
        assert_eq!(table.read(OTHER).unwrap(), []);
        let readers = [chain.reader().unwrap(), chain.reader().unwrap()];
        let found = table.read(OTHER).unwrap();
        let (own, txn) = (std::process::id(), readers[0].txn_id());
        assert_eq!(found, [(0, own, txn), (1, own, txn)]);
        // Readers of this process are not counted here.
        assert_eq!(table.others().unwrap(), (0, None));
        drop(readers);
        assert_eq!(table.read(OTHER).unwrap(), []);
    }

    #[test]
    fn age_of_a_reader_begins_when_it_is_first_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let slots = |readers: &[(u32, u64)]| {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..8].copy_from_slice(&FORMAT.to_le_bytes());
            bytes[SLOTS_AT..SLOTS_AT + 4].copy_from_slice(&(readers.len() as u32).to_le_bytes());
            for (process, txn) in readers {
                bytes.extend(txn.to_le_bytes());
                bytes.extend(process.to_le_bytes());
                bytes.extend([0; SLOT_BYTES - 12]);
            }
            std::fs::write(&path, bytes).unwrap();
        };
        slots(&[(OTHER, 7), (0, 3), (OTHER, NOT_READING)]);
        let table = ReaderTable::open(folder.path()).unwrap();
        let (count, first) = table.others().unwrap();
        assert_eq!(count, 1);
        slots(&[(OTHER, 7), (OTHER - 1, 8)]);
        let (count, again) = table.others().unwrap();
        assert_eq!((count, again), (2, first));
        // The slot now holds another transaction.
        slots(&[(OTHER, 9), (OTHER - 1, 8)]);
        let (count, later) = table.others().unwrap();
        assert!(count == 2 && later > first);
        slots(&[]);
        assert_eq!(table.others().unwrap(), (0, None));
    }

    #[test]
    fn a_table_that_was_removed_has_no_readers() {
        let folder = tempfile::tempdir().unwrap();
        let table = ReaderTable::open(folder.path()).unwrap();
        assert_eq!(table.others().unwrap(), (0, None));
    }

    #[test]
    fn a_table_of_another_layout_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), [0xff; 4096]).unwrap();
        let table = ReaderTable::open(folder.path()).unwrap();
        assert_eq!(table.others().unwrap(), (0, None));
    }
}
