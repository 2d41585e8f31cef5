//! Two lines of calls that may take long, each with its own few threads, away from those that serve
//! sockets. One is for work of milliseconds (`eth_call`, large blocks), the other for scans and
//! traces, so that these cannot hold up those.
//!
//! Takes: calls and who makes them. Gives: their answers. State: the calls that wait, by address
//! and connection. Bound: [`WAITING_MAX`] calls a line, half of them of one address, and
//! [`WAITING_PER_CONNECTION_MAX`] of a connection. When full: refuses the newest call of the address that has
//! the most, or this one.
//!
//! Addresses take turns, and the connections of an address among themselves, so a client with a
//! thousand calls waiting costs another one turn. The threads run at a lower priority than those of
//! the pipeline and the sockets: whatever is scanned, a block is made and a balance is read.

use crate::front::Client;
use ::server::interrupt::{Caller, Interrupt};
use budget::{Networks, client_key};
use rpc_eth::method::Line;
use rpc_types::error::Error;
use std::{
    collections::{BTreeMap, VecDeque},
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// Calls that may wait in a line: at ten milliseconds each, some seconds' work of two cores.
const WAITING_MAX: usize = 1024;
/// Of them, those of one address: others find a place however many one client sends.
const WAITING_PER_ADDRESS_MAX: usize = WAITING_MAX / 2;
/// Of them, those of one connection.
const WAITING_PER_CONNECTION_MAX: usize = 128;
/// How nice the threads of the two lines are to all others, in the steps of `nice(1)`.
const SHORT_NICE: i32 = 5;
const LONG_NICE: i32 = 15;

/// What becomes of something that waits.
#[derive(Clone, Copy, Debug)]
enum Go {
    /// It is its turn.
    Run,
    /// Another address needs its place: as many wait as may.
    Refused(usize),
}

type Job = Box<dyn FnOnce(Go) + Send>;

/// The work of a call until it begins. It is dropped with its caller, because its parameters may be large.
#[derive(Debug)]
struct Wanted<W>(Arc<Mutex<Option<W>>>);

impl<W> Wanted<W> {
    fn take(&self) -> Option<W> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<W> Drop for Wanted<W> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Queues that take turns.
#[derive(Debug)]
struct Turns<K, Q> {
    order: VecDeque<K>,
    queues: BTreeMap<K, Q>,
}

impl<K, Q> Default for Turns<K, Q> {
    fn default() -> Self {
        Self { order: VecDeque::new(), queues: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, Q: Default> Turns<K, Q> {
    fn queue(&mut self, key: K) -> &mut Q {
        let Self { order, queues } = self;
        queues.entry(key).or_insert_with(|| {
            order.push_back(key);
            Q::default()
        })
    }

    fn remove(&mut self, key: K) {
        self.queues.remove(&key);
        self.order.retain(|other| *other != key);
    }

    /// Takes from the queue whose turn it is with `take`, which also says whether the queue is
    /// empty now.
    fn next<T>(&mut self, take: impl FnOnce(&mut Q) -> (Option<T>, bool)) -> Option<T> {
        let key = self.order.pop_front()?;
        let (taken, empty) = take(self.queues.get_mut(&key)?);
        if empty {
            self.queues.remove(&key);
        } else {
            self.order.push_back(key);
        }
        taken
    }
}

/// The calls of one address.
#[derive(Debug)]
struct OfAddress<T> {
    connections: Turns<u64, VecDeque<T>>,
    waiting: usize,
}

impl<T> Default for OfAddress<T> {
    fn default() -> Self {
        Self { connections: Turns::default(), waiting: 0 }
    }
}

/// What waits for its turn: calls, and large bodies.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    addresses: Turns<IpAddr, OfAddress<T>>,
    count: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { addresses: Turns::default(), count: 0 }
    }
}

impl<T> Waiting<T> {
    /// Adds a call, or says which bound is met. Returns the call that lost its place to this one, and the bound
    /// that it is refused for.
    pub(crate) fn push(
        &mut self,
        address: IpAddr,
        connection: u64,
        job: T,
    ) -> Result<Option<(T, usize)>, usize> {
        let address = client_key(address);
        let (of_address, of_connection) = self.waiting_of(address, connection);
        if of_address >= WAITING_PER_ADDRESS_MAX {
            return Err(WAITING_PER_ADDRESS_MAX);
        }
        if of_connection >= WAITING_PER_CONNECTION_MAX {
            return Err(WAITING_PER_CONNECTION_MAX);
        }
        let displaced = match self.count {
            0..WAITING_MAX => None,
            _ => Some((self.take_of_rival(address).ok_or(WAITING_MAX)?, WAITING_MAX)),
        };
        let of_address = self.addresses.queue(address);
        of_address.connections.queue(connection).push_back(job);
        of_address.waiting += 1;
        self.count += 1;
        Ok(displaced)
    }

    /// How many calls of an address wait, and how many of a connection.
    fn waiting_of(&self, address: IpAddr, connection: u64) -> (usize, usize) {
        let Some(of_address) = self.addresses.queues.get(&address) else { return (0, 0) };
        let of_connection = of_address.connections.queues.get(&connection);
        (of_address.waiting, of_connection.map_or(0, VecDeque::len))
    }

    /// Takes the newest call of the connection that has the most, of the address that has to make room for this one:
    /// networks of several sizes are compared, because an attacker may have many addresses.
    fn take_of_rival(&mut self, address: IpAddr) -> Option<T> {
        let held = |of_address: &OfAddress<T>| of_address.waiting as u64;
        let networks = Networks { clients: &self.addresses.queues, held, evictable: held };
        let rival = networks.rival(address, 1, 0)?;
        let of_address = self.addresses.queues.get_mut(&rival)?;
        let connections = &mut of_address.connections;
        let most = connections.queues.iter_mut().max_by_key(|(_, jobs)| jobs.len());
        let (&connection, jobs) = most?;
        let job = jobs.pop_back()?;
        if jobs.is_empty() {
            connections.remove(connection);
        }
        of_address.waiting -= 1;
        if of_address.waiting == 0 {
            self.addresses.remove(rival);
        }
        self.count -= 1;
        Some(job)
    }

    /// The call whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let job = self.addresses.next(|address| {
            let job = address.connections.next(|jobs| {
                let job = jobs.pop_front();
                (job, jobs.is_empty())
            });
            address.waiting -= usize::from(job.is_some());
            (job, address.waiting == 0)
        });
        self.count -= usize::from(job.is_some());
        job
    }
}

