//! Model of the queue of submissions (`pipeline/src/submit/queue.rs`) and of its ordered output to ante
//! (`pipeline/src/submit/ordered_output.rs`).

#[path = "../../pipeline/src/submit/ordered_output.rs"]
mod ordered_output;
#[path = "../../pipeline/src/submit/queue.rs"]
#[allow(dead_code, reason = "the models do not use all of the pipeline's code")]
mod queue;

use crate::{
    ante::CombiningStage,
    batch::{Call, OnAnswer, RawTx, Recovered, Reply, Submitted, tx},
    checker::check,
    combining_model::Admission,
    ring::{Inbox, Outbox, ring},
    sync::thread,
    worker_waker::WorkerWaker,
};
use alloy_primitives::Bytes;
use ordered_output::{OrderedOutput, STOPPING};
use queue::SubmissionQueue;
use std::sync::{Arc, Mutex};

/// The state that all callers share: that of `pipeline/src/submit.rs` without tokio and without recovery.
pub(crate) struct Submissions {
    queue: SubmissionQueue,
    output: OrderedOutput,
}

impl Submissions {
    /// Each batch has one transaction, so that two callers submit two batches.
    pub(crate) fn new(out: Outbox<Vec<Recovered>>, combining: CombiningStage) -> Arc<Self> {
        let output = OrderedOutput::new(out, combining);
        Arc::new(Self { queue: SubmissionQueue::new(1), output })
    }

    /// Submits the transaction with this number, and waits for the result; `None` if the stage has ended.
    pub(crate) fn submit(&self, number: usize, on_answer: Option<OnAnswer>) -> Option<Submitted> {
        let (call, caller) = Call::new(on_answer);
        // The bytes are only the number: `recovered` replaces them by the transaction.
        let number = u8::try_from(number).expect("there are few");
        let bytes = Ok(Bytes::copy_from_slice(&[number]));
        if self.queue.put(RawTx { bytes, reply: Reply::Rpc(caller) }) {
            while let Some((seq, txs)) = self.queue.take() {
                self.output.send(seq, txs.into_iter().map(recovered).collect());
            }
        }
        call.wait()
    }

    /// Refuses further submissions, as at shutdown.
    pub(crate) fn close(&self) {
        self.output.close();
    }
}

fn recovered(raw: RawTx) -> Recovered {
    (raw.bytes.map(|bytes| tx(usize::from(bytes[0]))), raw.reply)
}

/// Two callers submit one batch each. Either of them may recover a batch of the other and send it to ante. Both are
/// answered, and shutdown ends the worker.
///
/// # Panics
/// If a caller waits forever, or receives another result.
pub fn callers_are_answered_through_one_queue() {
    check(2, || {
        let Admission { out, combining, workers } = Admission::start();
        let submissions = Submissions::new(out, combining);
        let other = {
            let submissions = Arc::clone(&submissions);
            thread::spawn(move || {
                assert_eq!(submissions.submit(1, None), Some(Ok(tx(1).hash)));
            })
        };
        assert_eq!(submissions.submit(0, None), Some(Ok(tx(0).hash)));
        other.join().expect("the caller is answered");
        submissions.close();
        workers.join();
    });
}

/// A transaction that is submitted during shutdown is accepted, refused, or dropped with the stage. The call returns.
///
/// # Panics
/// If the caller or the worker waits forever.
pub fn calls_during_shutdown_end() {
    check(3, || {
        let Admission { out, combining, workers } = Admission::start();
        let submissions = Submissions::new(out, combining);
        let caller = {
            let submissions = Arc::clone(&submissions);
            thread::spawn(move || match submissions.submit(0, None) {
                Some(Ok(hash)) => assert_eq!(hash, tx(0).hash),
                Some(Err(reject)) => assert_eq!(*reject, STOPPING),
                None => {}
            })
        };
        submissions.close();
        caller.join().expect("the call ends");
        workers.join();
    });
}

/// Ante receives the batches in the order in which they were taken from the queue, in whatever order their recovery
/// ends.
///
/// # Panics
/// If the order differs, or a transaction is missing.
pub fn batches_reach_ante_in_the_order_of_the_queue() {
    check(3, || {
        let (out, inbox) = ring("submit", 2, &[], &[]);
        let waker = WorkerWaker::thread().0;
        let submissions = Submissions::new(out, CombiningStage::new(waker));
        // The number of the transaction in each batch, by sequence number. The model checker does not observe this
        // lock.
        let taken = Arc::new(Mutex::new([None; 2]));
        let work = {
            let (submissions, taken) = (Arc::clone(&submissions), Arc::clone(&taken));
            move |number: u8| {
                let bytes = Ok(Bytes::copy_from_slice(&[number]));
                let is_task = submissions.queue.put(RawTx { bytes, reply: Reply::Silent });
                assert!(
                    is_task
                        || taken.lock().expect("no thread has panicked").iter().flatten().count()
                            < 2
                );
                while let Some((seq, txs)) = is_task.then(|| submissions.queue.take()).flatten() {
                    let seq_index = usize::try_from(seq).expect("there are two");
                    taken.lock().expect("no thread has panicked")[seq_index] =
                        txs[0].bytes.as_ref().ok().map(|bytes| bytes[0]);
                    submissions.output.send(seq, txs.into_iter().map(recovered).collect());
                }
            }
        };
        let other = {
            let work = work.clone();
            thread::spawn(move || work(1))
        };
        work(0);
        other.join().expect("the thread ends");
        let received: Vec<_> = std::iter::from_fn(|| next_hash(&inbox)).collect();
        let expected: Vec<_> = taken
            .lock()
            .expect("no thread has panicked")
            .iter()
            .flatten()
            .map(|n| tx(usize::from(*n)).hash)
            .collect();
        assert_eq!(received.len(), 2);
        assert_eq!(received, expected);
    });
}

fn next_hash(inbox: &Inbox<Vec<Recovered>>) -> Option<alloy_primitives::B256> {
    let batch = inbox.take()?;
    assert_eq!(batch.len(), 1);
    batch[0].0.as_ref().ok().map(|tx| tx.hash)
}
