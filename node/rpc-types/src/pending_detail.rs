//! How much of the pending block a method requires.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingDetail {
    /// The state, the transactions and their receipts.
    State,
    /// Roots and hash, too. They require an update of the trie.
    Roots,
}
