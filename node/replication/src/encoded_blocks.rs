//! The encoded blocks that followers share. Followers at the head request the same block at the same time, and it is
//! read and encoded once.

use crate::protocol::Piece;
use crate::{
    PIECE_BYTES,
    encoding::{Stored, encode},
};
use state::{Published, View};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};
use storage::ReadError;
use tokio::sync::{OnceCell, Semaphore};

/// Maximum number of blocks that are kept.
const MAX_KEPT_BLOCKS: usize = 64;
/// Maximum number of bytes that are kept, except for the newest block. A follower that is further behind has its blocks
/// encoded for it alone.
const MAX_KEPT_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of blocks that are read and encoded at a time. Each takes a thread of those that JSON-RPC needs, too.
const MAX_READS: usize = 4;

/// Why a block cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// The block has been removed from the chain.
    #[error("block {0} was removed from the chain")]
    Removed(u64),
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
    /// The chain environment cannot be read.
    #[error(transparent)]
    Read(#[from] Arc<ReadError>),
}

/// An encoded block.
#[derive(Debug)]
pub(crate) struct EncodedBlock(Stored);

impl EncodedBlock {
    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.header.len() + self.0.certificate.len() + self.0.results.len()
    }

    /// Returns a piece. Its bytes are not copied.
    pub(crate) fn piece(&self, index: usize, head: u64) -> Piece {
        let Stored { header, certificate, results } = &self.0;
        let start = index * PIECE_BYTES;
        let end = results.len().min(start + PIECE_BYTES);
        let mut piece = Piece {
            head,
            data: results.slice(start..end),
            ends_block: end == results.len(),
            ..Piece::default()
        };
        if index == 0 {
            piece.header = header.clone();
            piece.certificate = certificate.clone();
        }
        piece
    }
}

/// A block that is encoded, or is being encoded for the first follower that requested it.
type Cell = Arc<OnceCell<Arc<EncodedBlock>>>;

/// The blocks that were requested last.
#[derive(Debug)]
pub(crate) struct EncodedBlocks {
    published: Published,
    /// The blocks by number and by the number of undone branches, in the order of the first request.
    kept: Mutex<VecDeque<((u64, u64), Cell)>>,
    /// Permits to read a block.
    reads: Semaphore,
}

impl EncodedBlocks {
    pub(crate) fn new(published: Published) -> Self {
        Self { published, kept: Mutex::default(), reads: Semaphore::new(MAX_READS) }
    }

    /// Returns the block with this number.
    pub(crate) async fn get(&self, number: u64) -> Result<Arc<EncodedBlock>, SourceError> {
        let view = self.published.load();
        let cell = self.cell((number, view.undone));
        let encoded = cell.get_or_try_init(|| self.read(view, number)).await.cloned();
        self.remove_old();
        encoded
    }

    fn cell(&self, key: (u64, u64)) -> Cell {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = kept.iter().find(|(known, _)| *known == key) {
            return Arc::clone(cell);
        }
        let cell = Cell::default();
        kept.push_back((key, Arc::clone(&cell)));
        cell
    }

    fn remove_old(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Each size is read once, because other tasks encode blocks meanwhile.
        let sizes = kept.iter().map(|(_, cell)| cell.get().map_or(0, |block| block.bytes()));
        let sizes: Vec<usize> = sizes.collect();
        let mut bytes: usize = sizes.iter().sum();
        for size in sizes {
            if kept.len() <= 1 || kept.len() <= MAX_KEPT_BLOCKS && bytes <= MAX_KEPT_BYTES {
                break;
            }
            kept.pop_front();
            bytes -= size;
        }
    }
}

impl EncodedBlocks {
    async fn read(&self, view: Arc<View>, number: u64) -> Result<Arc<EncodedBlock>, SourceError> {
        let _permit = self.reads.acquire().await.map_err(|_| SourceError::Stopping)?;
        let encoded = tokio::task::spawn_blocking(move || encode(&view.blocks()?, number)).await;
        let encoded = encoded.map_err(|_| SourceError::Stopping)?.map_err(Arc::new)?;
        Ok(Arc::new(EncodedBlock(encoded.ok_or(SourceError::Removed(number))?)))
    }
}
