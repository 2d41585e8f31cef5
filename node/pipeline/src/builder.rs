//! Creates the stages and assigns them to workers. A stage that is not needed is not created: dropping its
//! ring ends also ends the stages that receive input only from it.

use super::{
    ante::{self, Ante, CombiningStage, CombiningWorker},
    batch::{
        ExecutedBlock, FromSeal, ImportedBlock, InOrder, RawBatch, Recovered, ReplyBatch,
        SealedBlock,
    },
    commit::{self, Commit, CommittedTotals},
    execute::{self, Execute},
    fault::{Fault, StartError},
    fee::{self, Fee},
    flush::{self, Flush, ToFlush},
    ingest::{Ingest, Sockets},
    meter::Meter,
    options::Options,
    recover::{self, Recover},
    ring::{Inbox, Outbox},
    seal::{self, Seal},
    source::{Source, SourceProgress},
    stage::Worker,
    submit::{Gate, Submissions},
    undo_floor::UndoFloor,
};
use consensus::{Clock, ClockStatus, Engine, Solo};
use home::{Home, HomeError, JOURNAL_FILE};
use mempool::journal::Journal;
use platform::disk_watch::DiskWatch;
use state::{Published, RecentState, StateTrie, View};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::SystemTime,
};
use storage::TrieCheckpoint;
use transactions::Senders;
use verify::Recoverer;

/// The parts that stages are created from, and the stages created so far.
pub(super) struct PipelineBuilder<'a> {
    home: &'a Home,
    pub(super) options: Options,
    /// The view of the head.
    view: View,
    pub(super) published: Published,
    pub(super) stop: Arc<AtomicBool>,
    /// Number of the newest block whose changes are in the index.
    flushed: Arc<AtomicU64>,
    /// Block number of the newest trie checkpoint in the index.
    trie_written: Arc<AtomicU64>,
    /// Separates blocks that are flushed from those that may be undone.
    floor: UndoFloor,
    recovered: Arc<Meter>,
    /// Whether the disk responds.
    disk: DiskWatch,
    /// Status of the clock of block production.
    pub(super) clock: ClockStatus,
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) workers: Vec<Worker>,
}

impl<'a> PipelineBuilder<'a> {
    pub(super) fn new(home: &'a Home, options: Options) -> Result<Self, HomeError> {
        let view = home.view()?;
        home.chain.keep_readers_ready();
        home.index.keep_readers_ready();
        let index = home.index.reader()?;
        let flushed = index.flushed()?.unwrap_or_default();
        let trie_written = index.trie_block()?.map_or(0, |(number, _)| number);
        let atomic = |number| Arc::new(AtomicU64::new(number));
        Ok(Self {
            home,
            options,
            published: Published::new(view.clone()),
            stop: Arc::default(),
            flushed: atomic(flushed),
            trie_written: atomic(trie_written),
            floor: UndoFloor::new(flushed),
            recovered: Arc::new(Meter::new("recover")),
            disk: DiskWatch::default(),
            clock: ClockStatus::default(),
            meters: Vec::new(),
            workers: Vec::new(),
            view,
        })
    }

    fn meter(&mut self, name: &'static str) -> Arc<Meter> {
        let meter = Arc::new(Meter::new(name));
        self.meters.push(Arc::clone(&meter));
        meter
    }

    /// Creates the recovery of transactions from RPC calls, which the meter of the recover stage counts.
    pub(super) fn submissions(
        &self,
        out: Outbox<Vec<Recovered>>,
        combining: CombiningStage,
    ) -> Arc<Submissions> {
        let (spec, meter) = (Arc::clone(&self.home.spec), Arc::clone(&self.recovered));
        Arc::new(Submissions::new(self.options.backend, spec, out, combining, meter))
    }

