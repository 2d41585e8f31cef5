//! Submit: recovers single transactions from RPC calls in batches, usually without switching threads.
//!
//! Input: one raw transaction per call.
//! Output: batches of recovered transactions for ante, which the same thread then runs if no other thread does.
//! State: the transactions waiting for recovery, recovered batches that wait for earlier ones, and unused
//! recovery workspaces.
//! Limits: transactions submitted but not answered.
//! Back-pressure: the call returns an error.
//!
//! The first call that puts a transaction into the empty queue starts a task. The task yields to the runtime
//! and to other threads, so that calls from other connections and the rest of the call's own batch can join
//! the queue. It then takes a batch, recovers it on the same thread, and repeats this until the queue is
//! empty. Recovering a signature alone costs several times as much as in a group, and each switch between
//! sleeping threads costs as much as a recovery. Calls are therefore grouped as they arrive, wait only for the
//! previous recovery, and pass through one queue. If the queue holds several full batches, each batch gets its own
//! task. A batch that would block a thread that serves sockets for too long is recovered on a blocking thread.
//!
//! Ante receives the batches in queue order, whichever thread recovered them.
//!
//! A blob transaction joins the queue after its blobs have been verified and removed. This takes up to 20 ms per
//! blob on a blocking thread, and is done for one transaction at a time.

mod ordered_output;
mod queue;

