//! The connections of an attack, served by a few threads.

use super::kind::{Kind, Script, Targets};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Threads that serve the connections.
const THREADS: usize = 2;
/// Pause after a pass over all connections in which none of them sent or received anything.
const PAUSE: Duration = Duration::from_millis(1);
/// Delay before a closed or refused connection is reopened.
const RECONNECT_WAIT: Duration = Duration::from_millis(100);
/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum bytes written or read at a time, so that no connection delays the others.
const MAX_STEP_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Attack<'a> {
    pub(super) kind: Kind,
    pub(super) targets: &'a Targets,
    pub(super) source: Option<IpAddr>,
    pub(super) clients: usize,
}

/// Outcomes of the connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) connected: u64,
    /// Connection attempts that failed or timed out.
    pub(super) not_connected: u64,
    /// Responses with a status below 400.
    pub(super) answered: u64,
    /// Responses with status 400 or above.
    pub(super) refused: u64,
    /// Connections that the node closed.
    pub(super) closed: u64,
    /// Bytes.
    pub(super) sent: u64,
    /// Bytes.
    pub(super) received: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        let Self { connected, not_connected, answered, refused, closed, sent, received } = other;
        self.connected += connected;
        self.not_connected += not_connected;
        self.answered += answered;
        self.refused += refused;
        self.closed += closed;
        self.sent += sent;
        self.received += received;
    }
}

impl Attack<'_> {
    /// Attacks until `stop` is set.
    pub(super) fn run(&self, stop: &AtomicBool) -> Counts {
        let scripts = self.kind.scripts(self.targets, self.clients);
        let mut counts = Counts::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let own = scripts.iter().skip(thread).step_by(THREADS);
                    let mut clients: Vec<_> = own.map(Client::new).collect();
                    scope.spawn(move || serve(&mut clients, self.source, stop))
                })
                .collect();
            for thread in threads {
                // A panic has already been printed; the counts of the other threads are kept.
                counts.add(&thread.join().unwrap_or_default());
            }
        });
        counts
    }
}

fn serve(clients: &mut [Client<'_>], source: Option<IpAddr>, stop: &AtomicBool) -> Counts {
    let mut counts = Counts::default();
    while !stop.load(Relaxed) {
        let mut moved = false;
        for client in &mut *clients {
            moved |= client.step(source, &mut counts);
            if stop.load(Relaxed) {
                return counts;
            }
        }
        if !moved {
            std::thread::park_timeout(PAUSE);
        }
    }
    counts
}

struct Client<'a> {
    script: &'a Script,
    stream: Option<TcpStream>,
    sent: usize,
    not_before: Instant,
}

impl<'a> Client<'a> {
    fn new(script: &'a Script) -> Self {
        Self { script, stream: None, sent: 0, not_before: Instant::now() }
    }

    /// Opens the connection within [`CONNECT_TIMEOUT`]; if it is open, writes and reads without blocking. Returns false
    /// if there was nothing to do.
    fn step(&mut self, source: Option<IpAddr>, counts: &mut Counts) -> bool {
        let Some(stream) = &mut self.stream else { return self.open(source, counts) };
        let mut moved = false;
        let rest = &self.script.request[self.sent..];
        if !rest.is_empty() {
            match stream.write(&rest[..rest.len().min(MAX_STEP_BYTES)]) {
                Ok(written) => {
                    self.sent += written;
                    counts.sent += written as u64;
                    moved = true;
                }
                Err(error) if is_not_ready(&error) => {}
                Err(_) => return self.close(counts),
            }
        } else if self.script.reconnects {
            self.stream = None;
            self.sent = 0;
            return true;
        }
        if self.script.reads {
            let mut buffer = [0; MAX_STEP_BYTES];
            match stream.read(&mut buffer) {
                Ok(0) => return self.close(counts),
                Ok(read) => {
                    counts.received += read as u64;
                    let (answered, refused) = responses(&buffer[..read]);
                    counts.answered += answered;
                    counts.refused += refused;
                    if answered + refused > 0 && self.script.repeats {
                        self.sent = 0;
                    }
                    moved = true;
                }
                Err(error) if is_not_ready(&error) => {}
                Err(_) => return self.close(counts),
            }
        }
        moved
    }

    fn open(&mut self, source: Option<IpAddr>, counts: &mut Counts) -> bool {
        if Instant::now() < self.not_before {
            return false;
        }
        match connect(self.script.target, source) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.sent = 0;
                counts.connected += 1;
            }
            Err(_) => {
                counts.not_connected += 1;
                self.not_before = Instant::now() + RECONNECT_WAIT;
            }
        }
        true
    }

    fn close(&mut self, counts: &mut Counts) -> bool {
        counts.closed += 1;
        self.stream = None;
        self.not_before = Instant::now() + RECONNECT_WAIT;
        true
    }
}

fn is_not_ready(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn connect(target: SocketAddr, source: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect_timeout(&target.into(), CONNECT_TIMEOUT)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Counts the responses that begin in these bytes: first those with a status below 400, then the others.
fn responses(bytes: &[u8]) -> (u64, u64) {
    const START: &[u8] = b"HTTP/1.1 ";
    let mut counts = (0, 0);
    for at in memchr::memmem::find_iter(bytes, START) {
        match bytes.get(at + START.len()) {
            Some(b'4' | b'5') => counts.1 += 1,
            _ => counts.0 += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn responses_are_counted_by_status() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 503 Busy\r\n\r\nHTTP/1.1 429 Slow\r\n\r\n";
        assert_eq!(responses(bytes), (1, 2));
    }

    #[test]
    fn a_request_is_sent_from_the_given_address_and_repeated_after_its_response() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script {
            target: listener.local_addr().unwrap(),
            request: (*b"ask").into(),
            repeats: true,
            reads: true,
            reconnects: false,
        };
        let source = cfg!(target_os = "linux").then_some(IpAddr::from([127, 0, 0, 2]));
        let mut counts = Counts::default();
        let mut client = Client::new(&script);
        client.step(source, &mut counts);
        let (mut served, from) = listener.accept().unwrap();
        assert!(source.is_none_or(|source| source == from.ip()));
        for round in 1..=2 {
            while client.sent < script.request.len() {
                client.step(source, &mut counts);
            }
            let mut request = [0; 3];
            served.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"ask");
            served.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            while counts.answered < round {
                client.step(source, &mut counts);
            }
        }
        drop(served);
        while counts.closed == 0 {
            client.step(source, &mut counts);
        }
        assert!(client.stream.is_none());
    }
}
