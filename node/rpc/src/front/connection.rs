//! Builds the connection of a client from the layers that all servers use ([`server::connection`]) and a permit, and
//! determines which threads suit its responses.

use super::{ConnectionPermit, threads::ThreadGroup};
use crate::unsent_responses::is_large;
use hyper::body::Bytes;
use server::connection::{
    Hold, Http1Socket, Layered, Open, Requests, Socket as _, Timeouts, dismantle, http1,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};
use tokio::net::TcpStream;

/// Number of small responses after a large one before a connection moves back. A move costs as much as several of them.
const MIN_SMALL_RESPONSES: u32 = 64;

/// A socket with its connection permit. A WebSocket keeps both.
pub(super) type Connection = Layered<Hold<ConnectionPermit>, Http1Socket>;

/// Creates a connection on the runtime of this thread. `read` was read by the thread that the connection comes from.
pub(super) fn new_connection(
    stream: TcpStream,
    read: Bytes,
    progress: &Progress,
    timeouts: Timeouts,
    permit: ConnectionPermit,
) -> Connection {
    let Progress { requests, evictable, .. } = progress;
    http1(stream, read, requests, evictable, timeouts).layer(Hold(permit))
}

/// Takes a connection apart for another thread. Returns the socket, the bytes that an earlier thread read but that are
/// not processed yet, and the permit.
///
/// # Errors
/// Returns an error if the runtime of this thread cannot release the socket.
pub(super) fn into_parts(
    connection: Connection,
) -> io::Result<(std::net::TcpStream, Bytes, ConnectionPermit)> {
    let (Hold(permit), socket) = connection.into_parts();
    let (stream, read) = dismantle(socket);
    Ok((stream.into_std()?, read, permit))
}

/// The state of a connection, which moves between threads with it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Counts the requests that are being read and answered.
    pub(super) requests: Arc<Requests>,
    /// Set when another client needs the connection.
    pub(super) evictable: Arc<budget::Evictable>,
    /// Number of further small responses before the connection moves to the threads for small responses.
    until_small: AtomicU32,
}

impl Progress {
    /// Counts a request whose head has arrived. `is_complete` means that it has no body.
    pub(super) fn open(&self, is_complete: bool) -> Open {
        self.requests.open(is_complete)
    }

    /// Records that a response of this many bytes will be written.
    pub(super) fn respond(&self, bytes: usize) {
        let left = match self.until_small.load(Relaxed) {
            _ if is_large(bytes) => MIN_SMALL_RESPONSES,
            left => left.saturating_sub(1),
        };
        self.until_small.store(left, Relaxed);
    }

    /// Returns the threads that suit the sizes of the last responses.
    pub(super) fn group(&self) -> ThreadGroup {
        if self.until_small.load(Relaxed) == 0 { ThreadGroup::Quick } else { ThreadGroup::Bulk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of the smallest large response.
    const LARGE: usize = 64 * 1024;

    #[test]
    fn a_large_response_moves_a_connection_and_many_small_ones_move_it_back() {
        let progress = Progress::default();
        let groups = |responses: u32, bytes| {
            let groups = (0..responses).map(|_| {
                progress.respond(bytes);
                progress.group()
            });
            groups.collect::<Vec<_>>()
        };
        assert_eq!(groups(3, LARGE - 1), [ThreadGroup::Quick; 3]);
        assert_eq!(groups(1, LARGE), [ThreadGroup::Bulk]);
        assert!(
            groups(MIN_SMALL_RESPONSES - 1, 10).iter().all(|group| *group == ThreadGroup::Bulk)
        );
        assert_eq!(groups(1, 10), [ThreadGroup::Quick]);
    }
}
