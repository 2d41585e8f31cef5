//! Accounts for the memory of large responses that are being created or that clients have not read ([`budget`]). A
//! response that does not fit is replaced by an error. It does not wait for memory, because a waiting batch would hold
//! the results of its earlier calls.

use budget::{Account, Usage, accounted};
use hyper::body::Bytes as Piece;
use rpc_types::error::Error;
use std::sync::Arc;

/// Responses of fewer bytes are not accounted. A thousand connections may use about 64 MiB for them.
const MIN_COUNTED_BYTES: usize = 64 * 1024;

/// Returns whether a response of this many bytes, or the results of a batch, are accounted.
pub(crate) const fn is_large(bytes: usize) -> bool {
    bytes >= MIN_COUNTED_BYTES
}

/// The account for large responses. By default nothing is accounted.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnsentResponses(Option<Arc<Account>>);

impl UnsentResponses {
    pub(crate) fn of(account: &Arc<Account>) -> Self {
        Self(Some(Arc::clone(account)))
    }

    /// Checks that there is memory for a response of this many bytes.
    ///
    /// # Errors
    /// Returns an error if the response is large and does not fit.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), Error> {
        match &self.0 {
            Some(account) if is_large(bytes) => {
                let held = account.hold(bytes);
                held.map(drop).map_err(|refused| Error::client_memory(refused.limit()))
            }
            _ => Ok(()),
        }
    }

    /// Begins to account for the results of a batch.
    pub(crate) fn gather(&self) -> Gathered {
        let usage = self.0.as_ref().map(|account| account.buffer(MIN_COUNTED_BYTES));
        Gathered { usage, bytes: 0 }
    }

    /// Returns the same piece of a large response, accounted until it is written. If it no longer fits, the connection
    /// is closed.
    pub(crate) fn counted(&self, piece: Piece) -> Piece {
        let Some(account) = &self.0 else { return piece };
        match account.hold(piece.len()) {
            Ok(held) => accounted(piece, held),
            Err(_) => {
                account.owner.evict();
                piece
            }
        }
    }
}

/// The accounted memory of the results of a batch, released when this is dropped.
#[derive(Debug)]
pub(crate) struct Gathered {
    usage: Option<Usage>,
    bytes: usize,
}

impl Gathered {
    /// Accounts for this many more bytes.
    ///
    /// # Errors
    /// Returns an error if the sum of all bytes so far does not fit.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        let Some(usage) = &mut self.usage else { return Ok(()) };
        usage.grow_to(self.bytes).map_err(|refused| Error::client_memory(refused.limit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_results_are_accounted_and_limited() {
        let account = Account::with_limit(256 * 1024);
        let unsent = UnsentResponses::of(&account);
        let mut gathered = unsent.gather();
        gathered.add(MIN_COUNTED_BYTES).unwrap();
        assert_eq!(account.memory.reading().used, 0, "few bytes are not accounted");
        gathered.add(64 * 1024).unwrap();
        assert!(unsent.check(128 * 1024).is_ok());
        gathered.add(1).unwrap();
        assert!(unsent.check(MIN_COUNTED_BYTES - 1).is_ok(), "a small response is not checked");
        let error = unsent.check(128 * 1024).expect_err("it does not fit");
        assert_eq!(error.code(), -32005);
        assert!(gathered.add(128 * 1024).is_err());
        assert!(gathered.add(0).is_err(), "the bytes that did not fit still count");
        drop(gathered);
        assert!(unsent.check(256 * 1024).is_ok() && unsent.check(256 * 1024 + 1).is_err());
    }

    #[test]
    fn a_piece_that_does_not_fit_closes_the_connection() {
        let account = Account::with_limit(100_000);
        let unsent = UnsentResponses::of(&account);
        let piece = unsent.counted(Piece::from(vec![7; 70_000]));
        assert!(account.memory.reading().used == 70_000 && !account.owner.is_evicted());
        drop(unsent.counted(Piece::from(vec![7; 70_000])));
        assert!(account.owner.is_evicted());
        drop(piece);
        assert_eq!(account.memory.reading().used, 0);
    }
}
