//! Back-pressure of a WebSocket: a client that sends much and reads little waits, instead of filling the
//! memory with messages and responses.
//!
//! Bound: messages that are unanswered, and their bytes, beyond which the socket is not read; bytes of
//! responses and notifications that the client has not taken, beyond which no call begins and nothing is
//! pushed, fewer if all clients together take little; calls in the lines, and batches, whose responses are
//! made before they are counted. When full: waits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Maximum bytes of unanswered messages of a connection. One message more may exceed it.
const MAX_UNANSWERED_BYTES: usize = 4 * 1024 * 1024;
/// Counted for each message in addition to its bytes: its task. 4,096 empty messages reach the maximum.
const TASK_BYTES: usize = 1024;
/// Bytes of answers not taken, beyond which no call of the connection begins: some for the socket to be
/// always at work.
const OWED_MAX: usize = 8 * 1024 * 1024;
/// The same where all connections together are owed [`OWED_ALL`]: an answer or two of the usual size.
const OWED_LEAST: usize = 64 * 1024;
/// Bytes owed to all connections from which on each is allowed the least: as much as 32 of them may
/// have that do not read.
const OWED_ALL: usize = 32 * OWED_MAX;
/// Calls of a connection in the lines at once, as many large answers may come together: enough for
/// every thread there to have another.
const LINE_CALLS: usize = 16;
/// Batches of a connection at work at once: each gathers as many bytes as a response may have.
const BATCHES: usize = 4;

/// Bytes owed to all connections of this process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// How much a connection may be owed where all are owed so much.
const fn limit(all: usize) -> usize {
    if all < OWED_ALL { OWED_MAX } else { OWED_LEAST }
}

/// See the module.
#[derive(Debug)]
pub(in crate::rpc) struct Flow {
    /// Bytes of messages that were read and whose responses are not written.
    unanswered: AtomicUsize,
    /// Wakes the reader of the socket.
    less: Notify,
    owed: AtomicUsize,
    room: Notify,
    line: Arc<Semaphore>,
    batches: Semaphore,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            unanswered: AtomicUsize::new(0),
            less: Notify::new(),
            owed: AtomicUsize::new(0),
            room: Notify::new(),
            line: Arc::new(Semaphore::new(LINE_CALLS)),
            batches: Semaphore::new(BATCHES),
        }
    }
}

/// A message counts as unanswered until this is dropped.
#[derive(Debug)]
pub(super) struct Unanswered {
    flow: Arc<Flow>,
    bytes: usize,
}

impl Flow {
    /// Counts a message of so many bytes that was read.
    pub(super) fn hear(flow: &Arc<Self>, bytes: usize) -> Unanswered {
        let bytes = bytes + TASK_BYTES;
        flow.unanswered.fetch_add(bytes, SeqCst);
        Unanswered { flow: Arc::clone(flow), bytes }
    }

    /// Whether so much is unanswered that the socket is not to be read.
    pub(super) fn is_full(&self) -> bool {
        self.unanswered.load(SeqCst) >= MAX_UNANSWERED_BYTES
    }

    /// Waits until less is unanswered. Only the reader of the socket waits here.
    pub(super) async fn until_less(&self) {
        while self.is_full() {
            self.less.notified().await;
        }
    }

    /// Waits until the client has taken most of what it is owed.
    pub(in crate::rpc) async fn room(&self) {
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
    pub(in crate::rpc) fn has_room(&self) -> bool {
        self.owed.load(SeqCst) < limit(ALL.load(SeqCst))
    }

    /// Waits until a batch may begin. Its place is kept until its answer is owed.
    pub(in crate::rpc) async fn batch(&self) -> SemaphorePermit<'_> {
        let place = self.batches.acquire().await.expect("never closed");
        self.room().await;
        place
    }

    /// Waits for a place in the lines, and for room. The place is given back with the call's answer.
    pub(in crate::rpc) async fn line(&self) -> OwnedSemaphorePermit {
        let place = Arc::clone(&self.line).acquire_owned().await.expect("never closed");
        self.room().await;
        place
    }

    /// An answer, or something pushed, of so many bytes is on its way to the socket.
    pub(in crate::rpc) fn owe(&self, bytes: usize) {
        self.owed.fetch_add(bytes, SeqCst);
        ALL.fetch_add(bytes, SeqCst);
    }