    pub(super) fn ingest(
        &mut self,
        worker: Worker,
        sockets: Sockets,
        gate: Gate,
        replies: Inbox<ReplyBatch>,
        raw: Outbox<RawBatch>,
    ) {
        if self.options.transactions.is_none() {
            return;
        }
        let (stop, meter) = (Arc::clone(&self.stop), self.meter("ingest"));
        let stage = Ingest::new(sockets, gate, replies, raw, stop, meter);
        self.workers.push(worker.runs(stage));
    }

    /// Creates the stage that reads block files, if there are any; returns its progress.
    pub(super) fn source(
        &mut self,
        worker: Worker,
        blocks: Outbox<ImportedBlock>,
    ) -> Arc<SourceProgress> {
        let progress = Arc::new(SourceProgress::default());
        if self.options.files.is_empty() {
            return progress;
        }
        let (stop, meter) = (Arc::clone(&self.stop), self.meter("source"));
        let (files, published) = (self.options.files.clone(), self.published.clone());
        let stage = Source::new(files, published, blocks, Arc::clone(&progress), stop, meter);
        self.workers.push(worker.runs(stage));
        progress
    }

    /// Creates one recover stage per worker; all of them share the same ring ends.
    pub(super) fn recover(&mut self, workers: Vec<Worker>, ports: recover::Ports) {
        self.meters.push(Arc::clone(&self.recovered));
        for worker in workers {
            let recoverer = Recoverer::new(self.options.backend);
            let senders = Senders::of_chain(recoverer, self.home.spec.chain_id);
            let stage = Recover::new(senders, ports.clone(), Arc::clone(&self.recovered));
            self.workers.push(worker.runs(stage));
        }
    }

    pub(super) fn ante(
        &mut self,
        worker: Worker,
        combining: CombiningStage,
        ports: ante::Ports,
    ) -> Result<(), StartError> {
        if self.options.transactions.is_none() {
            return Ok(());
        }
        let (home, settings) = (self.home, &self.home.config.mempool);
        let (journal, saved) = if settings.journal {
            let genesis = home.chain.reader().and_then(|chain| chain.hash(0));
            let genesis = genesis.map_err(HomeError::from)?;
            let genesis = genesis.ok_or_else(|| HomeError::Empty(home.path.clone()))?;
            Journal::open(&home.path.join(JOURNAL_FILE), settings.journal_sync, genesis)
                .map_err(Fault::from)?
        } else {
            (Journal::disabled(), Vec::new())
        };
        let token = home.spec.token(self.view.number().saturating_add(1));
        let minimum = settings.minimum_gas_prices.in_token(token.denom);
        let minimum = minimum.map_err(HomeError::from)?;
        let max_step = home.config.engine.max_clock_step();
        let mut clock = Clock::new((self.options.clocks)(), max_step, self.clock.clone());
        let context = ante::Context {
            spec: Arc::clone(&home.spec),
            view: self.view.clone(),
            published: self.published.clone(),
            limits: settings.limits(),
            minimum_gas_price: minimum.map(|price| price.amount).unwrap_or_default(),
            engine: self.engine(clock.now()),
            clock,
            accepts_without_engine: settings.accept_without_production,
            journal,
            saved,
            disk: self.disk.clone(),
            recent: self.recent()?,
        };
        let stage = CombiningWorker::new(combining, Ante::new(context, ports, self.meter("ante")));
        self.workers.push(worker.runs(stage));
        Ok(())
    }

    /// Creates an empty cache of recent accounts, sized for the current state.
    fn recent(&self) -> Result<RecentState, HomeError> {
        if self.home.caches.is_none() {
            return Ok(RecentState::default());
        }
        let mut recent = RecentState::new(self.home.config.storage.recent_accounts());
        let accounts = self.home.index.reader()?.accounts()?;
        recent.reserve(usize::try_from(accounts).unwrap_or(usize::MAX));
        // The index may lack blocks of the view, and so does the empty cache.
        recent.forget(self.view.number());
        Ok(recent)
    }

