//! Hints of the fast paths for the current transaction. They save reads and hashes, and change no result.

use alloy_primitives::{Address, U256};

use crate::caches::{MAX_TX_SLOTS, Pair};

/// Maximum number of unpredicted reads that are kept: more than a simple call makes.
const MAX_UNPREDICTED_READS: usize = 8;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct TxHints {
    /// The first slots that the transaction read and that were not predicted.
    unpredicted_reads: Vec<(Address, U256)>,
    /// Pairs of words whose Keccak-256 is known.
    known_hashes: Vec<(Pair, U256)>,
}

impl Default for TxHints {
    fn default() -> Self {
        Self {
            unpredicted_reads: Vec::with_capacity(MAX_UNPREDICTED_READS),
            known_hashes: Vec::with_capacity(MAX_TX_SLOTS),
        }
    }
}

impl TxHints {
    /// Removes the hints for the last transaction.
    pub(super) fn clear(&mut self) {
        self.unpredicted_reads.clear();
        self.known_hashes.clear();
    }

    /// Records that a slot was read that was not predicted.
    #[inline]
    pub(super) fn add_read(&mut self, address: Address, slot: U256) {
        if self.unpredicted_reads.len() < MAX_UNPREDICTED_READS {
            self.unpredicted_reads.push((address, slot));
        }
    }

    /// The first slots that the transaction read and that were not predicted.
    pub(crate) fn unpredicted_reads(&self) -> &[(Address, U256)] {
        &self.unpredicted_reads
    }

    /// Adds the Keccak-256 of pairs.
    pub(crate) fn add_hashes(&mut self, hashes: impl Iterator<Item = (Pair, U256)>) {
        self.known_hashes.extend(hashes);
    }

    /// Keccak-256 of these bytes, if it is known.
    #[inline]
    pub(crate) fn known_hash(&self, bytes: &[u8]) -> Option<U256> {
        self.known_hashes.iter().find(|(pair, _)| pair == bytes).map(|(_, hash)| *hash)
    }
}
