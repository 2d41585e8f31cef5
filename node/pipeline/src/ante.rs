//! Ante: admits transactions to the mempool, and proposes blocks from it.
//!
//! Input: recovered transactions in order, head updates, and queries about the pool.
//! Output: results for submitters, and one proposal at a time for execute.
//! State: the mempool with its journal, the state against which transactions are checked, and recently used
//! accounts; for some blocks after a start, journalled transactions that depend on blocks lost in the crash.
//! Limits: those of the mempool; one proposal in flight; at the start, all transactions of the journal.
//! Back-pressure: if the pool is full, the cheapest transactions are evicted or the new one is refused;
//! results wait for credit.
//!
//! While no other thread is running the stage, RPC callers run it for their own submissions and queries; see
//! [`CombiningStage`].
//!
//! A transaction is checked when it arrives. After a block, only the accounts that the block changed are
//! updated, and their pooled transactions are checked against the new nonce and balance. A new base fee only
//! reorders the pool; it does not trigger any checks. When the next block activates a new fork, every pooled
//! transaction is checked once against that fork's rules. The head update is sent as soon as a block is
//! executed, so the next block is proposed while its parent is being sealed.

mod combining;
mod development;
mod fork;
mod query;
mod results;
mod undo;

pub(super) use combining::{CombiningStage, CombiningWorker};
pub use query::{
    BlockPart, Candidates, Found, KnownTransactions, PoolQuery, SenderTxs, TakenTransactions,
};

use super::{
    batch::{CheckBatch, HeadUpdate, InOrder, NextBlockParent, Proposal, Recovered, ReplyBatch},
    development::{BlockSettings, NextBlockSettings},
    fault::Fault,
    meter::Meter,
    reorder::Reorder,
    ring::{Inbox, Outbox},
    stage::Progress,
};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256, map::B256HashSet};
use chain::{ChainSpec, Fork, MAX_BLOCK_BYTES};
use consensus::{Clock, Demand, Engine, Slot};
use development::Development;
use feemarket::LegacyDec;
use mempool::journal::{Entry, Journal};
use mempool::{Arrival, BlockSpace, Limits, Mempool, Reject, Selection, Submitter};
use modules::{
    Modules,
    decorator::{self, CheckContext, Mode, Sender},
};
use platform::disk_watch::DiskWatch;
use results::UnwrittenResults;
use state::{Published, RecentReader, RecentState, View};
use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};
use storage::{ReadError, StateRead, prefetch};
use tokio::sync::{broadcast, watch};
use transactions::RecoveredTx;

/// Maximum bytes of transactions in a produced block. The maximum of EIP-7934 also counts the header, less than
/// 2 KiB, and RLP headers of the transactions, which are less than 3 % of the smallest ones.
const MAX_BLOCK_TX_BYTES: usize = MAX_BLOCK_BYTES - 256 * 1024;
/// Total gas limit of the candidates for a block, as a multiple of the block's gas limit. Transactions may use less
/// gas than their limits; on a native chain they are charged for at least half by default (`min_gas_multiplier`).
const CANDIDATE_BLOCKS: u64 = 2;
/// Minimum gas of a transaction. A block with less gas left is full.
const MIN_TX_GAS: u64 = 21_000;
/// After a selection that did not fill a block, candidates are selected again when the pending gas has grown
/// by the gas limit divided by this.
const RESELECT_DIVISOR: u64 = 8;
/// Interval between searches for expired transactions.
const EXPIRY_PERIOD: Duration = Duration::from_secs(60);
/// After a restart, journalled transactions that fail admission are retried for this many blocks. They may
/// depend on a block that was executed but not durable when the process ended: one in the group being
/// committed, in the next group, or in the rings before it.
const RETRY_BLOCKS: u64 = 256;
/// Polling interval while a block that should be mined at once waits for its parent to become durable.
const DURABLE_WAIT: Duration = Duration::from_millis(1);
/// Maximum number of batches per step.
const MAX_BATCHES_PER_STEP: usize = 16;
/// Maximum number of queries per step. Each takes one or two microseconds. A query that walks the whole pool
/// takes some milliseconds and ends the step's queries.
const MAX_QUERIES_PER_STEP: usize = 256;

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ports {
    /// Recovered transactions.
    pub checks: Inbox<CheckBatch>,
    /// Recovered transactions from RPC calls, in the order in which they are to be admitted.
    pub submissions: Inbox<Vec<Recovered>>,
    /// New execution heads.
    pub heads: Inbox<InOrder<HeadUpdate>>,
    /// Queries about the pool.
    pub queries: Inbox<PoolQuery>,
    /// Subscribers to accepted transactions.
    pub arrivals: broadcast::Sender<Arrival>,
    /// Publishes the settings that clients of a development chain have made.
    pub settings: watch::Sender<NextBlockSettings>,
    /// Results for TCP connections.
    pub replies: Outbox<ReplyBatch>,
    /// Blocks to produce.
    pub proposals: Outbox<Proposal>,
}

