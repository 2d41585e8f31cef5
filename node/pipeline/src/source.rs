//! Source: reads blocks from files in geth's export format, which is a sequence of RLP blocks. Files whose
//! names end in `.gz` are decompressed.
//!
//! Input: files, in the given order.
//! Output: decoded blocks in order, except for those that the chain already has.
//! State: the open file and the bytes of the block being read.
//! Limits: the size of one block.
//! Back-pressure: stops reading the file.

use super::{
    batch::ImportedBlock,
    fault::Fault,
    meter::Meter,
    ring::Outbox,
    stage::{Progress, Stage},
};
use alloy_primitives::B256;
use bytes::BytesMut;
use chain::block::Block;
use flate2::read::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use state::Published;
use std::{
    collections::VecDeque,
    fs::File,
    io::Read,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Maximum bytes of one block: far above the 8 MiB that EIP-7934 permits, and far below the available memory.
const MAX_BLOCK_BYTES: usize = 256 * 1024 * 1024;
/// Bytes per read from a file.
const READ_BYTES: usize = 1024 * 1024;

/// Polling interval of `stop` while standard input has no data.
const INPUT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The progress of reading, for progress bars.
#[derive(Debug, Default)]
pub struct SourceProgress {
    /// Total bytes of all files.
    pub bytes: AtomicU64,
    /// Bytes read so far.
    pub bytes_read: AtomicU64,
    /// Blocks skipped because the chain already has them.
    pub known: AtomicU64,
}

/// Opens a file. The path `-` means standard input, which also ends when `stop` is set.
fn open(path: &Path, stop: &Arc<AtomicBool>) -> std::io::Result<Box<dyn Read + Send>> {
    if path.as_os_str() == "-" {
        let file = std::io::stdin().as_fd().try_clone_to_owned()?.into();
        return Ok(Box::new(StandardInput { file, stop: Arc::clone(stop) }));
    }
    Ok(Box::new(File::open(path)?))
}

/// Standard input. It is read only when it has data, because a read could block forever.
struct StandardInput {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while !self.stop.load(Ordering::Relaxed) {
            if poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&INPUT_WAIT))? > 0 {
                return self.file.read(buffer);
            }
        }
        Ok(0)
    }
}

/// A file whose bytes are counted as they are read.
struct Counted {
    file: Box<dyn Read + Send>,
    progress: Arc<SourceProgress>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.bytes_read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The stage; see the module documentation.
pub(super) struct Source {
    files: VecDeque<PathBuf>,
    open: Option<(PathBuf, Box<dyn Read + Send>)>,
    /// Offset of `buffer` in the decompressed content of the open file.
    offset: u64,
    buffer: BytesMut,
    seq: u64,
    /// Numbers and hashes of the blocks that were sent but are not in the published view yet. The rings of the
    /// pipeline limit how many there are.
    sent: VecDeque<(u64, B256)>,
    published: Published,
    out: Outbox<ImportedBlock>,
    progress: Arc<SourceProgress>,
    stop: Arc<AtomicBool>,
    meter: Arc<Meter>,
}

impl Source {
    /// Creates the stage; when `stop` is set, it ends after the current block.
    pub(super) fn new(
        files: Vec<PathBuf>,
        published: Published,
        out: Outbox<ImportedBlock>,
        progress: Arc<SourceProgress>,
        stop: Arc<AtomicBool>,
        meter: Arc<Meter>,
    ) -> Self {
        let bytes = files.iter().filter_map(|file| std::fs::metadata(file).ok());
        progress.bytes.store(bytes.map(|metadata| metadata.len()).sum(), Ordering::Relaxed);
        Self {
            files: files.into(),
            open: None,
            offset: 0,
            buffer: BytesMut::new(),
            seq: 0,
            sent: VecDeque::new(),
            published,
            out,
            progress,
            stop,
            meter,
        }
    }

    fn fault(&self, reason: impl std::fmt::Display) -> Fault {
        let file = self.open.as_ref().map(|(path, _)| path.display().to_string());
        let reason = format!("at byte {}: {reason}", self.offset);
        Fault::BlockFile { file: file.unwrap_or_default(), reason }
    }

