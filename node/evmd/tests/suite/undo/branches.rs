//! Sends a tree of blocks to a node in random order. The node follows the chosen branch, and must then have the same
//! data as a node that only received that branch.

use super::{
    replay::{compare_with_replay, runtime, serve, stop_and_compare_indexes},
    traffic::{Rules, Traffic},
};
use crate::{
    client::Node,
    common::{CHAIN_ID, producing, wait_until},
    random::Random,
};
use alloy_primitives::{B256, map::B256Map};
use chain::{DEV_ACCOUNTS, block::Block};
use home::Home;
use pipeline::{
    BlockClient, BuildError, GiveError, Pipeline, UndoError, UndoneTransactions, recover_body,
};
use state::stored;
use std::{collections::BTreeSet, path::Path, time::Duration};
use storage::StateRead;
use tokio::runtime::Runtime;
use transactions::Senders;
use verify::{Backend, Recoverer};

/// Number of blocks in the tree, in the default run and with `EVMD_LONG_TESTS`.
const BLOCKS: [usize; 2] = [80, 1_000];
/// Number of steps of the node that follows the tree.
const STEPS: [usize; 2] = [400, 10_000];
/// Number of comparisons with a node that replays the chain.
const COMPARISONS: [usize; 2] = [3, 20];
const UNDO_BLOCKS: usize = 24;

fn undoable(rules: Rules, folder: &Path) -> Home {
    let mut home = rules.home(folder);
    home.config.storage.undo_blocks = UNDO_BLOCKS;
    home.config.engine.empty_blocks = false;
    home
}

/// Blocks that a node produced, each on the previous block or on an earlier one, and the contracts in these blocks.
struct Tree {
    blocks: Vec<Block>,
    traffic: Traffic,
}

impl Tree {
    fn grow(rules: Rules, folder: &Path, count: usize, random: &mut Random) -> Self {
        let home = undoable(rules, folder);
        let runtime = runtime();
        let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
        let (client, block_client) = (pipeline.client(), pipeline.blocks().unwrap());
        let (mut blocks, mut known) = (Vec::new(), BTreeSet::new());
        let mut traffic = Traffic::new(rules);
        while blocks.len() < count {
            let head = pipeline.published.load().number();
            if random.chance(25) && head > 0 {
                let to = head.saturating_sub(1 + random.below(6));
                match runtime.block_on(block_client.undo(to, UndoneTransactions::Drop)) {
                    Ok(_) | Err(UndoError::TooDeep { .. }) => {}
                    Err(error) => panic!("{head} to {to}: {error}"),
                }
            }
            let from = traffic.sender(random);
            let nonce = runtime.block_on(client.nonce(DEV_ACCOUNTS[from].address)).unwrap();
            let nonce = nonce.unwrap_or_else(|| {
                let state = pipeline.published.load().state.reader().unwrap();
                let account = state.account(DEV_ACCOUNTS[from].address).unwrap();
                account.map_or(0, |account| account.nonce)
            });
            let raw = traffic.next(random, from, nonce);
            let hash = runtime.block_on(client.submit(raw)).unwrap();
            wait_until("the transaction is mined", || {
                pipeline.published.load().tx_location(hash).unwrap().is_some()
            });
            let view = pipeline.published.load();
            let reader = view.blocks().unwrap();
            for number in 1..=view.number() {
                let block = stored::block(&reader, number).unwrap();
                if known.insert(block.hash) {
                    blocks.push(block);
                }
            }
        }
        pipeline.stop();
        pipeline.join().unwrap();
        Self { blocks, traffic }
    }
}

struct Follower {
    runtime: Runtime,
    node: Node,
    random: Random,
    /// Blocks that the node accepted. It may have dropped them since.
    accepted: B256Map<()>,
    chosen: usize,
    built: usize,
    refused: usize,
}

