//! A tree of blocks, given to a node in a random order: it follows whatever branch is chosen, and then has what a node
//! has that only ever saw that branch.

use super::{STORE, compare_with_replay, store, transaction, verify};
use crate::{
    common::{CHAIN_ID, importing, native_home, producing, reopened, wait_until},
    random::Random,
};
use alloy_primitives::{Address, B256, TxKind, map::B256Map};
use chain::{DEV_ACCOUNTS, Genesis, block::Block};
use home::Home;
use pipeline::{GiveError, Options, Pipeline, UndoError, UndoneTransactions};
use serde_json::{Value, json};
use state::stored;
use std::{collections::BTreeSet, path::Path, time::Duration};
use tokio::runtime::Runtime;

/// Blocks of the tree, and steps of the node that follows it, in the short form and in the long one.
const BLOCKS: [usize; 2] = [80, 1_000];
const STEPS: [usize; 2] = [400, 10_000];
const UNDO_BLOCKS: usize = 24;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn undoable(mut home: Home) -> Home {
    home.config.storage.undo_blocks = UNDO_BLOCKS;
    home.config.engine.empty_blocks = false;
    home
}

/// Ethereum's rules up to Cancun.
fn ethereum_home(folder: &Path) -> Home {
    let mut config = json!({ "chainId": CHAIN_ID, "terminalTotalDifficulty": 0, "shanghaiTime": 0, "cancunTime": 0 });
    let blocks = ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"];
    for fork in blocks.into_iter().chain(["petersburg", "istanbul", "berlin", "london"]) {
        config[format!("{fork}Block")] = json!(0);
    }
    let accounts = DEV_ACCOUNTS.iter();
    let alloc = accounts
        .map(|account| (account.address.to_string(), json!({ "balance": "0xde0b6b3a7640000" })));
    let genesis = json!({
        "config": config, "gasLimit": "0x1c9c380", "difficulty": "0x0",
        "baseFeePerGas": "0x3b9aca00", "alloc": Value::from_iter(alloc)
    });
    Home::init(folder, &Genesis::from_json(&genesis.to_string()).unwrap()).unwrap()
}

/// The blocks that a node made, each on the block before it or on an earlier one, and the contracts in them.
struct Tree {
    blocks: Vec<Block>,
    contracts: Vec<Address>,
}

impl Tree {
    fn grow(home: Home, count: usize, random: &mut Random) -> Self {
        let runtime = runtime();
        let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
        let (client, undos) = (pipeline.client(), pipeline.blocks().unwrap());
        let (mut blocks, mut known) = (Vec::new(), BTreeSet::new());
        let mut contracts = Vec::new();
        while blocks.len() < count {
            let head = pipeline.published.load().number();
            if random.chance(25) && head > 0 {
                let to = head.saturating_sub(1 + random.below(6));
                match runtime.block_on(undos.undo(to, UndoneTransactions::Drop)) {
                    Ok(_) | Err(UndoError::TooDeep { .. }) => {}
                    Err(error) => panic!("{head} to {to}: {error}"),
                }
            }
            let from = random.below(6) as usize;
            let nonce = runtime.block_on(client.nonce(DEV_ACCOUNTS[from].address)).unwrap();
            let nonce = nonce.unwrap_or_else(|| {
                let state = pipeline.published.load().state.reader().unwrap();
                let account = storage::StateRead::account(&state, DEV_ACCOUNTS[from].address);
                account.unwrap().map_or(0, |account| account.nonce)
            });
            let any = Address::with_last_byte(1 + random.below(200) as u8);
            let raw = match random.below(4) {
                0 => {
                    contracts.push(DEV_ACCOUNTS[from].address.create(nonce));
                    transaction(from, nonce, TxKind::Create, 0, STORE.to_vec())
                }
                1 | 2 if !contracts.is_empty() => {
                    let at = random.below(contracts.len() as u64) as usize;
                    let input = store(random.below(5), random.below(3));
                    transaction(from, nonce, TxKind::Call(contracts[at]), 0, input)
                }
                _ => transaction(from, nonce, TxKind::Call(any), random.below(9), Vec::new()),
            };
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
        Self { blocks, contracts }
    }
}

/// The node that follows the tree.
struct Follower {
    runtime: Runtime,
    pipeline: Pipeline,
    random: Random,
    /// Accepted blocks, which may have been dropped since.
    accepted: B256Map<()>,
    chosen: usize,
    refused: usize,
}

impl Follower {
    /// Mostly a block near the head.
    fn pick<'a>(&mut self, tree: &'a Tree) -> &'a Block {
        let head = self.pipeline.published.load().number();
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
        let client = self.pipeline.blocks().unwrap();
        let head = self.pipeline.published.load().head.hash;
        match self.random.below(12) {
            0..=5 => match self.runtime.block_on(client.give(block.clone())) {
                Ok(()) => drop(self.accepted.insert(block.hash, ())),
                Err(GiveError::UnknownParent(parent)) => {
                    assert_eq!(parent, block.header.parent_hash);
                }
                // Until some are dropped.
                Err(GiveError::Busy(_)) => client.abandon(block.header.parent_hash).unwrap(),
                Err(error) => panic!("{error}"),
            },
            6..=8 => {
                match self.runtime.block_on(client.choose(block.hash, UndoneTransactions::Drop)) {
                    Ok(hash) => {
                        assert!(hash == block.hash && self.accepted.contains_key(&hash));
                        assert_eq!(self.pipeline.published.load().head.hash, hash);
                        self.chosen += 1;
                        return;
                    }
                    Err(UndoError::Unknown(hash)) => assert_eq!(hash, block.hash),
                    Err(UndoError::TooDeep { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
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
                let number = self.pipeline.published.load().number();
                let to = number.saturating_sub(1 + self.random.below(8));
                match self.runtime.block_on(client.undo(to, UndoneTransactions::Return)) {
                    Ok(_) => return,
                    Err(UndoError::TooDeep { .. } | UndoError::NotBelow { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert_eq!(self.pipeline.published.load().head.hash, head, "nothing was chosen");
    }
}

fn follow(fresh: impl Fn(&Path) -> Home, seed: u64) {
    let long = usize::from(std::env::var_os("EVMD_LONG_TESTS").is_some());
    let (count, steps) = (BLOCKS[long], STEPS[long]);
    println!("{count} blocks, {steps} steps, seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let tree = Tree::grow(undoable(fresh(&folder.path().join("made"))), count, &mut random);
    let path = folder.path().join("follower");
    let home = undoable(fresh(&path));
    let options = Options { given_blocks: true, ..importing(Vec::new()) };
    let pipeline = Pipeline::start(&home, options).unwrap();
    let accepted = B256Map::default();
    let mut follower =
        Follower { runtime: runtime(), pipeline, random, accepted, chosen: 0, refused: 0 };
    for step in 0..steps {
        follower.step(&tree);
        if step % (steps / 5) == steps / 5 - 1 {
            compare_with_replay(&follower.pipeline, &tree.contracts, &fresh);
        }
    }
    assert!(follower.chosen > steps / 100 && follower.refused > 0, "{}", follower.chosen);
    let head = follower.pipeline.published.load().head.hash;
    follower.pipeline.stop();
    follower.pipeline.join().unwrap();
    drop(home);
    let home = reopened(&path);
    assert_eq!(home.view().unwrap().head.hash, head);
    drop(home);
    verify(&path);
}

#[test]
fn any_branch_of_a_native_chain_can_become_the_chain() {
    follow(native_home, 20_261_128);
}

#[test]
fn any_branch_of_an_ethereum_chain_can_become_the_chain() {
    follow(ethereum_home, 20_261_129);
}
