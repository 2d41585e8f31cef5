//! The whole pipeline in one place: every ring with its depth, every worker with its stages.
//!
//! ```text
//! rpc ------------------------------------submit------v
//!                 ingest --raw--> recover --checks--> ante --proposals--> execute --executed--> fee
//!                   ^                |                 | ^                   ^                   |
//!                   +----replies-----|-----------------+ +---------------tips------------------+ |
//!                                    |                                       |                priced
//!                                    |                                       |                   v
//! source --blocks--> recover --------+---------recovered---------------------+<----headers---- seal
//!                                                                                                |
//!                                                                    flush <--layers-- commit <-+ sealed
//!                                                                      ^                        |
//!                                                                      +------checkpoints-------+
//! ```

use super::{
    ante,
    builder::Making,
    client::PoolClient,
    commit::CommittedTotals,
    execute,
    fault::{Fault, FaultCell, StartError},
    fee,
    ingest::Sockets,
    monitor::Monitor,
    recover,
    ring::Rings,
    source::SourceProgress,
    stage::Worker,
    submit::Gate,
    worker_waker::Bell,
};
use budget::Budget;
use home::Home;
use state::Published;
use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::broadcast;
use verify::Backend;

/// Depths of the rings, in batches. Each bounds memory, and how far a stage may run ahead.
mod depth {
    use platform::memory::derived;

    /// Batches of RPC submissions, often of one: a burst of one per connection.
    pub(super) const SUBMIT: usize = 4096;
    /// Batches of 256 raw transactions: 16,384 in flight to recovery.
    pub(super) const RAW: usize = 64;
    /// The same, recovered.
    pub(super) const CHECKS: usize = 64;
    /// Answers for sockets.
    pub(super) const REPLIES: usize = 64;
    /// Questions about the pool.
    pub(super) const QUERIES: usize = 1024;
    /// Given blocks, before and after recovery: enough to keep execution fed.
    pub(super) const BLOCKS: usize = 32;
    /// One proposal is in flight at a time.
    pub(super) const PROPOSALS: usize = 1;
    /// Executed blocks: each holds its receipts and changes.
    pub(super) const EXECUTED: usize = 4;
    /// Sealed blocks waiting for the disk: what one group commit takes. Fewer on a machine with little memory,
    /// for a block may have 8 MiB of transactions.
    pub(super) fn sealed() -> usize {
        derived(64, 8) as usize
    }
    /// Tips for the mempool: one a proposal.
    pub(super) const TIPS: usize = 4;
    /// Headers of blocks built here: execution is at most one block ahead of them.
    pub(super) const HEADERS: usize = 2;
    /// Groups of committed layers waiting for flush, under load most of one block: what is committed
    /// in the seconds that writing to a large state takes, else the whole pipeline would wait. At
    /// worst each is a full group of commit, 64 blocks or 16 MiB of bodies: 1.5 GB of layers. Fewer on a machine
    /// with little memory.
    pub(super) fn layers() -> usize {
        derived(32, 4) as usize
    }
    /// Checkpoints of the trie: each may be some hundred megabytes.
    pub(super) const CHECKPOINTS: usize = 1;
}

/// Transactions the pool has taken that a listener may be behind: as many as cosmos/evm keeps for its
/// filters, and a burst of a third of a second.
const ARRIVALS: usize = 32_768;

/// What a pipeline is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Take transactions: over RPC, and over TCP on this address.
    pub transactions: Option<SocketAddr>,
    /// Make blocks this often; `None` makes none.
    pub block_time: Option<Duration>,
    /// Append the blocks of these files.
    pub files: Vec<PathBuf>,
    /// Recovery threads.
    pub recover_workers: usize,
    /// Recovery backend.
    pub backend: Backend,
}

/// A running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    bells: Vec<Bell>,
    faults: FaultCell,
    /// What the blocks made durable so far amount to; complete when the pipeline has ended.
    pub committed: Arc<CommittedTotals>,
    /// The current view.
    pub published: Published,
    /// Where the TCP ingest really listens.
    pub ingest_address: Option<SocketAddr>,
    /// What the clients of all servers share.
    pub budget: Arc<Budget>,
    /// How far the reading of files is.
    pub source: Arc<SourceProgress>,
    monitor: Monitor,
    client: PoolClient,
}

