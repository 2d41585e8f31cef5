//! Submit: single transactions from RPC calls, recovered together without a change of thread.
//!
//! Takes one raw transaction a call. Gives batches of recovered ones straight to ante, and does ante's
//! work with them if nobody is at it.
//! State: the transactions waiting to be recovered, those recovered before their turn, and spare recovery
//! workspaces.
//! Bound: transactions submitted and not answered. When full: the caller is told so.
//!
//! The first call to put something into an empty line starts a task that works it off: it lets the
//! runtime poll whatever else is ready, and other threads have the core once, so that other connections'
//! calls and the rest of the call's own batch join the line, then takes the line and recovers it where
//! it is; and again, until nobody has joined meanwhile. A signature alone costs several times what it
//! costs in company, and each hop between sleeping threads costs as much as a recovery: so calls gather
//! as many as are there anyway, wait for nothing but the recovery before them, and go through one queue
//! only. A line of whole batches gets a task for each, and what would hold up a thread that serves sockets
//! is recovered on one that may block.
//! Ante gets them in the order in which they joined the line, whoever recovered them.
//!
//! A blob transaction joins the line when its blobs have been taken off and checked, which takes up to
//! 20 ms a blob: one transaction after the other, on a thread that may block.

use super::{
    ante::Desk,
    batch::{RawTx, Recovered, Reply, Submitted},
    ingest::TX_BYTES_MAX,
    meter::Meter,
    recover::recover_txs,
    reorder::Reorder,
    ring::Outbox,
};
use alloy_eips::eip2718::EIP7702_TX_TYPE_ID;
use alloy_primitives::Bytes;
use chain::ChainSpec;
use mempool::Reject;
use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};
use tokio::sync::{Semaphore, oneshot};
use transactions::{SIDECAR_BYTES_MAX, Senders, is_blob_tx, take_off_blobs};
use verify::{Backend, Recoverer};

/// Most transactions submitted and not answered: what the recovery of TCP batches may hold too.
const PENDING_MAX: usize = 16_384;
/// Transactions recovered at once: the batch that recovery is most efficient at.
const BATCH_TXS: usize = super::ingest::BATCH_TXS;
/// Transactions that take as long to recover as one: the lanes of the widest backend.
const LANES: usize = 8;
/// Transactions from which on they are recovered on a thread that may block: 0.3 ms of work, beside which a
/// change of thread is little.
const AWAY_LEAST: usize = 64;
/// Bytes an authorization has at least (EIP-7702): each is a signature to recover.
const AUTHORIZATION_BYTES_LEAST: usize = 27;
/// Bytes of transactions from which on the same holds, for hashing and copying.
const AWAY_BYTES_LEAST: usize = 256 * 1024;
/// Most times that a task gives way to others before it takes the line: bounds the wait of the first.
const GATHER_ROUNDS: usize = 16;
/// How often it gives way in vain before it takes the line: who sends call after call is quicker when his
/// calls are answered together.
const IN_VAIN_MAX: usize = 1;
/// Blob transactions checked at once: the other cores are for the pipeline.
const BLOBS_AT_ONCE: usize = 1;
/// Blob transactions that are checked or wait for it: a hundred megabytes, and some seconds.
const BLOBS_PENDING_MAX: usize = 64;
/// Why nothing is taken at the end.
const STOPPING: Reject = Reject::Busy("the node is stopping");
/// Why nothing is taken when too much waits.
const FULL: Reject = Reject::Busy("too many transactions are being submitted, try again");

/// The line of submissions.
#[derive(Debug, Default)]
struct Line {
    txs: Vec<RawTx>,
    /// Tasks at work on it.
    tasks: usize,
    /// Batches taken from it.
    taken: u64,
}

