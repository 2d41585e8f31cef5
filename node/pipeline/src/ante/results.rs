//! The results of a batch of submissions. They are sent only after the journal has the accepted transactions,
//! so that no answered transaction is lost with the process: [`UnwrittenResults`] cannot be sent, and become
//! [`Results`] by writing the journal.

use crate::batch::{Reply, Submitted};
use mempool::journal::{Journal, JournalError};

/// Results whose transactions may not be in the journal file yet. Dropping them answers no submission.
#[derive(Debug)]
pub(super) struct UnwrittenResults(Vec<(Submitted, Reply)>);

impl UnwrittenResults {
    /// Space for this many results.
    pub(super) fn with_capacity(results: usize) -> Self {
        Self(Vec::with_capacity(results))
    }

    /// Adds a result. If it is an acceptance, its transaction must have been added to the journal, unless another validator has sent it.
    pub(super) fn push(&mut self, submitted: Submitted, reply: Reply) {
        self.0.push((submitted, reply));
    }

    /// Writes what was added to the journal.
    pub(super) fn write(self, journal: &mut Journal) -> Result<Results, JournalError> {
        journal.write()?;
        Ok(Results(self.0))
    }
}

/// Results whose transactions are in the journal file.
#[derive(Debug)]
pub(super) struct Results(Vec<(Submitted, Reply)>);

impl Results {
    /// Answers the waiting calls, and returns the results for TCP connections.
    pub(super) fn send(self) -> Vec<(u64, Submitted)> {
        let mut replies = Vec::new();
        for (submitted, reply) in self.0 {
            match reply {
                Reply::Tcp(connection) => replies.push((connection, submitted)),
                // The caller may have disconnected.
                Reply::Rpc(caller) => caller.answer(submitted),
                Reply::Silent => {}
            }
        }
        replies
    }
}