/// The initial state of the stage.
pub(super) struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The view of the head.
    pub view: View,
    /// The newest durable block.
    pub published: Published,
    /// Limits of the pool.
    pub limits: Limits,
    /// The minimum gas price of the pool, in the token's base unit; zero means no minimum.
    pub minimum_gas_price: LegacyDec,
    /// Decides when blocks are produced; `None` if none are.
    pub engine: Option<Box<dyn Engine>>,
    /// The clock for timestamps of new blocks.
    pub clock: Clock,
    /// Whether new transactions are accepted even if no blocks are produced.
    pub accepts_without_engine: bool,
    /// Stores accepted transactions.
    pub journal: Journal,
    /// Transactions that the journal contained at the start.
    pub saved: Vec<Entry>,
    /// Whether the disk responds.
    pub disk: DiskWatch,
    /// Cache of recently used accounts, empty at the start.
    pub recent: RecentState,
}

/// The stage; see the module documentation.
pub(super) struct Ante {
    spec: Arc<ChainSpec>,
    /// The newest execution head received.
    parent: NextBlockParent,
    /// The fork whose rules all pooled transactions satisfy.
    fork: Fork,
    /// Recently used senders.
    recent: RecentState,
    published: Published,
    pool: Mempool,
    /// The minimum gas price of the pool, in the token's base unit.
    minimum_gas_price: LegacyDec,
    engine: Option<Box<dyn Engine>>,
    clock: Clock,
    /// Whether new transactions are accepted.
    accepts: bool,
    /// What clients of a development chain control.
    development: Development,
    /// The index is being rebuilt. Until the undo that follows, no state is read, and submissions wait.
    is_paused: bool,
    /// A proposal is being executed; the next one waits for its head update.
    proposal_in_flight: bool,
    /// Pending gas at which candidates are selected again, because they may now fill a block.
    reselect_at_gas: u64,
    expiry_due: Instant,
    journal: Journal,
    /// Transactions of the journal, until the first step readmits them.
    saved: Vec<Entry>,
    /// Whether the disk responds.
    disk: DiskWatch,
    /// The last block after which journalled transactions that were not admitted are retried.
    retry_until: u64,
    checks: Inbox<CheckBatch>,
    submissions: Inbox<Vec<Recovered>>,
    reorder: Reorder<CheckBatch>,
    heads: Inbox<InOrder<HeadUpdate>>,
    queries: Inbox<PoolQuery>,
    /// A large query, which the worker answers in its next step.
    deferred: Option<PoolQuery>,
    arrivals: broadcast::Sender<Arrival>,
    replies: Outbox<ReplyBatch>,
    proposals: Option<Outbox<Proposal>>,
    /// A fault that occurred while a caller ran the stage.
    fault: Option<Fault>,
    meter: Arc<Meter>,
}

