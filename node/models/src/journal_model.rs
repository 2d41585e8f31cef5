//! Model of the durability of an accepted transaction, which passes from its caller to the journal, from the pool to
//! a block, and from the journal to the durable chain. The journal is the real one (`mempool/src/journal.rs`); results
//! are released by the code of the pipeline (`pipeline/src/ante/results.rs`).
//!
//! The property: if the process is killed after the caller of an accepted transaction was answered, the transaction is
//! in the journal file or in a durable block.

use crate::{
    ante::{Ante, CombiningStage, CombiningWorker},
    batch::tx,
    chain::{Block, Chain, Remains},
    checker::{Workers, check},
    combining_model::Admission,
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox, ring},
    stage::{Progress, Stage, Worker},
    submit::Submissions,
    sync::{AtomicUsize, thread},
};
use alloy_primitives::B256;
use mempool::journal::Journal;
use std::sync::{Arc, atomic::Ordering};

/// The stage that makes blocks durable.
struct Commit {
    proposals: Inbox<Block>,
    heads: Outbox<Block>,
    published: Arc<AtomicUsize>,
    remains: Arc<Remains>,
    meter: Arc<Meter>,
}

impl Stage for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let Some(block) = self.proposals.take() else {
            let is_finished = self.proposals.is_finished();
            return Ok(if is_finished { Progress::Finished } else { Progress::Idle });
        };
        // Sent first, so that ante may receive the head update before or after the block is durable.
        self.heads.send(block.clone());
        let hashes = block.txs.iter().map(|tx| tx.hash);
        self.remains.durable.lock().expect("no thread panics with it").extend(hashes);
        self.published.store(block.number, Ordering::Release);
        Ok(Progress::Worked)
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}

/// Starts ante with a journal, and the stage that makes its blocks durable.
fn start(remains: &Arc<Remains>) -> Admission {
    let (journal, saved) = Journal::open(&remains.journal(), false, B256::ZERO)
        .expect("a journal can be created in an empty folder");
    assert!(saved.is_empty());
    let (ante, commit) = (Worker::new("ante"), Worker::new("commit"));
    let wakers = [ante.waker(), commit.waker()];
    let (proposals, proposed) = ring("proposals", 1, &wakers[..1], &wakers[1..]);
    let (followed, heads) = ring("heads", 1, &wakers[1..], &wakers[..1]);
    let published = Arc::new(AtomicUsize::new(0));
    let chain = Chain {
        proposals: Some(proposals),
        heads,
        published: Arc::clone(&published),
        number: 0,
        is_in_flight: false,
        remains: Arc::clone(remains),
    };
    let (out, submissions) = ring("submit", 2, &[], &[]);
    let combining = CombiningStage::new(wakers[0].clone());
    let stage = Ante::new(submissions).with_chain(journal, chain);
    let mut workers = Workers::new();
    workers.start(ante, CombiningWorker::new(combining.clone(), stage));
    let meter = Arc::new(Meter::new("commit"));
    let remains = Arc::clone(remains);
    workers
        .start(commit, Commit { proposals: proposed, heads: followed, published, remains, meter });
    Admission { out, combining, workers }
}

/// A transaction is in the journal file before its caller is answered, whichever thread runs the stage, and it
/// stays there until its block is durable.
///
/// # Panics
/// If an answered transaction would be lost if the process were killed.
pub fn answered_transactions_survive_the_process() {
    // With four threads, two preemptions take minutes.
    check(1, || {
        let remains = Remains::new();
        let Admission { out, combining, workers } = start(&remains);
        let submissions = Submissions::new(out, combining);
        let callers = [0].map(|number| {
            let (submissions, on_answer) = (Arc::clone(&submissions), remains.on_answer(number));
            thread::spawn(move || {
                let answer = submissions.submit(number, Some(on_answer));
                assert_eq!(answer, Some(Ok(tx(number).hash)));
            })
        });
        for caller in callers {
            caller.join().expect("the caller is answered");
        }
        submissions.close();
        workers.join();
        remains.assert_complete();
        assert_eq!(remains.answered.lock().expect("no thread has panicked").len(), 1);
        assert_eq!(
            remains.durable.lock().expect("no thread has panicked").len(),
            1,
            "its block is durable"
        );
    });
}
