//! What counts as activity of a client.

use super::Requests;
use std::sync::Arc;

/// What keeps a connection open.
#[derive(Debug)]
pub enum Activity {
    /// Complete requests, and responses that are being made or read. Bytes that are no request do not count. A
    /// WebSocket is kept, because its server detects by pings whether the client is gone.
    Requests(Arc<Requests>),
    /// Bytes in any direction, if the socket does not show requests.
    Traffic,
}

impl Activity {
    /// Whether the client was active since this was last called with the same `seen`. `has_read` states whether it
    /// has sent bytes.
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

    /// Whether the client waits for the server.
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