impl Ante {
    /// Creates the stage at the head of the context's view.
    pub(super) fn new(context: Context, ports: Ports, meter: Arc<Meter>) -> Self {
        let View { head, state, .. } = context.view;
        let parent = NextBlockParent::of_head(&head, state);
        let mut clock = context.clock;
        let mut development = Development::new(ports.settings);
        if context.spec.is_development() {
            development.continue_from(head.header.timestamp, clock.now());
        }
        Self {
            development,
            pool: Mempool::new(context.limits, head.next_base_fee),
            minimum_gas_price: context.minimum_gas_price,
            fork: parent.next_fork(&context.spec),
            spec: context.spec,
            parent,
            recent: context.recent,
            published: context.published,
            accepts: context.engine.is_some() || context.accepts_without_engine,
            engine: context.engine,
            clock,
            is_paused: false,
            proposal_in_flight: false,
            reselect_at_gas: 0,
            expiry_due: Instant::now() + EXPIRY_PERIOD,
            journal: context.journal,
            saved: context.saved,
            disk: context.disk,
            retry_until: 0,
            checks: ports.checks,
            submissions: ports.submissions,
            reorder: Reorder::new(),
            heads: ports.heads,
            queries: ports.queries,
            deferred: None,
            arrivals: ports.arrivals,
            replies: ports.replies,
            proposals: Some(ports.proposals),
            fault: None,
            meter,
        }
    }

    /// Returns the rules for checking transactions of the next block; `modules` must be those of [`Self::parent`].
    fn checks<'a>(&self, spec: &'a ChainSpec, modules: Option<&'a Modules>) -> CheckContext<'a> {
        self.parent.checks(spec, modules).with_mempool_minimum(self.minimum_gas_price)
    }

    /// Readmits the journal's transactions, without recovering their signatures.
    fn restore(&mut self) -> Result<(), Fault> {
        let saved = mem::take(&mut self.saved);
        let count = saved.len();
        // The journal has a checksum, so a transaction that does not decode is not damaged: another version wrote
        // it.
        let txs = saved.into_iter().filter_map(|entry| entry.recovered(self.spec.chain_id).ok());
        let txs = txs.map(Arc::new);
        self.retry_until = self.parent.header.number + RETRY_BLOCKS;
        let in_blocks = self.readmit(txs.collect())?;
        if count > 0 {
            let pooled = self.pool.len();
            tracing::info!(saved = count, in_blocks, pooled, "read the mempool's journal");
        }
        Ok(())
    }

    /// Pools transactions that were accepted before: those of the journal, of undone blocks, or of a snapshot. Some
    /// journalled transactions were accepted on the state of blocks that were lost when the process ended. Until
    /// equivalent blocks are produced, the funds that those blocks paid to the senders and the space that they freed
    /// in the pool are missing, so transactions that fail are retried after each block until `retry_until`. Returns
    /// the number of transactions that are in a block already, or were replaced by one that is.
    fn readmit(&mut self, txs: Vec<Arc<RecoveredTx>>) -> Result<usize, Fault> {
        let (spec, modules) = (Arc::clone(&self.spec), self.parent.modules.clone());
        let context = self.checks(&spec, modules.as_deref());
        let state = self.parent.state.reader()?;
        let now = Instant::now();
        let mut to_retry = Vec::new();
        let mut in_blocks = 0;
        for tx in txs {
            let tx = tx.in_unit(context.token_unit);
            let sender = match self.known_sender(tx.sender) {
                Some(sender) => sender,
                None => Sender::read(&state, tx.sender)?,
            };
            if tx.tx.nonce() < sender.account.nonce {
                // This transaction, or one with the same nonce, is in a block, even if its sender could not pay
                // for it now.
                in_blocks += 1;
                continue;
            }
            let taken = match decorator::check_sender(&tx, &context, &sender, Mode::Check) {
                // A transaction that was accepted before may wait for the base fee to fall again.
                Err(reject) if !decorator::awaits_base_fee(&tx, &context, &reject) => Err(reject),
                _ => self.pool_one(Arc::clone(&tx), &sender, now),
            };
            match taken {
                Ok(()) | Err(Reject::AlreadyKnown) => {}
                Err(_) if self.parent.header.number < self.retry_until => to_retry.push(tx),
                Err(reject) => {
                    tracing::debug!(%reject, "an accepted transaction was not readmitted");
                }
            }
        }
        self.journal.store_for_retry(to_retry);
        Ok(in_blocks)
    }

