//! Stores data of the fast paths about the current transaction: reads that were not predicted, and known hashes.

use alloy_primitives::{Address, U256};

use crate::caches::{MAX_TX_SLOTS, Pair};

/// Maximum number of unpredicted reads that are stored per transaction. A simple call makes fewer.
const MAX_UNPREDICTED_READS: usize = 8;

#[derive(Debug)]
pub(crate) struct TxHints {
    /// The first slots that were neither predicted nor accessed in the block before the transaction read them.
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
    /// Removes the hints for the previous transaction.
    pub(super) fn clear(&mut self) {
        self.unpredicted_reads.clear();
        self.known_hashes.clear();
    }

    /// Records the read of a slot that was not predicted.
    #[inline]
    pub(super) fn add_read(&mut self, address: Address, slot: U256) {
        if self.unpredicted_reads.len() < MAX_UNPREDICTED_READS {
            self.unpredicted_reads.push((address, slot));
        }
    }

    /// Returns the first slots that were neither predicted nor accessed in the block before the transaction read them.
    pub(crate) fn unpredicted_reads(&self) -> &[(Address, U256)] {
        &self.unpredicted_reads
    }

    /// Adds the Keccak-256 of pairs.
    pub(crate) fn add_hashes(&mut self, hashes: impl Iterator<Item = (Pair, U256)>) {
        self.known_hashes.extend(hashes);
    }

    /// Returns the Keccak-256 of these bytes, if it is known.
    #[inline]
    pub(crate) fn known_hash(&self, bytes: &[u8]) -> Option<U256> {
        self.known_hashes.iter().find(|(pair, _)| pair == bytes).map(|(_, hash)| *hash)
    }
}
