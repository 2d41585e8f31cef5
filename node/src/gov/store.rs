//! What is kept of governance, and how a block's header commits to it.
//!
//! Rows (see [`crate::feemarket::store`]) are written with every block, so they hold little:
//!
//! | Key | Value |
//! |---|---|
//! | `gov/` 0x00 | Keccak-256 of the state's bytes, and the block that changed it last (u64, big-endian) |
//!
//! It is not there before the first proposal. The state's bytes, protobuf
//! `evmd.gov.v1.State`, are stored in the record of the block that changed it; a reader follows the
//! height in the row, and holds what it finds to the hash.

use super::{Governance, Mark};
use crate::{
    feemarket::store::{Record, RowError, decode},
    proto::evmd::gov::v1::State,
};
use alloy_primitives::{B256, Bytes, keccak256};
use prost::Message;
use std::sync::Arc;

/// Key of the mark.
const MARK_KEY: &[u8] = b"gov/\x00";

/// Why what is stored is no governance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The row.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A value of ours in the row.
    #[error("module row: governance: {0}")]
    Value(String),
    /// The block that should hold the state does not.
    #[error("block {height} does not hold the governance state that a later row names")]
    Missing {
        /// The block.
        height: u64,
    },
    /// The chain environment could not be read.
    #[error(transparent)]
    Read(#[from] storage::ReadError),
}

/// The bytes of a state.
pub fn bytes(state: &State) -> Bytes {
    state.encode_to_vec().into()
}

/// What is kept in a row.
pub fn pair(governance: &Governance) -> Option<(Bytes, Bytes)> {
    let mark = governance.mark()?;
    let value = [mark.hash.as_slice(), &mark.height.to_be_bytes()].concat();
    Some((Bytes::from_static(MARK_KEY), value.into()))
}

/// Governance as a row says it; `record` gives the record of an earlier block.
///
/// # Errors
/// [`StoreError`].
pub fn read(
    row: &[u8],
    record: impl FnOnce(u64) -> Result<Option<Record>, StoreError>,
) -> Result<Governance, StoreError> {
    let pairs = decode(row)?;
    let Some(value) = pairs.get(MARK_KEY) else { return Ok(Governance::default()) };
    let mark = mark(value)?;
    let missing = || StoreError::Missing { height: mark.height };
    let bytes = record(mark.height)?.and_then(|record| record.gov).ok_or_else(missing)?;
    if keccak256(&bytes) != mark.hash {
        return Err(missing());
    }
    let state =
        State::decode(bytes.as_ref()).map_err(|error| StoreError::Value(error.to_string()))?;
    Ok(Governance { state: Arc::new(state), mark: Some(mark) })
}

fn mark(value: &[u8]) -> Result<Mark, StoreError> {
    let split = value.split_first_chunk::<32>();
    let read = split.and_then(|(hash, height)| {
        Some(Mark { hash: B256::from(*hash), height: u64::from_be_bytes(height.try_into().ok()?) })
    });
    read.ok_or_else(|| StoreError::Value(format!("a mark of {} bytes", value.len())))
}

/// Governance after block `number`, read from a chain.
///
/// # Errors
/// [`StoreError`].
pub fn load(blocks: &storage::ChainReader, number: u64) -> Result<Governance, StoreError> {
    let record = |number| match blocks.module(number)? {
        Some(bytes) if !bytes.is_empty() => Ok(Some(Record::from_bytes(&bytes)?)),
        _ => Ok(None),
    };
    match record(number)? {
        Some(own) => {
            let row = own.row.clone();
            read(&row, |height| if height == number { Ok(Some(own)) } else { record(height) })
        }
        None => Ok(Governance::default()),
    }
}
