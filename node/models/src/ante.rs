//! Flat combining (`pipeline/src/ante/combining.rs`) and the release of results
//! (`pipeline/src/ante/results.rs`), with a stage in place of `pipeline/src/ante.rs`. The stage follows the same
//! rules for callers, for the journal and for blocks, but does not check transactions.

#[path = "../../pipeline/src/ante/combining.rs"]
mod combining;
#[path = "../../pipeline/src/ante/results.rs"]
mod results;

pub(crate) use combining::{CombiningStage, CombiningWorker};

use crate::{
    batch::Recovered, chain::Chain, fault::Fault, meter::Meter, ring::Inbox, stage::Progress,
};
use mempool::{Limits, Mempool, Reject, journal::Journal};
use results::UnwrittenResults;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use storage::Account;
use transactions::RecoveredTx;

/// Maximum number of batches per step: fewer than in the pipeline, so that callers leave some batches to the
/// worker.
const MAX_BATCHES_PER_STEP: usize = 1;

/// The ante stage of the models.
pub(crate) struct Ante {
    pool: Mempool,
    journal: Journal,
    submissions: Inbox<Vec<Recovered>>,
    /// `None` if the model has no blocks.
    chain: Option<Chain>,
    meter: Arc<Meter>,
}

impl Ante {
    /// A stage without blocks: accepted transactions stay in the pool.
    pub(crate) fn new(submissions: Inbox<Vec<Recovered>>) -> Self {
        let pool = Mempool::new(Limits { min_tip: 0, price_limit: 0, ..Limits::default() }, 0);
        let meter = Arc::new(Meter::new("ante"));
        Self { pool, journal: Journal::disabled(), submissions, chain: None, meter }
    }

    /// Adds a journal, and a chain whose blocks remove transactions from the pool.
    pub(crate) fn with_chain(self, journal: Journal, chain: Chain) -> Self {
        Self { journal, chain: Some(chain), ..self }
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        let mut worked = self.serve_callers()?;
        if let Some(chain) = &mut self.chain {
            worked |= chain.step(&mut self.pool, &mut self.journal)?;
        }
        if self.submissions.is_finished() && self.chain.as_mut().is_none_or(Chain::is_finished) {
            return Ok(Progress::Finished);
        }
        Ok(if worked { Progress::Worked } else { Progress::Idle })
    }

    fn wake_after(&mut self) -> Duration {
        Duration::MAX
    }

    fn run_for_caller(&mut self) -> bool {
        // With a chain, the worker must run too, because only it proposes blocks.
        self.serve_callers().is_ok() && self.chain.is_none() && self.submissions.depth() == 0
    }

    fn serve_callers(&mut self) -> Result<bool, Fault> {
        let mut worked = false;
        for _ in 0..MAX_BATCHES_PER_STEP {
            let Some(batch) = self.submissions.take() else { break };
            self.admit(batch)?;
            worked = true;
        }
        Ok(worked)
    }

    fn admit(&mut self, batch: Vec<Recovered>) -> Result<(), Fault> {
        let mut results = UnwrittenResults::with_capacity(batch.len());
        for (tx, reply) in batch {
            let submitted = tx.and_then(|tx| {
                let hash = tx.hash;
                self.accept(tx).map(|()| hash).map_err(Box::new)
            });
            results.push(submitted, reply);
        }
        let replies = results.write(&mut self.journal)?.send();
        assert!(replies.is_empty(), "no model has a TCP connection");
        Ok(())
    }

    fn accept(&mut self, tx: Arc<RecoveredTx>) -> Result<(), Reject> {
        let account = Account { balance: alloy_primitives::U256::MAX, ..Account::default() };
        let before = self.journal.push(&tx);
        self.pool
            .insert(tx, |_| Box::default(), &account, Instant::now())
            .map(drop)
            .inspect_err(|_| self.journal.retract(before))
    }
}

impl std::fmt::Debug for Ante {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ante").finish_non_exhaustive()
    }
}
