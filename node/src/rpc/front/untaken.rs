//! Bytes of answers over HTTP that are in the making or that clients have not taken.
//!
//! Bound: [`UNTAKEN_MAX`] for all connections together. When full: calls whose answers may be large are
//! refused until clients take theirs, or are closed as slow. They do not wait, for a batch that waits
//! holds what it has gathered.

use hyper::body::Bytes as Piece;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Bytes beyond which no call with a large answer begins: 32 answers of the largest size by default,
/// of which two cores write hundreds within the time a slow client is given.
const UNTAKEN_MAX: usize = 2 * 1024 * 1024 * 1024;
/// Pieces of fewer bytes are not counted: all connections together may have 64 MiB of them.
const COUNTED_LEAST: usize = 64 * 1024;

/// The count. Clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::rpc) struct Untaken(Arc<AtomicUsize>);

impl Untaken {
    /// The limit, if it is reached.
    pub(in crate::rpc) fn full(&self) -> Option<usize> {
        (self.0.load(Relaxed) >= UNTAKEN_MAX).then_some(UNTAKEN_MAX)
    }

    /// Counts so many bytes until the result is dropped.
    pub(in crate::rpc) fn hold(&self, bytes: usize) -> Held {
        self.0.fetch_add(bytes, Relaxed);
        Held { untaken: self.clone(), bytes }
    }

    /// The same piece, counted until it is written if it is large.
    pub(super) fn counted(&self, piece: Piece) -> Piece {
        if piece.len() < COUNTED_LEAST {
            return piece;
        }
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
    fn a_large_piece_counts_until_its_last_part_is_gone() {
        let untaken = Untaken::default();
        let count = || untaken.0.load(Relaxed);
        let small = untaken.counted(vec![0; COUNTED_LEAST - 1].into());
        assert_eq!((small.len(), count()), (COUNTED_LEAST - 1, 0));
        let whole = Piece::from(vec![7; COUNTED_LEAST]);
        let mut large = untaken.counted(whole.clone());
        assert_eq!((&large, large.as_ptr()), (&whole, whole.as_ptr()), "not copied");
        let rest = large.split_off(10);
        drop(large);
        assert_eq!(count(), COUNTED_LEAST);
        drop(rest);
        assert_eq!(count(), 0);
    }

    #[test]
    fn what_a_batch_gathers_counts_and_fills() {
        let untaken = Untaken::default();
        let mut held = untaken.hold(UNTAKEN_MAX - 10);
        assert_eq!(untaken.full(), None);
        held.add(10);
        assert_eq!(untaken.full(), Some(UNTAKEN_MAX));
        drop(held);
        assert_eq!((untaken.full(), untaken.0.load(Relaxed)), (None, 0));
    }
}
