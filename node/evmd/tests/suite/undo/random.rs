//! Performs random sequences of block production and undos. Compares the node with a node that replays the current
//! chain, and with a model of the pool.

use super::{
    fast_clock,
    pool::Accepted,
    replay::{compare_with_replay, runtime, serve, stop_and_compare_indexes},
    traffic::{BLOB_SENDER, Rules, Traffic},
};
use crate::{
    client::Node,
    common::{producing, wait_for},
    random::Random,
};
use alloy_primitives::{Address, B256};
use chain::DEV_ACCOUNTS;
use pipeline::{Options, UndoError, UndoneTransactions};
use std::time::Duration;
use storage::StateRead;
use tokio::runtime::Runtime;

/// Number of steps in the default run and with `EVMD_LONG_TESTS`.
const STEPS: [u64; 2] = [150, 10_000];
/// Number of comparisons with a node that replays the chain.
const COMPARISONS: [u64; 2] = [3, 20];
const UNDO_BLOCKS: u64 = 16;

/// A node, and the transactions that were submitted to it.
struct Walk {
    runtime: Runtime,
    node: Node,
    random: Random,
    traffic: Traffic,
    accepted: Accepted,
    /// The highest head so far.
    highest: u64,
}

impl Walk {
    fn head(&self) -> u64 {
        self.node.pipeline.published.load().number()
    }

    /// Submits transactions of some senders, and waits until all that can be mined are mined.
    fn submit(&mut self) {
        for _ in 0..=self.random.below(6) {
            let from = self.traffic.sender(&mut self.random);
            // The blob pool allows no nonce gap.
            let gap = match self.random.chance(10) && from != BLOB_SENDER {
                true => 1 + self.random.below(3),
                false => 0,
            };
            let nonce = self.next_nonce(from) + gap;
            if self.accepted.contains(from, nonce) {
                continue;
            }
            let raw = self.traffic.next(&mut self.random, from, nonce);
            let hash = self.runtime.block_on(self.node.pipeline.client().submit(raw)).unwrap();
            self.accepted.insert(from, nonce, hash);
        }
        self.settle();
    }

    /// Returns the next nonce of an account, after its transactions in the chain and in the pool.
    fn next_nonce(&self, from: usize) -> u64 {
        let (client, sender) = (self.node.pipeline.client(), DEV_ACCOUNTS[from].address);
        let pooled = self.runtime.block_on(client.nonce(sender)).unwrap();
        pooled.unwrap_or_else(|| self.nonce(sender))
    }

    fn nonce(&self, sender: Address) -> u64 {
        let state = self.node.pipeline.published.load().state.reader().unwrap();
        state.account(sender).unwrap().unwrap_or_default().nonce
    }

    /// Waits until the pool has exactly the accepted transactions that are behind a gap.
    fn settle(&self) {
        let client = self.node.pipeline.client();
        wait_for("the pool has exactly what cannot be mined", || {
            assert!(!self.node.pipeline.is_over(), "the pipeline ended");
            let content = self.runtime.block_on(client.content(None)).unwrap();
            self.accepted.compare(&self.node.pipeline.published.load(), &content)
        });
    }

    /// Undoes up to [`UNDO_BLOCKS`] blocks.
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
        let client = self.node.pipeline.blocks().unwrap();
        let hash = match self.runtime.block_on(client.undo(to, transactions)) {
            Ok(hash) => hash,
            // Before an earlier undo, this block was already old enough to be written to the index.
            Err(UndoError::TooDeep { oldest, .. }) => {
                assert!(to < oldest && oldest + UNDO_BLOCKS <= self.highest, "{head} to {to}");
                return;
            }
            Err(error) => panic!("{head} to {to}: {error}"),
        };
        if drops {
            self.accepted.remove(&undone);
        }
        self.settle();
        let blocks = self.node.pipeline.published.load().blocks().unwrap();
        assert_eq!(blocks.hash(to).unwrap(), Some(hash));
    }

    fn transactions_after(&self, number: u64) -> Vec<B256> {
        let view = self.node.pipeline.published.load();
        let layers = view.state.layers().iter().filter(|layer| layer.number() > number);
        layers.flat_map(|layer| layer.tx_hashes().to_vec()).collect()
    }

    fn compare(&mut self) {
        self.accepted.assert_mined(&self.node.pipeline.published.load());
        let (rules, contracts) = (self.traffic.rules, &self.traffic.contracts);
        let comparing = compare_with_replay(&self.node, rules, contracts, &mut self.random);
        self.runtime.block_on(comparing);
    }
}

fn walk(rules: Rules, seed: u64) {
    let long = usize::from(std::env::var_os("EVMD_LONG_TESTS").is_some());
    let given = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seed = given("EVMD_TEST_SEED").unwrap_or(seed);
    let steps = given("EVMD_TEST_STEPS").unwrap_or(STEPS[long]);
    println!("{rules:?}: {steps} steps, EVMD_TEST_SEED={seed}");
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let path = folder.path().to_owned();
    let mut home = rules.home(&path);
    home.config.storage.undo_blocks = UNDO_BLOCKS as usize;
    home.config.engine.empty_blocks = false;
    let clocks = fast_clock::clocks;
    let options = Options { clocks, ..producing(Some(Duration::from_millis(1))) };
    let node = runtime.block_on(serve(folder, home, options));
    let (random, traffic) = (Random(seed), Traffic::new(rules));
    let mut walk =
        Walk { runtime, node, random, traffic, accepted: Accepted::default(), highest: 0 };
    let between = (steps / COMPARISONS[long]).max(1);
    for step in 1..=steps {
        match walk.random.below(4) {
            0 => walk.undo(),
            _ => walk.submit(),
        }
        if step % between == 0 {
            walk.compare();
            println!("{rules:?}: step {step}, head {}", walk.head());
        }
    }
    let Walk { runtime, node, .. } = walk;
    let head = node.pipeline.published.load().head.hash;
    runtime.block_on(stop_and_compare_indexes(node, rules, &path, head));
}

#[test]
fn undone_blocks_of_a_native_chain_leave_no_trace() {
    walk(Rules::Native, 20_261_127);
}

#[test]
fn undone_blocks_of_an_ethereum_chain_leave_no_trace() {
    walk(Rules::Ethereum, 20_261_130);
}
