//! The blocks of one branch.

use alloy_primitives::B256;
use storage::{ChainDb, ChainReader, ReadError};

/// The blocks up to one block of the chain. After an undo the chain may have other blocks with the same numbers.
/// Readers of this branch then fail instead of returning them.
#[derive(Clone, Debug)]
pub struct ChainView {
    db: ChainDb,
    number: u64,
    hash: B256,
    /// [`ChainDb::removals`] when the view was created.
    removals: u64,
}

impl ChainView {
    /// Creates a view of the blocks up to block `number` with this hash, which is stored already or will be.
    pub fn new(db: ChainDb, number: u64, hash: B256) -> Self {
        let removals = db.removals();
        Self { db, number, hash, removals }
    }

    /// Returns the environment, which may have newer blocks, and those of another branch.
    pub const fn db(&self) -> &ChainDb {
        &self.db
    }

    /// Opens a reader.
    ///
    /// # Errors
    /// [`ReadError::Undone`] if the last block of this view is no longer in the chain.
    pub fn reader(&self) -> Result<ChainReader, ReadError> {
        let reader = self.db.reader()?;
        // The counter is read after the snapshot: if it is unchanged, no block was removed before the snapshot.
        if self.db.removals() != self.removals && reader.hash(self.number)? != Some(self.hash) {
            return Err(ReadError::Undone { number: self.number, hash: self.hash });
        }
        Ok(reader)
    }
}