    /// Admits one batch, makes it durable, and sends the results.
    fn admit(&mut self, batch: Vec<Recovered>) -> Result<(), Fault> {
        self.meter.count_received(batch.len());
        let (spec, modules) = (Arc::clone(&self.spec), self.parent.modules.clone());
        let context = self.checks(&spec, modules.as_deref());
        let state = self.parent.state.reader()?;
        self.prefetch(&batch);
        let mut recent = mem::take(&mut self.recent);
        let reader = RecentReader::new(&mut recent, &state)?;
        let now = Instant::now();
        // Read once per batch, because the count is behind a lock.
        let has_listeners = self.arrivals.receiver_count() > 0;
        let mut admitted = 0;
        let mut results = UnwrittenResults::with_capacity(batch.len());
        for (tx, reply) in batch {
            let submitted = match tx {
                Ok(tx) => {
                    let hash = tx.hash;
                    let arriving = Arriving { submitter: reply.submitter(), has_listeners };
                    self.admit_one(tx, &context, &reader, arriving, now)?.map(|()| hash)
                }
                Err(reject) => Err(reject),
            };
            match &submitted {
                Ok(_) => admitted += 1,
                Err(reject) => self.meter.reject(reject.label()),
            }
            results.push(submitted, reply);
        }
        self.recent = recent;
        // An accepted transaction must survive a crash of the process, so results are sent after this write.
        let results = results.write(&mut self.journal)?;
        self.meter.count_sent(admitted);
        let replies = results.send();
        if !replies.is_empty() {
            self.replies.send(ReplyBatch(replies));
        }
        Ok(())
    }

    /// Prefetches the data that the checks of a batch need. The accesses do not depend on each other, so the
    /// processor can overlap many of them.
    fn prefetch(&self, batch: &[Recovered]) {
        let txs = || batch.iter().filter_map(|(tx, _)| tx.as_ref().ok());
        txs().for_each(|tx| prefetch(&**tx));
        self.pool.prefetch(txs().map(|tx| (tx.hash, tx.sender)));
        self.recent.prefetch(txs().map(|tx| &tx.sender));
        txs().for_each(|tx| prefetch(tx.tx.input().as_ref()));
    }

    /// Checks a transaction and pools it.
    fn admit_one(
        &mut self,
        tx: Arc<RecoveredTx>,
        context: &CheckContext<'_>,
        state: &impl StateRead<Error = ReadError>,
        arriving: Arriving,
        now: Instant,
    ) -> Result<Result<(), Box<Reject>>, ReadError> {
        if self.pool.get(tx.hash).is_some() {
            return Ok(Err(Reject::AlreadyKnown.into()));
        }
        if !self.accepts {
            return Ok(Err(Reject::NoProduction.into()));
        }
        let tx = tx.in_unit(context.token_unit);
        if let Some(sender) = self.known_sender(tx.sender) {
            let checked = decorator::check_sender(&tx, context, &sender, Mode::Check);
            return Ok(match checked {
                Ok(_) => self.accept(tx, &sender, arriving, now),
                Err(reject) => Err(reject.into()),
            });
        }
        // Borrow the admitted value: moving it would stall until all of its fields have been written.
        Ok(match decorator::check(&tx, context, state, Mode::Check) {
            Ok(Ok(ref admitted)) => self.accept(tx, &admitted.sender, arriving, now),
            Ok(Err(reject)) => Err(reject.into()),
            Err(error) => return Err(error),
        })
    }

