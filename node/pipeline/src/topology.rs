//! The whole pipeline in one place: every ring with its depth, and every worker with its stages.
//!
//! ```text
//! rpc ------------------------------------submit------v
//!                 ingest --raw--> recover --checks--> ante --proposals--> execute --executed--> fee
//!                   ^                |                 | ^                   ^                   |
//!                   +----replies-----|-----------------+ +---------------heads-----------------+ |
//!                                    |                                       |                priced
//!                                    |                                       |                   v
//! source --blocks--> recover --------+---------recovered---------------------+<----headers---- seal
//!                                                                                                |
//!                                                                    flush <--layers-- commit <-+ sealed
//!                                                                      ^                        |
//!                                                                      +------checkpoints-------+
//! ```
//!
//! Clients also send `queries` to ante and `requests` to execute.

use super::{
    ante,
    block_client::BlockClient,
    builder::PipelineBuilder,
    client::PoolClient,
    commit::CommittedTotals,
    execute,
    fault::{Fault, FaultCell, StartError},
    fee,
    ingest::Sockets,
    monitor::Monitor,
    options::Options,
    recover,
    ring::Rings,
    source::SourceProgress,
    stage::Worker,
    submit::Gate,
    worker_waker::WorkerWaker,
};
use budget::Budget;
use home::Home;
use state::Published;
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::{broadcast, watch};

/// Depths of the rings, in batches. Each depth limits memory and how far a stage may run ahead.
mod depth {
    use platform::memory::derived;

    /// Batches of RPC submissions, often of one transaction each: enough for a burst of one per connection.
    pub(super) const SUBMIT: usize = 4096;
    /// Batches of at most 256 raw transactions: 16,384 waiting for recovery.
    pub(super) const RAW: usize = 64;
    /// Requests from block clients.
    pub(super) const REQUESTS: usize = 128;
    /// Recovered batches.
    pub(super) const CHECKS: usize = 64;
    /// Results for sockets.
    pub(super) const REPLIES: usize = 64;
    /// Queries about the pool.
    pub(super) const QUERIES: usize = 1024;
    /// Imported blocks, before and after recovery: enough to keep execution busy.
    pub(super) const BLOCKS: usize = 32;
    /// One proposal is in flight at a time.
    pub(super) const PROPOSALS: usize = 1;
    /// Executed blocks, each with its receipts and changes.
    pub(super) const EXECUTED: usize = 4;
    /// Sealed blocks waiting for the disk: one group commit. The depth is lower on a machine with little memory,
    /// because a block may contain 8 MiB of transactions.
    pub(super) fn sealed() -> usize {
        derived(64, 8) as usize
    }
    /// Head updates for the mempool, one per block.
    pub(super) const HEADS: usize = 4;
    /// Headers of produced blocks, of which execution is at most one ahead, and verdicts on given blocks.
    pub(super) const HEADERS: usize = 2;
    /// Groups of committed layers waiting for flush. Under usual load, each group is one block. The groups must
    /// cover the seconds that a write to a large state takes, or the whole pipeline would wait. In the worst case,
    /// each is a full commit group of 64 blocks or 16 MiB of bodies, which adds up to 1.5 GB of layers. The depth
    /// is lower on a machine with little memory.
    pub(super) fn layers() -> usize {
        derived(32, 4) as usize
    }
    /// Checkpoints of the trie, each of which may take a few hundred megabytes.
    pub(super) const CHECKPOINTS: usize = 1;
}

/// Maximum number of accepted transactions by which a subscriber may lag: as many as cosmos/evm keeps for its
/// filters, or a burst of a third of a second.
const ARRIVALS: usize = 32_768;

/// A running pipeline.
#[derive(Debug)]
pub struct Pipeline {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wakers: Vec<WorkerWaker>,
    faults: FaultCell,
    /// Totals of the blocks made durable so far; complete when the pipeline has ended.
    pub committed: Arc<CommittedTotals>,
    /// The current view.
    pub published: Published,
    /// The actual address of the TCP ingest.
    pub ingest_address: Option<SocketAddr>,
    /// The resources shared by the clients of all servers.
    pub budget: Arc<Budget>,
    /// The progress of reading files.
    pub source: Arc<SourceProgress>,
    monitor: Monitor,
    client: PoolClient,
    blocks: Option<BlockClient>,
}

