//! Runs the threads that serve JSON-RPC sockets, one for each core unless set otherwise. Each has its own runtime,
//! because a request takes microseconds and work stealing would cost more than that. Half of the threads are for
//! connections with large responses, so that no other connection waits while these are copied. A connection moves only
//! from the threads for small responses to those for large ones, or back (`docs/adr/0015`).
//!
//! Input: new and moved connections. Output: the thread that serves each. State: the number of connections of each
//! thread. Limit: the maximum number of connections.

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

/// Maximum number of further threads for each of these, for work that may block: recovering many senders at once,
/// signing with the node's keys, checking blobs.
const MAX_BLOCKING_THREADS: usize = 2;

/// Niceness of the threads for large bodies, as in `nice(1)`. The threads of sockets and of the pipeline have priority.
const LARGE_NICE: i32 = 5;

/// The threads that a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadGroup {
    /// The threads for requests with small responses.
    Quick,
    /// The threads for large responses, and for WebSockets of an address that serves no HTTP calls.
    Bulk,
}

/// The threads. Dropping this stops them and closes their connections.
#[derive(Debug)]
pub(crate) struct Threads {
    quick: Vec<Thread>,
    /// Empty if there is only one thread.
    bulk: Vec<Thread>,
    /// These serve no sockets. They parse large bodies and compress large responses.
    large: Vec<Thread>,
    /// Dropping this sender stops the threads.
    running: watch::Sender<()>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    ended: JoinHandle<()>,
}

/// Reads the number of connections of each thread.
#[derive(Clone, Debug)]
pub struct ConnectionsPerThread(Vec<(String, Arc<AtomicUsize>)>);

impl ConnectionsPerThread {
    /// Returns the name of each thread and its current number of connections.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, connections)| (name.as_str(), connections.load(Relaxed)))
    }
}

/// Counts a connection of a thread until this is dropped.
#[derive(Debug)]
pub(super) struct ThreadConnection {
    connections: Arc<AtomicUsize>,
    group: Option<ThreadGroup>,
}

impl ThreadConnection {
    /// Returns the group of the thread, or `None` if one thread serves all connections.
    pub(super) const fn group(&self) -> Option<ThreadGroup> {
        self.group
    }
}

impl Drop for ThreadConnection {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Relaxed);
    }
}