impl Follower {
    /// Picks a block of the tree, mostly near the head.
    fn pick<'a>(&mut self, tree: &'a Tree) -> &'a Block {
        let head = self.node.pipeline.published.load().number();
        let is_near =
            |block: &&Block| (head.saturating_sub(4)..head + 4).contains(&block.header.number);
        let near: Vec<_> = tree.blocks.iter().filter(is_near).collect();
        if near.is_empty() || self.random.chance(5) {
            return &tree.blocks[self.random.below(tree.blocks.len() as u64) as usize];
        }
        near[self.random.below(near.len() as u64) as usize]
    }

    fn step(&mut self, tree: &Tree) {
        let block = self.pick(tree);
        let client = self.node.pipeline.blocks().unwrap();
        let head = self.node.pipeline.published.load().head.hash;
        match self.random.below(14) {
            0..=5 => match self.runtime.block_on(client.give(block.clone())) {
                Ok(()) => drop(self.accepted.insert(block.hash, ())),
                Err(GiveError::UnknownParent(parent)) => {
                    assert_eq!(parent, block.header.parent_hash);
                }
                // The node accepts no more blocks until some are dropped.
                Err(GiveError::Busy(_)) => client.abandon(block.header.parent_hash).unwrap(),
                Err(error) => panic!("{error}"),
            },
            6..=8 => {
                match self.runtime.block_on(client.choose(block.hash, UndoneTransactions::Drop)) {
                    Ok(hash) => {
                        assert!(hash == block.hash && self.accepted.contains_key(&hash));
                        assert_eq!(self.node.pipeline.published.load().head.hash, hash);
                        self.chosen += 1;
                        return;
                    }
                    Err(UndoError::Unknown(hash)) => assert_eq!(hash, block.hash),
                    Err(UndoError::TooDeep { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            // The node must build the same block from its transactions.
            12 | 13 => match self.runtime.block_on(build(&client, block)) {
                Ok(built) => {
                    assert_eq!((built.hash, &built.header), (block.hash, &block.header));
                    assert_eq!(built.transactions, block.transactions);
                    self.accepted.insert(block.hash, ());
                    self.built += 1;
                }
                Err(BuildError::UnknownParent(parent)) => {
                    assert_eq!(parent, block.header.parent_hash);
                }
                Err(BuildError::Busy(_)) => client.abandon(block.header.parent_hash).unwrap(),
                Err(error) => panic!("{error}"),
            },
            9 => client.abandon(block.hash).unwrap(),
            10 => {
                let mut wrong = block.clone();
                wrong.header.state_root = B256::repeat_byte(self.random.below(255) as u8);
                wrong.hash = wrong.header.hash_slow();
                match self.runtime.block_on(client.give(wrong)) {
                    Err(GiveError::Invalid(_)) => self.refused += 1,
                    Err(GiveError::UnknownParent(_) | GiveError::Busy(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
            _ => {
                let number = self.node.pipeline.published.load().number();
                let to = number.saturating_sub(1 + self.random.below(8));
                match self.runtime.block_on(client.undo(to, UndoneTransactions::Return)) {
                    Ok(_) => return,
                    Err(UndoError::TooDeep { .. } | UndoError::NotBelow { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(self.node.pipeline.published.load().head.hash, head, "nothing was chosen");
    }
}

/// Builds a block on the parent of `block`, with its timestamp and transactions.
async fn build(client: &BlockClient, block: &Block) -> Result<Block, BuildError> {
    let mut senders = Senders::of_chain(Recoverer::new(Backend::detect().unwrap()), CHAIN_ID);
    let txs = recover_body(&mut senders, block).unwrap();
    client.build(block.header.parent_hash, block.header.timestamp, None, txs).await
}

fn follow(rules: Rules, seed: u64) {
    let long = usize::from(std::env::var_os("EVMD_LONG_TESTS").is_some());
    let (count, steps) = (BLOCKS[long], STEPS[long]);
    println!("{rules:?}: {count} blocks, {steps} steps, seed {seed}");
    let mut random = Random(seed);
    let tree = {
        let folder = tempfile::tempdir().unwrap();
        Tree::grow(rules, folder.path(), count, &mut random)
    };
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let path = folder.path().to_owned();
    let home = undoable(rules, &path);
    let node = runtime.block_on(serve(folder, home, producing(None)));
    let accepted = B256Map::default();
    let mut follower =
        Follower { runtime, node, random, accepted, chosen: 0, built: 0, refused: 0 };
    for step in 1..=steps {
        follower.step(&tree);
        if step % (steps / COMPARISONS[long]) == 0 {
            let Follower { runtime, node, random, .. } = &mut follower;
            let contracts = &tree.traffic.contracts;
            runtime.block_on(compare_with_replay(node, rules, contracts, random));
        }
    }
    assert!(follower.chosen > steps / 100 && follower.refused > 0, "{}", follower.chosen);
    assert!(follower.built > steps / 100, "{}", follower.built);
    let Follower { runtime, node, .. } = follower;
    let head = node.pipeline.published.load().head.hash;
    runtime.block_on(stop_and_compare_indexes(node, rules, &path, head));
}

#[test]
fn any_branch_of_a_native_chain_can_become_the_chain() {
    follow(Rules::Native, 20_261_128);
}

#[test]
fn any_branch_of_an_ethereum_chain_can_become_the_chain() {
    follow(Rules::Ethereum, 20_261_129);
}
