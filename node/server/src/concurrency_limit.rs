//! Limits the concurrency of requests that run for a millisecond or longer. Only a few run at once, so that the
//! other cores are free for the pipeline, and a limited number waits.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits the concurrency of one kind of request.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    /// Permits for running and waiting requests.
    permits: Arc<Semaphore>,
    /// Permits for running requests.
    running: Arc<Semaphore>,
    max_waiting: usize,
}

/// Too many requests are waiting. The value is their maximum number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyWaiting(pub usize);

/// A permit to run a request. It is released when dropped.
#[derive(Debug)]
pub struct ConcurrencyPermit {
    _permit: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

impl ConcurrencyLimit {
    /// Lets `max_running` requests run and `max_waiting` requests wait.
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        let permits = Arc::new(Semaphore::new(max_running + max_waiting));
        Self { permits, running: Arc::new(Semaphore::new(max_running)), max_waiting }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If too many requests are waiting.
    ///
    /// # Panics
    /// Never: the semaphores are not closed.
    pub async fn acquire(&self) -> Result<ConcurrencyPermit, TooManyWaiting> {
        let busy = |_| TooManyWaiting(self.max_waiting);
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(busy)?;
        let running = Arc::clone(&self.running).acquire_owned().await;
        let running = running.expect("the semaphore is not closed");
        Ok(ConcurrencyPermit { _permit: permit, _running: running })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITING_REQUESTS: usize = 8;

    #[tokio::test]
    async fn request_is_refused_when_too_many_wait() {
        let limit = Arc::new(ConcurrencyLimit::new(1, WAITING_REQUESTS));
        let first = limit.acquire().await.unwrap();
        let wait = || {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.acquire().await.map(drop) })
        };
        let waiting: Vec<_> = (0..WAITING_REQUESTS).map(|_| wait()).collect();
        while limit.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(limit.acquire().await.unwrap_err(), TooManyWaiting(WAITING_REQUESTS));
        drop(first);
        for request in waiting {
            request.await.unwrap().unwrap();
        }
        limit.acquire().await.unwrap();
    }
}
