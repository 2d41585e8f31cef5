//! The threads that serve JSON-RPC sockets, one for each core unless set otherwise. Each has a runtime of its own, and a
//! connection stays where it was put (`docs/adr/0015`): a request takes microseconds, and to have
//! another thread help costs more than that. Half of the threads are for connections with large answers,
//! so that no other connection waits while those are copied.
//!
//! Takes: connections. Gives: where to serve them. State: how many each thread has.
//! Bound: that of connections. When full: the connection is not taken.

use platform::slice;
use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
};
use tokio::{
    runtime::{Builder, Handle},
    sync::watch,
};

/// Further threads for each of these, for work that may block: recovering many senders at once, signing with the
/// node's keys, checking blobs.
const MAX_BLOCKING_THREADS: usize = 2;

/// Niceness of the threads for large bodies, as in `nice(1)`: all other threads have priority.
const LARGE_NICE: i32 = 5;

/// The threads that a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Those for requests with small answers.
    Quick,
    /// Those for large answers, and for WebSockets.
    Bulk,
}

/// See the module. Dropped, it ends the threads and whatever they still serve.
#[derive(Debug)]
pub(crate) struct Threads {
    quick: Vec<Thread>,
    /// None where there is one thread in all.
    bulk: Vec<Thread>,
    /// These serve no sockets: they read large bodies.
    large: Vec<Thread>,
    /// Dropped, it tells the threads to end.
    running: watch::Sender<()>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    seats: Arc<AtomicUsize>,
    ended: JoinHandle<()>,
}

/// How many connections each thread serves.
#[derive(Clone, Debug)]
pub struct Seats(Vec<(String, Arc<AtomicUsize>)>);

impl Seats {
    /// Threads by name, with their connections now.
    pub fn taken(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, seats)| (name.as_str(), seats.load(Relaxed)))
    }
}

/// A connection's seat on a thread, given up when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    taken: Arc<AtomicUsize>,
    room: Option<Room>,
}

impl Seat {
    /// Where it is; `None` where one thread is for all.
    pub(super) const fn room(&self) -> Option<Room> {
        self.room
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Relaxed);
    }
}

impl Threads {
    /// Starts `count` of them; of an odd number, more are for small answers.
    ///
    /// # Errors
    /// When the system gives no thread, or nothing to wait for sockets with.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let running = watch::Sender::new(());
        let start = |room, count, nice| {
            let threads = 0..count;
            let threads = threads
                .map(|number| Thread::start(format!("{room}-{number}"), nice, running.subscribe()));
            threads.collect::<io::Result<_>>()
        };
        let (count, bulk) = (count.max(1), count / 2);
        let (quick, bulk) = (start("serve", count - bulk, 0)?, start("bulk", bulk, 0)?);
        let large = start("large", count.div_ceil(2), LARGE_NICE)?;
        Ok(Self { quick, bulk, large, running })
    }

    /// The runtimes for large bodies.
    pub(crate) fn large(&self) -> Vec<Handle> {
        self.large.iter().map(|thread| thread.runtime.clone()).collect()
    }

    /// Reads how many connections each thread serves.
    pub(crate) fn seats(&self) -> Seats {
        let named = |thread: &Thread| {
            let name = thread.ended.thread().name().expect("it was given one");
            (name.to_owned(), Arc::clone(&thread.seats))
        };
        Seats(self.quick.iter().chain(&self.bulk).map(named).collect())
    }

    /// A seat on the room's thread that has the fewest connections, and its runtime.
    pub(super) fn seat(&self, room: Room) -> (&Handle, Seat) {
        let (threads, room) = match room {
            _ if self.bulk.is_empty() => (&self.quick, None),
            Room::Quick => (&self.quick, Some(room)),
            Room::Bulk => (&self.bulk, Some(room)),
        };
        let fewest = threads.iter().min_by_key(|thread| thread.seats.load(Relaxed));
        let Thread { runtime, seats, .. } = fewest.expect("there is one");
        seats.fetch_add(1, Relaxed);
        (runtime, Seat { taken: Arc::clone(seats), room })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(mem::replace(&mut self.running, watch::Sender::new(())));
        for thread in self.quick.drain(..).chain(self.bulk.drain(..)).chain(self.large.drain(..)) {
            // A panic there has been reported.
            let _ = thread.ended.join();
        }
    }
}

impl Thread {
    fn start(name: String, nice: i32, mut running: watch::Receiver<()>) -> io::Result<Self> {
        let (made, runtime) = mpsc::sync_channel(1);
        // Made there: a runtime must not end on a thread of another, as it would without a thread.
        let serve = move || {
            let mut own = Builder::new_current_thread();
            let own = match own.enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).build() {
                Ok(own) => own,
                Err(error) => return made.send(Err(error)).expect("it is waited for"),
            };
            made.send(Ok(own.handle().clone())).expect("it is waited for");
            if nice == 0 {
                slice::ask(slice::SOCKETS);
            } else {
                // On Linux this sets the priority of the calling thread. If it fails, the threads compete with the others.
                let _ = rustix::process::setpriority_process(None, nice);
            }
            // Nothing is ever sent: an error says that the sender is gone.
            let _ = own.block_on(running.changed());
        };
        let ended = thread::Builder::new().name(name).spawn(serve)?;
        let runtime = runtime.recv().expect("it sends before it ends")?;
        Ok(Self { runtime, seats: Arc::default(), ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_spread_and_stay() {
        let threads = Threads::start(5).unwrap();
        let (sender, receiver) = mpsc::channel();
        let sit_in = |room| {
            let (runtime, seat) = threads.seat(room);
            assert_eq!(seat.room(), Some(room));
            let sender = sender.clone();
            runtime.spawn(async move {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    sender.send(thread::current().name().map(str::to_owned)).unwrap();
                }
            });
            let names: Vec<_> = receiver.iter().take(3).collect();
            assert!(names.windows(2).all(|two| two[0] == two[1]), "{names:?}");
            (names[0].clone().unwrap(), seat)
        };
        let sit = || sit_in(Room::Quick);
        let mut first: Vec<_> = (0..3).map(|_| sit()).collect();
        first.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["serve-0", "serve-1", "serve-2"]);
        // The next one gets the seat that is given up.
        drop(first.remove(1));
        assert_eq!(sit().0, "serve-1");
        let bulk = [(); 2].map(|()| sit_in(Room::Bulk));
        let seats = threads.seats();
        assert!(seats.taken().eq([
            ("serve-0", 1),
            ("serve-1", 0),
            ("serve-2", 1),
            ("bulk-0", 1),
            ("bulk-1", 1)
        ]));
        assert_eq!(bulk.map(|(name, _)| name), ["bulk-0", "bulk-1"]);
    }

    #[test]
    fn one_thread_is_for_all() {
        let threads = Threads::start(1).unwrap();
        let seats = [Room::Quick, Room::Bulk].map(|room| threads.seat(room).1);
        assert!(seats.iter().all(|seat| seat.room().is_none()));
        assert_eq!(threads.quick[0].seats.load(Relaxed), 2);
    }

    #[test]
    fn what_is_served_ends_with_the_threads() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        threads.seat(Room::Quick).0.spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(threads);
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    }
}
