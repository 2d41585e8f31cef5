//! Stores governance as rows: one for the list of proposals, two for each proposal, and one for each deposit and
//! each vote. A block writes only the rows that it changed.

use super::{
    StoreError,
    state::{Entry, GovState, Items, Placed},
};
use alloy_primitives::{Address, Bytes};
use prost::Message;
use proto::cosmos::gov::v1::{Deposit, Proposal, Vote};
use std::sync::Arc;
use storage::{ChainReader, GovernanceItems, GovernanceKey, GovernanceRow};

/// The row of the list. It has at most [`super::MAX_PROPOSALS`] numbers, most of which take one byte.
#[derive(Clone, PartialEq, prost::Message)]
struct List {
    /// Id of the last proposal that was submitted.
    #[prost(uint64, tag = "1")]
    last_id: u64,
    /// The existing proposals in ascending order, each as the difference to the previous one.
    #[prost(uint64, repeated, tag = "2")]
    steps: Vec<u64>,
}

/// The row of a deposit.
#[derive(Clone, PartialEq, prost::Message)]
struct DepositRow {
    /// Position in the order of arrival.
    #[prost(uint64, tag = "1")]
    position: u64,
    #[prost(message, optional, tag = "2")]
    item: Option<Deposit>,
}

/// The row of a vote.
#[derive(Clone, PartialEq, prost::Message)]
struct VoteRow {
    /// Position in the order of arrival.
    #[prost(uint64, tag = "1")]
    position: u64,
    #[prost(message, optional, tag = "2")]
    item: Option<Vote>,
}

/// Returns the rows that change `before` to `after`. Entries that the two states share are skipped.
pub(super) fn changed(before: &GovState, after: &GovState) -> Vec<GovernanceRow> {
    let mut rows = Vec::new();
    let ids = |state: &GovState| state.entries.keys().copied().collect::<Vec<_>>();
    if before.last_id != after.last_id || ids(before) != ids(after) {
        rows.push(row(GovernanceKey::List, list(after).encode_to_vec()));
    }
    for (id, entry) in &after.entries {
        match before.entries.get(id) {
            Some(known) if Arc::ptr_eq(known, entry) => {}
            known => entry_rows(*id, known.map(|known| &**known), Some(entry), &mut rows),
        }
    }
    for (id, removed) in &before.entries {
        if !after.entries.contains_key(id) {
            entry_rows(*id, Some(removed), None, &mut rows);
        }
    }
    rows
}

fn row(key: GovernanceKey, value: Vec<u8>) -> GovernanceRow {
    GovernanceRow { key, value: value.into() }
}

fn list(state: &GovState) -> List {
    let mut last = 0;
    let step = |id: &u64| id - std::mem::replace(&mut last, *id);
    List { last_id: state.last_id, steps: state.entries.keys().map(step).collect() }
}

/// Adds the rows of one proposal that differ. A row without content states that the item no longer exists.
fn entry_rows(
    id: u64,
    before: Option<&Entry>,
    after: Option<&Entry>,
    rows: &mut Vec<GovernanceRow>,
) {
    let head = after.map(|entry| &entry.head);
    if before.map(|entry| &entry.head) != head {
        let value = head.map_or_else(Vec::new, Proposal::encode_to_vec);
        rows.push(row(GovernanceKey::Proposal(id), value));
    }
    // The content row of a removed proposal is kept, because it is never read.
    if let (None, Some(entry)) = (before, after) {
        let parts = entry.content().parts.encode_to_vec();
        rows.push(row(GovernanceKey::Content(id), parts));
    }
    let (no_deposits, no_votes) = (Items::new(), Items::new());
    let deposits = [before, after].map(|entry| entry.map_or(&no_deposits, |entry| &entry.deposits));
    item_rows(deposits, rows, |address, placed| {
        let write = |Placed { position, item }: &Placed<Deposit>| {
            DepositRow { position: *position, item: Some(item.clone()) }.encode_to_vec()
        };
        row(GovernanceKey::Deposit(id, address), placed.map_or_else(Vec::new, write))
    });
    let votes = [before, after].map(|entry| entry.map_or(&no_votes, |entry| &entry.votes));
    item_rows(votes, rows, |address, placed| {
        let write = |Placed { position, item }: &Placed<Vote>| {
            VoteRow { position: *position, item: Some(item.clone()) }.encode_to_vec()
        };
        row(GovernanceKey::Vote(id, address), placed.map_or_else(Vec::new, write))
    });
}

fn item_rows<T: PartialEq>(
    [before, after]: [&Items<T>; 2],
    rows: &mut Vec<GovernanceRow>,
    write: impl Fn(Address, Option<&Placed<T>>) -> GovernanceRow,
) {
    for (address, placed) in after {
        let known = before.get(address);
        if known.is_none_or(|known| !Arc::ptr_eq(known, placed) && known != placed) {
            rows.push(write(*address, Some(placed)));
        }
    }
    let removed = before.keys().filter(|address| !after.contains_key(*address));
    rows.extend(removed.map(|address| write(*address, None)));
}

/// Maximum position in the order of arrival that received rows may contain, so that the next position does not
/// overflow. Since rules version 1 no header commits to positions, so a row may contain any of them.
const MAX_POSITION: u64 = u32::MAX as u64;