    /// Opens the next file; returns false if there is none.
    fn open_next(&mut self) -> Result<bool, Fault> {
        let Some(path) = self.files.pop_front() else { return Ok(false) };
        let file = open(&path, &self.stop).map_err(|error| Fault::BlockFile {
            file: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let file = Counted { file, progress: self.progress.clone() };
        let compressed = path.extension().is_some_and(|extension| extension == "gz");
        let bytes: Box<dyn Read + Send> =
            if compressed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        self.open = Some((path, bytes));
        self.offset = 0;
        Ok(true)
    }

    /// Reads the next block of the open file; returns `None` at the end of the file.
    fn next_block(&mut self) -> Result<Option<Block>, Fault> {
        loop {
            if let Some(length) = self.whole_block()? {
                let bytes = self.buffer.split_to(length).freeze().into();
                let block = Block::decode(&bytes).map_err(|error| self.fault(error))?;
                self.offset += length as u64;
                return Ok(Some(block));
            }
            if !self.fill()? {
                if self.buffer.is_empty() {
                    return Ok(None);
                }
                return Err(self.fault(format!(
                    "the file ends inside a block, after {} of its bytes",
                    self.buffer.len()
                )));
            }
        }
    }

    /// Returns the length of the block at the beginning of the buffer; `None` if the block is incomplete.
    fn whole_block(&self) -> Result<Option<usize>, Fault> {
        let Some(first) = self.buffer.first() else { return Ok(None) };
        if *first < 0xc0 {
            return Err(self.fault(format!("expected an RLP list, found byte 0x{first:02x}")));
        }
        let header = match alloy_rlp::Header::decode(&mut &self.buffer[..]) {
            Ok(header) => header,
            Err(alloy_rlp::Error::InputTooShort) => return self.long_header(),
            Err(error) => return Err(self.fault(error)),
        };
        Ok(Some(header.length_with_payload()))
    }

    /// Checks the length of a block that is not yet complete in the buffer.
    fn long_header(&self) -> Result<Option<usize>, Fault> {
        let length_bytes = usize::from(self.buffer[0].saturating_sub(0xf7));
        let Some(length) = self.buffer.get(1..1 + length_bytes) else { return Ok(None) };
        let length = length.iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
        if length_bytes > 4 || length > MAX_BLOCK_BYTES {
            let text = format!("a block of {length} bytes, limit {MAX_BLOCK_BYTES}");
            return Err(self.fault(text));
        }
        Ok(None)
    }

    fn fill(&mut self) -> Result<bool, Fault> {
        let Some((_, file)) = &mut self.open else { return Ok(false) };
        let have = self.buffer.len();
        self.buffer.resize(have + READ_BYTES, 0);
        let read = file.read(&mut self.buffer[have..]);
        self.buffer.truncate(have + *read.as_ref().unwrap_or(&0));
        read.map(|read| read > 0).map_err(|error| self.fault(error))
    }

    /// Returns whether the chain already has this block, or it was read before. A competing block is an error.
    fn is_known(&mut self, block: &Block) -> Result<bool, Fault> {
        let number = block.header.number;
        let view = self.published.load();
        while self.sent.front().is_some_and(|(sent, _)| *sent <= view.number()) {
            self.sent.pop_front();
        }
        let known = if number <= view.number() {
            view.blocks()?.header(number)?.map(|(hash, _)| hash)
        } else {
            self.sent.iter().rev().find(|(sent, _)| *sent == number).map(|(_, hash)| *hash)
        };
        match known {
            Some(hash) if hash == block.hash => Ok(true),
            Some(hash) => Err(self.fault(format!(
                "block {number} is {}, but the chain has {hash} there; competing blocks are refused",
                block.hash
            ))),
            None => Ok(false),
        }
    }
}

impl Stage for Source {
    fn name(&self) -> &'static str {
        "source"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if !self.out.ready() {
            return Ok(Progress::Blocked);
        }
        if self.stop.load(Ordering::Relaxed) || self.open.is_none() && !self.open_next()? {
            return Ok(Progress::Finished);
        }
        let Some(block) = self.next_block()? else {
            self.open = None;
            return Ok(Progress::Worked);
        };
        self.meter.count_received(1);
        if self.is_known(&block)? {
            self.progress.known.fetch_add(1, Ordering::Relaxed);
            return Ok(Progress::Worked);
        }
        self.sent.push_back((block.header.number, block.hash));
        self.out.send(ImportedBlock { seq: self.seq, block });
        self.seq += 1;
        self.meter.count_sent(1);
        Ok(Progress::Worked)
    }
}
