//! Wakes a parked worker. A bell is rung after something was put where the worker will look; a
//! worker that is awake costs the ringer one atomic read.
//!
//! The handshake: the worker calls [`Bell::begin_idle`], looks at its rings once more, and parks
//! only if they are still empty; the ringer publishes first and reads the idle flag second. Both
//! sides use sequentially consistent operations, so one of the two always sees the other.

use crossbeam::sync::{Parker, Unparker};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
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

/// The handle by which others wake one worker.
#[derive(Clone)]
pub(super) struct Bell(Arc<Inner>);

impl Bell {
    /// A bell for a worker that sleeps on the returned parker.
    pub(super) fn thread() -> (Self, Parker) {
        let parker = Parker::new();
        let waker = Waker::Thread(parker.unparker().clone());
        (Self(Arc::new(Inner { idle: AtomicBool::new(false), waker })), parker)
    }

    /// A bell for a worker that sleeps in `mio::Poll::poll`.
    pub(super) fn poll(waker: mio::Waker) -> Self {
        Self(Arc::new(Inner { idle: AtomicBool::new(false), waker: Waker::Poll(waker) }))
    }

    /// Wakes the worker if it is idle; says whether it was.
    pub(super) fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        if !self.0.idle.load(Ordering::SeqCst) || !self.0.idle.swap(false, Ordering::SeqCst) {
            return false;
        }
        match &self.0.waker {
            Waker::Thread(unparker) => unparker.unpark(),
            // A full eventfd means that the poller has a wake-up to read already.
            Waker::Poll(waker) => drop(waker.wake()),
        }
        true
    }

    /// Says that the worker is about to sleep; it must look at its rings once more before it does.
    pub(super) fn begin_idle(&self) {
        self.0.idle.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Says that the worker is awake.
    pub(super) fn end_idle(&self) {
        self.0.idle.store(false, Ordering::SeqCst);
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bell").field(&self.0.idle).finish()
    }
}

/// Sleeps until a bell is rung or `timeout` has passed; may wake early.
pub(super) fn park(parker: &Parker, timeout: Duration) {
    parker.park_timeout(timeout);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_only_when_idle() {
        let (bell, parker) = Bell::thread();
        assert!(!bell.ring());
        bell.begin_idle();
        assert!(bell.ring());
        assert!(!bell.ring(), "one ring wakes once");
        park(&parker, Duration::from_secs(60)); // Returns at once: the permit is there.
    }
}
