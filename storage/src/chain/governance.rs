//! Governance rows: the history of the list of proposals, and of each proposal, deposit and vote.
//!
//! A block writes one row for each item that it changes. The key of the row consists of the key of the item and
//! the number of the block, so the state of an item after a block is its last row at or below that block. A block
//! that removes an item writes a row without content. `truncate_after` removes the rows of removed blocks; no
//! other row is ever removed.

use std::ops::Bound;

use alloy_primitives::{Address, Bytes};
use heed::RwTxn;

use super::{ChainReader, Tables};
use crate::checked::CheckedTable;
use crate::error::{DecodeError, ReadError};
use crate::table::KeyRange;

/// Version of the rows that this program writes, in the first byte of each payload.
pub(super) const ROW_VERSION: u8 = 1;
/// Size of the kind and the proposal in a key, in bytes.
const PREFIX_BYTES: usize = 9;
/// Size of an address in a key, in bytes.
const ADDRESS_BYTES: usize = 20;

/// A governance item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GovernanceKey {
    /// The list of existing proposals.
    List,
    /// The mutable part of a proposal.
    Proposal(u64),
    /// A deposit for a proposal, by its depositor.
    Deposit(u64, Address),
    /// A vote on a proposal, by its voter.
    Vote(u64, Address),
    /// The immutable part of a proposal.
    Content(u64),
}

/// Kinds of items that belong to a proposal and an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GovernanceItems {
    /// Its deposits.
    Deposits,
    /// Its votes.
    Votes,
}

/// A governance item after a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GovernanceRow {
    /// The item.
    pub key: GovernanceKey,
    /// Its content, which is opaque here; empty if the item no longer exists.
    pub value: Bytes,
}

impl GovernanceKey {
    /// Returns the key in the table without the block number: the kind, the proposal, and the account if there is one.
    pub fn to_bytes(self) -> Vec<u8> {
        let (kind, proposal, address) = match self {
            Self::List => (0, 0, None),
            Self::Proposal(id) => (1, id, None),
            Self::Deposit(id, address) => (2, id, Some(address)),
            Self::Vote(id, address) => (3, id, Some(address)),
            Self::Content(id) => (4, id, None),
        };
        let mut key = prefix(kind, proposal);
        key.extend(address.iter().flat_map(|address| address.as_slice()));
        key
    }

    /// Returns the item with this key; `None` for bytes that [`Self::to_bytes`] does not return.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (proposal, address) = rest.split_first_chunk()?;
        let proposal = u64::from_be_bytes(*proposal);
        match (kind, proposal, address.len()) {
            (0, 0, 0) => Some(Self::List),
            (1, id, 0) => Some(Self::Proposal(id)),
            (2, id, ADDRESS_BYTES) => Some(Self::Deposit(id, Address::from_slice(address))),
            (3, id, ADDRESS_BYTES) => Some(Self::Vote(id, Address::from_slice(address))),
            (4, id, 0) => Some(Self::Content(id)),
            _ => None,
        }
    }
}

impl GovernanceItems {
    const fn kind(self) -> u8 {
        match self {
            Self::Deposits => 2,
            Self::Votes => 3,
        }
    }
}

fn prefix(kind: u8, proposal: u64) -> Vec<u8> {
    let mut key = vec![kind];
    key.extend(proposal.to_be_bytes());
    key
}

/// Writes the rows of a block. The payload of each begins with the version number.
pub(super) fn put(
    table: CheckedTable,
    txn: &mut RwTxn<'_>,
    number: u64,
    rows: &[GovernanceRow],
    scratch: &mut Vec<u8>,
) -> Result<(), heed::Error> {
    for row in rows {
        let key = [row.key.to_bytes().as_slice(), &number.to_be_bytes()].concat();
        scratch.clear();
        scratch.push(ROW_VERSION);
        scratch.extend_from_slice(&row.value);
        table.put(txn, &key, scratch)?;
    }
    Ok(())
}

/// Removes the rows of all blocks above `number`. Reads the keys of all rows, because they are ordered by item.
pub(super) fn truncate_after(
    table: CheckedTable,
    txn: &mut RwTxn<'_>,
    number: u64,
) -> Result<(), heed::Error> {
    let mut removed = Vec::new();
    for row in table.table.iter(txn)? {
        let (key, _) = row?;
        if block_of(key).is_some_and(|block| block > number) {
            removed.push(key.to_vec());
        }
    }
    for key in removed {
        table.table.delete(txn, &key)?;
    }
    Ok(())
}

/// Returns the block number in a key.
fn block_of(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|block| u64::from_be_bytes(*block))
}