/// What the threads of a line share.
#[derive(Default)]
struct Desk {
    line: Mutex<(Waiting<Job>, bool)>,
    bell: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, (Waiting<Job>, bool)> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs calls until the line is closed.
    fn serve(&self) {
        let mut line = self.lock();
        loop {
            match line.0.pop() {
                _ if line.1 => return,
                Some(job) => {
                    drop(line);
                    job(Go::Run);
                    line = self.lock();
                }
                None => line = self.bell.wait(line).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// The two lines. Their threads end when this is dropped, after the call at hand.
pub(crate) struct Lines {
    short: Arc<Desk>,
    long: Arc<Desk>,
}

impl Lines {
    /// A thread a core for short calls, at least two, and half as many for long ones.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let short = open("rpc-short", cores.max(2), SHORT_NICE);
        let long = open("rpc-long", cores.div_ceil(2), LONG_NICE);
        Self { short, long }
    }

    /// Calls that wait in each line.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.short.lock().0.count, self.long.lock().0.count)
    }

    /// Runs `work` when it is its caller's turn. Work that has not begun when its caller goes away is dropped
    /// then, and work that has begun can ask whether it still is wanted.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        line: Line,
        client: &Client,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_for(line, client.address, client.id, work).await
    }

    /// As [`Self::run`], for work whose result several clients wait for. It has a queue of its own, so that
    /// earlier calls of one client do not delay the others.
    pub(crate) async fn run_own<T: Send + 'static>(
        &self,
        line: Line,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_for(line, Ipv4Addr::UNSPECIFIED.into(), 0, work).await
    }

