//! Ante: admits transactions to the mempool, and proposes blocks from it.
//!
//! Takes recovered transactions in order, tips of the chain, and questions about the pool.
//! Gives answers to submitters, and one proposal at a time to execute.
//! State: the mempool with its journal, the view it is checked against, accounts met lately; for some
//! blocks after a start, transactions of the journal that wait for a block that was lost.
//! Bound: the mempool's limits; one proposal in flight; the journal as it was at the start.
//! When full: the cheapest leave the pool, or the newcomer is turned away; answers wait for credit.
//!
//! Callers of the RPC do the stage's work with what they bring themselves while nobody is at it, see
//! [`Desk`].
//!
//! A transaction is checked once, when it comes. After a block, only accounts that the block
//! changed are looked at again, and what they have pooled is held to nonce and balance; the base
//! fee moves ranks inside the pool, and checks nothing. When another fork starts with the next block,
//! every pooled transaction is checked against its rules once. A tip comes as soon as it is executed, so a
//! block is proposed while its parent is still being sealed.

mod combining;
mod fork;
mod query;

pub(super) use combining::{AtDesk, Desk};
pub use query::{BlockPart, Candidates, Found, PoolQuery, SenderTxs};

use super::{
    arrival::Arrival,
    batch::{CheckBatch, Ground, Proposal, Recovered, Reply, ReplyBatch, Submitted, Tip},
    disk::DiskWatch,
    fault::Fault,
    meter::Meter,
    reorder::Reorder,
    ring::{Inbox, Outbox},
    stage::Progress,
};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256};
use chain::{ChainSpec, Fork};
use consensus::{Clock, Demand, Engine};
use feemarket::LegacyDec;
use mempool::journal::{Entry, Journal};
use mempool::{Limits, Mempool, Reject, Room, Selection};
use modules::{
    Modules,
    decorator::{self, CheckContext, Mode, Sender},
};
use state::{Published, RecentReader, RecentState, View};
use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};
use storage::{ReadError, StateRead, prefetch};
use tokio::sync::broadcast;
use transactions::RecoveredTx;

/// Most bytes of transactions in a block this node builds: keeps a block below the 10 MiB of
/// EIP-7934 with room for its header and ommers.
const BLOCK_TX_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Candidates given to execution, as a multiple of the block's gas: transactions use less than
/// their limits, and here are charged at least half of them.
const CANDIDATE_BLOCKS: u64 = 2;
/// Less gas than this left is no room: the least a transaction needs.
const TX_GAS_MIN: u64 = 21_000;
/// After a look that found less than a full block, how much more pending gas is worth another
/// look: this part of a block.
const LOOK_AGAIN_PART: u64 = 8;
/// How often the queue is searched for what has waited too long.
const EXPIRY_PERIOD: Duration = Duration::from_secs(60);
/// Blocks after a start in which transactions of before it are tried again: more than can be executed and
/// not durable, which are those of a group of commit, of the next one, and in the rings before it.
const LATE_BLOCKS: u64 = 256;
/// Most batches handled before looking at the clock again.
const ROUND: usize = 16;
/// Most questions answered before that, a microsecond or two each; of those that walk the whole pool,
/// some milliseconds, one.
const QUERY_ROUND: usize = 256;

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ends {
    /// Recovered transactions.
    pub checks: Inbox<CheckBatch>,
    /// The same from RPC calls, which have no order among each other.
    pub submissions: Inbox<Vec<Recovered>>,
    /// New tips of the chain.
    pub tips: Inbox<Tip>,
    /// Questions about the pool.
    pub queries: Inbox<PoolQuery>,
    /// Who wants to know what the pool takes.
    pub arrivals: broadcast::Sender<Arrival>,
    /// Answers for TCP connections.
    pub replies: Outbox<ReplyBatch>,
    /// Blocks to build.
    pub proposals: Outbox<Proposal>,
}

/// What the stage starts from.
pub(super) struct Context {
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The head.
    pub view: View,
    /// Tells how far blocks are durable.
    pub published: Published,
    /// Of the pool.
    pub limits: Limits,
    /// The minimum price of gas of the pool, in the token's base unit; zero is no minimum.
    pub minimum_gas_price: LegacyDec,
    /// Gives leave to make blocks; none makes none.
    pub engine: Option<Box<dyn Engine>>,
    /// The time of new blocks.
    pub clock: Clock,
    /// Whether new transactions are accepted if no blocks are made.
    pub accepts_without_engine: bool,
    /// Where accepted transactions are kept.
    pub journal: Journal,
    /// What the journal held at the start.
    pub saved: Vec<Entry>,
    /// Whether the disk responds.
    pub disk: DiskWatch,
    /// Recently used accounts, none so far.
    pub recent: RecentState,
}

