//! Tests returning to a block that is older than those that can be undone, which requires rebuilding the index.

use super::{
    STORE, compare_with_replay,
    kill::{announce, kill_after},
    store, transaction, undoable_home, verify,
};
use crate::common::{native_home, producing, reopened};
use alloy_primitives::{B256, TxKind};
use chain::DEV_ACCOUNTS;
use home::Home;
use pipeline::{BlockClient, Pipeline, UndoError, UndoneTransactions};
use std::{path::Path, time::Duration};
use storage::StateRead;

/// Number of blocks. It is larger than the number that the flush stage collects before it writes them.
const MANY_BLOCKS: u64 = 150;
/// Number of blocks that can be undone without rebuilding the index.
const UNDO_BLOCKS: usize = 3;
/// The environment variable that passes the home folder to the child process.
const CHILD_FOLDER: &str = "EVMD_TEST_DEEP_UNDO_FOLDER";
/// Number of kills in the default run and with `EVMD_LONG_TESTS`.
const KILLS: [u64; 2] = [5, 60];
const SETTINGS: &str = "[storage]\nundo-blocks = 3\n[engine]\nempty-blocks = false\n";

fn started(folder: &Path) -> (Home, Pipeline) {
    let home = undoable_home(folder, UNDO_BLOCKS);
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
    (home, pipeline)
}

/// Mines blocks with one transaction each: first the creation of a contract, then calls that store values in it.
async fn mine(pipeline: &Pipeline, count: u64) {
    let sender = DEV_ACCOUNTS[0].address;
    let client = pipeline.client();
    let mut heads = pipeline.published.heads();
    for _ in 0..count {
        let nonce = client.nonce(sender).await.unwrap().unwrap();
        let raw = match nonce {
            0 => transaction(0, 0, TxKind::Create, 0, STORE.to_vec()),
            _ => {
                let contract = TxKind::Call(sender.create(0));
                transaction(0, nonce, contract, 0, store(nonce % 5, nonce % 3))
            }
        };
        let head = *heads.borrow();
        client.submit(raw).await.unwrap();
        heads.wait_for(|number| *number > head).await.unwrap();
    }
}

/// Returns to block `to`, and checks that it is the head.
async fn undo(pipeline: &Pipeline, blocks: &BlockClient, to: u64) {
    let expected = pipeline.published.load().blocks().unwrap().hash(to).unwrap();
    let hash = blocks.undo_to_any(to).await.unwrap();
    assert_eq!(Some(hash), expected);
    let head = pipeline.published.load();
    assert_eq!((head.number(), head.head.hash), (to, hash));
}

#[tokio::test]
async fn any_block_becomes_the_head_again() {
    let folder = tempfile::tempdir().unwrap();
    let (home, pipeline) = started(folder.path());
    let blocks = pipeline.blocks().unwrap();
    let contract = [DEV_ACCOUNTS[0].address.create(0)];
    for to in [MANY_BLOCKS - 40, 1, 0] {
        mine(&pipeline, MANY_BLOCKS - pipeline.published.load().number()).await;
        let old = pipeline.published.load();
        let opened = old.state.reader().unwrap();
        let sender = || opened.account(DEV_ACCOUNTS[0].address).unwrap().unwrap();
        let before = sender();
        let too_deep = blocks.undo(to, UndoneTransactions::Drop).await;
        assert!(matches!(too_deep, Err(UndoError::TooDeep { .. })), "{too_deep:?}");
        undo(&pipeline, &blocks, to).await;
        // A reader of the former branch keeps its snapshot, and opening a new one fails.
        assert_eq!(sender(), before);
        let error = old.state.reader().map(drop).unwrap_err().to_string();
        assert!(error.contains("repeat the request"), "{error}");
        drop(opened);
        compare_with_replay(&pipeline, &contract, native_home);
        // The newest blocks can be undone without rebuilding the index.
        mine(&pipeline, 3).await;
        let before = pipeline.published.load().blocks().unwrap().hash(to + 1).unwrap();
        assert_eq!(blocks.undo(to + 1, UndoneTransactions::Return).await.ok(), before);
    }
    mine(&pipeline, 10).await;
    compare_with_replay(&pipeline, &contract, native_home);
    let head = pipeline.published.load().head.hash;
    pipeline.stop();
    pipeline.join().unwrap();
    drop(home);
    verify(folder.path());
    assert_eq!(reopened(folder.path()).view().unwrap().head.hash, head);
}

/// Mines blocks and returns to old ones until it is killed. Runs only in the child process of the next test.
#[tokio::test]
async fn child_returns_to_old_blocks() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let home = reopened(folder.as_ref());
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
    let blocks = pipeline.blocks().unwrap();
    loop {
        let head = pipeline.published.load().number();
        mine(&pipeline, (MANY_BLOCKS + 1).saturating_sub(head)).await;
        let view = pipeline.published.load();
        let to = view.number() - 145;
        let kept = view.blocks().unwrap().hash(to).unwrap().unwrap();
        announce(&format!("undo {to} {kept}"));
        undo(&pipeline, &blocks, to).await;
        announce("undone");
    }
}

#[test]
fn killed_return_to_an_old_block_leaves_a_complete_chain() {
    let kills = KILLS[usize::from(std::env::var_os("EVMD_LONG_TESTS").is_some())];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    drop(native_home(&path));
    std::fs::write(path.join("config.toml"), SETTINGS).unwrap();
    for round in 0..kills {
        let name = "undo::deep::child_returns_to_old_blocks";
        let (_, kept) = kill_after(name, (CHILD_FOLDER, &path), 1 + round % 3);
        let (number, hash): (u64, B256) = kept.expect("the child announced an undo");
        verify(&path);
        let home = reopened(&path);
        assert_eq!(home.chain.reader().unwrap().hash(number).unwrap(), Some(hash));
        let view = home.view().unwrap();
        let sender = view.state.reader().unwrap().account(DEV_ACCOUNTS[0].address).unwrap();
        let nonce = sender.unwrap_or_default().nonce;
        assert_eq!(nonce, view.number(), "one transaction in each block");
    }
}
