//! Reads the record that `recorder.c` writes.

use std::{
    ffi::OsString,
    io::{Error, ErrorKind, Result},
    os::unix::ffi::OsStringExt,
    path::PathBuf,
};

/// Bytes of an entry before its path and its data.
const HEAD_BYTES: usize = 48;
/// Bits of an entry's flags, see [`Operation`].
const TRUNCATED: u32 = 1;
const SYNCED: u32 = 2;

/// An operation of the program, and the thread that executed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kernel thread id.
    pub thread: u64,
    /// The operation.
    pub operation: Operation,
}

impl Event {
    /// Returns the bytes that were written to a pipe or a socket, if the event is such a write.
    pub fn output(&self) -> Option<&[u8]> {
        match &self.operation {
            Operation::Output(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// An operation on files, or an output. Open files are identified by their inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A file was opened with the flag for creation or truncation.
    Open {
        /// Its path.
        path: PathBuf,
        /// The file.
        inode: u64,
        /// Whether it was emptied.
        truncated: bool,
    },
    /// A file was written.
    Write {
        /// The file.
        inode: u64,
        /// Offset in bytes.
        at: u64,
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the write was synced, because the file was opened with `O_DSYNC`.
        synced: bool,
    },
    /// The length of a file was changed.
    Length {
        /// The file.
        inode: u64,
        /// Its new length in bytes.
        bytes: u64,
    },
    /// A file or a folder was synced.
    Sync {
        /// The file or folder.
        inode: u64,
    },
    /// A file or a folder was renamed.
    Rename {
        /// The old path.
        from: PathBuf,
        /// The new path.
        to: PathBuf,
    },
    /// A name of a file, or an empty folder, was removed.
    Remove {
        /// Its path.
        path: PathBuf,
    },
    /// A folder was created.
    Folder {
        /// Its path.
        path: PathBuf,
        /// The folder.
        inode: u64,
    },
    /// Bytes were written to a pipe or a socket, which other processes can see.
    Output(Vec<u8>),
}

/// Returns the events of a record. An incomplete event at the end, which a kill can leave, is dropped.
pub(crate) fn read(mut bytes: &[u8]) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    while let Some((event, rest)) = read_one(bytes)? {
        events.push(event);
        bytes = rest;
    }
    Ok(events)
}

fn read_one(bytes: &[u8]) -> Result<Option<(Event, &[u8])>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let word = |at: usize| {
        let word = head[at..].first_chunk().expect("the offsets are inside the head");
        u64::from_le_bytes(*word)
    };
    let kind_and_flags = word(0);
    let [thread, inode, at, path_bytes, data_bytes] = [8, 16, 24, 32, 40].map(word);
    let length = |bytes: u64| {
        usize::try_from(bytes).map_err(|_| damaged(format!("a length of {bytes} bytes")))
    };
    let Some((path, rest)) = rest.split_at_checked(length(path_bytes)?) else { return Ok(None) };
    let Some((data, rest)) = rest.split_at_checked(length(data_bytes)?) else { return Ok(None) };
    let path = || PathBuf::from(OsString::from_vec(path.to_vec()));
    let flags = (kind_and_flags >> 32) as u32;
    let operation = match kind_and_flags as u32 {
        1 => Operation::Open { path: path(), inode, truncated: flags & TRUNCATED != 0 },
        2 => Operation::Write { inode, at, bytes: data.to_vec(), synced: flags & SYNCED != 0 },
        3 => Operation::Length { inode, bytes: at },
        4 => Operation::Sync { inode },
        5 => {
            let to = PathBuf::from(OsString::from_vec(data.to_vec()));
            Operation::Rename { from: path(), to }
        }
        6 => Operation::Remove { path: path() },
        7 => Operation::Folder { path: path(), inode },
        8 => Operation::Output(data.to_vec()),
        kind => return Err(damaged(format!("the unknown kind {kind}, expected 1 to 8"))),
    };
    Ok(Some((Event { thread, operation }, rest)))
}

fn damaged(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, format!("an entry of the record has {what}"))
}
