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
    ante::{self, Ante, Found, PoolQuery, SenderTxs},
    batch::Submitted,
    bell::Bell,
    commit::Commit,
    execute::{self, Execute},
    fault::{Fault, FaultCell},
    fee::{self, Fee},
    flush::Flush,
    ingest::{Ingest, Sockets},
    journal::Journal,
    meter::{Meter, Reading},
    recover::Recover,
    ring::{Gauge, Outbox, ring},
    seal::{self, Seal},
    source::{Source, SourceProgress},
    stage::Worker,
    submit::{Gate, Submissions},
};
use crate::{
    consensus::{Engine, Solo},
    execution::{RecoveredTx, Senders},
    home::{Home, HomeError},
    mempool::{Level, Reject},
    view::{Published, RecentState, StateTrie},
};
use alloy_primitives::{Address, B256, Bytes};
use std::{
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime},
};
use tokio::sync::{broadcast, oneshot};
use verify::{Backend, Recoverer};

/// Depths of the rings, in batches. Each bounds memory, and how far a stage may run ahead.
mod depth {
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
    /// Sealed blocks waiting for the disk: what one group commit takes.
    pub(super) const SEALED: usize = 64;
    /// Tips for the mempool: one a proposal.
    pub(super) const TIPS: usize = 4;
    /// Headers of blocks built here: execution is at most one block ahead of them.
    pub(super) const HEADERS: usize = 2;
    /// Groups of committed layers waiting for flush, under load most of one block: what is committed
    /// in the seconds that writing to a large state takes, else the whole pipeline would wait. At
    /// worst each is a full group of commit, 64 blocks or 16 MiB of bodies: 1.5 GB of layers.
    pub(super) const LAYERS: usize = 32;
    /// Checkpoints of the trie: each may be some hundred megabytes.
    pub(super) const CHECKPOINTS: usize = 1;
}

/// Transactions the pool has taken that a listener may be behind: as many as cosmos/evm keeps for its
/// filters, and a burst of a third of a second.
const ARRIVALS: usize = 32_768;

/// Name of the mempool's journal in the home folder.
const JOURNAL_FILE: &str = "mempool.journal";

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
    gas: Arc<AtomicU64>,
    /// The current view.
    pub published: Published,
    /// Where the TCP ingest really listens.
    pub ingest_address: Option<SocketAddr>,
    /// How far the reading of files is.
    pub source: Arc<SourceProgress>,
    monitor: Monitor,
    client: PoolClient,
}

/// The counters of all stages, and the fill of all rings.
#[derive(Clone, Debug)]
pub struct Monitor {
    meters: Vec<Arc<Meter>>,
    gauges: Arc<Vec<Gauge>>,
    faults: FaultCell,
}

/// What a monitor tells about one ring.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct RingReading {
    /// Its name.
    pub name: &'static str,
    /// Batches waiting.
    pub depth: usize,
    /// Most batches that can wait.
    pub capacity: usize,
}

impl Monitor {
    /// Every stage's counters, in pipeline order.
    pub fn readings(&self) -> Vec<Reading> {
        self.meters.iter().map(|meter| meter.read()).collect()
    }

    /// Every ring's fill.
    pub fn rings(&self) -> Vec<RingReading> {
        let read = |gauge: &Gauge| RingReading {
            name: gauge.name,
            depth: gauge.depth(),
            capacity: gauge.capacity,
        };
        self.gauges.iter().map(read).collect()
    }

    /// A stage has stopped for another reason than the end of its input.
    pub fn fault(&self) -> bool {
        self.faults.is_set()
    }
}

/// Submits transactions and asks about the mempool, from any thread.
#[derive(Clone)]
pub struct PoolClient {
    submissions: Arc<Submissions>,
    queries: Outbox<PoolQuery>,
    arrivals: broadcast::Sender<Arc<RecoveredTx>>,
    stop: Arc<AtomicBool>,
}