/// Returns `before` with the changes in these rows, which are those that [`changed`] returns for it.
///
/// # Errors
/// [`StoreError::Value`] if they cannot be rows of a change of `before`.
pub(super) fn apply(before: &GovState, rows: &[GovernanceRow]) -> Result<GovState, StoreError> {
    let mut after = before.clone();
    for row in rows {
        match row.key {
            GovernanceKey::List => after.last_id = decode::<List>(&row.value)?.last_id,
            GovernanceKey::Content(id) => {
                let head = Proposal { id, ..Proposal::default() };
                after.insert(Entry::of_parts(head, decode(&row.value)?));
            }
            _ => {}
        }
    }
    for row in rows {
        let unknown =
            |id| StoreError::Value(format!("a row of proposal {id}, which does not exist"));
        match row.key {
            GovernanceKey::List | GovernanceKey::Content(_) => {}
            GovernanceKey::Proposal(id) if row.value.is_empty() => {
                after.entries.remove(&id).ok_or_else(|| unknown(id))?;
            }
            GovernanceKey::Proposal(id) => {
                let head: Proposal = decode(&row.value)?;
                if head.id != id {
                    return Err(unknown(head.id));
                }
                after.entry_mut(id).ok_or_else(|| unknown(id))?.head = head;
            }
            // The rows of a removed proposal's items have no content.
            GovernanceKey::Deposit(id, address) => match after.entry_mut(id) {
                Some(entry) => put(&mut entry.deposits, address, &row.value, |row| {
                    let DepositRow { position, item } = decode(row)?;
                    Ok(Placed { position, item: item.unwrap_or_default() })
                })?,
                None if row.value.is_empty() => {}
                None => return Err(unknown(id)),
            },
            GovernanceKey::Vote(id, address) => match after.entry_mut(id) {
                Some(entry) => put(&mut entry.votes, address, &row.value, |row| {
                    let VoteRow { position, item } = decode(row)?;
                    Ok(Placed { position, item: item.unwrap_or_default() })
                })?,
                None if row.value.is_empty() => {}
                None => return Err(unknown(id)),
            },
        }
    }
    let changed = rows.iter().filter_map(|row| match row.key {
        GovernanceKey::List => None,
        GovernanceKey::Proposal(id) | GovernanceKey::Content(id) => after.entry(id),
        GovernanceKey::Deposit(id, _) | GovernanceKey::Vote(id, _) => after.entry(id),
    });
    for entry in changed {
        // No commitment covers these: version 0 commits to whole proposals and not to their two parts, and version 1
        // does not commit to positions.
        let parts = Entry::new(entry.proposal());
        let is_split = parts.head == entry.head && parts.content().parts == entry.content().parts;
        if !is_split || last_position(entry) > MAX_POSITION {
            return Err(StoreError::Value(format!(
                "the rows of proposal {} are not in canonical form",
                entry.id()
            )));
        }
    }
    Ok(after)
}

/// Returns the highest position of the deposits and votes of a proposal.
fn last_position(entry: &Entry) -> u64 {
    let deposits = entry.deposits.values().map(|placed| placed.position);
    deposits.chain(entry.votes.values().map(|placed| placed.position)).max().unwrap_or_default()
}

/// Inserts the item of a row, or removes it if the row has no content.
fn put<T>(
    items: &mut Items<T>,
    address: Address,
    value: &Bytes,
    decode: impl FnOnce(&Bytes) -> Result<Placed<T>, StoreError>,
) -> Result<(), StoreError> {
    if value.is_empty() {
        items.remove(&address);
    } else {
        items.insert(address, Arc::new(decode(value)?));
    }
    Ok(())
}

/// Reads the state after block `number` from the rows. Costs a few searches for each proposal and for each
/// account that ever had a deposit or vote on one that is still active; see [`ChainReader::governance_items`].
///
/// # Errors
/// [`StoreError`] if rows are missing or damaged.
pub(super) fn read(blocks: &ChainReader, number: u64) -> Result<GovState, StoreError> {
    let part = |key| Ok::<_, StoreError>(blocks.governance(key, number)?.map(|(_, value)| value));
    let missing = |key: GovernanceKey| StoreError::MissingRow { key, number };
    let list: List = decode(&part(GovernanceKey::List)?.ok_or(missing(GovernanceKey::List))?)?;
    let mut state = GovState { last_id: list.last_id, ..GovState::default() };
    let mut id = 0_u64;
    for step in list.steps {
        id = id.saturating_add(step);
        let of = |key| part(key)?.ok_or(missing(key));
        let head: Proposal = decode(&of(GovernanceKey::Proposal(id))?)?;
        let content: Proposal = decode(&of(GovernanceKey::Content(id))?)?;
        let mut entry = Entry::of_parts(head, content);
        // A finished proposal has neither deposits nor votes.
        if entry.is_active() {
            for (address, value) in
                blocks.governance_items(GovernanceItems::Deposits, id, number)?
            {
                let DepositRow { position, item } = decode(&value)?;
                let item = item.unwrap_or_default();
                entry.deposits.insert(address, Arc::new(Placed { position, item }));
            }
            for (address, value) in blocks.governance_items(GovernanceItems::Votes, id, number)? {
                let VoteRow { position, item } = decode(&value)?;
                let item = item.unwrap_or_default();
                entry.votes.insert(address, Arc::new(Placed { position, item }));
            }
        }
        state.insert(entry);
    }
    Ok(state)
}

fn decode<T: Message + Default>(value: &Bytes) -> Result<T, StoreError> {
    T::decode(value.as_ref()).map_err(|error| StoreError::Value(error.to_string()))
}
