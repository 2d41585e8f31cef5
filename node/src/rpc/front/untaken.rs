//! Bytes of large answers over HTTP that are in the making or that clients have not taken.
//!
//! Bound: [`UNTAKEN_MAX`] for all connections together. When full: an answer that turns out large is
//! dropped, and its call refused, until clients take theirs or are closed as slow. It does not wait, for
//! a batch that waits holds what it has gathered.

use crate::rpc::error::Error;
use hyper::body::Bytes as Piece;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bytes beyond which no large answer is sent: 32 answers of the largest size by default, of which
/// two cores write hundreds within the time a slow client is given.
const UNTAKEN_MAX: usize = 2 * 1024 * 1024 * 1024;
/// Answers of fewer bytes are not counted: a thousand connections may have 64 MiB of them.
const COUNTED_LEAST: usize = 64 * 1024;

/// Whether an answer, or a batch's answers, of so many bytes are counted.
pub(super) const fn is_large(bytes: usize) -> bool {
    bytes >= COUNTED_LEAST
}

/// The count. Clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::rpc) struct Untaken(Arc<AtomicUsize>);

impl Untaken {
    /// Whether an answer of so many bytes may be sent.
    ///
    /// # Errors
    /// If it is large and the bound is reached.
    pub(in crate::rpc) fn room(&self, bytes: usize) -> Result<(), Error> {
        if is_large(bytes) && self.0.load(Relaxed) >= UNTAKEN_MAX {
            return Err(Error::untaken(UNTAKEN_MAX));
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Counts so many bytes until the result is dropped.
    pub(in crate::rpc) fn hold(&self, bytes: usize) -> Held {
        self.0.fetch_add(bytes, Relaxed);
        Held { untaken: self.clone(), bytes }
    }

    /// The same piece of a large answer, counted until it is written.
    pub(super) fn counted(&self, piece: Piece) -> Piece {
        Piece::from_owner(Counted { _held: self.hold(piece.len()), piece })
    }
}

/// Bytes counted until this is dropped.
#[derive(Debug)]
pub(in crate::rpc) struct Held {
    untaken: Untaken,
    bytes: usize,
}

impl Held {
    /// Counts more.
    pub(in crate::rpc) fn add(&mut self, bytes: usize) {
        self.untaken.0.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.untaken.0.fetch_sub(self.bytes, Relaxed);
    }
}

/// A piece of an answer that is on its way.
struct Counted {
    _held: Held,
    piece: Piece,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_until_its_last_part_is_gone() {
        let untaken = Untaken::default();
        let count = || untaken.0.load(Relaxed);
        let whole = Piece::from(vec![7; 1000]);
        let mut piece = untaken.counted(whole.clone());
        assert_eq!((&piece, piece.as_ptr()), (&whole, whole.as_ptr()), "not copied");
        let rest = piece.split_off(10);
        drop(piece);
        assert_eq!(count(), 1000);
        drop(rest);
        assert_eq!(count(), 0);
    }

    #[test]
    fn what_a_batch_gathers_counts_and_fills() {
        let untaken = Untaken::default();
        let mut held = untaken.hold(UNTAKEN_MAX - 10);
        assert!(untaken.room(COUNTED_LEAST).is_ok());
        held.add(10);
        assert!(untaken.room(COUNTED_LEAST - 1).is_ok(), "small ones go on");
        let error = untaken.room(COUNTED_LEAST).expect_err("the bound is reached");
        assert_eq!(error.code(), -32005);
        drop(held);
        assert!(untaken.room(COUNTED_LEAST).is_ok() && untaken.0.load(Relaxed) == 0);
    }
}
