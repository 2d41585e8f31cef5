//! The announcement of an accepted transaction to listeners such as subscriptions and filters.

use alloy_primitives::B256;
use std::sync::{Arc, Weak};
use transactions::RecoveredTx;

/// Maximum size of a transaction that is kept for listeners. A listener that does not keep up, such as a filter
/// that is not polled, can have tens of thousands of transactions waiting. Larger transactions would use gigabytes,
/// and the limits of the pool would not bound them: a client can replace a transaction hundreds of times without
/// paying for it.
const MAX_KEPT_BYTES: usize = 1024;

/// The origin of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitter {
    /// A client of this node.
    Client,
    /// Another validator, which has also sent it to all other validators.
    Validator,
}

/// An accepted transaction; see the module documentation.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The hash of the transaction.
    pub hash: B256,
    /// The origin of the transaction.
    pub submitter: Submitter,
    tx: Weak<RecoveredTx>,
    kept: Option<Arc<RecoveredTx>>,
}

impl Arrival {
    /// Creates the announcement of a transaction.
    pub fn new(tx: &Arc<RecoveredTx>, submitter: Submitter) -> Self {
        let kept = (tx.raw.len() <= MAX_KEPT_BYTES).then(|| Arc::clone(tx));
        Self { hash: tx.hash, submitter, tx: Arc::downgrade(tx), kept }
    }

    /// Returns the transaction; `None` for a large one that is neither pooled nor in a block under construction.
    pub fn tx(&self) -> Option<Arc<RecoveredTx>> {
        self.kept.clone().or_else(|| self.tx.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxLegacy};
    use alloy_primitives::{Address, Bytes, Signature, U256};
    use std::sync::OnceLock;
    use transactions::Transaction;

    fn tx(bytes: usize) -> Arc<RecoveredTx> {
        let signature = Signature::new(U256::ONE, U256::ONE, false);
        Arc::new(RecoveredTx {
            raw: Bytes::from(vec![7; bytes]),
            tx: Transaction::Legacy(TxLegacy::default().into_signed(signature)),
            hash: B256::repeat_byte(7),
            sender: Address::ZERO,
            high_s: false,
            authorities: OnceLock::new(),
            cosmos: None,
        })
    }

    #[test]
    fn only_small_transactions_are_kept_for_subscribers() {
        for (bytes, is_kept) in
            [(0, true), (MAX_KEPT_BYTES, true), (MAX_KEPT_BYTES + 1, false), (128 * 1024, false)]
        {
            let tx = tx(bytes);
            let arrival = Arrival::new(&tx, Submitter::Client);
            assert_eq!(arrival.hash, tx.hash);
            assert!(arrival.tx().is_some(), "the pool has it");
            drop(tx);
            assert_eq!(arrival.tx().is_some(), is_kept, "{bytes} bytes");
        }
    }
}
