//! Random sequences of blocks and undos, compared with a node that replays the current chain.

use super::{STORE, compare_with_replay, store, transaction, undoable_home, verify};
use crate::{
    common::{delegate, native_home, producing, reopened, wait_until},
    random::Random,
};
use alloy_primitives::{Address, B256, TxKind};
use chain::DEV_ACCOUNTS;
use pipeline::{Pipeline, UndoError, UndoneTransactions};
use std::{collections::BTreeMap, time::Duration};
use storage::StateRead;
use tokio::runtime::Runtime;

/// Steps of the short form, and of the long one (`EVMD_LONG_TESTS=1`).
const STEPS: [u64; 2] = [250, 10_000];
const UNDO_BLOCKS: u64 = 16;
/// Senders of transactions.
const SENDERS: u64 = 6;

/// A node, and what its clients know.
struct Walk {
    runtime: Runtime,
    pipeline: Pipeline,
    random: Random,
    /// The accepted transactions that were not dropped by an undo.
    accepted: BTreeMap<B256, usize>,
    contracts: Vec<Address>,
    /// Senders that already delegated.
    delegated: usize,
    /// The highest head so far.
    highest: u64,
}

impl Walk {
    fn head(&self) -> u64 {
        self.pipeline.published.load().number()
    }

    /// Submits transactions of some senders, and waits until they are mined.
    fn submit(&mut self) {
        let mut submitted = Vec::new();
        for _ in 0..=self.random.below(6) {
            let from = self.random.below(SENDERS) as usize;
            let (client, sender) = (self.pipeline.client(), DEV_ACCOUNTS[from].address);
            let pooled = self.runtime.block_on(client.nonce(sender)).unwrap();
            let nonce = pooled.unwrap_or_else(|| self.nonce(sender));
            let any = Address::with_last_byte(1 + self.random.below(200) as u8);
            let raw = match self.random.below(10) {
                0 => {
                    self.contracts.push(sender.create(nonce));
                    transaction(from, nonce, TxKind::Create, 0, STORE.to_vec())
                }
                1 if self.delegated < 4 => {
                    self.delegated += 1;
                    delegate(from, nonce, SENDERS as usize + self.delegated - 1, any)
                }
                2..=5 if !self.contracts.is_empty() => {
                    let at = self.random.below(self.contracts.len() as u64) as usize;
                    let input = store(self.random.below(5), self.random.below(3));
                    transaction(from, nonce, TxKind::Call(self.contracts[at]), 0, input)
                }
                _ => transaction(from, nonce, TxKind::Call(any), self.random.below(9), Vec::new()),
            };
            let hash = self.runtime.block_on(client.submit(raw)).unwrap();
            self.accepted.insert(hash, from);
            submitted.push(hash);
        }
        self.settle(&submitted);
    }

    fn nonce(&self, sender: Address) -> u64 {
        let account = self.pipeline.published.load().state.reader().unwrap().account(sender);
        account.unwrap().unwrap_or_default().nonce
    }

    /// Waits until the pool is empty and these transactions are in blocks.
    fn settle(&self, expected: &[B256]) {
        let client = self.pipeline.client();
        wait_until("every transaction is mined", || {
            let level = self.runtime.block_on(client.level()).unwrap();
            assert!(!self.pipeline.is_over(), "the pipeline ended");
            let view = self.pipeline.published.load();
            let is_mined = |hash: &B256| view.tx_location(*hash).unwrap().is_some();
            level.pending + level.queued == 0 && expected.iter().all(is_mined)
        });
    }

    /// Undoes up to as many blocks as possible.
    fn undo(&mut self) {
        let head = self.head();
        self.highest = self.highest.max(head);
        let depth = 1 + self.random.below(UNDO_BLOCKS);
        let Some(to) = head.checked_sub(depth) else { return };
        let drops = self.random.chance(30);
        let undone = self.transactions_after(to);
        let transactions = match drops {
            true => UndoneTransactions::Drop,
            false => UndoneTransactions::Return,
        };
        let undos = self.pipeline.blocks().unwrap();
        let hash = self.runtime.block_on(undos.undo(to, transactions));
        let hash = match hash {
            Ok(hash) => hash,
            // The index got a block that was old enough before an earlier undo.
            Err(UndoError::TooDeep { oldest, .. }) => {
                assert!(to < oldest && oldest + UNDO_BLOCKS <= self.highest, "{head} to {to}");
                return;
            }
            Err(error) => panic!("{head} to {to}: {error}"),
        };
        if drops {
            self.accepted.retain(|hash, _| !undone.contains(hash));
            let view = self.pipeline.published.load();
            assert_eq!((view.number(), view.head.hash), (to, hash));
        }
        let returned = if drops { &[][..] } else { &undone };
        self.settle(returned);
        let blocks = self.pipeline.published.load().blocks().unwrap();
        assert_eq!(blocks.hash(to).unwrap(), Some(hash));
    }

    fn transactions_after(&self, number: u64) -> Vec<B256> {
        let view = self.pipeline.published.load();
        let layers = view.state.layers().iter().filter(|layer| layer.number() > number);
        layers.flat_map(|layer| layer.tx_hashes().to_vec()).collect()
    }
}

#[test]
fn undone_blocks_leave_no_trace() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let steps = STEPS[usize::from(long)];
    let seed = 20_261_127;
    println!("{steps} steps, seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let home = undoable_home(folder.path(), UNDO_BLOCKS as usize);
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
    let mut walk = Walk {
        runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        pipeline,
        random: Random(seed),
        accepted: BTreeMap::new(),
        contracts: Vec::new(),
        delegated: 0,
        highest: 0,
    };
    for step in 0..steps {
        match walk.random.below(4) {
            0 => walk.undo(),
            _ => walk.submit(),
        }
        if step % (steps / 4) == steps / 4 - 1 {
            walk.settle(&walk.accepted.keys().copied().collect::<Vec<_>>());
            compare_with_replay(&walk.pipeline, &walk.contracts, native_home);
        }
    }
    let head = walk.pipeline.published.load().head.hash;
    walk.pipeline.stop();
    walk.pipeline.join().unwrap();
    drop(home);
    // The index gets the rest of the blocks, and then agrees with the chain.
    let home = reopened(folder.path());
    assert_eq!(home.view().unwrap().head.hash, head);
    drop(home);
    verify(folder.path());
}