    /// The socket took so many bytes, or will not be given them. What is written besides answers makes the debt look smaller than
    /// it is, by no more than what lies between two answers. A call that waits for the least to be owed
    /// is not told when others are owed less: its own client has to read first.
    pub(in crate::rpc) fn written(&self, bytes: usize) {
        let less = |owed: usize| Some(owed.saturating_sub(bytes));
        let owed = self.owed.fetch_update(SeqCst, SeqCst, less).expect("it gives a number");
        let left = owed.saturating_sub(bytes);
        ALL.fetch_sub(owed - left, SeqCst);
        if [OWED_MAX, OWED_LEAST].iter().any(|limit| (left..owed).contains(&(limit - 1))) {
            self.room.notify_one();
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
        if before >= MAX_UNANSWERED_BYTES {
            self.flow.less.notify_one();
        }
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
        flow.owe(OWED_MAX + 10);
        let (mut first, mut second) = (pin!(flow.room()), pin!(flow.line()));
        assert!(first.as_mut().poll(cx).is_pending() && second.as_mut().poll(cx).is_pending());
        flow.written(10);
        assert!(first.as_mut().poll(cx).is_pending(), "it is as much as there may be");
        flow.written(1);
        assert!(first.poll(cx).is_ready(), "one is told");
        let Poll::Ready(place) = second.as_mut().poll(cx) else { panic!("and tells the next") };
        flow.written(OWED_MAX);
        let places: Vec<_> = (1..LINE_CALLS).map(|_| pin!(flow.line()).poll(cx)).collect();
        assert!(places.iter().all(Poll::is_ready));
        let mut further = pin!(flow.line());
        assert!(further.as_mut().poll(cx).is_pending());
        drop(place);
        assert!(further.poll(cx).is_ready());
    }

    #[test]
    fn less_is_owed_to_each_where_much_is_owed_to_all() {
        assert_eq!((limit(OWED_ALL - 1), limit(OWED_ALL)), (OWED_MAX, OWED_LEAST));
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        flow.owe(OWED_MAX);
        let mut waiting = pin!(flow.room.notified());
        flow.written(OWED_MAX - OWED_LEAST - 1);
        assert!(waiting.as_mut().poll(cx).is_ready(), "below the one limit");
        let mut waiting = pin!(flow.room.notified());
        assert!(waiting.as_mut().poll(cx).is_pending());
        flow.written(1);
        assert!(waiting.as_mut().poll(cx).is_pending(), "the other has not been reached");
        flow.written(1);
        assert!(waiting.poll(cx).is_ready(), "below the other");
    }

    #[test]
    fn batches_are_few_at_once_and_wait_for_room_too() {
        let flow = Flow::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let mut places: Vec<_> = (0..BATCHES).map(|_| pin!(flow.batch()).poll(cx)).collect();
        assert!(places.iter().all(Poll::is_ready));
        let mut further = pin!(flow.batch());
        assert!(further.as_mut().poll(cx).is_pending());
        flow.owe(OWED_MAX);
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
        let mut messages: Vec<_> = (1..max).map(|_| Flow::hear(&flow, 0)).collect();
        assert!(!flow.is_full() && pin!(flow.until_less()).poll(cx).is_ready());
        messages.push(Flow::hear(&flow, 0));
        let mut waiting = pin!(flow.until_less());
        assert!(flow.is_full() && waiting.as_mut().poll(cx).is_pending());
        messages.pop();
        assert!(!flow.is_full() && waiting.poll(cx).is_ready());
    }

    #[test]
    fn the_socket_is_not_read_while_large_messages_are_unanswered() {
        let flow = Arc::<Flow>::default();
        let cx = &mut Context::from_waker(Waker::noop());
        let large = Flow::hear(&flow, MAX_UNANSWERED_BYTES - TASK_BYTES - 1);
        assert!(!flow.is_full());
        let small = Flow::hear(&flow, 0);
        let mut waiting = pin!(flow.until_less());
        assert!(flow.is_full() && waiting.as_mut().poll(cx).is_pending());
        drop(large);
        assert!(!flow.is_full() && waiting.poll(cx).is_ready());
        drop(small);
        assert_eq!(flow.unanswered.load(SeqCst), 0);
    }
}
