//! Back-pressure of a WebSocket: a client that sends much and reads little waits, instead of filling the
//! memory with messages and responses.
//!
//! Limits: above [`MAX_UNANSWERED_BYTES`] of unanswered messages the socket is not read; above [`MAX_OWED_BYTES`] of
//! responses and notifications that the client has not read, no call begins and nothing is pushed (above
//! [`MIN_OWED_BYTES`] if all clients together read little). Calls in the queues, and batches, are limited by number,
//! because their responses exist before they are counted. When full: waits.

use budget::{Account, Usage};
use platform::memory::derived;
use std::sync::{
    Arc, LazyLock, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Maximum bytes of unanswered messages of a connection. One message more may exceed it.
const MAX_UNANSWERED_BYTES: usize = 4 * 1024 * 1024;
/// Counted for each message in addition to its bytes: its task. 4,096 empty messages reach the maximum.
const TASK_BYTES: usize = 1024;
/// Bytes of answers not taken, beyond which no call of the connection begins: some for the socket to be
/// always at work.
const MAX_OWED_BYTES: usize = 8 * 1024 * 1024;
/// The same where all connections together are owed [`MAX_OWED_BYTES_OF_ALL`]: an answer or two of the usual size.
const MIN_OWED_BYTES: usize = 64 * 1024;
/// Bytes owed to all connections from which on each is allowed the least: as much as 32 of them may
/// have that do not read.
const MAX_OWED_BYTES_OF_ALL: usize = 32 * MAX_OWED_BYTES;
/// Its minimum, on a machine with little memory.
const MIN_OWED_BYTES_OF_ALL: usize = 4 * MAX_OWED_BYTES;
/// Bytes of a connection, received and owed, that are not accounted to its client.
const FREE_BYTES: usize = 64 * 1024;
/// Accounted bytes are released once this many are not needed, so the lock is rarely taken.
const SLACK_BYTES: usize = 256 * 1024;
/// Calls of a connection in the lines at once, as many large answers may come together: enough for
/// every thread there to have another.
const LINE_CALLS: usize = 16;
/// Batches of a connection at work at once: each gathers as many bytes as a response may have.
const BATCHES: usize = 4;

/// Bytes owed to all connections of this process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// [`MAX_OWED_BYTES_OF_ALL`] on this machine.
static OWED_ALL_HERE: LazyLock<usize> =
    LazyLock::new(|| derived(MAX_OWED_BYTES_OF_ALL as u64, MIN_OWED_BYTES_OF_ALL as u64) as usize);

/// How much a connection may be owed where all are owed so much.
fn limit(all: usize) -> usize {
    if all < *OWED_ALL_HERE { MAX_OWED_BYTES } else { MIN_OWED_BYTES }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Bytes of messages that were read and whose responses are not written.
    unanswered: AtomicUsize,
    /// Wakes the reader of the socket.
    not_full: Notify,
    owed: AtomicUsize,
    /// Bytes of an incomplete message.
    unfinished: AtomicUsize,
    room: Notify,
    line: Arc<Semaphore>,
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
            owed: AtomicUsize::new(0),
            unfinished: AtomicUsize::new(0),
            room: Notify::new(),
            line: Arc::new(Semaphore::new(LINE_CALLS)),
            batches: Semaphore::new(BATCHES),
            accounted: AtomicUsize::new(0),
            usage: Mutex::default(),
        }
    }
}

/// A message counts as unanswered until this is dropped.
#[derive(Debug)]
pub(crate) struct Unanswered {
    flow: Arc<Flow>,
    bytes: usize,
}

impl Flow {
    /// Counts a message of this many bytes that was read.
    pub(crate) fn received(flow: &Arc<Self>, bytes: usize) -> Unanswered {
        let bytes = bytes + TASK_BYTES;
        flow.unanswered.fetch_add(bytes, SeqCst);
        flow.settle();
        Unanswered { flow: Arc::clone(flow), bytes }
    }

    /// Whether the socket must not be read, because too much is unanswered.
    pub(crate) fn is_full(&self) -> bool {
        self.unanswered.load(SeqCst) >= MAX_UNANSWERED_BYTES
    }

    /// Waits until the socket may be read. Only the reader of the socket waits here.
    pub(crate) async fn until_not_full(&self) {
        while self.is_full() {
            self.not_full.notified().await;
        }
    }

    /// Waits until the client has taken most of what it is owed.
    pub(crate) async fn room(&self) {
        if self.has_room() {
            return;
        }
        while !self.has_room() {
            self.room.notified().await;
        }
        // There may be room for the next one too; if not, it waits on.
        self.room.notify_one();
    }

