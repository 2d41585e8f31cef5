//! What a WebSocket's calls and its socket tell each other, so that a client who asks much and reads
//! little is kept waiting instead of being kept in memory. jsonrpsee makes a task of every message.
//!
//! Bound: bytes of calls at work, and messages read and not answered, and their bytes, beyond which nothing
//! more is read; bytes of answers and of what is pushed that the client has not taken, beyond which no call
//! begins and nothing more is pushed, fewer where all clients together take little; calls in the lines, and
//! batches, whose answers are made before they are owed. When full: waits.

use futures_util::task::AtomicWaker;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Context,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Bytes of calls at work on a connection, beyond which it is not read. One message more may be there.
/// The same for messages that are not answered: jsonrpsee keeps each until its answer is on its way.
const ASKED_MAX: usize = 4 * 1024 * 1024;
/// Messages not answered, beyond which a connection is not read: their tasks take some kilobytes each,
/// those of what is no call too.
pub(super) const HEARD_MAX: usize = 4096;
/// Counted for each call beside its parameters: its task.
const CALL_BYTES: usize = 1024;
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
    asked: AtomicUsize,
    heard: Mutex<Heard>,
    /// The socket's task, while it reads nothing.
    reader: AtomicWaker,
    owed: AtomicUsize,
    room: Notify,
    line: Arc<Semaphore>,
    batches: Semaphore,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            asked: AtomicUsize::new(0),
            heard: Mutex::default(),
            reader: AtomicWaker::new(),
            owed: AtomicUsize::new(0),
            room: Notify::new(),
            line: Arc::new(Semaphore::new(LINE_CALLS)),
            batches: Semaphore::new(BATCHES),
        }
    }
}

/// Messages read and not answered. Which one is answered is not known: about the oldest.
#[derive(Debug, Default)]
struct Heard {
    lengths: VecDeque<u64>,
    bytes: u64,
}

impl Heard {
    fn is_full(&self) -> bool {
        self.lengths.len() >= HEARD_MAX || self.bytes >= ASKED_MAX as u64
    }
}

/// A message's calls, at work until this is dropped.
#[derive(Debug)]
pub(in crate::rpc) struct Asked<'a> {
    flow: &'a Flow,
    bytes: usize,
}

impl Flow {
    /// Counts a call, or the calls of a batch, with parameters of so many bytes.
    pub(in crate::rpc) fn ask(&self, calls: usize, bytes: usize) -> Asked<'_> {
        let bytes = bytes + calls * CALL_BYTES;
        self.asked.fetch_add(bytes, SeqCst);
        Asked { flow: self, bytes }
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

    /// Whether so much is at work or not answered that nothing is to be read; the task is then woken when it
    /// is less.
    pub(super) fn is_full(&self, cx: &Context<'_>) -> bool {
        let is_full = || self.asked.load(SeqCst) >= ASKED_MAX || self.heard().is_full();
        if !is_full() {
            return false;
        }
        self.reader.register(cx.waker());
        is_full()
    }

    /// A message of so many bytes has been read.
    pub(super) fn hear(&self, bytes: u64) {
        let heard = &mut *self.heard();
        heard.lengths.push_back(bytes);
        heard.bytes = heard.bytes.saturating_add(bytes);
    }

    /// A message has been answered, or gets no answer. What is pushed counts here too: the client takes it.
    pub(in crate::rpc) fn answered(&self) {
        let heard = &mut *self.heard();
        let was_full = heard.is_full();
        let Some(bytes) = heard.lengths.pop_front() else { return };
        heard.bytes = heard.bytes.saturating_sub(bytes);
        if was_full && !heard.is_full() {
            self.reader.wake();
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        ALL.fetch_sub(*self.owed.get_mut(), SeqCst);
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let before = self.flow.asked.fetch_sub(self.bytes, SeqCst);
        if before >= ASKED_MAX && before - self.bytes < ASKED_MAX {
            self.flow.reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Poll, Waker},
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
    fn nothing_is_read_while_much_is_at_work() {
        let flow = Flow::default();
        let cx = Context::from_waker(Waker::noop());
        let large = flow.ask(1, ASKED_MAX);
        let small = flow.ask(3, 100);
        assert!(flow.is_full(&cx));
        drop(large);
        assert!(!flow.is_full(&cx));
        drop(small);
        assert_eq!(flow.asked.load(SeqCst), 0);
    }

    #[test]
    fn nothing_is_read_while_many_or_large_messages_are_not_answered() {
        let flow = Flow::default();
        let cx = Context::from_waker(Waker::noop());
        flow.answered();
        for _ in 0..HEARD_MAX {
            assert!(!flow.is_full(&cx));
            flow.hear(7);
        }
        assert!(flow.is_full(&cx));
        flow.answered();
        assert!(!flow.is_full(&cx));
        (1..HEARD_MAX).for_each(|_| flow.answered());
        flow.hear(ASKED_MAX as u64 - 1);
        assert!(!flow.is_full(&cx));
        flow.hear(1);
        assert!(flow.is_full(&cx));
        flow.answered();
        assert!(!flow.is_full(&cx));
        assert_eq!(flow.heard().bytes, 1);
        flow.hear(u64::MAX);
        flow.answered();
        assert!(flow.is_full(&cx));
    }
}
