//! Ante: admits transactions to the mempool, and proposes blocks from it.
//!
//! Takes recovered transactions in order, tips of the chain, and questions about the pool.
//! Gives answers to submitters, and one proposal at a time to execute.
//! State: the mempool, and the view it is checked against.
//! Bound: the mempool's limits; one proposal in flight.
//! When full: transactions are turned away with `txpool is full`; answers wait for credit.

mod query;

pub use query::{PoolQuery, PooledTx};

use super::{
    batch::{CheckBatch, Proposal, Reply, ReplyBatch, Submitted, Tip},
    fault::Fault,
    meter::Meter,
    reorder::Reorder,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use crate::{
    chain::ChainSpec,
    consensus::{Demand, Engine},
    decorator::{self, CheckContext, Mode},
    execution::RecoveredTx,
    mempool::Mempool,
    view::View,
};
use alloy_primitives::Bytes;
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};
use storage::{ReadError, StateRead};
use tokio::sync::broadcast;

/// Most bytes of transactions in a block this node builds: keeps a block below the 10 MiB of
/// EIP-7934 with room for its header and ommers.
const BLOCK_TX_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most tips and batches handled before looking at the clock again.
const ROUND: usize = 16;

/// The ring ends of the stage.
#[derive(Debug)]
pub(super) struct Ends {
    /// Recovered transactions.
    pub checks: Inbox<CheckBatch>,
    /// New tips of the chain.
    pub tips: Inbox<Tip>,
    /// Questions about the pool.
    pub queries: Inbox<PoolQuery>,
    /// Who wants to know what the pool takes.
    pub arrivals: broadcast::Sender<Arc<RecoveredTx>>,
    /// Answers for TCP connections.
    pub replies: Outbox<ReplyBatch>,
    /// Blocks to build.
    pub proposals: Outbox<Proposal>,
}

/// See the module.
pub(super) struct Ante {
    spec: Arc<ChainSpec>,
    view: View,
    pool: Mempool,
    engine: Option<Box<dyn Engine>>,
    /// A proposal is being built: the next waits for its tip.
    outstanding: bool,
    journal: PathBuf,
    checks: Inbox<CheckBatch>,
    reorder: Reorder<CheckBatch>,
    tips: Inbox<Tip>,
    queries: Inbox<PoolQuery>,
    arrivals: broadcast::Sender<Arc<RecoveredTx>>,
    replies: Outbox<ReplyBatch>,
    proposals: Option<Outbox<Proposal>>,
    meter: Arc<Meter>,
}

impl Ante {
    /// The stage at `view`. Without an engine it admits transactions and proposes nothing. At the
    /// end it leaves the pool in the file `journal`.
    pub(super) fn new(
        spec: Arc<ChainSpec>,
        view: View,
        engine: Option<Box<dyn Engine>>,
        journal: PathBuf,
        ends: Ends,
        meter: Arc<Meter>,
    ) -> Self {
        Self {
            spec,
            view,
            pool: Mempool::default(),
            engine,
            outstanding: false,
            journal,
            checks: ends.checks,
            reorder: Reorder::new(),
            tips: ends.tips,
            queries: ends.queries,
            arrivals: ends.arrivals,
            replies: ends.replies,
            proposals: Some(ends.proposals),
            meter,
        }
    }

    /// Admits one batch and answers it.
    fn admit(&mut self, batch: CheckBatch) -> Result<(), Fault> {
        self.meter.take(batch.txs.len());
        let state = self.view.state.reader()?;
        let mut admitted = 0;
        let mut replies = Vec::new();
        for (tx, reply) in batch.txs {
            let submitted = match tx {
                Ok(tx) => self.admit_one(tx, &state)?,
                Err(reject) => Err(reject),
            };
            match &submitted {
                Ok(_) => admitted += 1,
                Err(reject) => self.meter.reject(reject.label()),
            }
            match reply {
                Reply::Tcp(connection) => replies.push((connection, submitted)),
                // The caller may have given up waiting.
                Reply::Rpc(caller) => drop(caller.send(submitted)),
                Reply::Silent => {}
            }
        }
        self.meter.give(admitted);
        if !replies.is_empty() {
            self.replies.send(ReplyBatch(replies));
        }
        Ok(())
    }