impl PoolClient {
    /// Submits a raw transaction and waits for the mempool's answer.
    pub async fn submit(&self, raw: Bytes) -> Submitted {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Reject::Busy("the node is stopping"));
        }
        self.submissions.submit(raw).await
    }

    /// Every transaction the pool takes from now on. Who does not keep up loses the oldest.
    pub fn arrivals(&self) -> broadcast::Receiver<Arc<RecoveredTx>> {
        self.arrivals.subscribe()
    }

    /// The sender's next nonce after what it has pooled and the newest block built, which may not be
    /// published yet; `None` when there is no pool.
    ///
    /// # Errors
    /// When the pool is too busy to be asked; so with all that follow.
    pub async fn nonce(&self, sender: Address) -> Result<Option<u64>, Reject> {
        self.ask(|reply| PoolQuery::Nonce(sender, reply)).await
    }

    /// As [`Self::nonce`], for a thread that may wait.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    ///
    /// # Panics
    /// On a thread that runs futures.
    pub fn wait_for_nonce(&self, sender: Address) -> Result<Option<u64>, Reject> {
        let answer = self.put(|reply| PoolQuery::Nonce(sender, reply))?;
        Ok(answer.and_then(|answer| answer.blocking_recv().ok()))
    }

    /// The pooled transaction with this hash.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn transaction(&self, hash: B256) -> Result<Found, Reject> {
        let found = self.ask(|reply| PoolQuery::Transaction(hash, reply)).await?;
        Ok(found.unwrap_or(Found::NotPooled { built: 0 }))
    }

    /// What `sender` has pooled, or everybody has. In no order of senders.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn content(&self, sender: Option<Address>) -> Result<Vec<SenderTxs>, Reject> {
        Ok(self.ask(|reply| PoolQuery::Content(sender, reply)).await?.unwrap_or_default())
    }

    /// How full the pool is.
    ///
    /// # Errors
    /// See [`Self::nonce`].
    pub async fn level(&self) -> Result<Level, Reject> {
        Ok(self.ask(PoolQuery::Level).await?.unwrap_or_default())
    }

    /// `None` when there is no pool.
    async fn ask<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<T>, Reject> {
        match self.put(query)? {
            // The end of the pipeline drops the question.
            Some(answer) => Ok(answer.await.ok()),
            None => Ok(None),
        }
    }

    /// Puts a question where ante finds it; `None` once ante has ended.
    fn put<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> PoolQuery,
    ) -> Result<Option<oneshot::Receiver<T>>, Reject> {
        let (reply, answer) = oneshot::channel();
        match self.queries.offer(query(reply)) {
            Ok(()) => Ok(Some(answer)),
            Err(_) if self.queries.is_abandoned() => Ok(None),
            Err(_) => Err(Reject::Busy("the pool is asked too much, try again")),
        }
    }
}

