//! Concurrency limits for queries that run for a millisecond or longer. Only a few run at once, so that the
//! pipeline keeps the other cores, and a limited number waits.

use super::QueryError;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of calls, and of searches, that wait: an eighth of the requests that REST serves at once.
pub(super) const MAX_WAITING_CALLS: usize = 8;
/// Maximum number of reads of a whole block or the governance state that wait: as many as REST, gRPC, the
/// CometBFT RPC and its WebSockets serve at once by default.
pub(super) const MAX_WAITING_READS: usize = 256;

/// Limits the concurrency of one kind of query.
#[derive(Debug)]
pub(super) struct ConcurrencyLimit {
    /// Permits for running and waiting queries.
    permits: Arc<Semaphore>,
    /// Permits for running queries.
    running: Arc<Semaphore>,
    max_waiting: usize,
}

/// A permit to run a query. It is released when dropped.
#[derive(Debug)]
pub struct QueryPermit {
    _permit: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Lets `max_running` queries run and `max_waiting` queries wait.
    pub(super) fn new(max_running: usize, max_waiting: usize) -> Self {
        let permits = Arc::new(Semaphore::new(max_running + max_waiting));
        Self { permits, running: Arc::new(Semaphore::new(max_running)), max_waiting }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If too many queries are waiting.
    pub(super) async fn acquire(&self) -> Result<QueryPermit, QueryError> {
        let busy = |_| QueryError::busy(self.max_waiting);
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await;
        let running = running.map_err(QueryError::internal)?;
        Ok(QueryPermit { _permit: permit, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Code;

    #[tokio::test]
    async fn query_is_refused_when_too_many_wait() {
        let limit = Arc::new(ConcurrencyLimit::new(1, MAX_WAITING_CALLS));
        let first = limit.acquire().await.unwrap();
        let wait = || {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.acquire().await.map(drop) })
        };
        let waiting: Vec<_> = (0..MAX_WAITING_CALLS).map(|_| wait()).collect();
        while limit.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(limit.acquire().await.unwrap_err().code, Code::ResourceExhausted);
        drop(first);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
        limit.acquire().await.unwrap();
    }
}
