//! Wakes a parked worker after a batch has been put into one of its rings. If the worker is awake already, this costs
//! a fence and an atomic read.
//!
//! The handshake: the worker calls [`WorkerWaker::begin_idle`], checks its rings once more, and parks only if
//! they are still empty. The other side writes to the ring first and reads the idle flag second. Both use
//! sequentially consistent operations, so at least one of them sees the other's write.

use super::sync::{AtomicBool, Parker, Unparker, fence};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

enum Waker {
    Thread(Unparker),
    Poll(mio::Waker),
}

struct Inner {
    idle: AtomicBool,
    waker: Waker,
}

/// The handle that wakes one worker.
#[derive(Clone)]
pub(super) struct WorkerWaker(Arc<Inner>);

impl WorkerWaker {
    /// Creates a handle for a worker that sleeps on the returned parker.
    pub(super) fn thread() -> (Self, Parker) {
        let parker = Parker::new();
        let waker = Waker::Thread(parker.unparker().clone());
        (Self(Arc::new(Inner { idle: AtomicBool::new(false), waker })), parker)
    }

    /// Creates a handle for a worker that sleeps in `mio::Poll::poll`.
    pub(super) fn poll(waker: mio::Waker) -> Self {
        Self(Arc::new(Inner { idle: AtomicBool::new(false), waker: Waker::Poll(waker) }))
    }

    /// Wakes the worker if it is idle; returns whether it was.
    pub(super) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        if !self.0.idle.load(Ordering::SeqCst) || !self.0.idle.swap(false, Ordering::SeqCst) {
            return false;
        }
        match &self.0.waker {
            Waker::Thread(unparker) => unparker.unpark(),
            // A full eventfd means that the poller already has a wake-up to read.
            Waker::Poll(waker) => drop(waker.wake()),
        }
        true
    }

    /// Announces that the worker is about to sleep. The worker must check its rings once more before it sleeps.
    pub(super) fn begin_idle(&self) {
        self.0.idle.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Announces that the worker is awake.
    pub(super) fn end_idle(&self) {
        self.0.idle.store(false, Ordering::SeqCst);
    }
}

impl fmt::Debug for WorkerWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerWaker").field(&self.0.idle).finish()
    }
}

/// Sleeps until woken or until `timeout` has passed. It may also wake spuriously.
pub(super) fn park(parker: &Parker, timeout: Duration) {
    parker.park_timeout(timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_only_an_idle_worker() {
        let (waker, parker) = WorkerWaker::thread();
        assert!(!waker.wake());
        waker.begin_idle();
        assert!(waker.wake());
        assert!(!waker.wake(), "it was woken already");
        park(&parker, Duration::from_secs(60)); // Returns at once, because the permit is available.
    }
}
