//! Defines how much of the pending block a method requires.

/// The parts of the pending block that a method requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingDetail {
    /// The state, the transactions and their receipts.
    State,
    /// The roots and the hash as well. They require an update of the trie.
    Roots,
}
