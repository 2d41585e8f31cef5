//! The blocks of the journal model, and the data that remains if the process is killed.

use crate::{
    batch::{OnAnswer, tx},
    fault::Fault,
    ring::{Inbox, Outbox},
    sync::AtomicUsize,
};
use alloy_primitives::B256;
use mempool::{Mempool, journal::Journal};
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::Ordering},
    time::Instant,
};
use transactions::RecoveredTx;

/// A block with the transactions that were proposed for it.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) number: usize,
    pub(crate) txs: Arc<Vec<Arc<RecoveredTx>>>,
}

/// The data that remains if the process is killed. The model checker does not observe its locks, so each access is
/// atomic.
#[derive(Debug)]
pub(crate) struct Remains {
    folder: tempfile::TempDir,
    /// Hashes of the transactions of durable blocks.
    pub(crate) durable: Mutex<Vec<B256>>,
    pub(crate) answered: Mutex<Vec<Arc<RecoveredTx>>>,
}

impl Remains {
    pub(crate) fn new() -> Arc<Self> {
        let folder = tempfile::tempdir_in(fast_folder()).expect("a folder can be created");
        Arc::new(Self { folder, durable: Mutex::default(), answered: Mutex::default() })
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("journal")
    }

    /// # Panics
    /// If an answered transaction is neither in the journal nor in a durable block.
    pub(crate) fn assert_complete(&self) {
        let journal = fs::read(self.journal()).expect("the journal is a file");
        let durable = self.durable.lock().expect("no thread panics with it");
        for tx in self.answered.lock().expect("no thread panics with it").iter() {
            let is_journalled = journal.windows(tx.raw.len()).any(|bytes| bytes == *tx.raw);
            assert!(
                is_journalled || durable.contains(&tx.hash),
                "an answered transaction is neither in the journal nor in a durable block"
            );
        }
    }

    /// Records that the transaction was accepted, and checks that it would survive.
    pub(crate) fn on_answer(self: &Arc<Self>, number: usize) -> OnAnswer {
        let remains = Arc::clone(self);
        Arc::new(move |submitted| {
            if submitted.is_ok() {
                remains.answered.lock().expect("no thread panics with it").push(tx(number));
                remains.assert_complete();
            }
        })
    }
}

/// A folder in memory, if there is one, because each execution syncs some files.
fn fast_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { env::temp_dir() }
}

/// Ante's part of the chain: proposes blocks, follows head updates, and compacts the journal after them, in the same
/// order of operations as `pipeline/src/ante.rs`.
#[derive(Debug)]
pub(crate) struct Chain {
    /// `None` after shutdown.
    pub(crate) proposals: Option<Outbox<Block>>,
    pub(crate) heads: Inbox<Block>,
    /// Number of the newest durable block.
    pub(crate) published: Arc<AtomicUsize>,
    pub(crate) number: usize,
    pub(crate) is_in_flight: bool,
    pub(crate) remains: Arc<Remains>,
}

impl Chain {
    pub(crate) fn step(
        &mut self,
        pool: &mut Mempool,
        journal: &mut Journal,
    ) -> Result<bool, Fault> {
        let now = Instant::now();
        let mut worked = false;
        while let Some(block) = self.heads.take() {
            worked = true;
            self.is_in_flight = false;
            for tx in &*block.txs {
                pool.remove(tx.hash, now);
            }
            journal.record_block(block.number as u64, block.txs, self.durable());
        }
        if worked {
            journal.compact(pool, self.durable(), now)?;
            self.remains.assert_complete();
        }
        Ok(worked | self.propose(pool))
    }

    fn propose(&mut self, pool: &Mempool) -> bool {
        let Some(out) = self.proposals.as_mut().filter(|_| !self.is_in_flight && !pool.is_empty())
        else {
            return false;
        };
        let txs = pool.lanes().flat_map(|lane| lane.all()).map(|pooled| Arc::clone(&pooled.tx));
        self.number += 1;
        out.send(Block { number: self.number, txs: Arc::new(txs.collect()) });
        self.is_in_flight = true;
        true
    }

    fn durable(&self) -> u64 {
        self.published.load(Ordering::Acquire) as u64
    }

    /// Whether no block is in flight. If so, stops proposing blocks.
    pub(crate) fn is_finished(&mut self) -> bool {
        if !self.is_in_flight {
            self.proposals = None;
        }
        !self.is_in_flight
    }
}
