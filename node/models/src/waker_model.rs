//! The wake-up of parked workers (`pipeline/src/worker_waker.rs`).

use crate::{
    checker::check,
    sync::{AtomicBool, AtomicUsize, thread},
    worker_waker::{WorkerWaker, park},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Sleeps as a worker does until `is_done`: announces it, checks once more, and parks.
fn sleep_until(waker: &WorkerWaker, parker: &crate::sync::Parker, is_done: impl Fn() -> bool) {
    while !is_done() {
        waker.begin_idle();
        if !is_done() {
            park(parker, Duration::MAX);
        }
        waker.end_idle();
    }
}

/// A worker that parks is woken by a thread that wrote before, although the write itself is relaxed: the order comes
/// from the handshake alone.
///
/// # Panics
/// If a wake-up is lost.
pub fn write_before_a_wake_up_is_seen() {
    check(4, || {
        let written = Arc::new(AtomicBool::new(false));
        let (waker, parker) = WorkerWaker::thread();
        let other = {
            let (written, waker) = (Arc::clone(&written), waker.clone());
            thread::spawn(move || {
                written.store(true, Relaxed);
                waker.wake();
            })
        };
        sleep_until(&waker, &parker, || written.load(Relaxed));
        other.join().expect("the thread ends");
    });
}

/// Two threads wake a worker for one write each, and it sees both.
///
/// # Panics
/// If a wake-up is lost.
pub fn concurrent_wake_ups_are_not_lost() {
    check(3, || {
        let written = Arc::new(AtomicUsize::new(0));
        let (waker, parker) = WorkerWaker::thread();
        let others = [(); 2].map(|()| {
            let (written, waker) = (Arc::clone(&written), waker.clone());
            thread::spawn(move || {
                written.fetch_add(1, Relaxed);
                waker.wake();
            })
        });
        sleep_until(&waker, &parker, || written.load(Relaxed) == 2);
        for other in others {
            other.join().expect("the thread ends");
        }
    });
}
