//! Tracks the requests of an HTTP/1.1 connection. The server updates this state, and the layers of the socket use it.

use super::response_bytes::ResponseBytes;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// The requests of a connection and the progress of their responses. Only the task of the connection uses them. The
/// runtime synchronizes the threads between which it moves the task, so relaxed ordering is sufficient.
#[derive(Debug, Default)]
pub struct Requests {
    /// Requests that have arrived completely.
    complete: AtomicU32,
    /// Requests whose heads have arrived and whose response bodies the HTTP library has not dropped.
    open: AtomicU32,
    /// The last request has a body that has not been read to its end.
    unread: AtomicBool,
    /// The connection is a WebSocket now. Its server detects by pings whether the client has disconnected.
    upgraded: AtomicBool,
    pub(super) responses: ResponseBytes,
}

/// Counts a request as open until this guard is dropped. The response body holds the guard, because the HTTP library
/// keeps the body until it has taken the last byte, which is long after the service has returned.
#[derive(Debug)]
pub struct Open(Arc<Requests>);

impl Open {
    /// Records that the HTTP library received this many bytes of the response body.
    pub fn handed_over(&self, bytes: usize) {
        self.0.responses.hand_over(bytes);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.responses.set_unflushed(true);
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Requests {
    /// Records that the head of a request has arrived. `is_complete` states that the request has no body.
    pub fn open(self: &Arc<Self>, is_complete: bool) -> Open {
        self.open.fetch_add(1, Relaxed);
        self.unread.store(!is_complete, Relaxed);
        if is_complete {
            self.complete.fetch_add(1, Relaxed);
        }
        Open(Arc::clone(self))
    }

    /// Records that the body of the last request has been read to its end.
    pub fn body_read(&self) {
        self.unread.store(false, Relaxed);
        self.complete.fetch_add(1, Relaxed);
    }

    /// Records that the connection is a WebSocket from now on.
    pub fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }

    /// Whether the connection is a WebSocket.
    pub fn is_upgraded(&self) -> bool {
        self.upgraded.load(Relaxed)
    }

    /// Whether the last request has a body that has not been read to its end.
    pub fn is_body_unread(&self) -> bool {
        self.unread.load(Relaxed)
    }

    /// The number of requests that have arrived completely. It may wrap around.
    pub(super) fn complete(&self) -> u32 {
        self.complete.load(Relaxed)
    }

    /// Whether the HTTP library holds a body of a response, or will receive one.
    pub(super) fn is_any_open(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    /// Whether a request has arrived completely and the HTTP library has not taken its whole response. A client that
    /// waits for the response, or reads it slowly, is not idle.
    pub(super) fn is_answering(&self) -> bool {
        self.is_any_open() && !self.is_body_unread()
    }

    /// Whether a request has arrived completely and the socket has not accepted the whole response.
    pub(super) fn is_response_pending(&self) -> bool {
        !self.is_body_unread() && (self.is_any_open() || self.responses.is_unflushed())
    }

    /// Whether all requests have been read, the socket has accepted all responses, and this is not a WebSocket. Only
    /// then does the HTTP library hold nothing that would be lost if the connection were taken from it.
    ///
    /// A flush alone does not show that a response is complete: hyper also flushes whenever its buffer holds 16 pieces.
    /// A response is complete when hyper has dropped its body and has flushed after that.
    pub fn is_between_requests(&self) -> bool {
        !self.is_any_open()
            && !self.is_body_unread()
            && !self.responses.is_unflushed()
            && !self.is_upgraded()
    }
}