    /// Adds a transaction that passed the checks to the pool and the journal, and sends it to subscribers. The
    /// `Arc` is moved rather than cloned: changing the reference count would wait for all previous writes.
    fn accept(
        &mut self,
        tx: Arc<RecoveredTx>,
        sender: &Sender,
        arriving: Arriving,
        now: Instant,
    ) -> Result<(), Box<Reject>> {
        let Arriving { submitter, has_listeners } = arriving;
        let arrival = has_listeners.then(|| Arrival::new(&tx, submitter));
        // If another validator sent the transaction, it is already in that validator's journal.
        let before = (submitter == Submitter::Client).then(|| self.journal.push(&tx));
        if let Err(reject) = self.pool_one(tx, sender, now) {
            before.into_iter().for_each(|before| self.journal.retract(before));
            return Err(reject.into());
        }
        if let Some(arrival) = arrival {
            // The last subscriber may have left in between.
            let _ = self.arrivals.send(arrival);
        }
        Ok(())
    }

    /// Returns the sender if the pool holds its account as of the execution head; `None` if the account has code,
    /// because the pool does not store code.
    fn known_sender(&self, address: Address) -> Option<Sender> {
        let account = *self.pool.lane(address)?.account();
        (!decorator::has_code(&account)).then_some(Sender { account, may_send: true })
    }

    /// Adds a transaction that passed the checks to the pool.
    fn pool_one(
        &mut self,
        tx: Arc<RecoveredTx>,
        sender: &Sender,
        now: Instant,
    ) -> Result<(), Reject> {
        let authorities = |tx: &RecoveredTx| tx.authorities(self.spec.chain_id).into();
        self.pool.insert(tx, authorities, &sender.account, now)?;
        Ok(())
    }

    /// Moves to a new execution head.
    fn follow(&mut self, update: HeadUpdate) -> Result<(), Fault> {
        self.parent = update.parent;
        self.proposal_in_flight = false;
        self.reselect_at_gas = 0;
        let now = Instant::now();
        self.pool.set_base_fee(self.parent.next_base_fee);
        self.apply_base_fee();
        for (hash, reason) in update.skipped {
            tracing::debug!(%hash, reason, "dropped a candidate that the block could not include");
            self.meter.reject("failed_in_block");
            self.pool.remove(hash, now);
        }
        // The block may have changed the nonce or balance of a sender so that its pooled transactions are no longer
        // valid.
        if let Some(layer) = self.parent.state.layers().last() {
            self.recent.apply_accounts(layer);
            let accounts = layer.changes().accounts.iter();
            let accounts = accounts.map(|change| (change.address, change.account));
            let accounts = accounts.map(|(at, account)| (at, account.unwrap_or_default()));
            self.pool.advance(accounts, now);
        }
        let durable = self.published.load().number();
        self.journal.record_block(self.parent.header.number, update.included, durable);
        match self.journal.take_for_retry() {
            txs if txs.is_empty() => Ok(()),
            txs => self.readmit(txs).map(drop),
        }
    }

    /// Drops pooled transactions that the next block cannot contain because it activates a new fork. Forks are
    /// rare, so the whole pool is checked at once.
    fn follow_fork(&mut self, now: Instant) {
        let fork = self.parent.next_fork(&self.spec);
        if fork == self.fork {
            return;
        }
        self.fork = fork;
        let modules = self.parent.modules.clone();
        let context = self.parent.checks(&self.spec, modules.as_deref());
        for (hash, reject) in fork::unfit(&self.pool, &context) {
            tracing::debug!(%hash, %reject, "dropped: the next block has the rules of {fork:?}");
            self.meter.reject(reject.label());
            self.pool.remove(hash, now);
        }
    }

