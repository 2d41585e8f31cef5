//! Implements the fee history. A row with header values and the exact gas-weighted distribution of effective priority
//! fees ([`Tip`]) is stored with each block, so that `eth_feeHistory` reads no receipts.
//!
//! The pipeline creates a [`FeeRow`] and the chain stores it. [`RowReader`] finds percentiles in a stored row
//! without decoding its priority fees. [`FeeColumns`] holds the rows of recent blocks in memory as parts of
//! responses, and [`StoredAnswer`] writes the response about older ones. This crate never reads a block or a
//! receipt.

mod answer;
mod columns;
mod entry;
mod of_block;
mod row;
mod stored;

use answer::{ResponseWriter, put_hex};
pub use columns::{FeeColumns, RECENT_BLOCKS};
pub use entry::FeeEntry;
pub use of_block::fee_row;
pub use row::{FeeRow, RowReader, Text, Tip};
pub use stored::StoredAnswer;
