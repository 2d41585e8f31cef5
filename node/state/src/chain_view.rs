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
    /// The blocks up to block `number` with this hash, which is stored now or will be.
    pub fn new(db: ChainDb, number: u64, hash: B256) -> Self {
        let removals = db.removals();
        Self { db, number, hash, removals }
    }

    /// The environment. It may have newer blocks, and those of another branch.
    pub const fn db(&self) -> &ChainDb {
        &self.db
    }

    /// Opens a reader.
    ///
    /// # Errors
    /// [`ReadError::Undone`] if the block is not in the chain any more.
    pub fn reader(&self) -> Result<ChainReader, ReadError> {
        let reader = self.db.reader()?;
        // Read after the snapshot was taken: if it is unchanged, nothing was removed before.
        if self.db.removals() != self.removals && reader.hash(self.number)? != Some(self.hash) {
            return Err(ReadError::Undone { number: self.number, hash: self.hash });
        }
        Ok(reader)
    }
}