/// See the module.
pub(super) struct Ante {
    spec: Arc<ChainSpec>,
    /// The newest tip told of.
    ground: Ground,
    /// The fork whose rules every pooled transaction has passed.
    fork: Fork,
    /// Senders met lately.
    recent: RecentState,
    published: Published,
    pool: Mempool,
    /// The minimum price of gas of the pool, in the token's base unit.
    minimum_gas_price: LegacyDec,
    engine: Option<Box<dyn Engine>>,
    clock: Clock,
    /// Whether new transactions are accepted.
    accepts: bool,
    /// A proposal is being built: the next waits for its tip.
    outstanding: bool,
    /// Pending gas from which on it is worth looking whether it fills a block.
    look_at_gas: u64,
    expiry_due: Instant,
    journal: Journal,
    /// Transactions of the journal, until the first step takes them in.
    saved: Vec<Entry>,
    /// Whether the disk responds.
    disk: DiskWatch,
    /// Block up to which those that could not be taken in are tried again.
    late_until: u64,
    checks: Inbox<CheckBatch>,
    submissions: Inbox<Vec<Recovered>>,
    reorder: Reorder<CheckBatch>,
    tips: Inbox<Tip>,
    queries: Inbox<PoolQuery>,
    /// One that a caller found and left to the worker.
    deferred: Option<PoolQuery>,
    arrivals: broadcast::Sender<Arrival>,
    replies: Outbox<ReplyBatch>,
    proposals: Option<Outbox<Proposal>>,
    /// What went wrong while a caller did the stage's work.
    fault: Option<Fault>,
    meter: Arc<Meter>,
}

impl Ante {
    /// The stage at the head of the context's view.
    pub(super) fn new(context: Context, ends: Ends, meter: Arc<Meter>) -> Self {
        let View { head, state, .. } = context.view;
        let ground = Ground::of_head(&head, state);
        Self {
            pool: Mempool::new(context.limits, head.next_base_fee),
            minimum_gas_price: context.minimum_gas_price,
            fork: ground.next_fork(&context.spec),
            spec: context.spec,
            ground,
            recent: context.recent,
            published: context.published,
            accepts: context.engine.is_some() || context.accepts_without_engine,
            engine: context.engine,
            clock: context.clock,
            outstanding: false,
            look_at_gas: 0,
            expiry_due: Instant::now() + EXPIRY_PERIOD,
            journal: context.journal,
            saved: context.saved,
            disk: context.disk,
            late_until: 0,
            checks: ends.checks,
            submissions: ends.submissions,
            reorder: Reorder::new(),
            tips: ends.tips,
            queries: ends.queries,
            deferred: None,
            arrivals: ends.arrivals,
            replies: ends.replies,
            proposals: Some(ends.proposals),
            fault: None,
            meter,
        }
    }

    /// The rules against which this node checks transactions of the next block; `modules` are those of
    /// [`Self::ground`].
    fn checks<'a>(&self, spec: &'a ChainSpec, modules: Option<&'a Modules>) -> CheckContext<'a> {
        self.ground.checks(spec, modules).with_mempool_minimum(self.minimum_gas_price)
    }

    /// Takes the journal's transactions in again, without recovering their signatures.
    fn restore(&mut self) -> Result<(), Fault> {
        let saved = mem::take(&mut self.saved);
        let count = saved.len();
        // Written by us and covered by a checksum: it decodes, or another version wrote it.
        let txs = saved.into_iter().filter_map(|entry| entry.recovered(self.spec.chain_id).ok());
        let txs = txs.map(Arc::new);
        self.late_until = self.ground.header.number + LATE_BLOCKS;
        self.take_in(txs.collect())?;
        if count > 0 {
            tracing::info!(saved = count, pooled = self.pool.len(), "read the mempool's journal");
        }
        Ok(())
    }

