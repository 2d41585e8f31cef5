//! Bounded lock-free rings between stages.
//!
//! A ring carries *batches*, so the cost of the queue is spread over all items of a batch. A producer that
//! finds the ring full holds one batch in its [`Outbox`] and stops taking input until the batch has been
//! sent. This is the credit rule, which propagates back-pressure to the sockets without a lock.

use super::{
    sync::{ArrayQueue, AtomicBool, AtomicUsize, fence},
    worker_waker::WorkerWaker,
};
use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

struct Ring<T> {
    name: &'static str,
    slots: ArrayQueue<T>,
    /// Number of outboxes; once it is zero, the ring is closed and drains.
    outboxes: AtomicUsize,
    /// Number of inboxes; once it is zero, the ring will never be read again.
    inboxes: AtomicUsize,
    /// A producer found the ring full and waits for credit.
    starved: AtomicBool,
    producers: Vec<WorkerWaker>,
    consumers: Vec<WorkerWaker>,
}

impl<T> Ring<T> {
    fn wake_all(wakers: &[WorkerWaker]) {
        for waker in wakers {
            waker.wake();
        }
    }

    /// Drops batches that will never be read, and with them the channels for their results.
    fn clear(&self) {
        while self.slots.pop().is_some() {}
    }

    /// Wakes one idle consumer, because a batch needs only one.
    fn wake_one_consumer(&self) {
        for waker in &self.consumers {
            if waker.wake() {
                return;
            }
        }
    }
}

/// All rings of a pipeline, for metrics.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// The gauges, in the order in which the rings were added.
    pub(super) gauges: Vec<Gauge>,
}

impl Rings {
    /// Creates a ring; see [`ring`].
    pub(super) fn add<T: Send + 'static>(
        &mut self,
        name: &'static str,
        depth: usize,
        producers: &[WorkerWaker],
        consumers: &[WorkerWaker],
    ) -> (Outbox<T>, Inbox<T>) {
        let (out, inbox) = ring(name, depth, producers, consumers);
        self.gauges.push(inbox.gauge());
        (out, inbox)
    }
}

/// Creates a ring of `depth` batches. `producers` and `consumers` are the wakers of the workers at the two ends.
/// A producer without a waker must use [`Outbox::offer`].
pub(super) fn ring<T>(
    name: &'static str,
    depth: usize,
    producers: &[WorkerWaker],
    consumers: &[WorkerWaker],
) -> (Outbox<T>, Inbox<T>) {
    let ring = Arc::new(Ring {
        name,
        slots: ArrayQueue::new(depth),
        outboxes: AtomicUsize::new(1),
        inboxes: AtomicUsize::new(1),
        starved: AtomicBool::new(false),
        producers: producers.to_vec(),
        consumers: consumers.to_vec(),
    });
    (Outbox { ring: Arc::clone(&ring), held: None }, Inbox { ring })
}

/// The producing end. Clone it for more producers.
pub(super) struct Outbox<T> {
    ring: Arc<Ring<T>>,
    held: Option<T>,
}

impl<T> Outbox<T> {
    /// Tries to send a batch that was held back; returns whether [`Self::send`] is allowed.
    pub(super) fn ready(&mut self) -> bool {
        match self.held.take() {
            None => true,
            Some(batch) => {
                self.send(batch);
                self.held.is_none()
            }
        }
    }

    /// Sends a batch, or holds it back if the ring is full. Call [`Self::ready`] first.
    ///
    /// # Panics
    /// If a batch is already held back, which means that the stage took input without credit.
    pub(super) fn send(&mut self, batch: T) {
        assert!(self.held.is_none(), "ring {}: sent without credit", self.ring.name);
        if self.is_abandoned() {
            return; // Only after a fault: the pipeline is ending, and the batch is lost.
        }
        let Err(batch) = self.offer(batch) else { return };
        // Announce the wait for credit, then try again: the consumer may have freed a slot in between.
        self.ring.starved.store(true, Ordering::SeqCst);
        if let Err(batch) = self.offer(batch) {
            self.held = Some(batch);
        }
    }

    /// Sends a batch, or returns it if the ring is full or will not be read any more.
    pub(super) fn offer(&self, batch: T) -> Result<(), T> {
        if self.is_abandoned() {
            return Err(batch);
        }
        self.ring.slots.push(batch)?;
        // If the last inbox is dropped concurrently, either its drop sees the batch, or this thread sees the drop.
        fence(Ordering::SeqCst);
        if self.is_abandoned() {
            self.ring.clear();
        } else {
            self.ring.wake_one_consumer();
        }
        Ok(())
    }

    /// Returns whether the ring no longer has an inbox, so that any batch sent is lost.
    pub(super) fn is_abandoned(&self) -> bool {
        self.ring.inboxes.load(Ordering::SeqCst) == 0
    }
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        self.ring.outboxes.fetch_add(1, Ordering::SeqCst);
        Self { ring: Arc::clone(&self.ring), held: None }
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        debug_assert!(
            self.held.is_none() || self.is_abandoned() || std::thread::panicking(),
            "ring {}: closed with a batch held back",
            self.ring.name
        );
        if self.ring.outboxes.fetch_sub(1, Ordering::SeqCst) == 1 {
            Ring::<T>::wake_all(&self.ring.consumers);
        }
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("ring", &self.ring.name).finish_non_exhaustive()
    }
}