    /// Whether the client has taken so much that there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        self.owed.load(SeqCst) < limit(ALL.load(SeqCst))
    }

    /// Waits until a batch may begin. Its place is kept until its answer is owed.
    pub(crate) async fn batch(&self) -> SemaphorePermit<'_> {
        let place = self.batches.acquire().await.expect("never closed");
        self.room().await;
        place
    }

    /// Waits for a place in the lines, and for room. The place is given back with the call's answer.
    pub(crate) async fn line(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.line).acquire_owned().await.expect("never closed");
        self.room().await;
        place
    }

    /// An answer, or something pushed, of this many bytes is on its way to the socket.
    pub(crate) fn owe(&self, bytes: usize) {
        self.owed.fetch_add(bytes, SeqCst);
        ALL.fetch_add(bytes, SeqCst);
        self.settle();
    }

    /// The socket took this many of the bytes that are owed, or will not be given them. A call that waits for
    /// its client to have the fewest bytes owed is not woken when others are owed less: its own client has to read first.
    pub(crate) fn written(&self, bytes: usize) {
        let less = |owed: usize| Some(owed.saturating_sub(bytes));
        let owed = self.owed.fetch_update(SeqCst, SeqCst, less).expect("it gives a number");
        let left = owed.saturating_sub(bytes);
        ALL.fetch_sub(owed - left, SeqCst);
        if [MAX_OWED_BYTES, MIN_OWED_BYTES].iter().any(|limit| (left..owed).contains(&(limit - 1)))
        {
            self.room.notify_one();
        }
        self.settle();
    }

    /// The memory of the connection counts for this client from now on.
    pub(crate) fn account_to(&self, account: &Arc<Account>) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.buffer(0));
    }

    /// This many bytes of an incomplete message have arrived.
    pub(crate) fn unfinished(&self, bytes: usize) {
        self.unfinished.store(bytes, SeqCst);
        self.settle();
    }

    /// Bytes to account for.
    fn bytes(&self) -> usize {
        let all = [&self.owed, &self.unanswered, &self.unfinished];
        let bytes = all.iter().map(|bytes| bytes.load(SeqCst)).sum();
        if bytes <= FREE_BYTES { 0 } else { bytes }
    }

    /// Accounts for the bytes of the connection. If they do not fit, the connection is closed.
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
            // Who changed it meanwhile may have compared it with what was accounted before, and gone.
            if bytes == self.bytes() {
                return;
            }
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        ALL.fetch_sub(*self.owed.get_mut(), SeqCst);
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
    pub(crate) fn owed_bytes(&self) -> usize {
        self.owed.load(SeqCst)
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
    fn no_call_begins_until_what_is_owed_is_taken() {
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(pin!(flow.room()).poll(cx).is_ready());
        flow.owe(MAX_OWED_BYTES + 10);
        let (mut first, mut second) = (pin!(flow.room()), pin!(flow.line()));
        assert!(first.as_mut().poll(cx).is_pending() && second.as_mut().poll(cx).is_pending());
        flow.written(10);
        assert!(first.as_mut().poll(cx).is_pending(), "it is as much as there may be");
        flow.written(1);
        assert!(first.poll(cx).is_ready(), "one is woken");
        let Poll::Ready(place) = second.as_mut().poll(cx) else { panic!("and tells the next") };
        flow.written(MAX_OWED_BYTES);
        let places: Vec<_> = (1..LINE_CALLS).map(|_| pin!(flow.line()).poll(cx)).collect();
        assert!(places.iter().all(Poll::is_ready));
        let mut further = pin!(flow.line());
        assert!(further.as_mut().poll(cx).is_pending());
        drop(place);
        assert!(further.poll(cx).is_ready());
    }

    #[test]
    fn less_is_owed_to_each_where_much_is_owed_to_all() {
        let all = *OWED_ALL_HERE;
        assert_eq!((limit(all - 1), limit(all)), (MAX_OWED_BYTES, MIN_OWED_BYTES));
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        flow.owe(MAX_OWED_BYTES);
        let mut waiting = pin!(flow.room.notified());
        flow.written(MAX_OWED_BYTES - MIN_OWED_BYTES - 1);
        assert!(waiting.as_mut().poll(cx).is_ready(), "below the one limit");
        let mut waiting = pin!(flow.room.notified());
        assert!(waiting.as_mut().poll(cx).is_pending());
        flow.written(1);
        assert!(waiting.as_mut().poll(cx).is_pending(), "the other has not been reached");
        flow.written(1);
        assert!(waiting.poll(cx).is_ready(), "below the other");
    }

    /// Messages that are not complete, messages that are not answered, and responses that are not read.
    #[test]
    fn all_bytes_of_a_connection_are_accounted_above_the_free_ones() {
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
        flow.owe(1_000_000);
        assert!(used() >= 1_500_000 && !account.owner.is_evicted());
        flow.written(1_000_000);
        drop(message);
        assert_eq!(used(), 0);
        flow.owe((2 << 20) + 1);
        assert!(account.owner.is_evicted(), "it does not fit");
        drop(flow);
        assert_eq!(used(), 0);
    }

    #[test]
    fn batches_are_few_at_once_and_wait_for_room_too() {
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut places: Vec<_> = (0..BATCHES).map(|_| pin!(flow.batch()).poll(cx)).collect();
        assert!(places.iter().all(Poll::is_ready));
        let mut further = pin!(flow.batch());
        assert!(further.as_mut().poll(cx).is_pending());
        flow.owe(MAX_OWED_BYTES);
        places.pop();
        assert!(further.as_mut().poll(cx).is_pending(), "what the last one gave is not taken yet");
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