    /// Pools transactions that were accepted before the start. Some were on a state whose blocks a kill
    /// took away: what these gave their senders, or the room they made in the pool, is not there until
    /// such blocks are made again. They are late, and tried again with each block.
    fn take_in(&mut self, txs: Vec<Arc<RecoveredTx>>) -> Result<(), Fault> {
        let (spec, modules) = (Arc::clone(&self.spec), self.ground.modules.clone());
        let context = self.checks(&spec, modules.as_deref());
        let state = self.ground.state.reader()?;
        let now = Instant::now();
        let mut late = Vec::new();
        for tx in txs {
            let tx = tx.in_unit(context.token_unit);
            let sender = match self.known_sender(tx.sender) {
                Some(sender) => sender,
                None => Sender::read(&state, tx.sender)?,
            };
            if tx.tx.nonce() < sender.account.nonce {
                // It, or another in its place, is in a block, whatever its sender can pay now.
                continue;
            }
            let taken = match decorator::check_sender(&tx, &context, &sender, Mode::Check) {
                // It was accepted, and may wait for the base fee to fall again.
                Err(reject) if !decorator::awaits_base_fee(&tx, &context, &reject) => Err(reject),
                _ => self.pool_one(Arc::clone(&tx), &sender, now),
            };
            match taken {
                Ok(()) | Err(Reject::AlreadyKnown) => {}
                Err(_) if self.ground.header.number < self.late_until => late.push(tx),
                Err(reject) => tracing::debug!(%reject, "not taken in again from the journal"),
            }
        }
        self.journal.keep_late(late);
        Ok(())
    }

    /// Admits one batch, makes it last, and answers it.
    fn admit(&mut self, batch: Vec<Recovered>) -> Result<(), Fault> {
        self.meter.take(batch.len());
        let (spec, modules) = (Arc::clone(&self.spec), self.ground.modules.clone());
        let context = self.checks(&spec, modules.as_deref());
        let state = self.ground.state.reader()?;
        self.warm(&batch);
        let mut recent = mem::take(&mut self.recent);
        let reader = RecentReader::new(&mut recent, &state)?;
        let now = Instant::now();
        // Asked once for all: the answer is behind a lock.
        let heard = self.arrivals.receiver_count() > 0;
        let mut admitted = 0;
        let mut answers = Vec::with_capacity(batch.len());
        for (tx, reply) in batch {
            let submitted = match tx {
                Ok(tx) => {
                    let hash = tx.hash;
                    self.admit_one(tx, &context, &reader, heard, now)?.map(|()| hash)
                }
                Err(reject) => Err(reject),
            };
            match &submitted {
                Ok(_) => admitted += 1,
                Err(reject) => self.meter.reject(reject.label()),
            }
            answers.push((submitted, reply));
        }
        self.recent = recent;
        // What is answered for must outlive the process.
        self.journal.write()?;
        self.meter.give(admitted);
        self.answer(answers);
        Ok(())
    }

    /// Brings what the checks of a batch will look at into the caches: one look does not depend on
    /// another here, so the processor waits for many of them at once.
    fn warm(&self, batch: &[Recovered]) {
        let txs = || batch.iter().filter_map(|(tx, _)| tx.as_ref().ok());
        txs().for_each(|tx| prefetch(&**tx));
        self.pool.prefetch(txs().map(|tx| (tx.hash, tx.sender)));
        self.recent.prefetch(txs().map(|tx| &tx.sender));
        txs().for_each(|tx| prefetch(tx.tx.input().as_ref()));
    }

    fn answer(&mut self, answers: Vec<(Submitted, Reply)>) {
        let mut replies = Vec::new();
        for (submitted, reply) in answers {
            match reply {
                Reply::Tcp(connection) => replies.push((connection, submitted)),
                // The caller may have given up waiting.
                Reply::Rpc(caller) => caller.tell(submitted),
                Reply::Silent => {}
            }
        }
        if !replies.is_empty() {
            self.replies.send(ReplyBatch(replies));
        }
    }