impl Tables {
    /// Returns the verified content of a row.
    fn governance_value(&self, key: &[u8], row: &[u8]) -> Result<Bytes, DecodeError> {
        match self.governance.rows.payload(key, row)?.split_first() {
            Some((&ROW_VERSION, value)) => Ok(Bytes::copy_from_slice(value)),
            _ => Err(DecodeError { what: "the version of the row is unknown", at: 0 }),
        }
    }
}

/// The methods for governance return the same errors as the other methods.
impl ChainReader {
    /// Returns the last block up to `number` that changed a governance item, and the item after that block; `None` if
    /// the item does not exist.
    pub fn governance(
        &self,
        key: GovernanceKey,
        number: u64,
    ) -> Result<Option<(u64, Bytes)>, ReadError> {
        self.governance_item(&key.to_bytes(), number)
    }

    /// Returns the deposits or votes of a proposal after block `number`, in the order of their addresses. Performs two
    /// searches for each address that ever had such an item.
    pub fn governance_items(
        &self,
        items: GovernanceItems,
        proposal: u64,
        number: u64,
    ) -> Result<Vec<(Address, Bytes)>, ReadError> {
        let table = self.tables.governance.table;
        let prefix = prefix(items.kind(), proposal);
        let mut start = prefix.clone();
        let mut found = Vec::new();
        loop {
            let next = table.get_greater_than_or_equal_to(self.txn.txn(), &start);
            let next = next.map_err(|error| self.txn.error(error))?;
            let Some((key, _)) = next.filter(|(key, _)| key.starts_with(&prefix)) else {
                return Ok(found);
            };
            let item = key.get(..PREFIX_BYTES + ADDRESS_BYTES).ok_or_else(|| self.bad_key(key))?;
            if let Some((_, value)) = self.governance_item(item, number)? {
                found.push((Address::from_slice(&item[PREFIX_BYTES..]), value));
            }
            // This key is above all rows of this item, whatever their block number.
            start = [item, &u64::MAX.to_be_bytes(), &[0]].concat();
        }
    }

    /// Returns the items that block `number` changed, in the order of their keys. Reads the keys of all rows, because
    /// they are ordered by item.
    pub fn governance_rows(&self, number: u64) -> Result<Vec<GovernanceRow>, ReadError> {
        let table = self.tables.governance.table;
        let mut found = Vec::new();
        for row in table.iter(self.txn.txn()).map_err(|error| self.txn.error(error))? {
            let (key, row) = row.map_err(|error| self.txn.error(error))?;
            if block_of(key) != Some(number) {
                continue;
            }
            let item = key.get(..key.len() - size_of::<u64>());
            let item = item.and_then(GovernanceKey::from_bytes);
            let item = item.ok_or_else(|| self.bad_key(key))?;
            let value = self.tables.governance_value(key, row);
            let value =
                value.map_err(|why| self.txn.corrupt(self.tables.governance.name, key, why))?;
            found.push(GovernanceRow { key: item, value });
        }
        Ok(found)
    }

    /// Verifies all governance rows. Returns their number.
    pub fn verify_governance(&self) -> Result<usize, ReadError> {
        let all: KeyRange<'_> = (Bound::Unbounded, Bound::Unbounded);
        let table = self.tables.governance;
        let rows = table.table.range(self.txn.txn(), &all).map_err(|e| self.txn.error(e))?;
        let mut count = 0;
        for row in rows {
            let (key, row) = row.map_err(|error| self.txn.error(error))?;
            let value = self.tables.governance_value(key, row);
            value.map_err(|why| self.txn.corrupt(table.name, key, why))?;
            count += 1;
        }
        Ok(count)
    }

    fn governance_item(&self, item: &[u8], number: u64) -> Result<Option<(u64, Bytes)>, ReadError> {
        let table = self.tables.governance;
        let last = [item, &number.to_be_bytes()].concat();
        let row = table.table.get_lower_than_or_equal_to(self.txn.txn(), &last);
        let row = row.map_err(|error| self.txn.error(error))?;
        let of_item = |key: &[u8]| key.len() == last.len() && key.starts_with(item);
        let Some((key, row)) = row.filter(|(key, _)| of_item(key)) else { return Ok(None) };
        let block = block_of(key).ok_or_else(|| self.bad_key(key))?;
        let value = self.tables.governance_value(key, row);
        let value = value.map_err(|why| self.txn.corrupt(table.name, key, why))?;
        Ok((!value.is_empty()).then_some((block, value)))
    }

    fn bad_key(&self, key: &[u8]) -> ReadError {
        let what = "the key is too short";
        self.txn.corrupt(self.tables.governance.name, key, DecodeError { what, at: key.len() })
    }
}

#[cfg(test)]
#[path = "governance_tests.rs"]
mod tests;