impl Threads {
    /// Starts `count` threads that serve sockets, and half as many, rounded up, for large bodies. If `count` is odd,
    /// the extra thread is for small responses.
    ///
    /// # Errors
    /// Returns an error if a thread or its runtime cannot be created.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let running = watch::Sender::new(());
        let start = |group, count, nice| {
            let threads = 0..count;
            let threads = threads.map(|number| {
                Thread::start(format!("{group}-{number}"), nice, running.subscribe())
            });
            threads.collect::<io::Result<_>>()
        };
        let (count, bulk) = (count.max(1), count / 2);
        let (quick, bulk) = (start("serve", count - bulk, 0)?, start("bulk", bulk, 0)?);
        let large = start("large", count.div_ceil(2), LARGE_NICE)?;
        Ok(Self { quick, bulk, large, running })
    }

    /// Returns the runtimes of the threads for large bodies.
    pub(crate) fn large(&self) -> Vec<Handle> {
        self.large.iter().map(|thread| thread.runtime.clone()).collect()
    }

    /// Returns the counters of the connections of each thread that serves sockets.
    pub(crate) fn connections_per_thread(&self) -> ConnectionsPerThread {
        let named = |thread: &Thread| {
            let name = thread.ended.thread().name().expect("the thread has a name");
            (name.to_owned(), Arc::clone(&thread.connections))
        };
        ConnectionsPerThread(self.quick.iter().chain(&self.bulk).map(named).collect())
    }

    /// Adds a connection to the thread with the fewest connections of a group, and returns its runtime.
    pub(super) fn assign(&self, group: ThreadGroup) -> (&Handle, ThreadConnection) {
        let (threads, group) = match group {
            _ if self.bulk.is_empty() => (&self.quick, None),
            ThreadGroup::Quick => (&self.quick, Some(group)),
            ThreadGroup::Bulk => (&self.bulk, Some(group)),
        };
        let fewest = threads.iter().min_by_key(|thread| thread.connections.load(Relaxed));
        let Thread { runtime, connections, .. } = fewest.expect("a group has a thread");
        connections.fetch_add(1, Relaxed);
        (runtime, ThreadConnection { connections: Arc::clone(connections), group })
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
        let (sender, runtime) = mpsc::sync_channel(1);
        // Create the runtime on its own thread. Otherwise, if `spawn` failed, the runtime would be dropped inside
        // another runtime, which panics.
        let serve = move || {
            let mut own = Builder::new_current_thread();
            let own = match own.enable_all().max_blocking_threads(MAX_BLOCKING_THREADS).build() {
                Ok(own) => own,
                Err(error) => return sender.send(Err(error)).expect("the starter waits"),
            };
            sender.send(Ok(own.handle().clone())).expect("the starter waits");
            if nice == 0 {
                slice::request(slice::SOCKETS);
            } else {
                // On Linux this sets the priority of the calling thread. If it fails, the priority is normal.
                let _ = rustix::process::setpriority_process(None, nice);
            }
            // Nothing is ever sent. An error means that the sender was dropped.
            let _ = own.block_on(running.changed());
        };
        let ended = thread::Builder::new().name(name).spawn(serve)?;
        let runtime = runtime.recv().expect("the thread sends before it ends")?;
        Ok(Self { runtime, connections: Arc::default(), ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_to_the_thread_with_the_fewest() {
        let threads = Threads::start(5).unwrap();
        let (sender, receiver) = mpsc::channel();
        let assign_to = |group| {
            let (runtime, thread) = threads.assign(group);
            assert_eq!(thread.group(), Some(group));
            let sender = sender.clone();
            runtime.spawn(async move {
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                    sender.send(thread::current().name().map(str::to_owned)).unwrap();
                }
            });
            let names: Vec<_> = receiver.iter().take(3).collect();
            assert!(names.windows(2).all(|two| two[0] == two[1]), "{names:?}");
            (names[0].clone().unwrap(), thread)
        };
        let assign = || assign_to(ThreadGroup::Quick);
        let mut first: Vec<_> = (0..3).map(|_| assign()).collect();
        first.sort_by(|a, b| a.0.cmp(&b.0));
        let names: Vec<_> = first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["serve-0", "serve-1", "serve-2"]);
        // The next connection is assigned to the thread without connections.
        drop(first.remove(1));
        assert_eq!(assign().0, "serve-1");
        let bulk = [(); 2].map(|()| assign_to(ThreadGroup::Bulk));
        let connections = threads.connections_per_thread();
        assert!(connections.iter().eq([
            ("serve-0", 1),
            ("serve-1", 0),
            ("serve-2", 1),
            ("bulk-0", 1),
            ("bulk-1", 1)
        ]));
        assert_eq!(bulk.map(|(name, _)| name), ["bulk-0", "bulk-1"]);
    }

    #[test]
    fn a_single_thread_serves_all_connections() {
        let threads = Threads::start(1).unwrap();
        let connections =
            [ThreadGroup::Quick, ThreadGroup::Bulk].map(|group| threads.assign(group).1);
        assert!(connections.iter().all(|thread| thread.group().is_none()));
        assert_eq!(threads.quick[0].connections.load(Relaxed), 2);
    }

    #[test]
    fn dropping_the_threads_drops_their_tasks() {
        let threads = Threads::start(1).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        threads.assign(ThreadGroup::Quick).0.spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(threads);
        assert_eq!(receiver.recv(), Err(mpsc::RecvError));
    }
}