    fn admit_one(
        &mut self,
        tx: Arc<RecoveredTx>,
        context: &CheckContext<'_>,
        state: &impl StateRead<Error = ReadError>,
        heard: bool,
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
                Ok(_) => self.accept(tx, &sender, heard, now),
                Err(reject) => Err(reject.into()),
            });
        }
        // What was admitted stays where it is: to move it would wait until it is written.
        Ok(match decorator::check(&tx, context, state, Mode::Check) {
            Ok(Ok(ref admitted)) => self.accept(tx, &admitted.sender, heard, now),
            Ok(Err(reject)) => Err(reject.into()),
            Err(error) => return Err(error),
        })
    }

    /// Puts a transaction that passed the checks into the pool and the journal, and tells those who
    /// listen. It is handed on and not shared: each count of its owners would wait for all that was
    /// written before.
    fn accept(
        &mut self,
        tx: Arc<RecoveredTx>,
        sender: &Sender,
        heard: bool,
        now: Instant,
    ) -> Result<(), Box<Reject>> {
        let heard = heard.then(|| Arrival::new(&tx));
        let before = self.journal.push(&tx);
        if let Err(reject) = self.pool_one(tx, sender, now) {
            self.journal.retract(before);
            return Err(reject.into());
        }
        if let Some(arrival) = heard {
            // A listener may have gone in between.
            let _ = self.arrivals.send(arrival);
        }
        Ok(())
    }

    /// A sender whose lane knows its account as of the tip. Code is not kept there.
    fn known_sender(&self, address: Address) -> Option<Sender> {
        let account = *self.pool.lane(address)?.account();
        (!decorator::has_code(&account)).then_some(Sender { account, may_send: true })
    }

    /// Puts a transaction that passed the checks into the pool.
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

    /// Follows the chain to a new tip.
    fn follow(&mut self, tip: Tip) -> Result<(), Fault> {
        self.ground = tip.ground;
        self.outstanding = false;
        self.look_at_gas = 0;
        let now = Instant::now();
        self.pool.set_base_fee(self.ground.next_base_fee);
        for (hash, reason) in tip.skipped {
            tracing::debug!(%hash, reason, "left out of the block and dropped");
            self.meter.reject("failed_in_block");
            self.pool.remove(hash, now);
        }
        // Senders whose account the block changed: nonce and balance may say something else now.
        if let Some(layer) = self.ground.state.layers().last() {
            self.recent.apply_accounts(layer.number(), layer.changes());
            let accounts = layer.changes().accounts.iter();
            let accounts = accounts.map(|change| (change.address, change.account));
            let accounts = accounts.map(|(at, account)| (at, account.unwrap_or_default()));
            self.pool.advance(accounts, now);
        }
        let durable = self.published.load().number();
        self.journal.built(self.ground.header.number, tip.included, durable);
        match self.journal.take_late() {
            late if late.is_empty() => Ok(()),
            late => self.take_in(late),
        }
    }

    /// Drops pooled transactions that the next block cannot take because another fork starts with it. A
    /// chain has few forks, so the whole pool is checked at once.
    fn follow_fork(&mut self, now: Instant) {
        let fork = self.ground.next_fork(&self.spec);
        if fork == self.fork {
            return;
        }
        self.fork = fork;
        let modules = self.ground.modules.clone();
        let context = self.ground.checks(&self.spec, modules.as_deref());
        for (hash, reject) in fork::unfit(&self.pool, &context) {
            tracing::debug!(%hash, %reject, "dropped: the next block has the rules of {fork:?}");
            self.meter.reject(reject.label());
            self.pool.remove(hash, now);
        }
    }

    /// Drops what has waited too long, counts what has left the pool, and keeps the journal to its bound.
    fn keep_house(&mut self, now: Instant) -> Result<(), Fault> {
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

    /// Proposes the next block if the engine gives leave.
    fn propose(&mut self) -> bool {
        let ready = self.proposals.as_mut().is_some_and(Outbox::ready);
        if self.outstanding || !ready || self.engine.is_none() {
            return false;
        }
        let (demand, chosen) = self.demand();
        let ground = &self.ground;
        let (Some(engine), Some(out)) = (&mut self.engine, &mut self.proposals) else {
            return false;
        };
        let Some(slot) = engine.slot(self.clock.now(), ground.header.timestamp, demand) else {
            return false;
        };
        let (pool, spec) = (&mut self.pool, &self.spec);
        let chosen = chosen.unwrap_or_else(|| candidates(pool, ground, spec, &BlockPart::WHOLE));
        let number = ground.header.number + 1;
        out.send(Proposal { number, timestamp: slot.timestamp, txs: chosen.txs });
        self.outstanding = true;
        true
    }

    /// How much waits for a block; with the candidates, if that took choosing them.
    fn demand(&mut self) -> (Demand, Option<Selection>) {
        let (gas_limit, full) = (self.ground.header.gas_limit, self.full_gas());
        // The sum of all pending gas is quickly had, but some of it may be below the base fee. That is
        // demand too: the base fee falls by blocks only.
        let gas = self.pool.pending_gas();
        let some = if gas > 0 { Demand::Some } else { Demand::Nothing };
        if gas < full || gas < self.look_at_gas {
            return (some, None);
        }
        let chosen = candidates(&mut self.pool, &self.ground, &self.spec, &BlockPart::WHOLE);
        if chosen.gas >= full || chosen.bytes_full {
            return (Demand::Full, Some(chosen));
        }
        self.look_at_gas = gas.saturating_add(gas_limit / LOOK_AGAIN_PART);
        (some, Some(chosen))
    }

    /// Everything submitted has been admitted or answered.
    fn is_drained(&self) -> bool {
        self.checks.is_finished() && self.submissions.is_finished() && !self.reorder.has_next()
    }

    /// Ends: waits for the block in flight, then leaves the pool in its journal.
    fn finish(&mut self) -> Result<Progress, Fault> {
        if self.outstanding && !self.tips.is_finished() {
            return Ok(Progress::Idle);
        }
        if self.proposals.take().is_some() {
            let durable = self.published.load().number();
            self.journal.compact(&self.pool, durable, Instant::now())?;
        }
        Ok(Progress::Finished)
    }
}