    /// Drops expired transactions, counts removed ones, and compacts the journal if it is too large.
    fn housekeeping(&mut self, now: Instant) -> Result<(), Fault> {
        if now >= self.expiry_due {
            self.expiry_due = now + EXPIRY_PERIOD;
            self.pool.expire(now);
        }
        let dropped = self.pool.take_dropped();
        let reasons = [
            ("replaced", dropped.replaced),
            ("evicted", dropped.evicted),
            ("expired", dropped.expired),
            ("unpaid", dropped.unpaid),
        ];
        for (reason, count) in reasons {
            self.meter.reject_many(reason, count);
        }
        if self.journal.is_bloated(&self.pool, now) {
            self.journal.compact(&self.pool, self.published.load().number(), now)?;
        }
        Ok(())
    }

    /// Proposes the next block if the engine permits it; returns whether it did.
    fn propose(&mut self) -> bool {
        let ready = self.proposals.as_mut().is_some_and(Outbox::ready);
        if self.proposal_in_flight || !ready || self.engine.is_none() {
            return false;
        }
        if self.development.is_suspended() {
            return false;
        }
        if let Some(settings) = self.development.take_accounts() {
            self.send_proposal(self.parent.header.timestamp, Vec::new(), Some(settings));
            return true;
        }
        let is_requested = self.development.has_requested_blocks();
        if self.mines_at_once() && !is_requested && !self.is_parent_durable() {
            return false;
        }
        let (demand, chosen) = self.demand();
        let parent = &self.parent;
        let Some(engine) = &mut self.engine else { return false };
        let now = self.clock.now();
        let slot = match is_requested {
            true => Some(Slot { timestamp: parent.header.timestamp }),
            false => engine.slot(now, parent.header.timestamp, demand),
        };
        let Some(Slot { mut timestamp }) = slot else { return false };
        if self.spec.is_development() {
            timestamp = self.development.timestamp(now, parent.header.timestamp);
        }
        let (pool, spec) = (&mut self.pool, &self.spec);
        let chosen =
            chosen.unwrap_or_else(|| candidates(pool, parent, spec, &BlockPart::WHOLE, &[]));
        let settings = self.development.take_settings();
        self.development.publish();
        self.send_proposal(timestamp, chosen.txs, settings);
        true
    }

    /// Sends a proposal to execute, which must be ready for it.
    fn send_proposal(
        &mut self,
        timestamp: u64,
        txs: Vec<Arc<RecoveredTx>>,
        settings: Option<Box<BlockSettings>>,
    ) {
        let (parent, number) = (self.parent.state.id(), self.parent.header.number + 1);
        let out = self.proposals.as_mut().expect("the caller found the ring ready");
        out.send(Proposal { parent, number, timestamp, beneficiary: None, txs, settings });
        self.proposal_in_flight = true;
    }

