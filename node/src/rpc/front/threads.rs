//! The threads that serve JSON-RPC sockets, one for each core unless set otherwise. Each has a runtime of its own, and a
//! connection stays where it was put (`docs/adr/0015`): a request takes microseconds, and to have
//! another thread help costs more than that.
//!
//! Takes: connections. Gives: where to serve them. State: how many each thread has.
//! Bound: that of connections. When full: the connection is not taken.

use crate::slice;
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

/// Threads beside each of these for work that may block: recovering many senders at once, signing with the
/// node's keys, checking blobs.
const BLOCKING_MAX: usize = 2;

/// See the module. Dropped, it ends the threads and whatever they still serve.
#[derive(Debug)]
pub(in crate::rpc) struct Threads {
    threads: Vec<Thread>,
    /// Dropped, it tells the threads to end.
    running: watch::Sender<()>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    seats: Arc<AtomicUsize>,
    ended: JoinHandle<()>,
}

/// A connection's seat on a thread, given up when dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Threads {
    /// Starts `count` of them.
    ///
    /// # Errors
    /// When the system gives no thread, or nothing to wait for sockets with.
    pub(in crate::rpc) fn start(count: usize) -> io::Result<Self> {
        let running = watch::Sender::new(());
        let threads = (0..count.max(1)).map(|number| Thread::start(number, running.subscribe()));
        Ok(Self { threads: threads.collect::<io::Result<_>>()?, running })
    }

    /// A seat on the thread that has the fewest connections, and its runtime.
    pub(super) fn seat(&self) -> (&Handle, Seat) {
        let fewest = self.threads.iter().min_by_key(|thread| thread.seats.load(Relaxed));
        let Thread { runtime, seats, .. } = fewest.expect("there is one");
        seats.fetch_add(1, Relaxed);
        (runtime, Seat(Arc::clone(seats)))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        drop(mem::replace(&mut self.running, watch::Sender::new(())));
        for thread in self.threads.drain(..) {
            // A panic there has been reported.
            let _ = thread.ended.join();
        }
    }
}

impl Thread {
    fn start(number: usize, mut running: watch::Receiver<()>) -> io::Result<Self> {
        let (made, runtime) = mpsc::sync_channel(1);
        // Made there: a runtime must not end on a thread of another, as it would without a thread.
        let serve = move || {
            let mut own = Builder::new_current_thread();
            let own = match own.enable_all().max_blocking_threads(BLOCKING_MAX).build() {
                Ok(own) => own,
                Err(error) => return made.send(Err(error)).expect("it is waited for"),
            };
            made.send(Ok(own.handle().clone())).expect("it is waited for");
            slice::ask(slice::SOCKETS);
            // Nothing is ever told: an error says that the sender is gone.
            let _ = own.block_on(running.changed());
        };
        let ended = thread::Builder::new().name(format!("serve-{number}")).spawn(serve)?;
        let runtime = runtime.recv().expect("it sends before it ends")?;
        Ok(Self { runtime, seats: Arc::default(), ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_spread_and_stay() {
        let threads = Threads::start(3).unwrap();
        let (tell, told) = mpsc::channel();
        let sit = || {
            let (runtime, seat) = threads.seat();
            let tell = tell.clone();
            runtime.spawn(async move {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    tell.send(thread::current().name().map(str::to_owned)).unwrap();
                }
            });
            let names: Vec<_> = told.iter().take(3).collect();
            assert!(names.windows(2).all(|two| two[0] == two[1]), "{names:?}");
            (names[0].clone().unwrap(), seat)
        };
        let mut first: Vec<_> = (0..3).map(|_| sit()).collect();
        first.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["serve-0", "serve-1", "serve-2"]);
        // The next one gets the seat that is given up.
        drop(first.remove(1));
        assert_eq!(sit().0, "serve-1");
    }

    #[test]
    fn what_is_served_ends_with_the_threads() {
        let threads = Threads::start(1).unwrap();
        let (tell, told) = mpsc::channel::<()>();
        threads.seat().0.spawn(async move {
            std::future::pending::<()>().await;
            drop(tell);
        });
        drop(threads);
        assert_eq!(told.recv(), Err(mpsc::RecvError));
    }
}
