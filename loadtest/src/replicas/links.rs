//! Forwards the connections between validators, so that this process can delay messages and hold them back.
//!
//! Messages that were held back arrive afterwards, as after a network failure that is shorter than the timeouts of TCP.
//! They are lost only if a validator closes its connection. A validator that gives up waiting reconnects.

use anyhow::Context;
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpListener, TcpStream},
};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Bytes waiting in one direction of a connection at which reading stops: several blocks of maximum size.
const MAX_HELD_BYTES: usize = 32 << 20;
/// Maximum bytes of a read.
const READ_BYTES: usize = 64 << 10;
/// Polling interval while bytes wait, which is also the precision of the delay.
const PRECISION: Duration = Duration::from_millis(1);
/// Polling interval while no bytes wait.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// The token of all sockets: the connections are few, so all of them are served after each event.
const ANY: Token = Token(0);

/// Forwards the connections between validators until it is dropped.
#[derive(Debug)]
pub(super) struct Links {
    /// The address at which each validator reaches each of the others.
    addresses: Vec<Vec<SocketAddr>>,
    held: Arc<Held>,
    thread: Option<JoinHandle<()>>,
}

/// Which messages are held back, and whether the thread must end.
#[derive(Debug)]
struct Held {
    validators: usize,
    directions: Vec<AtomicBool>,
    is_over: AtomicBool,
}

impl Held {
    fn is_held(&self, (from, to): (usize, usize)) -> bool {
        self.directions[from * self.validators + to].load(Relaxed)
    }
}

impl Links {
    /// Listens on behalf of the validators at `targets`. Each message is delayed by `delay`.
    pub(super) fn start(targets: &[SocketAddr], delay: Duration) -> anyhow::Result<Self> {
        let validators = targets.len();
        let poll = Poll::new().context("cannot wait for connections")?;
        let (mut links, mut addresses) = (Vec::new(), Vec::new());
        for from in 0..validators {
            let mut row = Vec::new();
            for (to, target) in targets.iter().enumerate() {
                let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into())
                    .context("cannot listen for a validator")?;
                poll.registry().register(&mut listener, ANY, Interest::READABLE)?;
                row.push(listener.local_addr()?);
                links.push(Link { between: (from, to), listener, target: *target });
            }
            addresses.push(row);
        }
        let directions = (0..validators * validators).map(|_| AtomicBool::new(false)).collect();
        let held = Arc::new(Held { validators, directions, is_over: AtomicBool::new(false) });
        let forwarder =
            Forwarder { poll, links, connections: Vec::new(), delay, held: Arc::clone(&held) };
        let thread = std::thread::spawn(move || forwarder.run());
        Ok(Self { addresses, held, thread: Some(thread) })
    }

    /// Returns the address at which validator `from` reaches validator `to`.
    pub(super) fn address(&self, from: usize, to: usize) -> SocketAddr {
        self.addresses[from][to]
    }

    /// Holds back what validator `from` sends to validator `to` if `is_held(from, to)`.
    pub(super) fn hold(&self, is_held: impl Fn(usize, usize) -> bool) {
        for (at, direction) in self.held.directions.iter().enumerate() {
            let (from, to) = (at / self.held.validators, at % self.held.validators);
            direction.store(is_held(from, to), Relaxed);
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.held.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed.
            let _ = thread.join();
        }
    }
}

/// The listener through which one validator reaches another, which listens at `target`.
#[derive(Debug)]
struct Link {
    between: (usize, usize),
    listener: TcpListener,
    target: SocketAddr,
}

/// State of the thread that forwards bytes.
#[derive(Debug)]
struct Forwarder {
    poll: Poll,
    links: Vec<Link>,
    connections: Vec<Connection>,
    delay: Duration,
    held: Arc<Held>,
}

