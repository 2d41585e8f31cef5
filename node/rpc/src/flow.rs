//! Back-pressure of a WebSocket: if a client sends much and reads little, its calls wait, so that its messages and
//! responses do not fill the memory.
//!
//! Limits: the socket is not read while [`MAX_UNANSWERED_BYTES`] of messages are unanswered. No call begins and no
//! notification is sent while [`MAX_PENDING_BYTES`] of responses and notifications are pending, that is, not written
//! yet ([`MIN_PENDING_BYTES`] if the pending bytes of all clients reach their limit). The numbers of queued calls and
//! batches are limited as well, because their responses exist before they are counted.

use budget::{Account, Usage};
use platform::memory::derived;
use std::sync::{
    Arc, LazyLock, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Maximum bytes of unanswered messages of a connection. The last message may exceed it.
const MAX_UNANSWERED_BYTES: usize = 4 * 1024 * 1024;
/// Bytes that are counted for the task of each message. 4,096 empty messages reach the maximum.
const TASK_BYTES: usize = 1024;
/// Maximum pending bytes of a connection: at this number, no further call begins. It is enough to keep the socket busy.
const MAX_PENDING_BYTES: usize = 8 * 1024 * 1024;
/// The same limit while all connections together reach [`MAX_PENDING_BYTES_OF_ALL`]: one or two typical responses.
const MIN_PENDING_BYTES: usize = 64 * 1024;
/// Pending bytes of all connections from which [`MIN_PENDING_BYTES`] applies: the maximum of 32 clients.
const MAX_PENDING_BYTES_OF_ALL: usize = 32 * MAX_PENDING_BYTES;
/// Minimum of that number, which is lower on a machine with little memory.
const MIN_PENDING_BYTES_OF_ALL: usize = 4 * MAX_PENDING_BYTES;
/// Maximum received and pending bytes of a connection that are not accounted to its client. Above, all of them are.
const FREE_BYTES: usize = 64 * 1024;
/// Accounted bytes are released only when this many, or all of them, are no longer needed, so the lock is rarely taken.
const SLACK_BYTES: usize = 256 * 1024;
/// Maximum number of queued calls of a connection, whose large responses may be ready at the same time.
const MAX_QUEUED_CALLS: usize = 16;
/// Maximum number of concurrent batches of a connection. Each holds up to one response of the maximum size.
const MAX_BATCHES: usize = 4;

/// Pending bytes of all connections of this process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// [`MAX_PENDING_BYTES_OF_ALL`] on this machine.
static MAX_PENDING_BYTES_OF_ALL_HERE: LazyLock<usize> = LazyLock::new(|| {
    derived(MAX_PENDING_BYTES_OF_ALL as u64, MIN_PENDING_BYTES_OF_ALL as u64) as usize
});

/// Returns the limit of a connection while all connections together have `all` pending bytes.
fn limit(all: usize) -> usize {
    if all < *MAX_PENDING_BYTES_OF_ALL_HERE { MAX_PENDING_BYTES } else { MIN_PENDING_BYTES }
}

/// The counters and permits of a connection.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Bytes of the messages that were read but whose responses are not written yet, including their tasks.
    unanswered: AtomicUsize,
    /// Wakes the reader of the socket.
    not_full: Notify,
    pending: AtomicUsize,
    /// Bytes of an incomplete message.
    unfinished: AtomicUsize,
    writable: Notify,
    queued: Arc<Semaphore>,
    batches: Semaphore,
    /// Bytes that are accounted to the client.
    accounted: AtomicUsize,
    /// `None` until the connection is a WebSocket.
    usage: Mutex<Option<Usage>>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            unanswered: AtomicUsize::new(0),
            not_full: Notify::new(),
            pending: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            writable: Notify::new(),
            queued: Arc::new(Semaphore::new(MAX_QUEUED_CALLS)),
            batches: Semaphore::new(MAX_BATCHES),
            accounted: AtomicUsize::new(0),
            usage: Mutex::default(),
        }
    }
}

/// A guard: a message counts as unanswered until this is dropped.
#[derive(Debug)]
pub(crate) struct Unanswered {
    flow: Arc<Flow>,
    bytes: usize,
}

impl Flow {
    /// Counts a message of this many bytes as unanswered until the returned guard is dropped.
    pub(crate) fn received(flow: &Arc<Self>, bytes: usize) -> Unanswered {
        let bytes = bytes + TASK_BYTES;
        flow.unanswered.fetch_add(bytes, SeqCst);
        flow.settle();
        Unanswered { flow: Arc::clone(flow), bytes }
    }

