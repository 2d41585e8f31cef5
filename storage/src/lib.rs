//! LMDB environments, tables, codecs and the state trie. Knows nothing of `node`.

mod state;

pub use state::{Account, AccountChange, StateChanges, StateRead};
