//! An EVM chain node built as an indexer; the modules in the order data flows through them.

pub mod chain;
pub mod execution;
