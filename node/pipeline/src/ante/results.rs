//! The results of a batch of submissions. They are sent only after the accepted transactions are in the journal,
//! so that a crash of the process does not lose a transaction that was reported as accepted:
//! [`UnwrittenResults`] cannot be sent, and become [`Results`] when the journal is written.

use crate::batch::{Reply, Submitted};
use mempool::journal::{Journal, JournalError};

/// Results whose transactions may not be in the journal file yet.
#[derive(Debug)]
pub(super) struct UnwrittenResults(Vec<(Submitted, Reply)>);

impl UnwrittenResults {
    pub(super) fn with_capacity(results: usize) -> Self {
        Self(Vec::with_capacity(results))
    }

    /// Adds a result. An accepted transaction must have been added to the journal, unless another validator sent it.
    pub(super) fn push(&mut self, submitted: Submitted, reply: Reply) {
        self.0.push((submitted, reply));
    }

    /// Flushes the transactions that were added to the journal to the journal file.
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
