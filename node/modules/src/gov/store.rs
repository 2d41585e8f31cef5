//! Reads and checks the stored state of governance.
//!
//! Module rows (see [`feemarket::store`]) are written with every block, so they are kept small:
//!
//! | Key | Value |
//! |---|---|
//! | `gov/` 0x00 | the commitment to the state, and the block that changed it last (u64, big-endian) |
//!
//! The key does not exist before the first proposal. The state itself is in the governance rows of the chain
//! environment: a block writes only the rows that it changed, see `docs/storage-format.md`. Older programs stored
//! the whole state as protobuf `evmd.gov.v1.State` in the record of the block that changed it. Such a record is
//! still read, and the next block that changes governance writes the whole state as rows. A reader compares the
//! state with the commitment.

use super::{
    Governance, Mark,
    commitment::{Digests, commit},
    rows,
    state::GovState,
};
use alloy_primitives::{B256, Bytes, keccak256};
use chain::{Native, RulesVersion};
use feemarket::store::{Record, RowError, decode};
use prost::Message;
use proto::evmd::gov::v1::State;
use std::sync::Arc;
use storage::{ChainReader, GovernanceKey, GovernanceRow};

/// Key of the commitment.
const MARK_KEY: &[u8] = b"gov/\x00";

/// Why stored data is not a valid state of governance.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The module row is invalid.
    #[error(transparent)]
    Row(#[from] RowError),
    /// A stored value is invalid.
    #[error("governance: {0}")]
    Value(String),
    /// The state after a block is not the one to which the header of the block commits.
    #[error(
        "governance: the state after block {height} differs from the commitment in its header; if the block is \
         stored, restore a snapshot"
    )]
    Commitment {
        /// The block that changed the state.
        height: u64,
    },
    /// A row is missing.
    #[error("governance: row {key:?} is missing at block {number}; restore a snapshot")]
    MissingRow {
        /// The row.
        key: GovernanceKey,
        /// The block after which the state was requested.
        number: u64,
    },
    /// The chain environment could not be read.
    #[error(transparent)]
    Read(#[from] storage::ReadError),
}

/// Returns the key and the value in a module row; `None` before the first proposal.
pub fn pair(governance: &Governance) -> Option<(Bytes, Bytes)> {
    let mark = governance.mark()?;
    let value = [mark.hash.as_slice(), &mark.height.to_be_bytes()].concat();
    Some((Bytes::from_static(MARK_KEY), value.into()))
}

fn mark(value: &[u8]) -> Result<Mark, StoreError> {
    let split = value.split_first_chunk::<32>();
    let read = split.and_then(|(hash, height)| {
        Some(Mark { hash: B256::from(*hash), height: u64::from_be_bytes(height.try_into().ok()?) })
    });
    read.ok_or_else(|| {
        StoreError::Value(format!("the commitment row must have 40 bytes, got {}", value.len()))
    })
}

/// Reads the whole state of governance after block `number` of a chain. See [`rows::read`] for the cost.
///
/// # Errors
/// [`StoreError`].
pub fn load(blocks: &ChainReader, native: &Native, number: u64) -> Result<Governance, StoreError> {
    let record = |number| match blocks.module(number)? {
        Some(bytes) if !bytes.is_empty() => Ok::<_, StoreError>(Some(Record::from_bytes(&bytes)?)),
        _ => Ok(None),
    };
    let Some(own) = record(number)? else { return Ok(Governance::default()) };
    let pairs = decode(&own.row)?;
    let Some(value) = pairs.get(MARK_KEY) else { return Ok(Governance::default()) };
    let mark = mark(value)?;
    let changing = if mark.height == number { Some(own) } else { record(mark.height)? };
    match changing.and_then(|record| record.gov) {
        Some(bytes) => whole(&bytes, mark),
        None => from_rows(blocks, native, number, mark),
    }
}

/// Returns whether block `number`, whose stored record is `record`, changed governance. Only such blocks have
/// governance rows.
///
/// # Errors
/// [`StoreError`] if the record is not valid.
pub fn is_changed_by(record: &[u8], number: u64) -> Result<bool, StoreError> {
    let pairs = decode(&Record::from_bytes(record)?.row)?;
    let mark = pairs.get(MARK_KEY).map(|value| mark(value)).transpose()?;
    Ok(mark.is_some_and(|mark| mark.height == number))
}

/// Returns governance after a block that is not executed again, from governance before it, the record of the block
/// and the rows that the block wrote. Also returns the rows to store. They are computed from the two states, because
/// the commitment proves the state and not its rows.
///
/// # Errors
/// [`StoreError`] if the result is not what the record commits to.
pub fn after_block(
    before: &Governance,
    native: &Native,
    number: u64,
    record: &Record,
    rows: &[GovernanceRow],
) -> Result<(Governance, Vec<GovernanceRow>), StoreError> {
    let pairs = decode(&record.row)?;
    let mark = pairs.get(MARK_KEY).map(|value| mark(value)).transpose()?;
    let wrong = StoreError::Commitment { height: number };
    let (Some(mark), true) = (mark, mark != before.mark) else {
        let is_unchanged = mark == before.mark && rows.is_empty() && record.gov.is_none();
        return if is_unchanged { Ok((before.clone(), Vec::new())) } else { Err(wrong) };
    };
    let version = native.rules.version(number);
    let (after, rows) = match &record.gov {
        Some(bytes) if rows.is_empty() && version < RulesVersion::V1 => {
            (whole(bytes, mark)?, Vec::new())
        }
        Some(_) => return Err(wrong),
        None => before.changed(rows::apply(&before.state, rows)?, number, version),
    };
    match after.mark == Some(mark) && mark.height == number {
        true => Ok((after, rows)),
        false => Err(wrong),
    }
}

/// Decodes the state as older programs stored it.
fn whole(bytes: &[u8], mark: Mark) -> Result<Governance, StoreError> {
    if keccak256(bytes) != mark.hash {
        return Err(StoreError::Commitment { height: mark.height });
    }
    let state = State::decode(bytes).map_err(|error| StoreError::Value(error.to_string()))?;
    let state = Arc::new(GovState::from_message(state).map_err(StoreError::Value)?);
    Ok(Governance { state, digests: Arc::default(), mark: Some(mark), has_no_rows: true })
}

fn from_rows(
    blocks: &ChainReader,
    native: &Native,
    number: u64,
    mark: Mark,
) -> Result<Governance, StoreError> {
    let state = rows::read(blocks, number)?;
    let (hash, digests): (_, Digests) = commit(&state, None, native.rules.version(mark.height));
    if hash != mark.hash {
        return Err(StoreError::Commitment { height: mark.height });
    }
    let (state, digests) = (Arc::new(state), Arc::new(digests));
    Ok(Governance { state, digests, mark: Some(mark), has_no_rows: false })
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
