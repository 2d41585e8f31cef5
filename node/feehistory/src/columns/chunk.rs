//! Stores the rows of some consecutive blocks as columns of JSON text. A chunk is immutable.

use crate::FeeEntry;
use std::sync::Arc;

/// Maximum number of blocks of a chunk. The last chunk is copied for each new block. A response about 1,024 blocks, the
/// default maximum, is written from at most 17 chunks.
pub(super) const CHUNK_BLOCKS: usize = 64;

/// JSON values of consecutive blocks, with a comma after each.
#[derive(Clone, Debug, Default)]
pub(super) struct Column {
    text: Vec<u8>,
    /// The end position of each value, after its comma.
    ends: Vec<usize>,
}

impl Column {
    fn push(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.text);
        self.text.push(b',');
        self.ends.push(self.text.len());
    }

    /// Returns the values of `count` blocks from the one at `first`, with their commas.
    pub(super) fn slice(&self, first: usize, count: usize) -> &[u8] {
        let end = |blocks: usize| blocks.checked_sub(1).map_or(0, |last| self.ends[last]);
        &self.text[end(first)..end(first + count)]
    }

    /// Returns the memory of the text and of the end positions, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.text.len() + self.ends.len() * size_of::<usize>()
    }
}

/// A chunk of rows.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Unique among all chunks of a node, even if they contain the same blocks.
    pub(super) id: u64,
    /// The number of the first block.
    pub(super) first: u64,
    pub(super) entries: Vec<Arc<FeeEntry>>,
    pub(super) base_fee: Column,
    pub(super) ratio: Column,
    pub(super) blob_fee: Column,
    pub(super) blob_ratio: Column,
}

impl Chunk {
    /// Creates a chunk without blocks.
    pub(super) fn new(id: u64, first: u64) -> Self {
        Self {
            id,
            first,
            entries: Vec::with_capacity(CHUNK_BLOCKS),
            base_fee: Column::default(),
            ratio: Column::default(),
            blob_fee: Column::default(),
            blob_ratio: Column::default(),
        }
    }

    /// Returns this chunk with the next block.
    pub(super) fn with(&self, id: u64, entry: Arc<FeeEntry>) -> Self {
        let mut chunk = Self { id, ..self.clone() };
        chunk.base_fee.push(|out| out.extend_from_slice(entry.base_fee.as_bytes()));
        chunk.ratio.push(|out| out.extend_from_slice(entry.gas_used_ratio.as_bytes()));
        chunk.blob_fee.push(|out| out.extend_from_slice(entry.blob_base_fee.as_bytes()));
        chunk.blob_ratio.push(|out| out.extend_from_slice(entry.blob_gas_used_ratio.as_bytes()));
        chunk.entries.push(entry);
        chunk
    }

    /// Returns the number after the last block.
    pub(super) const fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Returns the number of priority fees in all blocks.
    pub(super) fn tips(&self) -> usize {
        self.entries.iter().map(|entry| entry.tips()).sum()
    }

    /// Returns the rewards of `count` blocks from the one at `first`.
    pub(super) fn rewards(&self, first: usize, count: usize, percentiles: &[f64]) -> Column {
        let mut column = Column::default();
        for entry in &self.entries[first..first + count] {
            column.push(|out| entry.put_rewards(out, percentiles));
        }
        column
    }
}