/// Where batches leave for ante.
#[derive(Debug)]
struct Exit {
    /// `None` at the end.
    out: Option<Outbox<Vec<Recovered>>>,
    order: Reorder<Vec<Recovered>>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Submissions {
    line: Mutex<Line>,
    spare: Mutex<Vec<Senders>>,
    backend: Backend,
    spec: Arc<ChainSpec>,
    /// Leave to check blobs.
    blobs: Arc<Semaphore>,
    blobs_pending: Arc<AtomicUsize>,
    exit: Mutex<Exit>,
    desk: Desk,
    pending: Arc<AtomicUsize>,
    meter: Arc<Meter>,
}

/// A transaction that is pending until this is dropped.
#[derive(Debug)]
struct Pending(Arc<AtomicUsize>);

impl Pending {
    /// One more, unless there are `most`.
    fn within(most: usize, count: &Arc<AtomicUsize>) -> Result<Self, Reject> {
        let pending = Self(Arc::clone(count));
        if pending.0.fetch_add(1, Relaxed) >= most { Err(FULL) } else { Ok(pending) }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Who waits for the answer to a submission. His transaction is pending until this is dropped, even when
/// he has given up waiting.
#[derive(Debug)]
pub struct Caller {
    answer: oneshot::Sender<Submitted>,
    pending: Pending,
}

impl Caller {
    /// Tells him, if he still waits.
    pub(super) fn tell(self, submitted: Submitted) {
        let Self { answer, pending } = self;
        drop(pending);
        let _ = answer.send(submitted);
    }
}

/// A batch taken from the line. Dropped, it takes its turn: without its transactions, if they were not
/// recovered, for the callers behind it must not wait for ever.
struct Batch {
    line: Arc<Submissions>,
    seq: u64,
    txs: Vec<RawTx>,
    recovered: Vec<Recovered>,
}

impl Batch {
    /// Whether it would hold up a thread that serves sockets.
    fn is_long(&self) -> bool {
        let (mut signatures, mut bytes) = (0, 0);
        for raw in self.txs.iter().filter_map(|tx| tx.bytes.as_ref().ok()) {
            bytes += raw.len();
            signatures += 1;
            if raw.first() == Some(&EIP7702_TX_TYPE_ID) {
                signatures += raw.len() / AUTHORIZATION_BYTES_LEAST;
            }
        }
        signatures >= AWAY_LEAST || bytes >= AWAY_BYTES_LEAST
    }

    /// Recovers the batch and hands it over.
    fn run(mut self) {
        self.recovered = self.line.recover(mem::take(&mut self.txs));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.line.give(self.seq, mem::take(&mut self.recovered));
    }
}

/// A task at work on the line: even one that is given up leaves nobody in it.
struct Work {
    line: Arc<Submissions>,
    over: bool,
}

impl Work {
    /// Recovers what is in the line until nothing is.
    async fn run(mut self) {
        while !self.over {
            self.line.gather().await;
            match self.take() {
                Some(batch) if batch.is_long() => {
                    // It fails with the runtime, or has panicked: its callers hear that nobody answers.
                    let _ = tokio::task::spawn_blocking(|| batch.run()).await;
                }
                Some(batch) => batch.run(),
                None => {}
            }
        }
    }

    /// Takes a batch; without one, the task is over.
    fn take(&mut self) -> Option<Batch> {
        let batch = self.line.take();
        self.over = batch.is_none();
        batch
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        while !self.over {
            self.take().into_iter().for_each(Batch::run);
        }
    }
}

impl Submissions {
    /// Gives to `out`, which leads to `desk`, until [`Self::close`].
    pub(super) fn new(
        backend: Backend,
        spec: Arc<ChainSpec>,
        out: Outbox<Vec<Recovered>>,
        desk: Desk,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            line: Mutex::default(),
            spare: Mutex::default(),
            backend,
            spec,
            blobs: Arc::new(Semaphore::new(BLOBS_AT_ONCE)),
            blobs_pending: Arc::default(),
            exit: Mutex::new(Exit { out: Some(out), order: Reorder::new() }),
            desk,
            pending: Arc::default(),
            meter,
        }
    }

    /// Submits a raw transaction and waits for the mempool's answer.
    pub(super) async fn submit(self: &Arc<Self>, raw: Bytes) -> Submitted {
        let pending = Pending::within(PENDING_MAX, &self.pending)?;
        let bytes = self.alone(raw).await.map_err(Box::new);
        let (answer, answered) = oneshot::channel();
        let reply = Reply::Rpc(Caller { answer, pending });
        if self.join(RawTx { bytes, reply }) {
            tokio::spawn(Work { line: Arc::clone(self), over: false }.run());
        }
        answered.await.unwrap_or_else(|_| Err(STOPPING.into()))
    }

    /// The bytes of the transaction alone, without its blobs.
    async fn alone(&self, raw: Bytes) -> Result<Bytes, Reject> {
        if !is_blob_tx(&raw) {
            return within(raw, TX_BYTES_MAX);
        }
        if self.spec.native().is_some() {
            return Err(Reject::TypeNotSupported);
        }
        let wrapped = within(raw, TX_BYTES_MAX + SIDECAR_BYTES_MAX)?;
        let pending = Pending::within(BLOBS_PENDING_MAX, &self.blobs_pending)?;
        let turn = Arc::clone(&self.blobs).acquire_owned().await.expect("never closed");
        // The work goes on when its caller has gone, and so do its turn and its place.
        let check = move || {
            let _until_the_end = (pending, turn);
            take_off_blobs(&wrapped)
        };
        let checked = tokio::task::spawn_blocking(check).await;
        // It is stopped only with the runtime, and does not panic.
        within(checked.map_err(|_| STOPPING)??, TX_BYTES_MAX)
    }

    /// Puts a transaction into the line; says whether that needs another task.
    fn join(&self, tx: RawTx) -> bool {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = line.txs.len() >= line.tasks * BATCH_TXS;
        line.tasks += usize::from(needed);
        line.txs.push(tx);
        needed
    }

    fn recover(&self, txs: Vec<RawTx>) -> Vec<Recovered> {
        let begun = Instant::now();
        let mut senders = self.workspace();
        let recovered = recover_txs(&mut senders, txs, &self.meter);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(senders);
        self.meter.busy(begun.elapsed());
        recovered
    }

    /// Lets others join the line, as long as they do.
    async fn gather(&self) {
        let (mut had, mut in_vain) = (0, 0);
        for _ in 0..GATHER_ROUNDS {
            tokio::task::yield_now().await;
            let has = self.line.lock().unwrap_or_else(PoisonError::into_inner).txs.len();
            in_vain = if has == had { in_vain + 1 } else { 0 };
            let is_enough = has >= LANES && in_vain > 0;
            if is_enough || in_vain > IN_VAIN_MAX || has >= BATCH_TXS {
                return;
            }
            if has < LANES {
                // As much work as eight: whoever waits for this core may have more of them.
                std::thread::yield_now();
            }
            had = has;
        }
    }

    /// Takes a batch from the line; without one, its task ends. What would leave lanes empty waits for more,
    /// unless it is all there is.
    fn take(self: &Arc<Self>) -> Option<Batch> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.txs.is_empty() {
            line.tasks -= 1;
            return None;
        }
        let count = line.txs.len().min(BATCH_TXS);
        let rest = if count < LANES { count } else { count / LANES * LANES };
        let rest = line.txs.split_off(rest);
        let txs = mem::replace(&mut line.txs, rest);
        let seq = line.taken;
        line.taken += 1;
        Some(Batch { line: Arc::clone(self), seq, txs, recovered: Vec::new() })
    }

