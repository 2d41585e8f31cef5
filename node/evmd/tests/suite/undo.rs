//! Undoes blocks while the node runs. Afterwards, the node must have the same data as a node that has only seen the
//! current chain.

mod answers;
mod branches;
mod deep;
mod fast_clock;
mod kill;
mod notifications;
mod pool;
mod random;
mod replay;
mod traffic;

use crate::common::{
    export_view, import, importing, native_home, producing, sign, unsigned, wait_until,
};
use alloy_consensus::{Header, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex};
use chain::{DEV_ACCOUNTS, block::Block};
use home::{
    Home,
    doctor::{self, Outcome},
};
use pipeline::{GiveError, Options, Pipeline, UndoError, UndoneTransactions};
use state::{View, stored};
use std::{path::Path, time::Duration};
use storage::StateRead;

/// Init code of a contract that stores the second word of its call data in the slot of the first word, and emits a log
/// with the first word as its topic.
const STORE: [u8; 27] = hex!("601080600b6000396000f36020356000355560003560006000a100");

/// Initializes a native chain without empty blocks, on which at least the last `undo_blocks` blocks can be undone.
fn undoable_home(folder: &Path, undo_blocks: usize) -> Home {
    let mut home = native_home(folder);
    home.config.storage.undo_blocks = undo_blocks;
    home.config.engine.empty_blocks = false;
    home
}

/// Returns a transaction of development account `from`.
fn transaction(from: usize, nonce: u64, to: TxKind, value: u64, input: Vec<u8>) -> Bytes {
    let (value, max_priority_fee_per_gas) = (U256::from(value), 1_000_000_000);
    sign(from, TxEip1559 { value, max_priority_fee_per_gas, ..unsigned(nonce, to, input) })
}

/// Asserts that `evmd doctor --verify` accepts the chain and its index.
fn verify(folder: &Path) {
    let report = doctor::run(folder, true).unwrap();
    let failed: Vec<_> =
        report.checks.iter().filter(|check| check.outcome != Outcome::Passed).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Returns call data that stores `value` at `slot`.
fn store(slot: u64, value: u64) -> Vec<u8> {
    [slot, value].iter().flat_map(|word| U256::from(*word).to_be_bytes::<32>()).collect()
}

/// Replays the current chain on a fresh node, which must have the same blocks, receipts, fee history and state.
fn compare_with_replay(
    pipeline: &Pipeline,
    contracts: &[Address],
    fresh: impl FnOnce(&Path) -> Home,
) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let ours = pipeline.published.load();
    let head = export_view(&ours, &file);
    let replayed = fresh(&folder.path().join("home"));
    import(&replayed, vec![file]).unwrap();
    let theirs = replayed.view().unwrap();
    assert_eq!((ours.head.hash, theirs.head.hash), (head, head));
    compare_views(&ours, &theirs, contracts);
}

/// Asserts that two views have the same blocks, receipts, fee history and state.
fn compare_views(ours: &View, theirs: &View, contracts: &[Address]) {
    let [our_blocks, their_blocks] = [ours, theirs].map(|view| view.blocks().unwrap());
    for number in 0..=ours.number() {
        assert_eq!(our_blocks.header(number).unwrap(), their_blocks.header(number).unwrap());
        assert_eq!(our_blocks.fees(number).unwrap(), their_blocks.fees(number).unwrap());
        assert_eq!(our_blocks.receipts(number).unwrap(), their_blocks.receipts(number).unwrap());
        assert_eq!(our_blocks.module(number).unwrap(), their_blocks.module(number).unwrap());
    }
    let [our_state, their_state] = [ours, theirs].map(|view| view.state.reader().unwrap());
    let accounts = DEV_ACCOUNTS.iter().map(|account| account.address);
    let others = (0..=255).map(Address::with_last_byte);
    for address in accounts.chain(others).chain(contracts.iter().copied()) {
        assert_eq!(our_state.account(address).unwrap(), their_state.account(address).unwrap());
        for slot in (0..5).map(U256::from) {
            let [our_value, their_value] =
                [&our_state, &their_state].map(|state| state.storage(address, slot).unwrap());
            assert_eq!(our_value, their_value, "{address} {slot}");
        }
    }
}

