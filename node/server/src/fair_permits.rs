//! A limited number of permits for which clients wait in a [`FairQueue`]: a client with hundreds of waiting requests
//! delays another client by one request.
//!
//! State: the free permits, and the queue with its limits. If the queue is full, a request is refused.

use crate::fair_queue::FairQueue;
use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// See the module documentation.
#[derive(Debug)]
pub struct FairPermits(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    /// The numbers of the free permits.
    free: Vec<usize>,
    /// Empty while a permit is free.
    waiting: FairQueue<oneshot::Sender<Result<FairPermit, usize>>>,
}

/// A permit. When dropped, it passes to the next waiting caller.
#[derive(Debug)]
pub struct FairPermit {
    permits: Arc<FairPermits>,
    number: usize,
}

/// Why a caller receives no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    /// Too many requests wait. The value is the limit that was reached.
    #[error("too many requests: {0} earlier requests wait for their turn, try again")]
    Full(usize),
    /// The server is shutting down.
    #[error("the node is stopping")]
    Stopping,
}

impl FairPermits {
    /// Creates this number of permits.
    pub fn new(permits: usize) -> Arc<Self> {
        let (free, waiting) = ((0..permits).collect(), FairQueue::default());
        Arc::new(Self(Mutex::new(Queue { free, waiting })))
    }

    /// Waits for a permit. If the future is dropped while it waits, no permit is lost.
    ///
    /// # Errors
    /// See [`NoPermit`].
    pub async fn acquire(
        self: &Arc<Self>,
        address: IpAddr,
        connection: u64,
    ) -> Result<FairPermit, NoPermit> {
        let (granted, displaced) = {
            let mut queue = self.lock();
            if let Some(number) = queue.free.pop() {
                return Ok(FairPermit { permits: Arc::clone(self), number });
            }
            let (grant, granted) = oneshot::channel();
            let displaced = queue.waiting.push(address, connection, grant);
            (granted, displaced.map_err(NoPermit::Full)?)
        };
        if let Some((refused, limit)) = displaced {
            // Sending fails only if the caller was dropped.
            let _ = refused.send(Err(limit));
        }
        granted.await.map_err(|_| NoPermit::Stopping)?.map_err(NoPermit::Full)
    }

    /// Passes a permit to the next caller that still waits.
    fn release(self: &Arc<Self>, number: usize) {
        loop {
            let grant = {
                let mut queue = self.lock();
                match queue.waiting.pop() {
                    Some(grant) => grant,
                    None => return queue.free.push(number),
                }
            };
            if !grant.is_closed() {
                // If the caller was dropped since, the permit is dropped too, and so passes to the next caller.
                let _ = grant.send(Ok(FairPermit { permits: Arc::clone(self), number }));
                return;
            }
        }
    }

    /// The number of free permits.
    pub fn free(&self) -> usize {
        self.lock().free.len()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FairPermit {
    /// The number of the permit, from 0.
    pub const fn number(&self) -> usize {
        self.number
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        self.permits.release(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        pin::Pin,
        task::{Context, Poll, Waker},
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn flood_delays_another_client_by_one_request() {
        let permits = FairPermits::new(1);
        let first = permits.acquire(address(1), 1).await.unwrap();
        let mut flood: Vec<_> =
            (0..100).map(|connection| Box::pin(permits.acquire(address(1), connection))).collect();
        for waiting in &mut flood {
            assert!(poll(waiting).is_pending());
        }
        let mut other = Box::pin(permits.acquire(address(2), 200));
        assert!(poll(&mut other).is_pending());
        drop(first);
        let Poll::Ready(second) = poll(&mut flood[0]) else { panic!("the first caller waits") };
        assert!(poll(&mut other).is_pending());
        drop(second);
        assert!(matches!(poll(&mut other), Poll::Ready(Ok(_))));
    }

    #[tokio::test]
    async fn dropped_callers_release_permits_and_a_full_queue_refuses() {
        let permits = FairPermits::new(1);
        let permit = permits.acquire(address(1), 1).await.unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            let mut next = Box::pin(permits.acquire(address(1), waiting.len() as u64));
            match poll(&mut next) {
                Poll::Pending => waiting.push(next),
                Poll::Ready(permit) => break permit.unwrap_err(),
            }
        };
        assert_eq!(refused, NoPermit::Full(waiting.len()));
        let last = waiting.pop().unwrap();
        drop(waiting);
        drop(permit);
        drop(last.await.unwrap());
        assert_eq!(permits.free(), 1);
    }
}
