//! Tests that SIGKILL during an undo leaves either the old or the new head, and loses no accepted transaction.

use super::{transaction, verify};
use crate::common::{native_home, producing, reopened, wait_until};
use alloy_primitives::{Address, B256, TxKind};
use chain::DEV_ACCOUNTS;
use home::Home;
use pipeline::{Pipeline, UndoneTransactions};
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// The environment variable that passes the home folder to the child process.
const CHILD_FOLDER: &str = "EVMD_TEST_UNDO_FOLDER";
/// Number of kills in the default run and with `EVMD_LONG_TESTS`.
const KILLS: [u64; 2] = [12, 160];
const SETTINGS: &str = "[storage]\nundo-blocks = 16\n[engine]\nempty-blocks = false\n";

/// Opens the child's home, and creates it first if it does not exist.
fn opened(folder: &Path) -> Home {
    if !Home::exists(folder) {
        drop(native_home(folder));
        std::fs::write(folder.join("config.toml"), SETTINGS).unwrap();
    }
    reopened(folder)
}

pub(super) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{line}").unwrap();
    out.flush().unwrap();
}

/// Mines transactions and undoes blocks until it is killed. Runs only in the child process of the next test.
#[test]
fn child_undoes() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let home = opened(folder.as_ref());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
    let (client, blocks) = (pipeline.client(), pipeline.blocks().unwrap());
    let sender = DEV_ACCOUNTS[0].address;
    loop {
        for _ in 0..4 {
            let nonce = runtime.block_on(client.nonce(sender)).unwrap().unwrap();
            let to = TxKind::Call(Address::with_last_byte(nonce as u8));
            let raw = transaction(0, nonce, to, 1, Vec::new());
            let hash = runtime.block_on(client.submit(raw)).unwrap();
            announce(&format!("accepted {hash}"));
        }
        wait_until("the transactions are mined", || {
            let level = runtime.block_on(client.level()).unwrap();
            level.pending + level.queued == 0
        });
        let view = pipeline.published.load();
        let Some(to) = view.number().checked_sub(3) else { continue };
        let kept = view.blocks().unwrap().hash(to).unwrap().unwrap();
        announce(&format!("undo {to} {kept}"));
        runtime.block_on(blocks.undo(to, UndoneTransactions::Return)).unwrap();
        announce("undone");
    }
}

/// Runs the test `name` as the child, and kills it once it has announced `lines` starts and ends of undos. Returns the
/// accepted transactions, and the last block to which the child returned or was about to return. The tuple contains the
/// environment variable for the child's home, and the home.
pub(super) fn kill_after(
    name: &str,
    (variable, folder): (&str, &Path),
    lines: u64,
) -> (Vec<B256>, Option<(u64, B256)>) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]);
    let mut child = child.env(variable, folder).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (mut accepted, mut kept, mut seen) = (Vec::new(), None, 0);
    for line in out.lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        match words.as_slice() {
            ["accepted", hash] => accepted.push(hash.parse().unwrap()),
            ["undo", to, hash] => {
                kept = Some((to.parse().unwrap(), hash.parse().unwrap()));
                seen += 1;
            }
            ["undone"] => seen += 1,
            _ => continue,
        }
        if seen == lines {
            // The child continues while its lines are read, so the kill may come at any moment after the announcement.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    (accepted, kept)
}

#[test]
fn killed_undo_leaves_a_complete_chain_and_every_accepted_transaction() {
    let kills = KILLS[usize::from(std::env::var_os("EVMD_LONG_TESTS").is_some())];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let mut all = BTreeSet::new();
    for round in 0..kills {
        let (accepted, kept) =
            kill_after("undo::kill::child_undoes", (CHILD_FOLDER, &path), 1 + round * 7 % 6);
        all.extend(accepted);
        verify(&path);
        let home = opened(&path);
        if let Some((number, hash)) = kept {
            let blocks = home.chain.reader().unwrap();
            assert_eq!(blocks.hash(number).unwrap(), Some(hash), "block {number} was kept");
        }
        let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
        wait_until("every accepted transaction is in the chain", || {
            assert!(!pipeline.is_over(), "the pipeline ended");
            let view = pipeline.published.load();
            all.iter().all(|hash| view.tx_location(*hash).unwrap().is_some())
        });
        pipeline.stop();
        pipeline.join().unwrap();
    }
}

/// The index also lacks the newest blocks after a shutdown, so a restarted node can undo as many blocks as before.
#[tokio::test]
async fn blocks_can_be_undone_after_a_clean_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let mine = |home: Home, count: u64| async move {
        let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
        let mut heads = pipeline.published.heads();
        for _ in 0..count {
            let sender = DEV_ACCOUNTS[0].address;
            let nonce = pipeline.client().nonce(sender).await.unwrap().unwrap();
            let to = TxKind::Call(Address::repeat_byte(7));
            let head = *heads.borrow();
            pipeline.client().submit(transaction(0, nonce, to, 1, Vec::new())).await.unwrap();
            heads.wait_for(|number| *number > head).await.unwrap();
        }
        (home, pipeline)
    };
    let (home, pipeline) = mine(opened(&path), 40).await;
    let head = pipeline.published.load().number();
    pipeline.stop();
    pipeline.join().unwrap();
    let flushed = home.index.reader().unwrap().flushed().unwrap().unwrap();
    assert!(flushed + 16 <= head, "{flushed} of {head} blocks are in the index");
    drop(home);
    let (home, pipeline) = mine(opened(&path), 1).await;
    let blocks = pipeline.blocks().unwrap();
    assert!(blocks.undo(head - 14, UndoneTransactions::Drop).await.is_ok());
    assert_eq!(pipeline.published.load().number(), head - 14);
    pipeline.stop();
    pipeline.join().unwrap();
    drop(home);
    verify(&path);
}
