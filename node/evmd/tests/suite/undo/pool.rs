//! A model of the pool. It contains, once, each accepted transaction that can still be mined and is not in the chain.

use alloy_primitives::B256;
use chain::DEV_ACCOUNTS;
use pipeline::SenderTxs;
use state::View;
use std::collections::BTreeMap;
use storage::StateRead;

/// The accepted transactions by development account and nonce, except those that an undo dropped.
#[derive(Default)]
pub(super) struct Accepted(BTreeMap<(usize, u64), B256>);

impl Accepted {
    pub(super) fn insert(&mut self, from: usize, nonce: u64, hash: B256) {
        let former = self.0.insert((from, nonce), hash);
        assert_eq!(former, None, "the pool accepted two transactions with nonce {nonce}");
    }

    pub(super) fn contains(&self, from: usize, nonce: u64) -> bool {
        self.0.contains_key(&(from, nonce))
    }

    pub(super) fn remove(&mut self, dropped: &[B256]) {
        self.0.retain(|_, hash| !dropped.contains(hash));
    }

    /// Returns the transactions that must be in the pool when no more can be mined on this head, in ascending order of
    /// their hashes. Returns `None` if one can still be mined.
    fn pooled(&self, view: &View) -> Option<Vec<B256>> {
        let state = view.state.reader().unwrap();
        let mut pooled = Vec::new();
        for (from, account) in DEV_ACCOUNTS.iter().enumerate() {
            let nonce = state.account(account.address).unwrap().unwrap_or_default().nonce;
            if self.contains(from, nonce) {
                return None;
            }
            pooled.extend(self.0.range((from, nonce)..=(from, u64::MAX)).map(|(_, hash)| *hash));
        }
        pooled.sort_unstable();
        Some(pooled)
    }

    /// Returns an error if the pool differs from the model.
    pub(super) fn compare(&self, view: &View, content: &[SenderTxs]) -> Result<(), String> {
        let all = content.iter().flat_map(|sender| sender.pending.iter().chain(&sender.queued));
        let mut found: Vec<_> = all.map(|tx| tx.hash).collect();
        found.sort_unstable();
        match self.pooled(view) {
            None => Err("a transaction can be mined".to_owned()),
            Some(expected) if expected == found => Ok(()),
            Some(expected) => Err(format!("the pool has {found:?} instead of {expected:?}")),
        }
    }

    /// Asserts that every accepted transaction with a nonce below that of its account is in the chain.
    pub(super) fn assert_mined(&self, view: &View) {
        let state = view.state.reader().unwrap();
        for ((from, nonce), hash) in &self.0 {
            let account = state.account(DEV_ACCOUNTS[*from].address).unwrap();
            if *nonce < account.unwrap_or_default().nonce {
                assert!(view.tx_location(*hash).unwrap().is_some(), "{hash} was lost");
            }
        }
    }
}