    /// Returns whether the socket must not be read, because too much is unanswered.
    pub(crate) fn is_full(&self) -> bool {
        self.unanswered.load(SeqCst) >= MAX_UNANSWERED_BYTES
    }

    /// Waits until the socket may be read. Only the reader of the socket waits here.
    pub(crate) async fn until_not_full(&self) {
        while self.is_full() {
            self.not_full.notified().await;
        }
    }

    /// Waits until the pending bytes are below the limit.
    pub(crate) async fn until_writable(&self) {
        if self.is_writable() {
            return;
        }
        while !self.is_writable() {
            self.writable.notified().await;
        }
        // This wakes the next call, which waits again if the limit has been reached in the meantime.
        self.writable.notify_one();
    }

    /// Returns whether the pending bytes are below the limit.
    pub(crate) fn is_writable(&self) -> bool {
        self.pending.load(SeqCst) < limit(ALL.load(SeqCst))
    }

    /// Waits until a batch may begin. The permit is held until its response is counted.
    pub(crate) async fn batch(&self) -> SemaphorePermit<'_> {
        let permit = self.batches.acquire().await.expect("never closed");
        self.until_writable().await;
        permit
    }

    /// Waits until a call may be queued. The permit is held until the call returns.
    pub(crate) async fn queue_permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.queued).acquire_owned().await.expect("never closed");
        self.until_writable().await;
        permit
    }

    /// Counts the bytes of a response or notification that will be written.
    pub(crate) fn add_pending(&self, bytes: usize) {
        self.pending.fetch_add(bytes, SeqCst);
        ALL.fetch_add(bytes, SeqCst);
        self.settle();
    }

    /// Removes bytes that were written or never will be. A call that waits because of [`MIN_PENDING_BYTES`] is woken
    /// only when its own client reads, not when other clients do.
    pub(crate) fn written(&self, bytes: usize) {
        let less = |pending: usize| Some(pending.saturating_sub(bytes));
        let pending = self.pending.fetch_update(SeqCst, SeqCst, less).expect("infallible");
        let left = pending.saturating_sub(bytes);
        ALL.fetch_sub(pending - left, SeqCst);
        if [MAX_PENDING_BYTES, MIN_PENDING_BYTES]
            .iter()
            .any(|limit| (left..pending).contains(&(limit - 1)))
        {
            self.writable.notify_one();
        }
        self.settle();
    }

    /// Accounts for the memory of the connection to this client from now on.
    pub(crate) fn account_to(&self, account: &Arc<Account>) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.buffer(0));
    }

    /// Sets the number of bytes that an incomplete message uses.
    pub(crate) fn unfinished(&self, bytes: usize) {
        self.unfinished.store(bytes, SeqCst);
        self.settle();
    }

    /// Returns the bytes to account for.
    fn bytes(&self) -> usize {
        let all = [&self.pending, &self.unanswered, &self.unfinished];
        let bytes = all.iter().map(|bytes| bytes.load(SeqCst)).sum();
        if bytes <= FREE_BYTES { 0 } else { bytes }
    }

    /// Accounts for the bytes of the connection, and closes it if they do not fit.
    fn settle(&self) {
        let (bytes, accounted) = (self.bytes(), self.accounted.load(SeqCst));
        let is_settled = bytes <= accounted && accounted - bytes < SLACK_BYTES;
        if is_settled && (bytes > 0 || accounted == 0) {
            return;
        }
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(usage) = usage.as_mut() else { return };
        loop {
            let bytes = self.bytes();
            usage.shrink_to(bytes);
            if usage.grow_to(bytes).is_err() {
                usage.evict_owner();
            }
            self.accounted.store(usage.held_bytes(), SeqCst);
            // A thread that changed a counter in the meantime may have returned because it read the old `accounted`.
            if bytes == self.bytes() {
                return;
            }
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        ALL.fetch_sub(*self.pending.get_mut(), SeqCst);
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let before = self.flow.unanswered.fetch_sub(self.bytes, SeqCst);
        self.flow.settle();
        if before >= MAX_UNANSWERED_BYTES {
            self.flow.not_full.notify_one();
        }
    }
}