/// The best transactions for a part of the block after this one, and some for the room they leave.
fn candidates(
    pool: &mut Mempool,
    ground: &Ground,
    spec: &ChainSpec,
    part: &BlockPart,
) -> Selection {
    let gas = ground.header.gas_limit.min(part.gas);
    let modules = ground.modules.as_deref();
    let blobs = ground.checks(spec, modules).blobs;
    let share = modules.map(|modules| modules.market.params().min_gas_multiplier);
    let parts = share.and_then(|share| share.checked_mul_int(U256::from(1_u64 << 32)).ok());
    pool.select(Room {
        gas,
        candidates_gas: gas.saturating_mul(CANDIDATE_BLOCKS),
        charged: parts.and_then(LegacyDec::truncate_u64).unwrap_or_default(),
        bytes: BLOCK_TX_BYTES_MAX,
        txs: part.txs,
        blob_gas: blobs.map_or(0, |rules| rules.block_gas),
        blob_base_fee: blobs.map_or(0, |rules| rules.base_fee),
    })
}

impl Ante {
    /// See [`super::stage::Stage::patience`].
    fn patience(&mut self) -> Duration {
        match &self.engine {
            Some(engine) if !self.outstanding => engine.patience(self.clock.now()),
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
        while let Some(tip) = self.tips.take() {
            self.follow(tip)?;
            worked = true;
        }
        self.follow_fork(Instant::now());
        for _ in 0..ROUND {
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
        self.keep_house(Instant::now())?;
        if self.is_drained() {
            return if self.replies.ready() { self.finish() } else { Ok(Progress::Blocked) };
        }
        worked |= self.propose();
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    /// Admits what callers have submitted and answers what they have asked; says whether there was
    /// anything.
    fn serve_callers(&mut self) -> Result<bool, Fault> {
        let mut worked = false;
        for _ in 0..QUERY_ROUND {
            let Some(query) = self.queries.take() else { break };
            worked = true;
            if query.is_large() {
                // For the worker's next step: a caller has sockets to serve, and submissions come first.
                self.deferred = Some(query);
                break;
            }
            self.reply_to(query)?;
        }
        for _ in 0..ROUND {
            let Some(batch) = self.submissions.take() else { break };
            self.admit(batch)?;
            worked = true;
        }
        Ok(worked)
    }

    fn reply_to(&mut self, query: PoolQuery) -> Result<(), ReadError> {
        let Self { pool, ground, spec, accepts, .. } = self;
        // A node that accepts no transactions puts none into its next block.
        let choose = |pool: &mut Mempool, part: &BlockPart| match accepts {
            true => candidates(pool, ground, spec, part).txs,
            false => Vec::new(),
        };
        query.answer(pool, ground, choose)
    }

    /// The part of a step that callers wait for, by one of them; says whether it was all there is to do
    /// now, or the worker must see to the rest.
    fn attend(&mut self) -> bool {
        // Neither is for a thread that serves sockets: answering for the whole pool, waiting for the disk.
        if self.deferred.is_some() || self.journal.syncs() || self.disk.is_late() {
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

    /// Whether a block may be wanted now that was not while so much gas was pending. When time alone
    /// makes the difference, the worker wakes by itself.
    fn may_propose_after(&self, before: u64) -> bool {
        let gas = self.pool.pending_gas();
        let is_demand = before == 0 && gas > 0 || gas >= self.full_gas().max(self.look_at_gas);
        is_demand && self.engine.is_some() && !self.outstanding
    }

    fn has_callers(&self) -> bool {
        self.deferred.is_some() || self.queries.depth() > 0 || self.submissions.depth() > 0
    }

    /// Pending gas that fills a block, if all of it can pay.
    fn full_gas(&self) -> u64 {
        self.ground.header.gas_limit.saturating_sub(TX_GAS_MIN) + 1
    }
}

impl std::fmt::Debug for Ante {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ante").field("pool", &self.pool.len()).finish_non_exhaustive()
    }
}
