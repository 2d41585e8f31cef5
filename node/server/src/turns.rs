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
pub struct Turns(Mutex<Queue>);

#[derive(Debug)]
struct Queue {
    /// The numbers of the free permits.
    free: Vec<usize>,
    /// Empty while a permit is free.
    waiting: FairQueue<oneshot::Sender<Result<Turn, usize>>>,
}

/// A permit. When dropped, it passes to the next waiting caller.
#[derive(Debug)]
pub struct Turn {
    turns: Arc<Turns>,
    place: usize,
}

/// Why a caller receives no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTurn {
    /// Too many requests wait. The value is the limit that was reached.
    #[error("too many requests: {0} earlier requests wait for their turn, try again")]
    Full(usize),
    /// The server is shutting down.
    #[error("the node is stopping")]
    Stopping,
}

impl Turns {
    /// Creates this number of permits.
    pub fn new(permits: usize) -> Arc<Self> {
        let (free, waiting) = ((0..permits).collect(), FairQueue::default());
        Arc::new(Self(Mutex::new(Queue { free, waiting })))
    }

    /// Waits for a permit. If the future is dropped while it waits, no permit is lost.
    ///
    /// # Errors
    /// See [`NoTurn`].
    pub async fn turn(self: &Arc<Self>, address: IpAddr, connection: u64) -> Result<Turn, NoTurn> {
        let (granted, displaced) = {
            let mut queue = self.lock();
            if let Some(place) = queue.free.pop() {
                return Ok(Turn { turns: Arc::clone(self), place });
            }
            let (grant, granted) = oneshot::channel();
            let displaced = queue.waiting.push(address, connection, grant);
            (granted, displaced.map_err(NoTurn::Full)?)
        };
        if let Some((refused, limit)) = displaced {
            // Sending fails only if the caller was dropped.
            let _ = refused.send(Err(limit));
        }
        granted.await.map_err(|_| NoTurn::Stopping)?.map_err(NoTurn::Full)
    }

    /// Passes a permit to the next caller that still waits.
    fn release(self: &Arc<Self>, place: usize) {
        loop {
            let grant = {
                let mut queue = self.lock();
                match queue.waiting.pop() {
                    Some(grant) => grant,
                    None => return queue.free.push(place),
                }
            };
            if !grant.is_closed() {
                // If the caller was dropped since, the permit is dropped too, and so passes to the next caller.
                let _ = grant.send(Ok(Turn { turns: Arc::clone(self), place }));
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

impl Turn {
    /// The number of the permit, from 0.
    pub const fn place(&self) -> usize {
        self.place
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.release(self.place);
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
        let turns = Turns::new(1);
        let first = turns.turn(address(1), 1).await.unwrap();
        let mut flood: Vec<_> =
            (0..100).map(|connection| Box::pin(turns.turn(address(1), connection))).collect();
        for waiting in &mut flood {
            assert!(poll(waiting).is_pending());
        }
        let mut other = Box::pin(turns.turn(address(2), 200));
        assert!(poll(&mut other).is_pending());
        drop(first);
        let Poll::Ready(second) = poll(&mut flood[0]) else { panic!("the first caller waits") };
        assert!(poll(&mut other).is_pending());
        drop(second);
        assert!(matches!(poll(&mut other), Poll::Ready(Ok(_))));
    }

    #[tokio::test]
    async fn dropped_callers_release_permits_and_a_full_queue_refuses() {
        let turns = Turns::new(1);
        let turn = turns.turn(address(1), 1).await.unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            let mut next = Box::pin(turns.turn(address(1), waiting.len() as u64));
            match poll(&mut next) {
                Poll::Pending => waiting.push(next),
                Poll::Ready(turn) => break turn.unwrap_err(),
            }
        };
        assert_eq!(refused, NoTurn::Full(waiting.len()));
        let last = waiting.pop().unwrap();
        drop(waiting);
        drop(turn);
        drop(last.await.unwrap());
        assert_eq!(turns.free(), 1);
    }
}
