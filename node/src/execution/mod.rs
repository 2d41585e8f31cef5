//! The executor: a block in, receipts and state changes out.
//!
//! Reads state through [`storage::StateRead`], writes nothing, keeps no time. One engine
//! (`machine`) runs a given block ([`execute_block`]), a block being built ([`BlockBuilder`]) and a
//! single call ([`call`]); fork rules come from [`crate::chain`].

mod tx;

pub use tx::{DecodeError, DecodedTx, RecoverError, RecoveredTx, Transaction, recover_senders};
