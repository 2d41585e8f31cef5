//! The objects of answers, field by field as the execution-apis specification has them, in geth's
//! form where the specification leaves a choice.
//!
//! Only shapes: nothing here reads storage.

mod block;
mod receipt;
mod transaction;

pub(super) use block::{BlockObject, HeaderObject, Transactions};
pub(super) use receipt::{LogObject, LogPlace, ReceiptObject, ReceiptPlace};
pub(super) use transaction::TransactionObject;
