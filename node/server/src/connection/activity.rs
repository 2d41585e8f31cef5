//! Defines what counts as activity of a client.

use super::Requests;
use std::sync::Arc;

/// What keeps a connection open.
#[derive(Debug)]
pub enum Activity {
    /// Complete requests, and responses that are being produced or read. Bytes that do not complete a request do not
    /// count. A WebSocket stays open, because its server detects by pings whether the client has disconnected.
    Requests(Arc<Requests>),
    /// Bytes in either direction, if the layers cannot see requests (HTTP/2).
    Traffic,
}

impl Activity {
    /// Whether the client was active since the last call with the same `seen`. `has_read` states whether a read has
    /// just completed.
    pub(super) fn is_new(&self, seen: &mut u32, has_read: bool) -> bool {
        match self {
            Self::Requests(requests) => {
                let complete = requests.complete();
                let before = std::mem::replace(seen, complete);
                complete != before || (has_read && requests.is_upgraded())
            }
            Self::Traffic => has_read,
        }
    }

    /// Whether the client waits for a response or reads it; see [`Requests::is_answering`].
    pub(super) fn is_answering(&self) -> bool {
        matches!(self, Self::Requests(requests) if requests.is_answering())
    }

    pub(super) fn is_websocket(&self) -> bool {
        matches!(self, Self::Requests(requests) if requests.is_upgraded())
    }

    /// Whether bytes that the client reads protect its connection from eviction.
    pub(super) const fn is_traffic(&self) -> bool {
        matches!(self, Self::Traffic)
    }
}
