//! The requests of a connection over HTTP/1.1, counted by the server and read by the layers.

use super::response_bytes::ResponseBytes;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

/// What the server has received on a connection and not answered. All of it is used by the task of the connection,
/// which a runtime may move between threads, so no order between the values has to be enforced.
#[derive(Debug, Default)]
pub struct Requests {
    /// Requests that have arrived completely.
    complete: AtomicU32,
    /// Requests whose heads have arrived and whose response bodies the HTTP library still holds.
    open: AtomicU32,
    /// The last request has a body that has not been read to its end.
    unread: AtomicBool,
    /// The connection is a WebSocket now, which detects by pings whether its client is gone.
    upgraded: AtomicBool,
    pub(super) responses: ResponseBytes,
}

/// Counts a request as open until this is dropped. The response body holds it, because the HTTP library keeps the
/// body until it has taken the last byte: the service returns long before.
#[derive(Debug)]
pub struct Open(Arc<Requests>);

impl Open {
    /// The HTTP library received this many bytes of the response body.
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
    /// The head of a request has arrived, and the whole request if it has no body.
    pub fn open(self: &Arc<Self>, is_complete: bool) -> Open {
        self.open.fetch_add(1, Relaxed);
        self.unread.store(!is_complete, Relaxed);
        if is_complete {
            self.complete.fetch_add(1, Relaxed);
        }
        Open(Arc::clone(self))
    }

    /// The body of the last request has been read to its end.
    pub fn body_read(&self) {
        self.unread.store(false, Relaxed);
        self.complete.fetch_add(1, Relaxed);
    }

    /// The connection is a WebSocket from now on.
    pub fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }

    /// Whether the connection is a WebSocket.
    pub fn is_upgraded(&self) -> bool {
        self.upgraded.load(Relaxed)
    }

    /// Whether the next bytes belong to the body of a request.
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

    /// Whether a request has arrived completely and its response is not sent: the client waits for the server. If it
    /// does not read the response, it is slow, and not idle.
    pub(super) fn is_answering(&self) -> bool {
        self.is_any_open() && !self.is_body_unread()
    }

    /// Whether a request has arrived completely and the socket has not accepted the whole response.
    pub(super) fn is_response_pending(&self) -> bool {
        !self.is_body_unread() && (self.is_any_open() || self.responses.is_unflushed())
    }

    /// Whether all requests have been read and the socket has accepted all responses. Only then does the HTTP
    /// library hold nothing that would be lost if the connection were taken from it.
    ///
    /// hyper flushes its own buffer whenever that holds 16 pieces, so a flush in the middle of a body says nothing.
    /// A response is complete when hyper has dropped its body and has flushed after that.
    pub fn is_between_requests(&self) -> bool {
        !self.is_any_open()
            && !self.is_body_unread()
            && !self.responses.is_unflushed()
            && !self.is_upgraded()
    }
}