/// The consuming end. Clone it for more consumers.
pub(super) struct Inbox<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Inbox<T> {
    /// Takes the next batch, if there is one.
    pub(super) fn take(&self) -> Option<T> {
        let batch = self.ring.slots.pop()?;
        // The counterpart of the fence in `WorkerWaker::begin_idle`: either a producer without credit sees the
        // free slot in its check before it parks, or this thread sees that the producer is starved. The queue
        // does not guarantee an order between its own operations and accesses to the flag.
        fence(Ordering::SeqCst);
        if self.ring.starved.load(Ordering::SeqCst)
            && self.ring.starved.swap(false, Ordering::SeqCst)
        {
            Ring::<T>::wake_all(&self.ring.producers);
        }
        Some(batch)
    }

    /// Returns whether all outboxes have been dropped and no batch is left.
    pub(super) fn is_finished(&self) -> bool {
        // Read the number of outboxes first, because a producer sends its last batch before it drops its outbox.
        self.ring.outboxes.load(Ordering::SeqCst) == 0 && self.ring.slots.is_empty()
    }

    /// Returns the number of batches waiting.
    pub(super) fn depth(&self) -> usize {
        self.ring.slots.len()
    }

    /// Creates a read-only handle to the ring, for metrics.
    pub(super) fn gauge(&self) -> Gauge
    where
        T: Send + 'static,
    {
        let ring = Arc::downgrade(&self.ring);
        let capacity = self.ring.slots.capacity();
        let name = self.ring.name;
        let depth = move || ring.upgrade().map_or(0, |ring| ring.slots.len());
        Gauge { name, capacity, depth: Box::new(depth) }
    }
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        self.ring.inboxes.fetch_add(1, Ordering::SeqCst);
        Self { ring: Arc::clone(&self.ring) }
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        if self.ring.inboxes.fetch_sub(1, Ordering::SeqCst) == 1 {
            fence(Ordering::SeqCst);
            self.ring.clear();
            Ring::<T>::wake_all(&self.ring.producers);
        }
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("ring", &self.ring.name).finish_non_exhaustive()
    }
}

/// Reads the fill level of a ring.
pub(super) struct Gauge {
    /// The ring's name.
    pub name: &'static str,
    /// Maximum number of batches waiting.
    pub capacity: usize,
    depth: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Gauge {
    /// Returns the number of batches waiting.
    pub(super) fn depth(&self) -> usize {
        (self.depth)()
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.name, self.depth(), self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker_waker::park;
    use std::time::Duration;

    #[test]
    fn holds_back_one_batch_when_full() {
        let (mut out, inbox) = ring::<u32>("test", 1, &[], &[]);
        out.send(1);
        assert!(out.ready());
        out.send(2);
        assert!(!out.ready(), "the second batch is held back");
        assert_eq!(inbox.take(), Some(1));
        assert!(out.ready());
        assert_eq!(inbox.take(), Some(2));
        assert!(!inbox.is_finished());
        drop(out);
        assert!(inbox.is_finished());
    }

    #[test]
    #[should_panic(expected = "sent without credit")]
    fn refuses_a_second_held_batch() {
        let (mut out, _inbox) = ring::<u32>("test", 1, &[], &[]);
        for n in 0..3 {
            out.send(n);
        }
    }

    #[test]
    fn batches_that_will_not_be_read_are_dropped() {
        let (out, inbox) = ring("test", 2, &[], &[]);
        let batch = Arc::new(());
        assert!(out.offer(Arc::clone(&batch)).is_ok());
        drop(inbox);
        assert_eq!(Arc::strong_count(&batch), 1, "the last inbox drops the batches that are left");
        assert!(out.offer(batch).is_err());
    }

    #[test]
    fn nothing_is_lost_or_reordered_between_parking_threads() {
        const COUNT: u32 = 50_000;
        let (producer_waker, producer_parker) = WorkerWaker::thread();
        let (consumer_waker, consumer_parker) = WorkerWaker::thread();
        let (mut out, inbox) = ring(
            "test",
            4,
            std::slice::from_ref(&producer_waker),
            std::slice::from_ref(&consumer_waker),
        );
        let timeout = Duration::from_secs(30);
        let producer = std::thread::spawn(move || {
            for n in 0..COUNT {
                while !out.ready() {
                    producer_waker.begin_idle();
                    if !out.ready() {
                        park(&producer_parker, timeout);
                    }
                    producer_waker.end_idle();
                }
                out.send(n);
            }
            while !out.ready() {
                std::thread::yield_now();
            }
        });
        let mut expected = 0;
        while !inbox.is_finished() {
            match inbox.take() {
                Some(n) => {
                    assert_eq!(n, expected);
                    expected += 1;
                }
                None => {
                    consumer_waker.begin_idle();
                    if inbox.depth() == 0 && !inbox.is_finished() {
                        park(&consumer_parker, timeout);
                    }
                    consumer_waker.end_idle();
                }
            }
        }
        producer.join().expect("the producer ends");
        assert_eq!(expected, COUNT);
    }
}