    fn mines_at_once(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.mines_at_once())
    }

    fn is_parent_durable(&self) -> bool {
        self.published.load().state.id() == self.parent.state.id()
    }

    /// Returns how much demand there is for a block, and also the candidates if they had to be selected.
    fn demand(&mut self) -> (Demand, Option<Selection>) {
        let (gas_limit, full) = (self.parent.header.gas_limit, self.full_gas());
        // The sum of all pending gas is cheap, but includes transactions below the base fee. They count as
        // demand too, because only blocks lower the base fee.
        let gas = self.pool.pending_gas();
        let some = if gas > 0 { Demand::Some } else { Demand::Nothing };
        if self.mines_at_once() {
            // If all pending gas counted, transactions below the base fee would cause endless empty blocks.
            let chosen =
                candidates(&mut self.pool, &self.parent, &self.spec, &BlockPart::WHOLE, &[]);
            let is_empty = chosen.txs.is_empty();
            return (if is_empty { Demand::Nothing } else { Demand::Some }, Some(chosen));
        }
        if gas < full || gas < self.reselect_at_gas {
            return (some, None);
        }
        let chosen = candidates(&mut self.pool, &self.parent, &self.spec, &BlockPart::WHOLE, &[]);
        if chosen.gas >= full || chosen.bytes_full {
            return (Demand::Full, Some(chosen));
        }
        self.reselect_at_gas = gas.saturating_add(gas_limit / RESELECT_DIVISOR);
        (some, Some(chosen))
    }

    /// Returns whether all submissions have been answered.
    fn is_drained(&self) -> bool {
        self.checks.is_finished() && self.submissions.is_finished() && !self.reorder.has_next()
    }

    /// Shuts down: waits for the block in flight, then writes the pool to its journal.
    fn finish(&mut self) -> Result<Progress, Fault> {
        if self.proposal_in_flight && !self.heads.is_finished() {
            return Ok(Progress::Idle);
        }
        if self.proposals.take().is_some() {
            let durable = self.published.load().number();
            self.journal.compact(&self.pool, durable, Instant::now())?;
        }
        Ok(Progress::Finished)
    }
}

/// How a transaction arrives.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    submitter: Submitter,
    /// Whether subscribers are notified.
    has_listeners: bool,
}

/// Selects the best transactions for a part of the next block, plus some extra in case they use less gas than
/// their limits.
fn candidates(
    pool: &mut Mempool,
    parent: &NextBlockParent,
    spec: &ChainSpec,
    part: &BlockPart,
    taken: &[Arc<B256HashSet>],
) -> Selection {
    let gas = parent.header.gas_limit.min(part.gas);
    let modules = parent.modules.as_deref();
    let blobs = parent.checks(spec, modules).blobs;
    let share = modules.map(|modules| modules.market.params().min_gas_multiplier);
    let parts = share.and_then(|share| share.checked_mul_int(U256::from(1_u64 << 32)).ok());
    let space = BlockSpace {
        gas,
        candidates_gas: gas.saturating_mul(CANDIDATE_BLOCKS),
        charged: parts.and_then(LegacyDec::truncate_u64).unwrap_or_default(),
        bytes: MAX_BLOCK_TX_BYTES,
        txs: part.txs,
        blob_gas: blobs.map_or(0, |rules| rules.block_gas),
        blob_base_fee: blobs.map_or(0, |rules| rules.base_fee),
    };
    pool.select_without(space, |hash| taken.iter().any(|taken| taken.contains(hash)))
}

impl Ante {
    /// See [`super::stage::Stage::wake_after`].
    fn wake_after(&mut self) -> Duration {
        match &self.engine {
            Some(engine) if engine.mines_at_once() => {
                let waits = self.pool.pending_gas() > 0 && !self.is_parent_durable();
                if waits { DURABLE_WAIT } else { Duration::MAX }
            }
            Some(engine) if !self.proposal_in_flight => engine.wake_after(self.clock.now()),
            _ => Duration::MAX,
        }
    }

