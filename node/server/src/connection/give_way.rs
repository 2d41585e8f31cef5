//! Lets others run before a task continues.

use std::{future::Future, pin::pin, task::Context};

/// Lets the client that these bytes woke, or another thread that serves sockets, have the core too, and then other
/// tasks.
///
/// A read wakes no other thread, so after a read the core is kept: if other processes wait for it, each call can take a
/// scheduler's slice of several milliseconds, and hundreds of clients that send megabytes cause thousands.
pub(super) fn give_way_after_write(cx: &mut Context<'_>) {
    std::thread::yield_now();
    give_way(cx);
}

/// Schedules the task after the other runnable tasks and after a poll of the sockets. If they were woken at
/// once, tasks with much to read or write would keep a thread from looking for what has arrived.
pub(super) fn give_way(cx: &mut Context<'_>) {
    // The first poll only leaves the waker; the runtime keeps that, not the future.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