impl fmt::Debug for PoolClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolClient").finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Builds the graph and starts its threads.
    pub fn start(home: &Home, options: Options) -> Result<Self, HomeError> {
        let view = home.view()?;
        let published = Published::new(view.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let faults = FaultCell::new(Arc::clone(&stop));
        let flushed = Arc::new(AtomicU64::new(view.number()));
        let source_progress = Arc::new(SourceProgress::default());
        let mut meters = Vec::new();
        let mut meter = |name| {
            let meter = Arc::new(Meter::new(name));
            meters.push(Arc::clone(&meter));
            meter
        };

        // Workers first: rings need their bells.
        let sockets = Sockets::open(options.transactions)?;
        let ingest_address = sockets.address;
        let ingest = Worker::with_bell("ingest", sockets.bell.clone());
        let source = Worker::new("source");
        let recover: Vec<_> =
            (0..options.recover_workers).map(|n| Worker::new(format!("recover-{n}"))).collect();
        let recover_bells: Vec<_> = recover.iter().map(Worker::bell).collect();
        let ante = Worker::new("ante");
        let execute = Worker::new("execute");
        let seal = Worker::new("seal");
        let commit = Worker::new("commit");
        let flush = Worker::new("flush");

        // The table: name, depth, producers, consumers.
        let (ig, an, ex) = (&[ingest.bell()], &[ante.bell()], &[execute.bell()]);
        let (se, co, fl) = (&[seal.bell()], &[commit.bell()], &[flush.bell()]);
        let (so, re) = (&[source.bell()], recover_bells.as_slice());
        let (submit, submit_in) = ring("submit", depth::SUBMIT, &[], an);
        let (raw, raw_in) = ring("raw", depth::RAW, ig, re);
        let (checks, checks_in) = ring("checks", depth::CHECKS, re, an);
        let (replies, replies_in) = ring("replies", depth::REPLIES, an, ig);
        let (queries, queries_in) = ring("queries", depth::QUERIES, &[], an);
        let (blocks, blocks_in) = ring("blocks", depth::BLOCKS, so, re);
        let (recovered, recovered_in) = ring("recovered", depth::BLOCKS, re, ex);
        let (proposals, proposals_in) = ring("proposals", depth::PROPOSALS, an, ex);
        let (executed, executed_in) = ring("executed", depth::EXECUTED, ex, ex);
        let (priced, priced_in) = ring("priced", depth::EXECUTED, ex, se);
        let (sealed, sealed_in) = ring("sealed", depth::SEALED, se, co);
        let (tips, tips_in) = ring("tips", depth::TIPS, ex, an);
        let (headers, headers_in) = ring("headers", depth::HEADERS, se, ex);
        let (layers, layers_in) = ring("layers", depth::LAYERS, co, fl);
        let (checkpoints, checkpoints_in) = ring("checkpoints", depth::CHECKPOINTS, se, fl);
        let gauges = vec![
            submit_in.gauge(),
            raw_in.gauge(),
            checks_in.gauge(),
            replies_in.gauge(),
            queries_in.gauge(),
            blocks_in.gauge(),
            recovered_in.gauge(),
            proposals_in.gauge(),
            executed_in.gauge(),
            priced_in.gauge(),
            sealed_in.gauge(),
            tips_in.gauge(),
            headers_in.gauge(),
            layers_in.gauge(),
            checkpoints_in.gauge(),
        ];
        let arrivals = broadcast::Sender::new(ARRIVALS);

        // Stages that are not wanted are not made; dropping their ring ends closes the rings.
        let mut workers = Vec::new();
        let takes_transactions = options.transactions.is_some();
        let ingest_meter = takes_transactions.then(|| meter("ingest"));
        let source_meter = (!options.files.is_empty()).then(|| meter("source"));
        let recover_meter = meter("recover");
        let submissions = Arc::new(Submissions::new(
            options.backend,
            Arc::clone(&home.spec),
            submit,
            Arc::clone(&recover_meter),
        ));
        let client = PoolClient {
            submissions: Arc::clone(&submissions),
            queries,
            arrivals: arrivals.clone(),
            stop: Arc::clone(&stop),
        };
        if let Some(ingest_meter) = ingest_meter {
            let stop = Arc::clone(&stop);
            let gate = Gate(Arc::clone(&submissions));
            let stage = Ingest::new(sockets, gate, replies_in, raw, stop, ingest_meter);
            workers.push(ingest.runs(stage));
        } else {
            submissions.close();
            drop((replies_in, raw));
        }
        if let Some(meter) = source_meter {
            let (progress, stop) = (Arc::clone(&source_progress), Arc::clone(&stop));
            let (files, published) = (options.files.clone(), published.clone());
            let stage = Source::new(files, published, blocks, progress, stop, meter);
            workers.push(source.runs(stage));
        } else {
            drop(blocks);
        }
        for worker in recover {
            workers.push(worker.runs(Recover::new(
                Senders::of_chain(Recoverer::new(options.backend), home.spec.chain_id),
                raw_in.clone(),
                blocks_in.clone(),
                checks.clone(),
                recovered.clone(),
                Arc::clone(&recover_meter),
            )));
        }
        drop((raw_in, blocks_in, checks, recovered));
        let mut tip_out = None;
        if takes_transactions {
            let engine = options.block_time.map(|block_time| {
                let empty_blocks = home.config.engine.empty_blocks;
                let rules = home.spec.rules;
                let solo = Solo::new(block_time, empty_blocks, rules, SystemTime::now());
                Box::new(solo) as Box<dyn Engine>
            });
            let ends = ante::Ends {
                checks: checks_in,
                submissions: submit_in,
                tips: tips_in,
                queries: queries_in,
                arrivals,
                replies,
                proposals,
            };
            let settings = &home.config.mempool;
            let (journal, saved) = if settings.journal {
                Journal::open(&home.path.join(JOURNAL_FILE), settings.journal_sync)?
            } else {
                (Journal::none(), Vec::new())
            };
            let context = ante::Context {
                spec: Arc::clone(&home.spec),
                view: view.clone(),
                published: published.clone(),
                limits: settings.limits(),
                engine,
                journal,
                saved,
                recent: RecentState::new(home.config.storage.recent_accounts),
            };
            workers.push(ante.runs(Ante::new(context, ends, meter("ante"))));
            tip_out = Some(tips);
        } else {
            drop((checks_in, submit_in, tips, tips_in, queries_in, replies, proposals));
        }
        let stage = Execute::new(
            Arc::clone(&home.spec),
            &view,
            RecentState::new(home.config.storage.recent_accounts),
            Arc::clone(&flushed),
            execute::Ends {
                blocks: recovered_in,
                proposals: proposals_in,
                headers: headers_in,
                out: executed,
            },
            meter("execute"),
        )?;
        let execute = execute.runs(stage.with_trie_cache(home.config.storage.trie_cache_bytes));
        let gas = Arc::new(AtomicU64::new(0));
        let ends = fee::Ends { executed: executed_in, priced, tips: tip_out };
        let fee = Fee::new(Arc::clone(&home.spec), ends, Arc::clone(&gas), meter("fee"));
        workers.push(execute.runs(fee));
        let trie = StateTrie::open(&home.index, home.config.storage.trie_cache_bytes)?;
        let trie_written = Arc::new(AtomicU64::new(view.number()));
        let written = Arc::clone(&trie_written);
        let ends = seal::Ends { priced: priced_in, sealed, headers, checkpoints, written };
        workers.push(seal.runs(Seal::new(&view, trie, ends, meter("seal"))));
        let (chain, meter_commit) = (home.chain.clone(), meter("commit"));
        let stage = Commit::new(chain, published.clone(), sealed_in, layers, meter_commit);
        workers.push(commit.runs(stage));
        let (index, meter_flush) = (home.index.clone(), meter("flush"));
        let stage =
            Flush::new(index, layers_in, flushed, checkpoints_in, trie_written, meter_flush);
        workers.push(flush.runs(stage));

        let bells = workers.iter().map(Worker::bell).collect();
        let monitor = Monitor { meters, gauges: Arc::new(gauges), faults: faults.clone() };
        let mut pipeline = Self {
            threads: Vec::with_capacity(workers.len()),
            stop,
            bells,
            faults,
            gas,
            published,
            ingest_address,
            source: source_progress,
            monitor,
            client,
        };
        for worker in workers {
            let thread = worker.spawn(pipeline.faults.clone());
            pipeline.threads.push(thread.map_err(|source| Fault::Socket {
                what: "starting a thread".to_owned(),
                source,
            })?);
        }
        Ok(pipeline)
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

    /// Gas of the blocks executed so far.
    pub fn gas_executed(&self) -> u64 {
        self.gas.load(Ordering::Relaxed)
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