use super::{
    ante::CombiningStage,
    batch::{BATCH_TXS, MAX_TX_BYTES, RawTx, Recovered, Reply, Submitted},
    caller::{Caller, InFlight},
    meter::Meter,
    recover::recover_txs,
    ring::Outbox,
};
use alloy_eips::eip2718::EIP7702_TX_TYPE_ID;
use alloy_primitives::Bytes;
use chain::ChainSpec;
use mempool::{Reject, Submitter};
use ordered_output::{FULL, OrderedOutput, STOPPING};
use queue::{LANES, SubmissionQueue};
use std::{
    mem,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use transactions::{MAX_SIDECAR_BYTES, Senders, is_blob_tx, without_blobs};
use verify::{Backend, Recoverer};

/// Maximum number of transactions submitted and not answered, as for the recovery of TCP batches.
const MAX_PENDING_TXS: usize = 16_384;
/// Minimum number of signatures for which a batch is recovered on a blocking thread: 0.3 ms of work, compared to
/// which a change of thread is cheap.
const MIN_BLOCKING_SIGNATURES: usize = 64;
/// Minimum bytes of an authorization (EIP-7702), each of which has a signature to recover.
const MIN_AUTHORIZATION_BYTES: usize = 27;
/// Minimum bytes of transactions for which a batch is recovered on a blocking thread, because of hashing and
/// copying.
const MIN_BLOCKING_BYTES: usize = 256 * 1024;
/// Maximum number of times that a task yields before it takes a batch.
const MAX_YIELDS_PER_BATCH: usize = 16;
/// Time after which a task that gathers a batch does not yield again. Limits the latency of the first transaction,
/// which waits for this time and one more yield at most. The recovery of eight transactions takes 35 to 150 us.
const MAX_GATHERING: Duration = Duration::from_micros(500);
/// A task stops gathering when more yields than this in a row have brought no new transaction. Clients that send
/// one call after another are faster if their calls are answered together.
const MAX_YIELDS_WITHOUT_TX: usize = 1;
/// Number of blob transactions verified at the same time. The other cores are left to the pipeline.
const BLOBS_AT_ONCE: usize = 1;
/// Maximum number of blob transactions that are verified or wait for it: at most some 90 MB, and some ten seconds
/// of verification.
const MAX_PENDING_BLOBS: usize = 64;

/// The submissions; see the module documentation.
#[derive(Debug)]
pub(super) struct Submissions {
    queue: SubmissionQueue,
    /// Unused recovery workspaces.
    spare: Mutex<Vec<Senders>>,
    backend: Backend,
    spec: Arc<ChainSpec>,
    /// Permits to verify blobs.
    blobs: Arc<Semaphore>,
    blobs_pending: Arc<AtomicUsize>,
    output: OrderedOutput,
    pending: Arc<AtomicUsize>,
    meter: Arc<Meter>,
}

/// A batch taken from the queue. Dropping it sends the batch in order. If it was not recovered, an empty
/// batch is sent in its place, so that the callers of later batches do not wait forever.
struct QueuedBatch {
    submissions: Arc<Submissions>,
    seq: u64,
    txs: Vec<RawTx>,
    recovered: Vec<Recovered>,
}

impl QueuedBatch {
    /// Returns whether recovery would take too long for a thread that serves sockets.
    fn is_long(&self) -> bool {
        let (mut signatures, mut bytes) = (0, 0);
        for raw in self.txs.iter().filter_map(|tx| tx.bytes.as_ref().ok()) {
            bytes += raw.len();
            signatures += 1;
            if raw.first() == Some(&EIP7702_TX_TYPE_ID) {
                signatures += raw.len() / MIN_AUTHORIZATION_BYTES;
            }
        }
        signatures >= MIN_BLOCKING_SIGNATURES || bytes >= MIN_BLOCKING_BYTES
    }

    /// Recovers the batch and sends it.
    fn run(mut self) {
        self.recovered = self.submissions.recover(mem::take(&mut self.txs));
    }
}

impl Drop for QueuedBatch {
    fn drop(&mut self) {
        self.submissions.output.send(self.seq, mem::take(&mut self.recovered));
    }
}

/// A task that recovers batches from the queue. Even if it is cancelled, it leaves no transaction in the queue.
struct QueueTask {
    submissions: Arc<Submissions>,
    over: bool,
}

impl QueueTask {
    /// Recovers batches until the queue is empty.
    async fn run(mut self) {
        while !self.over {
            self.submissions.gather().await;
            match self.take() {
                Some(batch) if batch.is_long() => {
                    // An error means that the runtime is ending or that recovery panicked. In either case, the batch
                    // has been dropped, and its callers receive an error.
                    let _ = tokio::task::spawn_blocking(|| batch.run()).await;
                }
                Some(batch) => batch.run(),
                None => {}
            }
        }
    }

    /// Takes a batch; if there is none, marks the task as over.
    fn take(&mut self) -> Option<QueuedBatch> {
        let batch = self.submissions.take();
        self.over = batch.is_none();
        batch
    }
}

impl Drop for QueueTask {
    fn drop(&mut self) {
        while !self.over {
            self.take().into_iter().for_each(QueuedBatch::run);
        }
    }
}

impl Submissions {
    /// Creates submissions that are sent to `out`, which `combining` reads, until [`Self::close`].
    pub(super) fn new(
        backend: Backend,
        spec: Arc<ChainSpec>,
        out: Outbox<Vec<Recovered>>,
        combining: CombiningStage,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            queue: SubmissionQueue::new(BATCH_TXS),
            spare: Mutex::default(),
            backend,
            spec,
            blobs: Arc::new(Semaphore::new(BLOBS_AT_ONCE)),
            blobs_pending: Arc::default(),
            output: OrderedOutput::new(out, combining),
            pending: Arc::default(),
            meter,
        }
    }

    /// Submits a raw transaction and waits for the mempool's answer.
    pub(super) async fn submit(self: &Arc<Self>, raw: Bytes, submitter: Submitter) -> Submitted {
        let pending = InFlight::within(MAX_PENDING_TXS, &self.pending).ok_or(FULL)?;
        let bytes = self.without_blobs(raw).await.map_err(Box::new);
        let (caller, answered) = Caller::new(pending, submitter);
        let reply = Reply::Rpc(caller);
        if self.queue.put(RawTx { bytes, reply }) {
            tokio::spawn(QueueTask { submissions: Arc::clone(self), over: false }.run());
        }
        answered.await.unwrap_or_else(|_| Err(STOPPING.into()))
    }

    /// Removes the blobs of a blob transaction after verifying them; other transactions are unchanged.
    async fn without_blobs(&self, raw: Bytes) -> Result<Bytes, Reject> {
        if !is_blob_tx(&raw) {
            return within(raw, MAX_TX_BYTES);
        }
        if self.spec.native().is_some() {
            return Err(Reject::TypeNotSupported);
        }
        let wrapped = within(raw, MAX_TX_BYTES + MAX_SIDECAR_BYTES)?;
        let pending = InFlight::within(MAX_PENDING_BLOBS, &self.blobs_pending).ok_or(FULL)?;
        let permit = Arc::clone(&self.blobs).acquire_owned().await.expect("never closed");
        // The verification continues even if the caller disconnects, so it holds the permit and the guard.
        let check = move || {
            let _until_the_end = (pending, permit);
            without_blobs(&wrapped)
        };
        let checked = tokio::task::spawn_blocking(check).await;
        // The blocking task does not panic, and is cancelled only with the runtime.
        within(checked.map_err(|_| STOPPING)??, MAX_TX_BYTES)
    }

    fn recover(&self, txs: Vec<RawTx>) -> Vec<Recovered> {
        let begun = Instant::now();
        let mut senders = self.workspace();
        let recovered = recover_txs(&mut senders, txs, &self.meter);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(senders);
        self.meter.busy(begun.elapsed());
        recovered
    }

    /// Yields while more transactions join the queue, within the limits of a batch.
    async fn gather(&self) {
        let (mut had, mut in_vain) = (0, 0);
        let begun = Instant::now();
        for _ in 0..MAX_YIELDS_PER_BATCH {
            tokio::task::yield_now().await;
            let has = self.queue.len();
            in_vain = if has == had { in_vain + 1 } else { 0 };
            let is_enough = has >= LANES && in_vain > 0;
            if is_enough || in_vain > MAX_YIELDS_WITHOUT_TX || has >= BATCH_TXS {
                return;
            }
            if begun.elapsed() >= MAX_GATHERING {
                return;
            }
            if has < LANES {
                // Recovering eight transactions takes no longer than one, and other threads that wait for this core
                // may submit more.
                std::thread::yield_now();
            }
            had = has;
        }
    }

    /// Takes a batch from the queue; if there is none, the calling task must end.
    fn take(self: &Arc<Self>) -> Option<QueuedBatch> {
        let (seq, txs) = self.queue.take()?;
        Some(QueuedBatch { submissions: Arc::clone(self), seq, txs, recovered: Vec::new() })
    }

    /// Shuts down: accepts no further transactions, so that the later stages drain.
    pub(super) fn close(&self) {
        self.output.close();
    }

    /// Returns an unused workspace. There are never more workspaces than threads that recover submissions.
    fn workspace(&self) -> Senders {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Senders::of_chain(Recoverer::new(self.backend), self.spec.chain_id))
    }
}