impl Pipeline {
    /// Builds the graph and starts its threads.
    ///
    /// # Errors
    /// If a recovery backend fails its self-test, the node cannot listen on an address, the home folder cannot be
    /// read, or a thread cannot be started.
    pub fn start(home: &Home, options: Options) -> Result<Self, StartError> {
        verify::ensure_self_tested(options.backend).map_err(Fault::from)?;
        let budget = Budget::new(&home.config);
        let sockets =
            Sockets::open(options.transactions.and_then(config::Listen::address), &budget)?;
        let ingest_address = sockets.address;

        // Workers first, because rings need their wakers.
        let ingest = Worker::with_waker("ingest", sockets.waker.clone());
        let source = Worker::new("source");
        let recover: Vec<_> =
            (0..options.recover_workers).map(|n| Worker::new(format!("recover-{n}"))).collect();
        let recover_wakers: Vec<_> = recover.iter().map(Worker::waker).collect();
        let [ante, execute] = ["ante", "execute"].map(Worker::new);
        let [seal, commit, flush] = ["seal", "commit", "flush"].map(Worker::new);

        // The table: name, depth, producers, consumers.
        let (ig, an, ex) = (&[ingest.waker()], &[ante.waker()], &[execute.waker()]);
        let (se, co, fl) = (&[seal.waker()], &[commit.waker()], &[flush.waker()]);
        let (so, re) = (&[source.waker()], recover_wakers.as_slice());
        let mut rings = Rings::default();
        // The callers that put something into `submit` and `queries` run ante themselves or wake it.
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
        let (heads, heads_in) = rings.add("heads", depth::HEADS, ex, an);
        let (headers, headers_in) = rings.add("headers", depth::HEADERS, se, ex);
        let (requests, requests_in) = rings.add("requests", depth::REQUESTS, &[], ex);
        let (layers, layers_in) = rings.add("layers", depth::layers(), co, fl);
        let (checkpoints, checkpoints_in) = rings.add("checkpoints", depth::CHECKPOINTS, se, fl);

        // The stages, in pipeline order.
        let (backend, given_blocks) = (options.backend, options.given_blocks);
        let mut builder = PipelineBuilder::new(home, options)?;
        let combining = ante::CombiningStage::new(ante.waker());
        let submissions = builder.submissions(submit, combining.clone());
        let arrivals = broadcast::Sender::new(ARRIVALS);
        let settings = watch::Sender::default();
        let client = PoolClient {
            submissions: Arc::clone(&submissions),
            queries,
            combining: combining.clone(),
            arrivals: arrivals.clone(),
            settings: settings.subscribe(),
            forwarder: builder.options.forwarder.clone(),
            stop: Arc::clone(&builder.stop),
        };
        let heads = builder.options.transactions.is_some().then_some(heads);
        builder.ingest(ingest, sockets, Gate(submissions), replies_in, raw);
        let source = builder.source(source, blocks);
        let ports = recover::Ports { raw: raw_in, blocks: blocks_in, checks, recovered };
        builder.recover(recover, ports);
        builder.ante(
            ante,
            combining,
            ante::Ports {
                checks: checks_in,
                submissions: submit_in,
                heads: heads_in,
                queries: queries_in,
                arrivals,
                settings,
                replies,
                proposals,
            },
        )?;
        let ports = execute::Ports {
            blocks: recovered_in,
            proposals: proposals_in,
            headers: headers_in,
            requests: requests_in,
            out: executed,
        };
        builder.execute(execute, ports, fee::Ports { executed: executed_in, priced, heads })?;
        builder.seal(seal, priced_in, sealed, headers, checkpoints)?;
        let committed = builder.commit(commit, sealed_in, layers);
        builder.flush(flush, layers_in, checkpoints_in);

        let PipelineBuilder { stop, published, clock, meters, workers, .. } = builder;
        let faults = FaultCell::new(Arc::clone(&stop));
        let (stopping, chain_id) = (Arc::clone(&stop), home.spec.chain_id);
        // If no client exists, the ring is closed, and execute ends with its other inputs.
        let blocks = given_blocks.then(|| BlockClient::new(requests, backend, chain_id, stopping));
        let (gauges, faults_seen) = (rings.gauges.into(), faults.clone());
        let monitor = Monitor { meters, gauges, faults: faults_seen, clock };
        let mut pipeline = Self {
            threads: Vec::with_capacity(workers.len()),
            stop,
            wakers: workers.iter().map(Worker::waker).collect(),
            faults,
            committed,
            published,
            ingest_address,
            budget,
            source,
            monitor,
            client,
            blocks,
        };
        if let Err(source) = pipeline.spawn(workers) {
            let what = "starting a thread".to_owned();
            pipeline.faults.put(Fault::Socket { what, source });
            pipeline.stop();
            return Err(pipeline.join().expect_err("a fault was put").into());
        }
        Ok(pipeline)
    }

    /// Starts the threads. Workers that are not started are dropped with their ring ends.
    fn spawn(&mut self, workers: Vec<Worker>) -> io::Result<()> {
        for worker in workers {
            self.threads.push(worker.spawn(self.faults.clone())?);
        }
        Ok(())
    }

    /// Returns the client that submits transactions and queries the mempool.
    pub fn client(&self) -> PoolClient {
        self.client.clone()
    }

    /// Returns the client that gives and builds blocks and chooses the head; `None` without [`Options::given_blocks`].
    pub fn blocks(&self) -> Option<BlockClient> {
        self.blocks.clone()
    }

    /// Returns the monitor, which reads the counters.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Requests an orderly shutdown: no new input is taken, and everything already taken is finished.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        for waker in &self.wakers {
            waker.wake();
        }
    }

    /// Returns whether a stage has failed, or all stages have ended.
    pub fn is_over(&self) -> bool {
        self.faults.is_set() || self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until all stages have ended; returns the first fault.
    pub fn join(mut self) -> Result<(), Fault> {
        for thread in self.threads.drain(..) {
            // A panic outside a stage's step is a fault as well.
            if thread.join().is_err() {
                self.faults.put(Fault::Panic {
                    stage: "worker",
                    message: "the worker thread panicked".to_owned(),
                });
            }
        }
        self.faults.take().map_or(Ok(()), Err)
    }
}