#[cfg(test)]
impl Flow {
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    #[test]
    fn calls_wait_until_the_client_reads() {
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(pin!(flow.until_writable()).poll(cx).is_ready());
        flow.add_pending(MAX_PENDING_BYTES + 10);
        let (mut first, mut second) = (pin!(flow.until_writable()), pin!(flow.queue_permit()));
        assert!(first.as_mut().poll(cx).is_pending() && second.as_mut().poll(cx).is_pending());
        flow.written(10);
        assert!(first.as_mut().poll(cx).is_pending(), "the limit is reached");
        flow.written(1);
        assert!(first.poll(cx).is_ready(), "the first call is woken");
        let Poll::Ready(permit) = second.as_mut().poll(cx) else { panic!("it wakes the next") };
        flow.written(MAX_PENDING_BYTES);
        let permits: Vec<_> =
            (1..MAX_QUEUED_CALLS).map(|_| pin!(flow.queue_permit()).poll(cx)).collect();
        assert!(permits.iter().all(Poll::is_ready));
        let mut further = pin!(flow.queue_permit());
        assert!(further.as_mut().poll(cx).is_pending());
        drop(permit);
        assert!(further.poll(cx).is_ready());
    }

    #[test]
    fn limit_of_a_connection_is_lower_while_all_together_read_little() {
        let all = *MAX_PENDING_BYTES_OF_ALL_HERE;
        assert_eq!((limit(all - 1), limit(all)), (MAX_PENDING_BYTES, MIN_PENDING_BYTES));
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        flow.add_pending(MAX_PENDING_BYTES);
        let mut waiting = pin!(flow.writable.notified());
        flow.written(MAX_PENDING_BYTES - MIN_PENDING_BYTES - 1);
        assert!(waiting.as_mut().poll(cx).is_ready(), "below the higher limit");
        let mut waiting = pin!(flow.writable.notified());
        assert!(waiting.as_mut().poll(cx).is_pending());
        flow.written(1);
        assert!(waiting.as_mut().poll(cx).is_pending(), "at the lower limit");
        flow.written(1);
        assert!(waiting.poll(cx).is_ready(), "below the lower limit");
    }

    /// The bytes are those of incomplete messages, unanswered messages and pending responses.
    #[test]
    fn all_bytes_of_a_connection_are_accounted_above_the_free_bytes() {
        let account = Account::with_limit(2 << 20);
        let flow = Arc::<Flow>::default();
        flow.account_to(&account);
        let used = || account.memory.reading().used as usize;
        flow.unfinished(FREE_BYTES);
        assert_eq!(used(), 0);
        flow.unfinished(FREE_BYTES + 1);
        assert!(used() > FREE_BYTES);
        flow.unfinished(0);
        let message = Flow::received(&flow, 500_000);
        flow.add_pending(1_000_000);
        assert!(used() >= 1_500_000 && !account.owner.is_evicted());
        flow.written(1_000_000);
        drop(message);
        assert_eq!(used(), 0);
        flow.add_pending((2 << 20) + 1);
        assert!(account.owner.is_evicted(), "it does not fit");
        drop(flow);
        assert_eq!(used(), 0);
    }

    #[test]
    fn batches_are_limited_and_wait_until_the_client_reads() {
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut permits: Vec<_> = (0..MAX_BATCHES).map(|_| pin!(flow.batch()).poll(cx)).collect();
        assert!(permits.iter().all(Poll::is_ready));
        let mut further = pin!(flow.batch());
        assert!(further.as_mut().poll(cx).is_pending());
        flow.add_pending(MAX_PENDING_BYTES);
        permits.pop();
        assert!(further.as_mut().poll(cx).is_pending(), "the client has not read a response");
        flow.written(1);
        assert!(further.poll(cx).is_ready());
    }

    #[test]
    fn the_socket_is_not_read_while_many_messages_are_unanswered() {
        let flow = Arc::<Flow>::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let max = MAX_UNANSWERED_BYTES / TASK_BYTES;
        let mut messages: Vec<_> = (1..max).map(|_| Flow::received(&flow, 0)).collect();
        assert!(!flow.is_full() && pin!(flow.until_not_full()).poll(cx).is_ready());
        messages.push(Flow::received(&flow, 0));
        let mut waiting = pin!(flow.until_not_full());
        assert!(flow.is_full() && waiting.as_mut().poll(cx).is_pending());
        messages.pop();
        assert!(!flow.is_full() && waiting.poll(cx).is_ready());
    }

    #[test]
    fn the_socket_is_not_read_while_large_messages_are_unanswered() {
        let flow = Arc::<Flow>::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let large = Flow::received(&flow, MAX_UNANSWERED_BYTES - TASK_BYTES - 1);
        assert!(!flow.is_full());
        let small = Flow::received(&flow, 0);
        let mut waiting = pin!(flow.until_not_full());
        assert!(flow.is_full() && waiting.as_mut().poll(cx).is_pending());
        drop(large);
        assert!(!flow.is_full() && waiting.poll(cx).is_ready());
        drop(small);
        assert_eq!(flow.unanswered.load(SeqCst), 0);
    }
}