#[tokio::test]
async fn blocks_that_cannot_be_undone_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = undoable_home(folder.path(), 2);
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(2)))).unwrap();
    let (client, undos) = (pipeline.client(), pipeline.blocks().unwrap());
    let mut heads = pipeline.published.heads();
    for nonce in 0..4 {
        let to = TxKind::Call(Address::repeat_byte(7));
        client.submit(transaction(0, nonce, to, 1, Vec::new())).await.unwrap();
        heads.wait_for(|head| *head > nonce).await.unwrap();
    }
    let undo = |to| undos.undo(to, UndoneTransactions::Drop);
    assert_eq!(undo(4).await, Err(UndoError::NotBelow { to: 4, head: 4 }));
    assert_eq!(undo(9).await, Err(UndoError::NotBelow { to: 9, head: 4 }));
    let block_2 = pipeline.published.load().blocks().unwrap().hash(2).unwrap().unwrap();
    assert_eq!(undo(2).await, Ok(block_2));
    assert_eq!(pipeline.published.load().head.hash, block_2);
    // Blocks that are older than the limit may already be in the index.
    let written = undo(0).await;
    assert!(matches!(written, Ok(_) | Err(UndoError::TooDeep { to: 0, .. })), "{written:?}");
    pipeline.stop();
    pipeline.join().unwrap();
    assert_eq!(undos.undo(0, UndoneTransactions::Drop).await, Err(UndoError::Stopping));
}

/// A request that began before an undo either reads only the old branch or fails. It never mixes branches.
#[tokio::test]
async fn views_of_an_undone_block_fail_or_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let home = undoable_home(folder.path(), 16);
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(2)))).unwrap();
    let (client, blocks) = (pipeline.client(), pipeline.blocks().unwrap());
    let mut heads = pipeline.published.heads();
    let to = TxKind::Call(Address::repeat_byte(7));
    for nonce in 0..3 {
        client.submit(transaction(0, nonce, to, 1, Vec::new())).await.unwrap();
        heads.wait_for(|head| *head > nonce).await.unwrap();
    }
    let old = pipeline.published.load();
    let (reader, state) = (old.blocks().unwrap(), old.state.reader().unwrap());
    let balance = || state.account(Address::repeat_byte(7)).unwrap().unwrap().balance;
    let header = reader.header(3).unwrap();
    blocks.undo(1, UndoneTransactions::Drop).await.unwrap();
    // These blocks have the same numbers but different transactions.
    for nonce in 1..4 {
        client.submit(transaction(0, nonce, to, 100, Vec::new())).await.unwrap();
        heads.wait_for(|head| *head > nonce).await.unwrap();
    }
    let new = pipeline.published.load();
    assert_eq!((old.undone, new.undone), (0, 1));
    // Readers that were opened before the undo still read the old branch.
    assert_eq!((reader.header(3).unwrap(), balance()), (header, U256::from(3)));
    // Opening a block reader now fails with an error that names the block. The old state can still be read.
    let error = old.blocks().map(drop).unwrap_err().to_string();
    assert!(error.contains(&old.head.hash.to_string()) && error.contains("repeat"), "{error}");
    assert_eq!(
        old.state.reader().unwrap().account(Address::repeat_byte(7)).unwrap().unwrap().balance,
        U256::from(3)
    );
    assert_ne!(new.blocks().unwrap().hash(3).unwrap(), Some(old.head.hash));
    drop((reader, state));
    pipeline.stop();
    pipeline.join().unwrap();
}

/// Returns two branches of three blocks each on block 0, produced by two other nodes.
async fn two_branches(folder: &Path) -> [[Block; 3]; 2] {
    let to = TxKind::Call(Address::repeat_byte(7));
    let mut branches = Vec::new();
    for value in [1, 2] {
        let home = undoable_home(&folder.join(value.to_string()), 0);
        let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(2)))).unwrap();
        let mut heads = pipeline.published.heads();
        for nonce in 0..3 {
            let tx = transaction(0, nonce, to, value + nonce, Vec::new());
            pipeline.client().submit(tx).await.unwrap();
            heads.wait_for(|head| *head > nonce).await.unwrap();
        }
        let reader = pipeline.published.load().blocks().unwrap();
        branches.push([1, 2, 3].map(|number| stored::block(&reader, number).unwrap()));
        drop(reader);
        pipeline.stop();
        pipeline.join().unwrap();
        drop(home);
    }
    <[_; 2]>::try_from(branches).unwrap()
}