/// Returns the transaction unless it is too large. Like an oversized ingest frame, it is not decoded then.
fn within(raw: Bytes, limit: usize) -> Result<Bytes, Reject> {
    if raw.len() > limit {
        return Err(Reject::Oversized { size: raw.len(), limit });
    }
    Ok(raw)
}

/// Closes the submissions when dropped, even if its owner panics.
#[derive(Debug)]
pub(super) struct Gate(pub Arc<Submissions>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ring::{Inbox, ring},
        worker_waker::WorkerWaker,
    };
    use chain::Genesis;
    use std::{
        future::Future,
        sync::atomic::Ordering::Relaxed,
        task::{Context, Poll, Waker},
    };
    use tokio::sync::oneshot::error::TryRecvError;
    use transactions::SidecarError;

    /// The example of EIP-155.
    const RAW: Bytes = Bytes::from_static(&alloy_primitives::hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a7640000"
        "8025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
        "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    ));

    /// Creates a handle without a stage.
    fn no_stage() -> CombiningStage {
        CombiningStage::new(WorkerWaker::thread().0)
    }

    fn submissions(depth: usize) -> (Arc<Submissions>, Inbox<Vec<Recovered>>) {
        let (out, inbox) = ring("submit", depth, &[], &[]);
        let meter = Arc::new(Meter::new("recover"));
        let spec = Arc::new(Genesis::native_dev(0).spec);
        (
            Arc::new(Submissions::new(Backend::detect().unwrap(), spec, out, no_stage(), meter)),
            inbox,
        )
    }

    #[tokio::test]
    async fn concurrent_calls_form_one_batch_in_order() {
        let (submissions, inbox) = submissions(4);
        let other = Bytes::from_static(b"\x02");
        let all = [RAW, other, RAW].map(|raw| submissions.submit(raw, Submitter::Client));
        let [a, b, c] = all;
        let answering = async {
            while inbox.depth() == 0 {
                tokio::task::yield_now().await;
            }
            let batch = inbox.take().unwrap();
            let are_valid: Vec<_> = batch.iter().map(|(tx, _)| tx.is_ok()).collect();
            for (tx, reply) in batch {
                let Reply::Rpc(caller) = reply else { panic!("an RPC call") };
                caller.answer(tx.map(|tx| tx.hash));
            }
            are_valid
        };
        let (a, b, c, are_valid) = tokio::join!(a, b, c, answering);
        assert_eq!(are_valid, [true, false, true]);
        assert!(a.is_ok() && a == c);
        assert!(matches!(b.map_err(|reject| *reject), Err(Reject::Malformed(_))));
        assert_eq!(submissions.pending.load(Relaxed), 0);
    }

    #[test]
    fn runtime_shutdown_answers_queued_calls() {
        let (submissions, inbox) = submissions(4);
        let mut context = Context::from_waker(Waker::noop());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut waiting =
            [RAW, RAW].map(|raw| Box::pin(submissions.submit(raw, Submitter::Client)));
        {
            let _entered = runtime.enter();
            for call in &mut waiting {
                assert!(call.as_mut().poll(&mut context).is_pending());
            }
        }
        assert_eq!(inbox.depth(), 0, "the task has not run");
        drop(runtime);
        let batch = inbox.take().unwrap();
        assert_eq!(batch.len(), 2);
        for (tx, reply) in batch {
            let Reply::Rpc(caller) = reply else { panic!("an RPC call") };
            caller.answer(tx.map(|tx| tx.hash));
        }
        for mut call in waiting {
            assert!(matches!(call.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        }
        assert_eq!(submissions.queue.tasks(), 0);
    }

    #[tokio::test]
    async fn cancelled_call_counts_until_its_transaction_is_dropped() {
        let (submissions, inbox) = submissions(4);
        let mut call = Box::pin(submissions.submit(RAW, Submitter::Client));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(call);
        while inbox.depth() == 0 {
            assert_eq!(submissions.pending.load(Relaxed), 1);
            tokio::task::yield_now().await;
        }
        drop(inbox.take());
        assert_eq!(submissions.pending.load(Relaxed), 0);
    }

    #[test]
    fn ante_gets_batches_in_the_order_in_which_they_were_taken() {
        let (submissions, inbox) = submissions(4);
        let mut answers = Vec::new();
        let mut batches = [RAW, Bytes::new(), RAW].map(|raw| {
            let (caller, answered) =
                Caller::new(InFlight::within(1, &Arc::default()).unwrap(), Submitter::Client);
            let reply = Reply::Rpc(caller);
            submissions.queue.put(RawTx { bytes: Ok(raw), reply });
            answers.push(answered);
            submissions.take()
        });
        batches[1].take().unwrap().run();
        batches[2].take().unwrap().run();
        assert_eq!(inbox.depth(), 0, "the first batch has not been sent");
        // Dropped without being recovered.
        drop(batches[0].take());
        assert!(answers[0].try_recv().is_err_and(|error| error == TryRecvError::Closed));
        let are_valid = [(); 2].map(|()| inbox.take().unwrap()[0].0.is_ok());
        assert_eq!((are_valid, inbox.depth()), ([false, true], 0));
    }

    #[test]
    fn long_batches_are_recovered_on_a_blocking_thread() {
        let (submissions, inbox) = submissions(1);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let (done, busy) = std::sync::mpsc::channel::<()>();
        let other = runtime.spawn_blocking(move || busy.recv());
        for _ in 0..MIN_BLOCKING_SIGNATURES {
            submissions.queue.put(RawTx { bytes: Ok(RAW), reply: Reply::Silent });
        }
        let queue_task = QueueTask { submissions: Arc::clone(&submissions), over: false };
        let task = runtime.spawn(queue_task.run());
        runtime.block_on(async {
            while submissions.queue.taken() == 0 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(inbox.depth(), 0, "the blocking thread is busy");
        drop(done);
        assert!(runtime.block_on(other).unwrap().is_err());
        runtime.block_on(task).unwrap();
        assert_eq!(inbox.take().unwrap().len(), MIN_BLOCKING_SIGNATURES);
    }

    /// Recovering the authorizations takes a long time, and the submitter need not have signed them.
    #[test]
    fn a_transaction_of_many_authorizations_is_long() {
        let (submissions, _inbox) = submissions(1);
        let is_long = |raw: Vec<u8>| {
            submissions.queue.put(RawTx { bytes: Ok(raw.into()), reply: Reply::Silent });
            submissions.take().unwrap().is_long()
        };
        let bytes = MIN_BLOCKING_SIGNATURES * MIN_AUTHORIZATION_BYTES;
        assert!(is_long(vec![EIP7702_TX_TYPE_ID; bytes]));
        assert!(!is_long(vec![EIP7702_TX_TYPE_ID; 300]));
        assert!(!is_long(vec![2; bytes]));
    }

    #[tokio::test]
    async fn pending_blob_transactions_are_limited() {
        let genesis = r#"{"config":{"chainId":1},"gasLimit":"0x1","difficulty":"0x1","alloc":{}}"#;
        let spec = Arc::new(Genesis::from_json(genesis).unwrap().spec);
        let (out, _inbox) = ring("submit", 1, &[], &[]);
        let meter = Arc::new(Meter::new("recover"));
        let submissions =
            Submissions::new(Backend::detect().unwrap(), spec, out, no_stage(), meter);
        let blob = || submissions.without_blobs(Bytes::from_static(&[3, 0xc1, 0x80]));
        assert_eq!(blob().await, Err(Reject::Sidecar(SidecarError::Missing)));
        submissions.blobs_pending.store(MAX_PENDING_BLOBS, Relaxed);
        assert_eq!(blob().await, Err(FULL));
        assert_eq!(submissions.blobs_pending.load(Relaxed), MAX_PENDING_BLOBS);
        let large = Bytes::from(vec![3; MAX_TX_BYTES + MAX_SIDECAR_BYTES + 1]);
        assert!(matches!(submissions.without_blobs(large).await, Err(Reject::Oversized { .. })));
    }

    #[test]
    fn blobs_of_a_cancelled_call_count_until_they_are_verified() {
        let genesis = r#"{"config":{"chainId":1},"gasLimit":"0x1","difficulty":"0x1","alloc":{}}"#;
        let (submissions, _inbox) = submissions(1);
        let mut submissions = Arc::into_inner(submissions).unwrap();
        submissions.spec = Arc::new(Genesis::from_json(genesis).unwrap().spec);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let (done, busy) = std::sync::mpsc::channel::<()>();
        let other = tokio::task::spawn_blocking(move || busy.recv());
        let mut call = Box::pin(submissions.without_blobs(Bytes::from_static(&[3, 0xc1, 0x80])));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(call);
        assert_eq!(submissions.blobs.available_permits(), 0);
        assert_eq!(submissions.blobs_pending.load(Relaxed), 1);
        drop(done);
        assert!(runtime.block_on(other).unwrap().is_err());
        drop(runtime.block_on(submissions.blobs.acquire()));
        while submissions.blobs_pending.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn submissions_are_refused_after_shutdown_and_above_the_limit() {
        let (submissions, inbox) = submissions(1);
        submissions.pending.store(MAX_PENDING_TXS, Relaxed);
        assert_eq!(submissions.submit(RAW, Submitter::Client).await, Err(FULL.into()));
        submissions.pending.store(0, Relaxed);
        submissions.close();
        assert_eq!(submissions.submit(RAW, Submitter::Client).await, Err(STOPPING.into()));
        assert!(inbox.is_finished());
    }
}
