//! Recover: who signed. Stateless, so any number of workers run it side by side.
//!
//! Takes batches of raw transactions, and blocks.
//! Gives the same, decoded, each transaction with its hash and sender or a reason.
//! State: a recovery workspace and its scratch vectors.
//! Bound: one batch or block at a time.
//! When full: takes no input; one finished batch waits in the outbox.

use super::{
    batch::{CheckBatch, GivenBlock, RawBatch, RecoveredBlock},
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox},
    stage::{Progress, Stage},
};
use crate::{
    execution::{DecodedTx, RecoverError, RecoveredTx},
    mempool::Reject,
};
use std::sync::Arc;
use verify::{Job, Outcome, Reason, Recoverer};

/// See the module.
#[derive(Debug)]
pub(super) struct Recover {
    raw: Inbox<RawBatch>,
    blocks: Inbox<GivenBlock>,
    checks: Option<Outbox<CheckBatch>>,
    recovered: Option<Outbox<RecoveredBlock>>,
    bench: Bench,
    meter: Arc<Meter>,
}

/// The recoverer with its scratch space.
#[derive(Debug)]
struct Bench {
    recoverer: Recoverer,
    jobs: Vec<Job>,
    outcomes: Vec<Outcome>,
}

impl Bench {
    /// Recovers the senders of decoded transactions, all in one batch, in order.
    fn finish(
        &mut self,
        decoded: Vec<DecodedTx>,
    ) -> impl Iterator<Item = Result<RecoveredTx, RecoverError>> {
        self.jobs.clear();
        self.jobs.extend(decoded.iter().map(DecodedTx::job));
        self.outcomes.clear();
        self.outcomes.resize(self.jobs.len(), Err(Reason::NoPublicKey));
        self.recoverer.recover_batch(&self.jobs, &mut self.outcomes);
        decoded.into_iter().zip(&self.outcomes).map(|(tx, outcome)| tx.finish(outcome))
    }
}

impl Recover {
    /// One of the workers.
    pub(super) fn new(
        recoverer: Recoverer,
        raw: Inbox<RawBatch>,
        blocks: Inbox<GivenBlock>,
        checks: Outbox<CheckBatch>,
        recovered: Outbox<RecoveredBlock>,
        meter: Arc<Meter>,
    ) -> Self {
        let bench = Bench { recoverer, jobs: Vec::new(), outcomes: Vec::new() };
        Self { raw, blocks, checks: Some(checks), recovered: Some(recovered), bench, meter }
    }

    fn recover_raw(&mut self, RawBatch { seq, txs }: RawBatch) -> CheckBatch {
        self.meter.take(txs.len());
        let mut decoded = Vec::with_capacity(txs.len());
        let mut slots = Vec::with_capacity(txs.len());
        for tx in txs {
            let result = tx.bytes.and_then(|bytes| {
                DecodedTx::decode(bytes).map_err(|e| Reject::Malformed(e.to_string()))
            });
            slots.push((result.map(|tx| decoded.push(tx)), tx.reply));
        }
        let mut senders = self.bench.finish(decoded);
        let mut given = 0;
        let txs = slots.into_iter().map(|(slot, reply)| {
            let recovered = slot.and_then(|()| {
                let sender = senders.next().expect("one sender a decoded transaction");
                sender.map_err(|_| Reject::InvalidSender)
            });
            match &recovered {
                Ok(_) => given += 1,
                Err(reject) => self.meter.reject(reject.label()),
            }
            (recovered, reply)
        });
        let txs = txs.collect();
        self.meter.give(given);
        CheckBatch { seq, txs }
    }

    fn recover_block(&mut self, GivenBlock { seq, block }: GivenBlock) -> RecoveredBlock {
        self.meter.take(block.txs.len());
        let decoded: Result<Vec<_>, _> = block
            .txs
            .iter()
            .enumerate()
            .map(|(index, raw)| {
                DecodedTx::decode(raw.clone()).map_err(|error| (index, error.to_string()))
            })
            .collect();
        let txs = decoded.and_then(|decoded| {
            let senders = self.bench.finish(decoded).enumerate();
            senders
                .map(|(index, tx)| tx.map(Arc::new).map_err(|reason| (index, reason.to_string())))
                .collect()
        });
        self.meter.give(block.txs.len());
        RecoveredBlock { seq, block, txs }
    }
}

impl Stage for Recover {
    fn name(&self) -> &'static str {
        "recover"
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let mut worked = false;
        let mut blocked = false;
        if let Some(mut out) = self.checks.take() {
            if !out.ready() {
                blocked = true;
                self.checks = Some(out);
            } else if let Some(batch) = self.raw.take() {
                worked = true;
                out.send(self.recover_raw(batch));
                self.checks = Some(out);
            } else if !self.raw.is_finished() {
                self.checks = Some(out);
            }
        }
        if let Some(mut out) = self.recovered.take() {
            if !out.ready() {
                blocked = true;
                self.recovered = Some(out);
            } else if let Some(block) = self.blocks.take() {
                worked = true;
                out.send(self.recover_block(block));
                self.recovered = Some(out);
            } else if !self.blocks.is_finished() {
                self.recovered = Some(out);
            }
        }
        Ok(match (worked, blocked) {
            (true, _) => Progress::Worked,
            (false, true) => Progress::Blocked,
            _ if self.checks.is_none() && self.recovered.is_none() => Progress::Finished,
            _ => Progress::Idle,
        })
    }
}