/// A checkpoint contains the last chosen block, so the trie discards the unfinished block. This block may be chosen and
/// written to the index before its child is given.
#[tokio::test]
async fn chosen_block_may_be_flushed_before_its_child_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let [[first, second, third], _] = two_branches(folder.path()).await;
    let home = undoable_home(&folder.path().join("follower"), 0);
    let options = Options { given_blocks: true, ..importing(Vec::new()) };
    let pipeline = Pipeline::start(&home, options).unwrap();
    let blocks = pipeline.blocks().unwrap();
    let choose = |hash| blocks.choose(hash, UndoneTransactions::Drop);
    let index = pipeline.published.load().state.index().clone();
    // A checkpoint precedes the flush.
    let wait_for_flush = |number| {
        wait_until("a flush", || index.reader().unwrap().flushed().unwrap() == Some(number));
    };
    blocks.give(first.clone()).await.unwrap();
    assert_eq!(choose(first.hash).await, Ok(first.hash));
    blocks.give(second.clone()).await.unwrap();
    wait_for_flush(1);
    assert_eq!(choose(second.hash).await, Ok(second.hash));
    wait_for_flush(2);
    blocks.give(third.clone()).await.unwrap();
    assert_eq!(choose(third.hash).await, Ok(third.hash));
    pipeline.stop();
    pipeline.join().unwrap();
}

/// Two given blocks can have the same parent, and choosing one drops the other.
#[tokio::test]
async fn given_blocks_wait_until_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let [[one, one_child, _], [other, other_child, _]] = two_branches(folder.path()).await;
    let home = undoable_home(&folder.path().join("follower"), 16);
    let options = Options { given_blocks: true, ..importing(Vec::new()) };
    let pipeline = Pipeline::start(&home, options).unwrap();
    let blocks = pipeline.blocks().unwrap();
    let head = || pipeline.published.load().head.hash;
    let genesis = head();
    let orphan = blocks.give(one_child.clone()).await;
    assert!(
        matches!(orphan, Err(GiveError::UnknownParent(hash)) if hash == one.hash),
        "{orphan:?}"
    );
    for block in [&one, &other, &one_child, &other_child, &one] {
        blocks.give(block.clone()).await.unwrap();
        assert_eq!(head(), genesis, "nothing was chosen");
    }
    let mut invalid = other_child.clone();
    invalid.header.state_root = B256::repeat_byte(1);
    invalid.hash = invalid.header.hash_slow();
    let refused = blocks.give(invalid.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("stateRoot"), "{refused}");
    // Before the first verdict, the block is given twice and chosen: the seal stage decides all three requests.
    for _ in 0..20 {
        let [first, second] = [invalid.clone(), invalid.clone()].map(|block| blocks.give(block));
        let chosen = blocks.choose(invalid.hash, UndoneTransactions::Drop);
        let (first, second, chosen) = tokio::join!(first, second, chosen);
        for verdict in [first, second] {
            assert!(matches!(verdict, Err(GiveError::Invalid(_))), "{verdict:?}");
        }
        assert_eq!(chosen, Err(UndoError::Unknown(invalid.hash)));
    }
    assert_eq!(head(), genesis);
    let child = Block { header: Header { parent_hash: invalid.hash, ..invalid.header }, ..invalid };
    let child = Block { hash: child.header.hash_slow(), ..child };
    assert!(matches!(blocks.give(child).await, Err(GiveError::UnknownParent(_))));

    let choose = |hash| blocks.choose(hash, UndoneTransactions::Drop);
    assert_eq!(choose(one_child.hash).await, Ok(one_child.hash));
    assert_eq!(head(), one_child.hash);
    assert_eq!(choose(other_child.hash).await, Err(UndoError::Unknown(other_child.hash)));
    // The other branch is given again. Choosing it undoes the blocks of the current branch.
    blocks.give(other.clone()).await.unwrap();
    blocks.give(other_child.clone()).await.unwrap();
    assert_eq!(choose(other_child.hash).await, Ok(other_child.hash));
    assert_eq!(head(), other_child.hash);
    assert_eq!(pipeline.published.load().undone, 1);
    blocks.abandon(B256::ZERO).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
}