    async fn run_for<T: Send + 'static>(
        &self,
        line: Line,
        address: IpAddr,
        connection: u64,
        work: impl FnOnce(&Interrupt) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let desk = match line {
            Line::Short => &self.short,
            Line::Long => &self.long,
        };
        let (caller, interrupt) = Caller::waiting();
        let (reply, answer) = oneshot::channel();
        let wanted = Wanted(Arc::new(Mutex::new(Some(work))));
        let waiting = Wanted(Arc::clone(&wanted.0));
        let job = move |go| {
            let Some(work) = waiting.take() else { return };
            let result = match go {
                Go::Run => std::panic::catch_unwind(AssertUnwindSafe(|| work(&interrupt)))
                    .unwrap_or_else(|_| Err(Error::internal("a call panicked"))),
                Go::Refused(limit) => Err(Error::busy(limit)),
            };
            // An error says that the caller has gone.
            let _ = reply.send(result);
        };
        let pushed = desk.lock().0.push(address, connection, Box::new(job));
        if let Some((job, limit)) = pushed.map_err(Error::busy)? {
            job(Go::Refused(limit));
        }
        desk.bell.notify_one();
        let result = answer.await;
        drop((caller, wanted));
        result.unwrap_or_else(|_| Err(Error::server("the node is stopping")))
    }
}

fn open(name: &str, threads: usize, nice: i32) -> Arc<Desk> {
    let desk = Arc::<Desk>::default();
    for number in 0..threads {
        let desk = Arc::clone(&desk);
        let builder = std::thread::Builder::new().name(format!("{name}-{number}"));
        let started = builder.spawn(move || {
            // On Linux this is the priority of the calling thread. Without it, calls only compete.
            let _ = rustix::process::setpriority_process(None, nice);
            desk.serve();
        });
        started.expect("a few threads can be started");
    }
    desk
}