impl Forwarder {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut buffer = vec![0; READ_BYTES];
        while !self.held.is_over.load(Relaxed) {
            let waits = self.connections.iter().any(Connection::waits);
            let timeout = if waits { PRECISION } else { IDLE_INTERVAL };
            if let Err(error) = self.poll.poll(&mut events, Some(timeout)) {
                assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
            }
            self.accept();
            let (delay, held) = (self.delay, &self.held);
            self.connections
                .retain_mut(|connection| connection.forward(delay, held, &mut buffer).is_ok());
        }
    }

    fn accept(&mut self) {
        for link in &self.links {
            while let Ok((accepted, _)) = link.listener.accept() {
                let connection = Connection::new(link, accepted, &self.poll);
                // If the target cannot be reached, the accepted connection is closed, and the validator tries again.
                self.connections.extend(connection.ok());
            }
        }
    }
}

/// A connection from one validator to another.
#[derive(Debug)]
struct Connection {
    between: (usize, usize),
    dialer: TcpStream,
    listener: TcpStream,
    /// Bytes from the dialer, and bytes from the listener.
    queues: [Queue; 2],
}

impl Connection {
    fn new(link: &Link, mut dialer: TcpStream, poll: &Poll) -> io::Result<Self> {
        let mut listener = TcpStream::connect(link.target)?;
        for stream in [&mut dialer, &mut listener] {
            poll.registry().register(stream, ANY, Interest::READABLE)?;
            stream.set_nodelay(true)?;
        }
        Ok(Self { between: link.between, dialer, listener, queues: Default::default() })
    }

    fn waits(&self) -> bool {
        self.queues.iter().any(|queue| !queue.chunks.is_empty())
    }

    /// Forwards the bytes that are due. An error means that the connection has ended.
    fn forward(&mut self, delay: Duration, held: &Held, buffer: &mut [u8]) -> io::Result<()> {
        let now = Instant::now();
        let [outbound, inbound] = &mut self.queues;
        outbound.fill(&mut self.dialer, now + delay, buffer)?;
        inbound.fill(&mut self.listener, now + delay, buffer)?;
        let (from, to) = self.between;
        if !held.is_held((from, to)) {
            outbound.drain(&mut self.listener, now)?;
        }
        if !held.is_held((to, from)) {
            inbound.drain(&mut self.dialer, now)?;
        }
        Ok(())
    }
}

/// Chunks of bytes that have not been forwarded, with the time at which each is due.
#[derive(Debug, Default)]
struct Queue {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
}

impl Queue {
    fn fill(&mut self, from: &mut TcpStream, due: Instant, buffer: &mut [u8]) -> io::Result<()> {
        while self.bytes < MAX_HELD_BYTES {
            match from.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    self.bytes += read;
                    self.chunks.push_back((due, buffer[..read].to_vec()));
                }
                Err(error) if is_not_ready(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn drain(&mut self, to: &mut TcpStream, now: Instant) -> io::Result<()> {
        while let Some((due, chunk)) = self.chunks.front_mut() {
            if *due > now {
                return Ok(());
            }
            match to.write(chunk) {
                Ok(written) => {
                    self.bytes -= written;
                    chunk.drain(..written);
                    if chunk.is_empty() {
                        self.chunks.pop_front();
                    }
                }
                Err(error) if is_not_ready(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns whether the socket is not ready yet.
fn is_not_ready(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net;

    #[test]
    fn messages_are_delayed_and_held_messages_arrive_after_their_release() {
        let targets = [(); 2].map(|()| net::TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = targets.each_ref().map(|target| target.local_addr().unwrap());
        let delay = Duration::from_millis(30);
        let links = Links::start(&addresses, delay).unwrap();
        let mut dialer = net::TcpStream::connect(links.address(0, 1)).unwrap();
        let (mut listener, _) = targets[1].accept().unwrap();
        let mut buffer = [0; 5];
        let begun = Instant::now();
        dialer.write_all(b"hello").unwrap();
        listener.read_exact(&mut buffer).unwrap();
        assert!(&buffer == b"hello" && begun.elapsed() >= delay);
        links.hold(|from, to| (from, to) == (1, 0));
        listener.write_all(b"held!").unwrap();
        dialer.write_all(b"other").unwrap();
        listener.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"other");
        dialer.set_read_timeout(Some(3 * delay)).unwrap();
        assert_eq!(dialer.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        links.hold(|_, _| false);
        dialer.set_read_timeout(None).unwrap();
        dialer.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"held!");
        drop(listener);
        assert_eq!(dialer.read(&mut buffer).unwrap(), 0);
    }
}