    /// Takes nothing more: lets the stages behind drain.
    pub(super) fn close(&self) {
        drop(self.exit().out.take());
        self.desk.wake();
    }

    /// A workspace nobody uses: there are never more than threads that submit.
    fn workspace(&self) -> Senders {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Senders::of_chain(Recoverer::new(self.backend), self.spec.chain_id))
    }

    fn exit(&self) -> MutexGuard<'_, Exit> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a batch to ante, and what waited behind it, when its turn has come.
    fn give(&self, seq: u64, recovered: Vec<Recovered>) {
        let mut refused = Vec::new();
        {
            let mut exit = self.exit();
            exit.order.put(seq, recovered);
            while let Some(batch) = exit.order.take() {
                refused.extend(exit.offer(batch).err());
            }
        }
        self.desk.attend();
        for (refused, why) in refused {
            for (_, reply) in refused {
                if let Reply::Rpc(caller) = reply {
                    caller.tell(Err(why.clone().into()));
                }
            }
        }
    }
}

impl Exit {
    /// Puts a batch into the ring, or gives it back with the reason.
    fn offer(&self, recovered: Vec<Recovered>) -> Result<(), (Vec<Recovered>, Reject)> {
        match &self.out {
            Some(_) if recovered.is_empty() => Ok(()),
            None => Err((recovered, STOPPING)),
            Some(out) => out
                .offer(recovered)
                .map_err(|recovered| (recovered, if out.is_abandoned() { STOPPING } else { FULL })),
        }
    }
}

/// A transaction as it is, unless it is too large: like a frame, it is then not decoded either.
fn within(raw: Bytes, limit: usize) -> Result<Bytes, Reject> {
    if raw.len() > limit {
        return Err(Reject::Oversized { size: raw.len(), limit });
    }
    Ok(raw)
}