    fn admit_one(
        &mut self,
        tx: RecoveredTx,
        state: &impl StateRead<Error = ReadError>,
    ) -> Result<Submitted, ReadError> {
        let hash = tx.hash;
        let context = CheckContext::after(&self.spec, &self.view.head);
        let admitted = match decorator::check(&tx, &context, state, Mode::Check)? {
            Ok(admitted) => admitted,
            Err(reject) => return Ok(Err(reject)),
        };
        // The pool outlives the read buffer that `raw` is a slice of.
        let raw = Bytes::copy_from_slice(&tx.raw);
        let tx = Arc::new(RecoveredTx { raw, ..tx });
        let listened_to = self.arrivals.receiver_count() > 0;
        let arrived = listened_to.then(|| Arc::clone(&tx));
        let inserted = self.pool.insert(tx, &admitted.sender.account);
        if let Some(tx) = arrived.filter(|_| inserted.is_ok()) {
            // A listener may have gone in between.
            let _ = self.arrivals.send(tx);
        }
        Ok(inserted.map(|()| hash))
    }

    /// Follows the chain to a new tip.
    fn follow(&mut self, tip: Tip) -> Result<(), Fault> {
        self.view = tip.view;
        self.outstanding = false;
        for (hash, reason) in tip.skipped {
            tracing::debug!(%hash, reason, "left out of the block and dropped");
            self.meter.reject("failed_in_block");
            self.pool.remove(hash);
        }
        let state = self.view.state.reader()?;
        for tx in &tip.included {
            self.pool.remove(tx.hash);
        }
        // Senders whose state the block changed: their lanes are looked at anew.
        let Some(layer) = self.view.state.layers().last() else { return Ok(()) };
        for change in &layer.changes().accounts {
            if self.pool.lane(change.address).is_some() {
                let account = state.account(change.address)?.unwrap_or_default();
                self.pool.advance(change.address, &account);
            }
        }
        Ok(())
    }

    /// Proposes the next block if the engine gives leave.
    fn propose(&mut self) -> bool {
        let (Some(engine), Some(out)) = (&mut self.engine, &mut self.proposals) else {
            return false;
        };
        if self.outstanding || !out.ready() {
            return false;
        }
        let head = &self.view.head;
        let gas_limit = head.header.gas_limit;
        let gas = self.pool.gas_waiting(gas_limit);
        let demand = Demand { gas, gas_limit };
        let Some(slot) = engine.slot(SystemTime::now(), head.header.timestamp, demand) else {
            return false;
        };
        let txs = self.pool.best(head.next_base_fee, gas_limit, BLOCK_TX_BYTES_MAX);
        out.send(Proposal { parent: head.clone(), timestamp: slot.timestamp, txs });
        self.outstanding = true;
        true
    }

    /// Everything submitted has been admitted or answered.
    fn is_drained(&self) -> bool {
        self.checks.is_finished() && self.reorder.is_empty()
    }

    /// Ends: waits for the block in flight, then leaves the pool in its journal.
    fn finish(&mut self) -> Progress {
        if self.outstanding && !self.tips.is_finished() {
            return Progress::Idle;
        }
        if self.proposals.take().is_some() {
            super::journal::save(&self.journal, &self.pool);
        }
        Progress::Finished
    }
}

impl Stage for Ante {
    fn name(&self) -> &'static str {
        "ante"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn patience(&self) -> Duration {
        match &self.engine {
            Some(engine) if !self.outstanding => engine.patience(SystemTime::now()),
            _ => Duration::MAX,
        }
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let mut worked = false;
        while let Some(tip) = self.tips.take() {
            self.follow(tip)?;
            worked = true;
        }
        for _ in 0..ROUND {
            let Some(query) = self.queries.take() else { break };
            query.answer(&self.pool);
            worked = true;
        }
        for _ in 0..ROUND {
            if !self.replies.ready() {
                break;
            }
            if let Some(batch) = self.checks.take() {
                self.reorder.put(batch.seq, batch);
                worked = true;
            }
            let Some(batch) = self.reorder.take() else { break };
            self.admit(batch)?;
            worked = true;
        }
        if self.is_drained() {
            return Ok(if self.replies.ready() { self.finish() } else { Progress::Blocked });
        }
        worked |= self.propose();
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }
}

impl std::fmt::Debug for Ante {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ante").field("pool", &self.pool.len()).finish_non_exhaustive()
    }
}
