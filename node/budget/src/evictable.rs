//! Connections and filters that can be closed for another client.

use futures_util::task::AtomicWaker;
use std::{
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    task::Context,
    time::{Duration, Instant},
};

/// The origin of the coarse clock below.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the milliseconds since the first use of this clock.
fn now_ms() -> u64 {
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The eviction state of a connection or filter. The task that owns a connection polls this state, and closes the
/// connection after an eviction.
#[derive(Debug)]
pub struct Evictable {
    evicted: AtomicBool,
    /// The task that reads the socket, and the one that writes it: two after an upgrade to WebSocket.
    reader: AtomicWaker,
    writer: AtomicWaker,
    pub(super) active_ms: AtomicU64,
}

impl Default for Evictable {
    fn default() -> Self {
        Self {
            evicted: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            active_ms: AtomicU64::new(now_ms()),
        }
    }
}

impl Evictable {
    /// Records that the client has just done something.
    pub fn touch(&self) {
        self.active_ms.store(now_ms(), Relaxed);
    }

    /// Returns the time since the last call of [`Self::touch`].
    pub fn idle(&self) -> Duration {
        Duration::from_millis(now_ms().saturating_sub(self.active_ms()))
    }

    pub(super) fn active_ms(&self) -> u64 {
        self.active_ms.load(Relaxed)
    }

    /// Requests that the owner close the connection or filter.
    pub fn evict(&self) {
        self.evicted.store(true, SeqCst);
        self.reader.wake();
        self.writer.wake();
    }

    /// Returns whether it has been evicted.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(SeqCst)
    }

    /// Returns whether the owner has to close. If not, registers the reading task to be woken by an eviction.
    pub fn poll_reader(&self, cx: &Context<'_>) -> bool {
        self.reader.register(cx.waker());
        self.is_evicted()
    }

    /// Does the same as [`Self::poll_reader`] for the writing task.
    pub fn poll_writer(&self, cx: &Context<'_>) -> bool {
        self.writer.register(cx.waker());
        self.is_evicted()
    }

    #[cfg(test)]
    pub(super) fn idle_since(active_ms: u64) -> Self {
        Self { active_ms: AtomicU64::new(active_ms), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, pin::pin, task::Poll};

    #[test]
    fn reading_and_writing_task_are_woken() {
        let evictable = Evictable::default();
        let mut reader = polling_task(|cx| evictable.poll_reader(cx));
        let mut writer = polling_task(|cx| evictable.poll_writer(cx));
        assert!(!reader() && !writer());
        evictable.evict();
        assert!(reader() && writer());
    }

    /// Returns a task that polls once per call, and checks that it was woken before it becomes ready.
    fn polling_task(poll: impl Fn(&Context<'_>) -> bool) -> impl FnMut() -> bool {
        use std::sync::{Arc, atomic::AtomicUsize};
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let woken = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Arc::clone(&woken).into();
        let mut polled = false;
        move || {
            let mut future = pin!(poll_fn(|cx| Poll::Ready(poll(cx))));
            let result = future.as_mut().poll(&mut Context::from_waker(&waker));
            let ready = matches!(result, Poll::Ready(true));
            assert!(!ready || !polled || woken.0.load(SeqCst) == 1, "the task was not woken");
            polled = true;
            ready
        }
    }
}
