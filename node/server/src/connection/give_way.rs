//! Lets other tasks and threads run before a task continues.

use std::{future::Future, pin::pin, task::Context};

/// Yields the core to other threads, such as that of a local client which the written bytes woke. Then does
/// the same as [`give_way`].
///
/// Reads use only [`give_way`], because they wake no other thread. If other processes wait for the core, each
/// `sched_yield` can take several milliseconds, and clients that send megabytes would cause thousands of them.
pub(super) fn give_way_after_write(cx: &mut Context<'_>) {
    std::thread::yield_now();
    give_way(cx);
}

/// Schedules the task after the other runnable tasks and after a poll of the sockets. If the task were woken at
/// once, tasks with much to read or write would keep the thread from polling the sockets.
pub(super) fn give_way(cx: &mut Context<'_>) {
    // The first poll only registers the waker with the runtime, so the future need not be kept.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}
