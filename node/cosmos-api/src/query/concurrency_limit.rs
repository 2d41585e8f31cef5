//! Concurrency limits of queries that work for a millisecond or longer. Few run at a time, so that the
//! pipeline keeps the other cores, and a bounded number waits.

use super::QueryError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Calls, and searches, that may wait: they hold an eighth of the requests that REST serves at once.
pub(super) const MAX_WAITING_CALLS: usize = 8;
/// Queries that read a whole block or the governance state and may wait: as many as REST, gRPC, the
/// CometBFT RPC and its WebSockets serve at once by default.
pub(super) const MAX_WAITING_READS: usize = 256;

/// The turns of one kind of query.
#[derive(Debug)]
pub(super) struct Turns {
    /// Those at work and those that wait.
    places: Arc<Semaphore>,
    at_work: Arc<Semaphore>,
    max_waiting: usize,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _place: OwnedSemaphorePermit,
    _at_work: OwnedSemaphorePermit,
}

impl Turns {
    /// Lets `at_work` queries run and `max_waiting` wait.
    pub(super) fn new(at_work: usize, max_waiting: usize) -> Self {
        let places = Arc::new(Semaphore::new(at_work + max_waiting));
        Self { places, at_work: Arc::new(Semaphore::new(at_work)), max_waiting }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// When enough wait already.
    pub(super) async fn next(&self) -> Result<Turn, QueryError> {
        let busy = |_| QueryError::busy(self.max_waiting);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(busy)?;
        let at_work = Arc::clone(&self.at_work).acquire_owned().await;
        let at_work = at_work.map_err(QueryError::internal)?;
        Ok(Turn { _place: place, _at_work: at_work })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Code;

    #[tokio::test]
    async fn who_comes_when_enough_wait_is_refused() {
        let turns = Arc::new(Turns::new(1, MAX_WAITING_CALLS));
        let first = turns.next().await.unwrap();
        let wait = || {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.next().await.map(drop) })
        };
        let waiting: Vec<_> = (0..MAX_WAITING_CALLS).map(|_| wait()).collect();
        while turns.places.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(turns.next().await.unwrap_err().code, Code::ResourceExhausted);
        drop(first);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
        turns.next().await.unwrap();
    }
}
