//! Builds the connection of a client: a socket with layers, each of which does one thing. HTTP/2 uses neither
//! [`Replay`], because its connections do not move between threads, nor [`Ledger`] and [`HalfClose`], because the
//! layers cannot see its requests.
//!
//! | Layer | Purpose |
//! |---|---|
//! | [`Evict`] | fails once the connection has been evicted because another client needs it |
//! | [`Replay`] | returns bytes that another thread read but did not process |
//! | [`Ledger`] | finds responses that were truncated |
//! | [`ReadTurns`] | yields to other tasks while much is read |
//! | [`WriteTurns`] | yields to other tasks and threads while much is written |
//! | [`HalfClose`] | waits for the response after the client has closed its sending side |
//! | [`Idle`] | closes a connection without requests or traffic |
//! | [`SlowWriter`] | closes a connection whose client does not read |
//!
//! The table is in the order of the layers, from the server to the socket. No layer allocates or locks when bytes are
//! transferred. [`Requests`] is the state that the layers share with the code that answers requests.

mod activity;
mod evict;
mod give_way;
mod half_close;
mod idle;
mod layer;
mod ledger;
mod read_turns;
mod replay;
mod requests;
mod reset_watch;
mod response_bytes;
mod slow_writer;
#[cfg(test)]
mod tests;
mod write_turns;

pub use activity::Activity;
pub use evict::Evict;
pub use half_close::{HalfClose, MAX_HALF_CLOSED};
pub use idle::Idle;
pub use layer::{Hold, Layer, Layered, Socket};
pub use ledger::Ledger;
pub use read_turns::ReadTurns;
pub use replay::Replay;
pub use requests::{Open, Requests};
pub use slow_writer::SlowWriter;
pub use write_turns::WriteTurns;

use budget::Evictable;
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A connection without activity for this long is closed.
    pub idle: Duration,
    /// A client that blocks a write, and then reads less than 64 KiB in this time, is disconnected.
    pub slow: Duration,
}

/// A connection over HTTP/1.1, or a WebSocket.
pub type Http1Socket = Layered<Evict, Layered<Replay, Layered<Ledger, InTurns<HalfCloseSocket>>>>;

/// A connection over HTTP/2.
pub type Http2Socket = Layered<Evict, InTurns<Watched>>;

type InTurns<S> = Layered<ReadTurns, Layered<WriteTurns, S>>;

type HalfCloseSocket = Layered<HalfClose, Watched>;

/// A socket with timeouts.
type Watched = Layered<Idle, Layered<SlowWriter, TcpStream>>;

/// A connection over HTTP/1.1. `read` contains bytes that another thread read from the socket but did not process.
pub fn http1(
    stream: TcpStream,
    read: Bytes,
    requests: &Arc<Requests>,
    evictable: &Arc<Evictable>,
    timeouts: Timeouts,
) -> Http1Socket {
    let activity = Activity::Requests(Arc::clone(requests));
    watched(stream, activity, evictable, timeouts)
        .layer(HalfClose::new(Arc::clone(requests)))
        .layer(WriteTurns::default())
        .layer(ReadTurns::default())
        .layer(Ledger::new(Arc::clone(requests)))
        .layer(Replay(read))
        .layer(Evict(Arc::clone(evictable)))
}

/// A connection over HTTP/2.
pub fn http2(stream: TcpStream, evictable: &Arc<Evictable>, timeouts: Timeouts) -> Http2Socket {
    watched(stream, Activity::Traffic, evictable, timeouts)
        .layer(WriteTurns::default())
        .layer(ReadTurns::default())
        .layer(Evict(Arc::clone(evictable)))
}

fn watched(
    stream: TcpStream,
    activity: Activity,
    evictable: &Arc<Evictable>,
    timeouts: Timeouts,
) -> Watched {
    stream.layer(SlowWriter::new(timeouts.slow)).layer(Idle::new(
        activity,
        Arc::clone(evictable),
        timeouts.idle,
    ))
}

/// Takes the socket out of its layers. Also returns the bytes of [`Replay`] that have not been read again.
pub fn dismantle(socket: Http1Socket) -> (TcpStream, Bytes) {
    let (Replay(rest), ledger) = socket.into_inner().into_parts();
    let watched = ledger.into_inner().into_inner().into_inner().into_inner();
    (watched.into_inner().into_inner(), rest)
}