impl Pipeline {
    /// Builds the graph and starts its threads.
    ///
    /// # Errors
    /// A recovery backend that fails its self-test, an address that cannot be listened on, a home that
    /// cannot be read, a thread that does not start.
    pub fn start(home: &Home, options: Options) -> Result<Self, StartError> {
        verify::ensure_self_tested(options.backend).map_err(Fault::from)?;
        let budget = Budget::new(&home.config);
        let sockets = Sockets::open(options.transactions, &budget)?;
        let ingest_address = sockets.address;

        // Workers first: rings need their bells.
        let ingest = Worker::with_bell("ingest", sockets.bell.clone());
        let source = Worker::new("source");
        let recover: Vec<_> =
            (0..options.recover_workers).map(|n| Worker::new(format!("recover-{n}"))).collect();
        let recover_bells: Vec<_> = recover.iter().map(Worker::bell).collect();
        let [ante, execute] = ["ante", "execute"].map(Worker::new);
        let [seal, commit, flush] = ["seal", "commit", "flush"].map(Worker::new);

        // The table: name, depth, producers, consumers.
        let (ig, an, ex) = (&[ingest.bell()], &[ante.bell()], &[execute.bell()]);
        let (se, co, fl) = (&[seal.bell()], &[commit.bell()], &[flush.bell()]);
        let (so, re) = (&[source.bell()], recover_bells.as_slice());
        let mut rings = Rings::default();
        // Callers see to the two rings without consumers' bells at the desk.
        let (submit, submit_in) = rings.add("submit", depth::SUBMIT, &[], &[]);
        let (raw, raw_in) = rings.add("raw", depth::RAW, ig, re);
        let (checks, checks_in) = rings.add("checks", depth::CHECKS, re, an);
        let (replies, replies_in) = rings.add("replies", depth::REPLIES, an, ig);
        let (queries, queries_in) = rings.add("queries", depth::QUERIES, &[], &[]);
        let (blocks, blocks_in) = rings.add("blocks", depth::BLOCKS, so, re);
        let (recovered, recovered_in) = rings.add("recovered", depth::BLOCKS, re, ex);
        let (proposals, proposals_in) = rings.add("proposals", depth::PROPOSALS, an, ex);
        let (executed, executed_in) = rings.add("executed", depth::EXECUTED, ex, ex);
        let (priced, priced_in) = rings.add("priced", depth::EXECUTED, ex, se);
        let (sealed, sealed_in) = rings.add("sealed", depth::sealed(), se, co);
        let (tips, tips_in) = rings.add("tips", depth::TIPS, ex, an);
        let (headers, headers_in) = rings.add("headers", depth::HEADERS, se, ex);
        let (layers, layers_in) = rings.add("layers", depth::layers(), co, fl);
        let (checkpoints, checkpoints_in) = rings.add("checkpoints", depth::CHECKPOINTS, se, fl);

        // The stages, in pipeline order.
        let mut making = Making::new(home, options)?;
        let desk = ante::Desk::new(ante.bell());
        let submissions = making.submissions(submit, desk.clone());
        let arrivals = broadcast::Sender::new(ARRIVALS);
        let client = PoolClient {
            submissions: Arc::clone(&submissions),
            queries,
            desk: desk.clone(),
            arrivals: arrivals.clone(),
            stop: Arc::clone(&making.stop),
        };
        let tips = making.options.transactions.is_some().then_some(tips);
        making.ingest(ingest, sockets, Gate(submissions), replies_in, raw);
        let source = making.source(source, blocks);
        let ends = recover::Ends { raw: raw_in, blocks: blocks_in, checks, recovered };
        making.recover(recover, ends);
        making.ante(
            ante,
            desk,
            ante::Ends {
                checks: checks_in,
                submissions: submit_in,
                tips: tips_in,
                queries: queries_in,
                arrivals,
                replies,
                proposals,
            },
        )?;
        let ends = execute::Ends {
            blocks: recovered_in,
            proposals: proposals_in,
            headers: headers_in,
            out: executed,
        };
        making.execute(execute, ends, fee::Ends { executed: executed_in, priced, tips })?;
        making.seal(seal, priced_in, sealed, headers, checkpoints)?;
        let committed = making.commit(commit, sealed_in, layers);
        making.flush(flush, layers_in, checkpoints_in);

        let Making { stop, published, clock, meters, workers, .. } = making;
        let faults = FaultCell::new(Arc::clone(&stop));
        let (gauges, faults_seen) = (rings.gauges.into(), faults.clone());
        let monitor = Monitor { meters, gauges, faults: faults_seen, clock };
        let mut pipeline = Self {
            threads: Vec::with_capacity(workers.len()),
            stop,
            bells: workers.iter().map(Worker::bell).collect(),
            faults,
            committed,
            published,
            ingest_address,
            budget,
            source,
            monitor,
            client,
        };
        if let Err(source) = pipeline.spawn(workers) {
            let what = "starting a thread".to_owned();
            pipeline.faults.put(Fault::Socket { what, source });
            pipeline.stop();
            return Err(pipeline.join().expect_err("a fault was put").into());
        }
        Ok(pipeline)
    }

    /// Starts the threads. Workers that are not started are dropped with their ends of rings.
    fn spawn(&mut self, workers: Vec<Worker>) -> io::Result<()> {
        for worker in workers {
            self.threads.push(worker.spawn(self.faults.clone())?);
        }
        Ok(())
    }

    /// Submits transactions and asks about the mempool.
    pub fn client(&self) -> PoolClient {
        self.client.clone()
    }

    /// Reads the counters.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Asks for an orderly end: nothing new is taken, everything taken is finished.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for bell in &self.bells {
            bell.ring();
        }
    }

    /// Some stage has stopped, or all have ended.
    pub fn is_over(&self) -> bool {
        self.faults.is_set() || self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until every stage has ended; the first fault, if there was one.
    pub fn join(mut self) -> Result<(), Fault> {
        for thread in self.threads.drain(..) {
            // A panic outside a stage's step is a fault like one inside.
            if thread.join().is_err() {
                self.faults.put(Fault::Panic {
                    stage: "worker",
                    message: "the thread ended early".to_owned(),
                });
            }
        }
        self.faults.take().map_or(Ok(()), Err)
    }
}
