//! Bounded lock-free rings between stages.
//!
//! A ring carries *batches*: its unit is whatever a stage hands over at once, so the cost of the
//! queue is spread over the batch. A producer that finds the ring full keeps the one batch it has
//! in its [`Outbox`] and stops taking input until the batch has gone: that is the credit rule, and
//! it carries back-pressure to the socket without a lock.

use super::worker_waker::Bell;
use crossbeam::queue::ArrayQueue;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
};

struct Ring<T> {
    name: &'static str,
    slots: ArrayQueue<T>,
    /// Outboxes alive; at zero the ring is closed and drains.
    outboxes: AtomicUsize,
    /// Inboxes alive; at zero nobody will ever read.
    inboxes: AtomicUsize,
    /// The producers found the ring full and wait for credit.
    starved: AtomicBool,
    producers: Vec<Bell>,
    consumers: Vec<Bell>,
}

impl<T> Ring<T> {
    fn ring_all(bells: &[Bell]) {
        for bell in bells {
            bell.ring();
        }
    }

    /// Drops what nobody will read; whoever waits for an answer to it learns so.
    fn clear(&self) {
        while self.slots.pop().is_some() {}
    }

    /// Wakes one idle consumer: a batch needs one pair of hands.
    fn ring_one_consumer(&self) {
        for bell in &self.consumers {
            if bell.ring() {
                return;
            }
        }
    }
}

/// Every ring of a pipeline, as far as metrics see them.
#[derive(Debug, Default)]
pub(super) struct Rings {
    /// In the order they were added.
    pub(super) gauges: Vec<Gauge>,
}

impl Rings {
    /// Makes a ring; see [`ring`].
    pub(super) fn add<T: Send + 'static>(
        &mut self,
        name: &'static str,
        depth: usize,
        producers: &[Bell],
        consumers: &[Bell],
    ) -> (Outbox<T>, Inbox<T>) {
        let (out, inbox) = ring(name, depth, producers, consumers);
        self.gauges.push(inbox.gauge());
        (out, inbox)
    }
}

/// Makes a ring of `depth` batches. `producers` and `consumers` are the bells of the workers at
/// either end; a producer without a bell must use [`Outbox::offer`].
pub(super) fn ring<T>(
    name: &'static str,
    depth: usize,
    producers: &[Bell],
    consumers: &[Bell],
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

/// The producing end. Clone it for further producers.
pub(super) struct Outbox<T> {
    ring: Arc<Ring<T>>,
    held: Option<T>,
}

impl<T> Outbox<T> {
    /// Tries to pass on a batch held back earlier; true when the next [`Self::send`] is allowed.
    pub(super) fn ready(&mut self) -> bool {
        match self.held.take() {
            None => true,
            Some(batch) => {
                self.send(batch);
                self.held.is_none()
            }
        }
    }

    /// Hands over a batch, or holds it back when the ring is full. Call [`Self::ready`] first.
    ///
    /// # Panics
    /// If a batch is held back already: the stage took input without credit.
    pub(super) fn send(&mut self, batch: T) {
        assert!(self.held.is_none(), "ring {}: sent without credit", self.ring.name);
        if self.is_abandoned() {
            return; // Only after a fault: the pipeline is ending, and what is sent is lost.
        }
        let Err(batch) = self.offer(batch) else { return };
        // Say that we starve, then try again: the consumer may have made room in between.
        self.ring.starved.store(true, Ordering::SeqCst);
        if let Err(batch) = self.offer(batch) {
            self.held = Some(batch);
        }
    }

    /// Hands over a batch, or gives it back when the ring is full or nobody reads it any more.
    pub(super) fn offer(&self, batch: T) -> Result<(), T> {
        if self.is_abandoned() {
            return Err(batch);
        }
        self.ring.slots.push(batch)?;
        // Either the last reader, who goes in between, sees the batch, or this sees that it went.
        fence(Ordering::SeqCst);
        if self.is_abandoned() {
            self.ring.clear();
        } else {
            self.ring.ring_one_consumer();
        }
        Ok(())
    }

    /// Nobody reads this ring any more: what is sent is lost.
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
            Ring::<T>::ring_all(&self.ring.consumers);
        }
    }
}

impl<T> fmt::Debug for Outbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("ring", &self.ring.name).finish_non_exhaustive()
    }
}

/// The consuming end. Clone it for further consumers.
pub(super) struct Inbox<T> {
    ring: Arc<Ring<T>>,
}

impl<T> Inbox<T> {
    /// Takes the next batch.
    pub(super) fn take(&self) -> Option<T> {
        let batch = self.ring.slots.pop()?;
        if self.ring.starved.load(Ordering::SeqCst)
            && self.ring.starved.swap(false, Ordering::SeqCst)
        {
            Ring::<T>::ring_all(&self.ring.producers);
        }
        Some(batch)
    }

    /// Every producer has gone and nothing is left.
    pub(super) fn is_finished(&self) -> bool {
        // In this order: a producer pushes before it goes.
        self.ring.outboxes.load(Ordering::SeqCst) == 0 && self.ring.slots.is_empty()
    }

    /// Batches waiting.
    pub(super) fn depth(&self) -> usize {
        self.ring.slots.len()
    }

    /// A read-only eye on the ring, for metrics.
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
            Ring::<T>::ring_all(&self.ring.producers);
        }
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("ring", &self.ring.name).finish_non_exhaustive()
    }
}

/// Reads a ring's fill without taking part in it.
pub(super) struct Gauge {
    /// The ring's name.
    pub name: &'static str,
    /// Its depth in batches.
    pub capacity: usize,
    depth: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Gauge {
    /// Batches waiting now.
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
    fn what_nobody_will_read_is_dropped() {
        let (out, inbox) = ring("test", 2, &[], &[]);
        let batch = Arc::new(());
        assert!(out.offer(Arc::clone(&batch)).is_ok());
        drop(inbox);
        assert_eq!(Arc::strong_count(&batch), 1, "the last reader drops what is left");
        assert!(out.offer(batch).is_err());
    }

    #[test]
    fn nothing_is_lost_or_reordered_between_parking_threads() {
        const COUNT: u32 = 50_000;
        let (producer_bell, producer_parker) = Bell::thread();
        let (consumer_bell, consumer_parker) = Bell::thread();
        let (mut out, inbox) = ring(
            "test",
            4,
            std::slice::from_ref(&producer_bell),
            std::slice::from_ref(&consumer_bell),
        );
        let timeout = Duration::from_secs(30);
        let producer = std::thread::spawn(move || {
            for n in 0..COUNT {
                while !out.ready() {
                    producer_bell.begin_idle();
                    if !out.ready() {
                        park(&producer_parker, timeout);
                    }
                    producer_bell.end_idle();
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
                    consumer_bell.begin_idle();
                    if inbox.depth() == 0 && !inbox.is_finished() {
                        park(&consumer_parker, timeout);
                    }
                    consumer_bell.end_idle();
                }
            }
        }
        producer.join().expect("the producer ends");
        assert_eq!(expected, COUNT);
    }
}