    /// See [`super::stage::Stage::step`].
    fn step(&mut self) -> Result<Progress, Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mut worked = !self.saved.is_empty();
        if worked {
            self.restore()?;
        }
        while let Some(update) = self.heads.take() {
            match update {
                InOrder::Block(update) => self.follow(update)?,
                InOrder::Undo(undo) => self.undo(&undo)?,
                InOrder::Rebuild(rebuild) => {
                    self.is_paused = true;
                    rebuild.set_paused();
                }
                // The fee stage does not send these: a chosen block arrives as a head update.
                InOrder::Choose(_) | InOrder::Drop(_) => {}
            }
            worked = true;
        }
        if self.is_paused && !self.heads.is_finished() {
            return Ok(if worked { Progress::Worked } else { Progress::Idle });
        }
        self.follow_fork(Instant::now());
        for _ in 0..MAX_BATCHES_PER_STEP {
            if !self.replies.ready() {
                break;
            }
            if let Some(batch) = self.checks.take() {
                self.reorder.put(batch.seq, batch);
                worked = true;
            }
            let Some(batch) = self.reorder.take() else { break };
            self.admit(batch.txs)?;
            worked = true;
        }
        if let Some(query) = self.deferred.take() {
            self.reply_to(query)?;
            worked = true;
        }
        worked |= self.serve_callers()?;
        self.housekeeping(Instant::now())?;
        if self.is_drained() {
            return if self.replies.ready() { self.finish() } else { Ok(Progress::Blocked) };
        }
        worked |= self.propose();
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    /// Admits submissions of callers and answers their queries; returns whether there were any.
    fn serve_callers(&mut self) -> Result<bool, Fault> {
        let mut worked = false;
        for _ in 0..MAX_QUERIES_PER_STEP {
            let Some(query) = self.queries.take() else { break };
            worked = true;
            if query.is_large() {
                // Leave it for the worker's next step: callers serve sockets, and submissions have priority.
                self.deferred = Some(query);
                break;
            }
            self.reply_to(query)?;
        }
        for _ in 0..MAX_BATCHES_PER_STEP {
            let Some(batch) = self.submissions.take() else { break };
            self.admit(batch)?;
            worked = true;
        }
        Ok(worked)
    }

    fn reply_to(&mut self, query: PoolQuery) -> Result<(), Fault> {
        if let PoolQuery::Develop(request, reply) = query {
            let developed = self.develop(request)?;
            // The client may have disconnected.
            let _ = reply.send(developed);
            return Ok(());
        }
        let Self { pool, parent, spec, accepts, .. } = self;
        // A node that accepts no transactions includes none in its next block.
        let choose = |pool: &mut Mempool, part: &BlockPart, taken: &TakenTransactions| match accepts
        {
            true => candidates(pool, parent, spec, part, taken).txs,
            false => Vec::new(),
        };
        Ok(query.answer(pool, parent, choose)?)
    }

    /// Runs, on a caller's thread, the part of a step that callers wait for. Returns false if the worker must do
    /// the rest.
    fn run_for_caller(&mut self) -> bool {
        // A thread that serves sockets must not walk the whole pool or wait for the disk.
        if self.is_paused || self.deferred.is_some() {
            return false;
        }
        if self.journal.syncs() || self.disk.is_late() {
            return false;
        }
        if self.fault.is_some() || !self.saved.is_empty() {
            return false;
        }
        let (begun, gas) = (Instant::now(), self.pool.pending_gas());
        let served = self.serve_callers();
        self.meter.busy(begun.elapsed());
        match served {
            Ok(_) => !self.may_propose_after(gas) && !self.has_callers(),
            Err(fault) => {
                self.fault = Some(fault);
                false
            }
        }
    }

    /// Returns whether the engine may produce a block that it would not have produced when the pending gas was
    /// `before`. If only the passage of time makes the difference, the worker wakes by itself.
    fn may_propose_after(&self, before: u64) -> bool {
        let gas = self.pool.pending_gas();
        // The next block may be unable to include any of the transactions that were pending before.
        let is_new = gas > before && (before == 0 || self.mines_at_once());
        let is_demand = is_new || gas >= self.full_gas().max(self.reselect_at_gas);
        is_demand && self.engine.is_some() && !self.proposal_in_flight
    }

    fn has_callers(&self) -> bool {
        self.deferred.is_some() || self.queries.depth() > 0 || self.submissions.depth() > 0
    }

    /// Returns the minimum pending gas that fills a block if all of it is executable.
    fn full_gas(&self) -> u64 {
        self.parent.header.gas_limit.saturating_sub(MIN_TX_GAS) + 1
    }
}

impl std::fmt::Debug for Ante {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ante").field("pool", &self.pool.len()).finish_non_exhaustive()
    }
}
