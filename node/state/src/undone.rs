//! Keeps blocks that were removed from the chain, to notify clients that have received them.

use alloy_primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use storage::StoredReceipt;

/// Maximum number of logs of undone blocks that are kept for clients that poll. A log takes about 300 bytes, and all
/// take 30 MB. A client that polls later receives the new blocks without the removed logs.
const MAX_KEPT_LOGS: usize = 100_000;
/// Maximum number of undone branches that are kept.
const MAX_KEPT_BRANCHES: usize = 1024;

/// A block that was removed from the chain.
#[derive(Clone, Debug)]
pub struct UndoneBlock {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Its timestamp in seconds.
    pub timestamp: u64,
    /// The hashes of its transactions, in block order.
    pub tx_hashes: Vec<B256>,
    /// The receipts of its transactions, in block order.
    pub receipts: Vec<StoredReceipt>,
}

/// Consecutive blocks that were removed together.
#[derive(Clone, Debug)]
pub struct UndoneBranch {
    /// The block that became the head.
    pub ancestor: u64,
    /// The removed blocks, ascending.
    pub blocks: Vec<UndoneBlock>,
}

impl UndoneBranch {
    fn logs(&self) -> usize {
        self.blocks.iter().flat_map(|block| &block.receipts).map(|receipt| receipt.logs.len()).sum()
    }
}

/// The branches undone in this process, numbered from 0. The oldest are discarded.
#[derive(Debug, Default)]
pub(crate) struct UndoneBranches(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The number of the oldest kept branch.
    first: u64,
    branches: VecDeque<Arc<UndoneBranch>>,
    logs: usize,
}

impl UndoneBranches {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a branch, and returns the number of branches so far.
    pub(crate) fn add(&self, branch: UndoneBranch) -> u64 {
        let mut kept = self.lock();
        kept.logs += branch.logs();
        kept.branches.push_back(Arc::new(branch));
        while kept.logs > MAX_KEPT_LOGS || kept.branches.len() > MAX_KEPT_BRANCHES {
            let Some(oldest) = kept.branches.pop_front() else { break };
            kept.logs -= oldest.logs();
            kept.first += 1;
        }
        kept.first + kept.branches.len() as u64
    }

    /// Returns the branches from number `from` to before `to` that are still kept.
    pub(crate) fn between(&self, from: u64, to: u64) -> Vec<Arc<UndoneBranch>> {
        let kept = self.lock();
        let numbered = (kept.first..).zip(&kept.branches);
        let wanted = numbered.filter(|(number, _)| (from..to).contains(number));
        wanted.map(|(_, branch)| Arc::clone(branch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_numbered_and_the_oldest_are_discarded() {
        let branches = UndoneBranches::default();
        let branch = |ancestor| UndoneBranch { ancestor, blocks: Vec::new() };
        let ancestors = |from, to| {
            let found = branches.between(from, to);
            found.iter().map(|branch| branch.ancestor).collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3].map(|ancestor| branches.add(branch(ancestor))), [1, 2, 3]);
        assert_eq!(ancestors(0, 3), [1, 2, 3]);
        assert_eq!(ancestors(1, 2), [2]);
        assert_eq!(ancestors(3, 3), [0; 0]);
        let added = MAX_KEPT_BRANCHES as u64;
        for number in 4..added + 4 {
            assert_eq!(branches.add(branch(9)), number);
        }
        assert_eq!((ancestors(0, 3), ancestors(2, 4)), (vec![], vec![9]));
        assert_eq!(branches.add(branch(9)), added + 4);
    }
}
