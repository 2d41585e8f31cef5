//! Model of the wake-up of parked workers (`pipeline/src/worker_waker.rs`).

use crate::{
    checker::check,
    sync::{AtomicBool, AtomicUsize, thread},
    worker_waker::{WorkerWaker, park},
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// Sleeps until `is_done`, as a worker does: announces that it is idle, checks once more, and parks.
fn sleep_until(waker: &WorkerWaker, parker: &crate::sync::Parker, is_done: impl Fn() -> bool) {
    while !is_done() {
        waker.begin_idle();
        if !is_done() {
            park(parker, Duration::MAX);
        }
        waker.end_idle();
    }
}

/// A thread writes and then wakes the worker. The worker sees the write although it is relaxed: the handshake alone
/// guarantees the order.
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

/// Two threads write and wake the worker at the same time. The worker sees both writes.
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
