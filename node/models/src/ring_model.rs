//! Models of the rings (`pipeline/src/ring.rs`) between workers (`pipeline/src/stage.rs`).

use crate::{
    checker::{Workers, check},
    fault::Fault,
    meter::Meter,
    ring::{Inbox, Outbox, ring},
    stage::{Progress, Stage, Worker},
    sync::thread,
};
use std::{
    ops::Range,
    slice,
    sync::{Arc, Mutex},
};

/// A stage that sends numbers.
struct Source {
    out: Outbox<u32>,
    numbers: Range<u32>,
    meter: Arc<Meter>,
}

impl Source {
    fn new(out: Outbox<u32>, count: u32) -> Self {
        Self { out, numbers: 0..count, meter: Arc::new(Meter::new("source")) }
    }
}

impl Stage for Source {
    fn name(&self) -> &'static str {
        "source"
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        if !self.out.ready() {
            return Ok(Progress::Blocked);
        }
        let Some(number) = self.numbers.next() else { return Ok(Progress::Finished) };
        self.out.send(number);
        Ok(Progress::Worked)
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}

/// A stage that receives numbers.
struct Sink {
    inbox: Inbox<u32>,
    /// The model checker does not observe this lock.
    received: Arc<Mutex<Vec<u32>>>,
    meter: Arc<Meter>,
}

impl Sink {
    fn new(inbox: Inbox<u32>, received: &Arc<Mutex<Vec<u32>>>) -> Self {
        Self { inbox, received: Arc::clone(received), meter: Arc::new(Meter::new("sink")) }
    }
}

impl Stage for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn step(&mut self) -> Result<Progress, Fault> {
        match self.inbox.take() {
            Some(number) => {
                self.received.lock().expect("no thread panics with it").push(number);
                Ok(Progress::Worked)
            }
            None if self.inbox.is_finished() => Ok(Progress::Finished),
            None => Ok(Progress::Idle),
        }
    }

    fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }
}

/// A producer that finds the ring full waits for credit, and a consumer that finds it empty waits for a batch. All
/// batches arrive in order, including the last one before the ring is closed, and both workers end.
///
/// # Panics
/// If a batch or a wake-up is lost.
pub fn batches_arrive_in_order_and_the_last_is_not_lost() {
    const COUNT: u32 = 2;
    check(2, || {
        let received = Arc::default();
        let (producer, consumer) = (Worker::new("producer"), Worker::new("consumer"));
        let wakers = [producer.waker(), consumer.waker()];
        let (out, inbox) = ring("test", 1, &wakers[..1], &wakers[1..]);
        let mut workers = Workers::new();
        workers.start(producer, Source::new(out, COUNT));
        workers.start(consumer, Sink::new(inbox, &received));
        workers.join();
        assert!(
            received.lock().expect("no thread has panicked").iter().copied().eq(0..COUNT),
            "{received:?}"
        );
    });
}

/// A batch wakes only one idle consumer. Each batch is received once, and all consumers end.
///
/// # Panics
/// If a batch or a wake-up is lost.
pub fn each_batch_reaches_one_of_two_consumers() {
    check(1, || {
        let received = Arc::default();
        let consumers = [Worker::new("a"), Worker::new("b")];
        let wakers = [consumers[0].waker(), consumers[1].waker()];
        let (out, inbox) = ring("test", 2, &[], &wakers);
        let mut workers = Workers::new();
        for consumer in consumers {
            workers.start(consumer, Sink::new(inbox.clone(), &received));
        }
        drop(inbox);
        for number in 0..2 {
            out.offer(number).expect("the ring is not full");
        }
        drop(out);
        workers.join();
        let mut received = std::mem::take(&mut *received.lock().expect("no thread has panicked"));
        received.sort_unstable();
        assert_eq!(received, [0, 1]);
    });
}

/// A batch that is sent while the last inbox is dropped does not stay in the ring: it may contain the sender of a
/// result for which a caller waits.
///
/// # Panics
/// If the batch stays in the ring.
pub fn batches_without_a_reader_are_dropped() {
    check(4, || {
        let (out, inbox) = ring("test", 2, &[], &[]);
        let batch = Arc::new(());
        let sender = {
            let batch = Arc::clone(&batch);
            thread::spawn(move || {
                drop(out.offer(batch));
                out
            })
        };
        drop(inbox);
        let out = sender.join().expect("the thread ends");
        assert_eq!(Arc::strong_count(&batch), 1, "the batch is in the ring");
        drop(out);
    });
}

/// A producer that waits for credit ends when the last inbox is dropped.
///
/// # Panics
/// If the producer is not woken.
pub fn producer_without_credit_ends_with_the_reader() {
    check(3, || {
        let producer = Worker::new("producer");
        let (out, inbox) = ring("test", 1, slice::from_ref(&producer.waker()), &[]);
        let mut workers = Workers::new();
        workers.start(producer, Source::new(out, 2));
        drop(inbox);
        workers.join();
    });
}