    /// Creates the engine that decides when blocks are produced, if this node produces any.
    fn engine(&self, now: SystemTime) -> Option<Box<dyn Engine>> {
        let (empty, rules) = (self.home.config.engine.empty_blocks, self.home.spec.rules);
        let solo = Solo::new(self.options.mining.clone()?, empty, rules, now);
        Some(Box::new(solo))
    }

    /// Creates execute and fee, which run on the same worker.
    pub(super) fn execute(
        &mut self,
        worker: Worker,
        ports: execute::Ports,
        fee: fee::Ports,
    ) -> Result<(), HomeError> {
        let meter = self.meter("execute");
        let (spec, settings) = (&self.home.spec, &self.home.config.storage);
        let context = execute::Context {
            spec: Arc::clone(spec),
            caches: self.home.caches.clone(),
            recent: self.recent()?,
            flushed: Arc::clone(&self.flushed),
            trie_cache_bytes: settings.trie_cache_bytes(),
            published: self.published.clone(),
            floor: self.floor.clone(),
            stop: Arc::clone(&self.stop),
        };
        let stage = Execute::new(context, &self.view, ports, meter)?;
        let worker = worker.runs(stage);
        let stage = Fee::new(Arc::clone(spec), fee, self.meter("fee"));
        self.workers.push(worker.runs(stage));
        Ok(())
    }

    pub(super) fn seal(
        &mut self,
        worker: Worker,
        priced: Inbox<InOrder<ExecutedBlock>>,
        sealed: Outbox<InOrder<SealedBlock>>,
        headers: Outbox<FromSeal>,
        checkpoints: Outbox<TrieCheckpoint>,
    ) -> Result<(), HomeError> {
        let limit = self.home.config.storage.trie_cache_bytes();
        let number = self.view.number();
        let trie = StateTrie::open_at(&self.view.state, &self.view.blocks()?, limit)
            .map_err(|error| HomeError::Damaged { number, reason: error.to_string() })?;
        let (found, expected) = (trie.state_root(), self.view.head.header.state_root);
        if found != expected {
            let reason = format!("state root {found}, header {expected}");
            return Err(HomeError::Damaged { number, reason });
        }
        let written = Arc::clone(&self.trie_written);
        let keeps_back = self.home.config.storage.undo_blocks > 0;
        let ports = seal::Ports { priced, sealed, headers, checkpoints, written, keeps_back };
        let meter = self.meter("seal");
        let stage = Seal::new(&self.view, trie, limit, ports, meter);
        self.workers.push(worker.runs(stage));
        Ok(())
    }

    pub(super) fn commit(
        &mut self,
        worker: Worker,
        sealed: Inbox<InOrder<SealedBlock>>,
        layers: Outbox<ToFlush>,
    ) -> Arc<CommittedTotals> {
        let (chain, published) = (self.home.chain.clone(), self.published.clone());
        let totals = Arc::<CommittedTotals>::default();
        let ports = commit::Ports { sealed, layers };
        let (disk, meter) = (self.disk.clone(), self.meter("commit"));
        let stage = Commit::new(
            chain,
            published,
            self.options.certifier.take(),
            ports,
            Arc::clone(&totals),
            disk,
            meter,
        );
        self.workers.push(worker.runs(stage));
        totals
    }

    pub(super) fn flush(
        &mut self,
        worker: Worker,
        layers: Inbox<ToFlush>,
        checkpoints: Inbox<TrieCheckpoint>,
    ) {
        let (flushed, trie_written) = (Arc::clone(&self.flushed), Arc::clone(&self.trie_written));
        let ports = flush::Ports { layers, flushed, checkpoints, trie_written };
        let (chain, index) = (self.home.chain.clone(), self.home.index.clone());
        let (storage, floor) = (&self.home.config.storage, self.floor.clone());
        let (undo_blocks, trie_bytes) = (storage.undo_blocks, storage.trie_cache_bytes());
        let meter = self.meter("flush");
        let mut stage = Flush::new(chain, index, trie_bytes, ports, undo_blocks, floor, meter);
        stage.keep_back(self.view.state.layers());
        self.workers.push(worker.runs(stage));
    }
}
