//! Counts the bytes of a connection's responses to find truncated ones.

use std::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Counts the bytes that the HTTP library receives from the server, and those that the socket accepts from it.
#[derive(Debug, Default)]
pub(super) struct ResponseBytes {
    /// The HTTP library may hold bytes that the socket has not accepted: it has not flushed since it dropped the last
    /// response body or since the last write.
    unflushed: AtomicBool,
    /// Bytes of response bodies that the HTTP library received since the counters were last compared.
    handed_over: AtomicU64,
    /// Bytes that the socket accepted since then, heads included.
    accepted: AtomicU64,
}

impl ResponseBytes {
    pub(super) fn hand_over(&self, bytes: usize) {
        self.handed_over.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn accept(&self, bytes: usize) {
        self.accepted.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn set_unflushed(&self, is_unflushed: bool) {
        self.unflushed.store(is_unflushed, Relaxed);
    }

    pub(super) fn is_unflushed(&self) -> bool {
        self.unflushed.load(Relaxed)
    }

    /// Compares the counters and resets them. Call this when all response bodies have been handed over and flushed.
    ///
    /// # Errors
    /// If the socket has accepted fewer bytes than the bodies have.
    pub(super) fn compare(&self) -> Result<(), Truncated> {
        let handed_over = self.handed_over.swap(0, Relaxed);
        let accepted = self.accepted.swap(0, Relaxed);
        if accepted < handed_over { Err(Truncated { handed_over, accepted }) } else { Ok(()) }
    }
}

/// A bug of this program truncated a response.
#[derive(Debug)]
pub(super) struct Truncated {
    handed_over: u64,
    accepted: u64,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { handed_over, accepted } = self;
        write!(f, "the socket accepted {accepted} bytes for response bodies of {handed_over} bytes")
    }
}

impl std::error::Error for Truncated {}