impl Drop for Lines {
    fn drop(&mut self) {
        for desk in [&self.short, &self.long] {
            let mut line = desk.lock();
            line.1 = true;
            // Callers receive an error.
            line.0 = Waiting::default();
            drop(line);
            desk.bell.notify_all();
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("waiting", &self.waiting()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        task::{Context, Waker},
        time::Duration,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn addresses_and_their_connections_take_turns() {
        let mut waiting = Waiting::default();
        for job in 0..4 {
            waiting.push(address(1), 1, ("flood", job)).unwrap();
        }
        waiting.push(address(1), 2, ("neighbour", 0)).unwrap();
        waiting.push(address(2), 3, ("other", 0)).unwrap();
        waiting.push(address(2), 3, ("other", 1)).unwrap();
        let order: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        let expected = [
            ("flood", 0),
            ("other", 0),
            ("neighbour", 0),
            ("other", 1),
            ("flood", 1),
            ("flood", 2),
            ("flood", 3),
        ];
        assert_eq!(order, expected);
        assert!(waiting.addresses.queues.is_empty() && waiting.addresses.order.is_empty());
        assert_eq!(waiting.count, 0);
    }

    #[test]
    fn a_flood_leaves_places_to_others() {
        let mut waiting = Waiting::default();
        let mut taken = 0;
        for connection in 0..100 {
            while waiting.push(address(1), connection, ()).is_ok() {
                taken += 1;
            }
        }
        assert_eq!(taken, WAITING_PER_ADDRESS_MAX);
        assert_eq!(waiting.push(address(1), 0, ()), Err(WAITING_PER_ADDRESS_MAX));
        assert_eq!(waiting.push(address(2), 200, ()), Ok(None));
        for _ in 1..WAITING_PER_CONNECTION_MAX {
            waiting.push(address(2), 200, ()).unwrap();
        }
        assert_eq!(waiting.push(address(2), 200, ()), Err(WAITING_PER_CONNECTION_MAX));
    }

    /// Of any number of addresses, the one that has the most makes room.
    #[test]
    fn addresses_that_fill_a_line_do_not_keep_another_out() {
        let mut waiting = Waiting::default();
        for client in [1, 2] {
            for job in 0..WAITING_PER_ADDRESS_MAX {
                let connection = (job / WAITING_PER_CONNECTION_MAX) as u64;
                assert_eq!(waiting.push(address(client), connection, (client, job)), Ok(None));
            }
        }
        assert_eq!(waiting.count, WAITING_MAX);
        let mut refused = Vec::new();
        // A third of all each, with those that were refused: then all three have the same.
        for job in 0..WAITING_MAX / 3 {
            let connection = 10 + (job / WAITING_PER_CONNECTION_MAX) as u64;
            let (displaced, limit) =
                waiting.push(address(3), connection, (3, job)).unwrap().expect("another one");
            assert_eq!((waiting.count, limit), (WAITING_MAX, WAITING_MAX));
            refused.push(displaced);
        }
        assert!(refused.iter().all(|(client, _)| *client != 3));
        assert_eq!(waiting.push(address(3), 99, (3, 999)), Err(WAITING_MAX), "it has as many");
        let mut counts = [0_usize; 4];
        while let Some((client, _)) = waiting.pop() {
            counts[usize::from(client)] += 1;
        }
        assert_eq!((counts[1] + counts[2], counts[3]), (683, 341));
        assert!(counts[1].abs_diff(counts[2]) <= 1, "{counts:?}");
        assert!(waiting.addresses.queues.is_empty() && waiting.addresses.order.is_empty());
        assert_eq!(waiting.count, 0);
    }

    /// Each /64 is a client, and has one call here. What they have in common is their /48.
    #[test]
    fn clients_of_one_network_that_fill_a_line_do_not_keep_another_out() {
        let mut waiting = Waiting::default();
        let from = |number: usize| format!("2001:db8:0:{number:x}::1").parse::<IpAddr>().unwrap();
        for number in 0..WAITING_MAX {
            assert_eq!(waiting.push(from(number), number as u64, number), Ok(None));
        }
        let displaced = waiting.push(address(1), 5_000, WAITING_MAX).unwrap();
        assert!(displaced.is_some_and(|(job, _)| job < WAITING_MAX), "one of theirs");
        assert_eq!(waiting.addresses.queues.len(), WAITING_MAX, "an address without calls is gone");
        assert_eq!(waiting.count, WAITING_MAX);
        assert_eq!(waiting.push(from(1_000), 1_000, 0), Err(WAITING_MAX), "it has as many");
        let taken = std::iter::from_fn(|| waiting.pop()).count();
        assert_eq!((taken, waiting.count), (WAITING_MAX, 0));
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_client() {
        let mut waiting = Waiting::default();
        let from = |number: usize| format!("2001:db8::{number:x}").parse::<IpAddr>().unwrap();
        for number in 0..WAITING_PER_ADDRESS_MAX {
            waiting.push(from(number), number as u64, ()).unwrap();
        }
        assert_eq!(waiting.push(from(9999), 9999, ()), Err(WAITING_PER_ADDRESS_MAX));
        assert_eq!(waiting.push("2001:db8:0:1::1".parse().unwrap(), 10_000, ()), Ok(None));
    }

    /// Clients that connect, ask and leave would otherwise fill the memory with parameters.
    #[tokio::test]
    async fn a_call_that_waits_is_dropped_with_its_caller() {
        let (lines, client) = (Lines::new(), Client::for_tests());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let mut busy = Vec::new();
        for _ in 0..threads {
            let ended = Arc::clone(&ended);
            busy.push(Box::pin(lines.run(Line::Long, &client, move |_| {
                // An error says that the test is over.
                let _ = ended.lock().unwrap().recv();
                Ok(())
            })));
        }
        let parameters = Arc::new(vec![7_u8; 1000]);
        let held = Arc::clone(&parameters);
        let mut call = Box::pin(lines.run(Line::Long, &client, move |_| Ok(held.len())));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(busy.iter_mut().all(|busy| busy.as_mut().poll(cx).is_pending()));
        assert!(call.as_mut().poll(cx).is_pending());
        assert_eq!(Arc::strong_count(&parameters), 2);
        drop(call);
        assert_eq!(Arc::strong_count(&parameters), 1);
        drop(end);
        for busy in busy {
            busy.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_thread() {
        let (lines, client) = (Lines::new(), Client::for_tests());
        for _ in 0..64 {
            let answer = lines.run::<()>(Line::Long, &client, |_| panic!("on purpose")).await;
            assert_eq!(answer.expect_err("failed").code(), -32603);
        }
        assert_eq!(lines.run(Line::Long, &client, |_| Ok(7)).await.expect("runs"), 7);
    }

    #[tokio::test]
    async fn work_hears_that_its_caller_has_gone() {
        let (lines, client) = (Lines::new(), Client::for_tests());
        let (begun, began) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let mut call = Box::pin(lines.run(Line::Short, &client, move |interrupt| {
            let deadline = interrupt.within(Duration::from_secs(3600));
            begun.send(()).unwrap();
            while !deadline.passed() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        }));
        tokio::select! {
            _ = &mut call => panic!("it does not end by itself"),
            began = began => began.unwrap(),
        }
        drop(call);
        end.await.expect("it ends");
    }
}
