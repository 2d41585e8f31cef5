//! Turns of the queries that work long: a few at a time, so that blocks have the rest of the cores, and a
//! few that wait, so that the others still find a place among the requests at work.

use super::QueryError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Queries of a kind that may wait for their turn: they hold an eighth of REST's places.
const WAITING_MAX: usize = 8;

/// The turns of one kind of query.
#[derive(Debug)]
pub(super) struct Turns {
    /// Those at work and those that wait.
    places: Arc<Semaphore>,
    at_work: Arc<Semaphore>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _place: OwnedSemaphorePermit,
    _at_work: OwnedSemaphorePermit,
}

impl Turns {
    /// So many turns at once.
    pub(super) fn new(at_work: usize) -> Self {
        let places = Arc::new(Semaphore::new(at_work + WAITING_MAX));
        Self { places, at_work: Arc::new(Semaphore::new(at_work)) }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// When enough wait already.
    pub(super) async fn next(&self) -> Result<Turn, QueryError> {
        let busy = |_| QueryError::busy(WAITING_MAX);
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
        let turns = Arc::new(Turns::new(1));
        let first = turns.next().await.unwrap();
        let wait = || {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.next().await.map(drop) })
        };
        let waiting: Vec<_> = (0..WAITING_MAX).map(|_| wait()).collect();
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