/// Closes the line when dropped, however its owner ends.
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
        worker_waker::Bell,
    };
    use chain::Genesis;
    use std::{
        future::Future,
        task::{Context, Poll, Waker},
    };
    use transactions::SidecarFault;

    /// The example of EIP-155.
    const RAW: Bytes = Bytes::from_static(&alloy_primitives::hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a7640000"
        "8025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276"
        "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    ));

    /// A desk without a stage.
    fn nobody() -> Desk {
        Desk::new(Bell::thread().0)
    }

    fn submissions(depth: usize) -> (Arc<Submissions>, Inbox<Vec<Recovered>>) {
        let (out, inbox) = ring("submit", depth, &[], &[]);
        let meter = Arc::new(Meter::new("recover"));
        let spec = Arc::new(Genesis::native_dev(0).spec);
        (Arc::new(Submissions::new(Backend::detect().unwrap(), spec, out, nobody(), meter)), inbox)
    }

    #[tokio::test]
    async fn calls_that_are_ready_together_are_one_batch_in_their_order() {
        let (submissions, inbox) = submissions(4);
        let other = Bytes::from_static(b"\x02");
        let all = [RAW, other, RAW].map(|raw| submissions.submit(raw));
        let [a, b, c] = all;
        let answering = async {
            while inbox.depth() == 0 {
                tokio::task::yield_now().await;
            }
            let batch = inbox.take().unwrap();
            let good: Vec<_> = batch.iter().map(|(tx, _)| tx.is_ok()).collect();
            for (tx, reply) in batch {
                let Reply::Rpc(caller) = reply else { panic!("an RPC call") };
                caller.tell(tx.map(|tx| tx.hash));
            }
            good
        };
        let (a, b, c, good) = tokio::join!(a, b, c, answering);
        assert_eq!(good, [true, false, true]);
        assert!(a.is_ok() && a == c);
        assert!(matches!(b.map_err(|reject| *reject), Err(Reject::Malformed(_))));
        assert_eq!(submissions.pending.load(Relaxed), 0);
    }

    #[test]
    fn a_runtime_that_goes_away_leaves_nobody_behind() {
        let (submissions, inbox) = submissions(4);
        let mut context = Context::from_waker(Waker::noop());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut waiting = [RAW, RAW].map(|raw| Box::pin(submissions.submit(raw)));
        {
            let _entered = runtime.enter();
            for call in &mut waiting {
                assert!(call.as_mut().poll(&mut context).is_pending());
            }
        }
        assert_eq!(inbox.depth(), 0, "the task has not had its turn");
        drop(runtime);
        let batch = inbox.take().unwrap();
        assert_eq!(batch.len(), 2);
        for (tx, reply) in batch {
            let Reply::Rpc(caller) = reply else { panic!("an RPC call") };
            caller.tell(tx.map(|tx| tx.hash));
        }
        for mut call in waiting {
            assert!(matches!(call.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
        }
        assert_eq!(submissions.line.lock().unwrap().tasks, 0);
    }

    #[tokio::test]
    async fn who_has_given_up_waiting_counts_until_his_transaction_is_gone() {
        let (submissions, inbox) = submissions(4);
        let mut call = Box::pin(submissions.submit(RAW));
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
    fn a_line_of_whole_batches_gets_a_task_for_each() {
        let (submissions, _inbox) = submissions(1);
        let tx = || RawTx { bytes: Ok(RAW), reply: Reply::Silent };
        let needed: Vec<usize> = (0..3 * BATCH_TXS).filter(|_| submissions.join(tx())).collect();
        assert_eq!(needed, [0, BATCH_TXS, 2 * BATCH_TXS]);
        let batch = submissions.take().unwrap();
        assert_eq!((batch.txs.len(), submissions.line.lock().unwrap().tasks), (BATCH_TXS, 3));
        assert!(!submissions.join(tx()), "three are at work on what two can do");
    }

    #[test]
    fn lanes_are_left_empty_only_at_the_end_of_a_line() {
        let (submissions, _inbox) = submissions(1);
        for _ in 0..LANES + 3 {
            submissions.join(RawTx { bytes: Ok(RAW), reply: Reply::Silent });
        }
        let taken = [(); 3].map(|()| submissions.take().map(|batch| batch.txs.len()));
        assert_eq!(taken, [Some(LANES), Some(3), None]);
    }

    #[test]
    fn ante_gets_batches_in_the_order_in_which_they_were_taken() {
        let (submissions, inbox) = submissions(4);
        let mut answers = Vec::new();
        let mut batches = [RAW, Bytes::new(), RAW].map(|raw| {
            let (answer, answered) = oneshot::channel();
            let pending = Pending::within(1, &Arc::default()).unwrap();
            let reply = Reply::Rpc(Caller { answer, pending });
            submissions.join(RawTx { bytes: Ok(raw), reply });
            answers.push(answered);
            submissions.take()
        });
        batches[1].take().unwrap().run();
        batches[2].take().unwrap().run();
        assert_eq!(inbox.depth(), 0, "the first is not there");
        // Nobody recovers it any more.
        drop(batches[0].take());
        assert!(
            answers[0].try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        );
        let given = [(); 2].map(|()| inbox.take().unwrap()[0].0.is_ok());
        assert_eq!((given, inbox.depth()), ([false, true], 0));
    }

    #[test]
    fn what_takes_long_is_recovered_where_no_socket_is_served() {
        let (submissions, inbox) = submissions(1);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let (done, busy) = std::sync::mpsc::channel::<()>();
        let other = runtime.spawn_blocking(move || busy.recv());
        for _ in 0..AWAY_LEAST {
            submissions.join(RawTx { bytes: Ok(RAW), reply: Reply::Silent });
        }
        let line = Arc::clone(&submissions);
        let work = runtime.spawn(Work { line, over: false }.run());
        runtime.block_on(async {
            while submissions.line.lock().unwrap().taken == 0 {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(inbox.depth(), 0, "the thread for it is busy");
        drop(done);
        assert!(runtime.block_on(other).unwrap().is_err());
        runtime.block_on(work).unwrap();
        assert_eq!(inbox.take().unwrap().len(), AWAY_LEAST);
    }

    /// Its authorizations are what takes long, and whoever sent it need not have signed it.
    #[test]
    fn a_transaction_of_many_authorizations_is_long() {
        let (submissions, _inbox) = submissions(1);
        let is_long = |raw: Vec<u8>| {
            submissions.join(RawTx { bytes: Ok(raw.into()), reply: Reply::Silent });
            submissions.take().unwrap().is_long()
        };
        let bytes = AWAY_LEAST * AUTHORIZATION_BYTES_LEAST;
        assert!(is_long(vec![EIP7702_TX_TYPE_ID; bytes]));
        assert!(!is_long(vec![EIP7702_TX_TYPE_ID; 300]));
        assert!(!is_long(vec![2; bytes]));
    }

    #[tokio::test]
    async fn blobs_are_looked_at_within_a_bound() {
        let genesis = r#"{"config":{"chainId":1},"gasLimit":"0x1","difficulty":"0x1","alloc":{}}"#;
        let spec = Arc::new(Genesis::from_json(genesis).unwrap().spec);
        let (out, _inbox) = ring("submit", 1, &[], &[]);
        let meter = Arc::new(Meter::new("recover"));
        let submissions = Submissions::new(Backend::detect().unwrap(), spec, out, nobody(), meter);
        let blob = || submissions.alone(Bytes::from_static(&[3, 0xc1, 0x80]));
        assert_eq!(blob().await, Err(Reject::Sidecar(SidecarFault::Missing)));
        submissions.blobs_pending.store(BLOBS_PENDING_MAX, Relaxed);
        assert_eq!(blob().await, Err(FULL));
        assert_eq!(submissions.blobs_pending.load(Relaxed), BLOBS_PENDING_MAX);
        let wide = Bytes::from(vec![3; TX_BYTES_MAX + SIDECAR_BYTES_MAX + 1]);
        assert!(matches!(submissions.alone(wide).await, Err(Reject::Oversized { .. })));
    }

    #[test]
    fn blobs_of_a_caller_who_has_gone_count_until_they_are_checked() {
        let genesis = r#"{"config":{"chainId":1},"gasLimit":"0x1","difficulty":"0x1","alloc":{}}"#;
        let (submissions, _inbox) = submissions(1);
        let mut submissions = Arc::into_inner(submissions).unwrap();
        submissions.spec = Arc::new(Genesis::from_json(genesis).unwrap().spec);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let (done, busy) = std::sync::mpsc::channel::<()>();
        let other = tokio::task::spawn_blocking(move || busy.recv());
        let mut call = Box::pin(submissions.alone(Bytes::from_static(&[3, 0xc1, 0x80])));
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
    async fn nothing_is_taken_after_the_end_or_beyond_the_bound() {
        let (submissions, inbox) = submissions(1);
        submissions.pending.store(PENDING_MAX, Relaxed);
        assert_eq!(submissions.submit(RAW).await, Err(FULL.into()));
        submissions.pending.store(0, Relaxed);
        submissions.close();
        assert_eq!(submissions.submit(RAW).await, Err(STOPPING.into()));
        assert!(inbox.is_finished());
    }
}
