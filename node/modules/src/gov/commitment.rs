//! Computes the commitment of a header to the state of governance.
//!
//! Under rules version 0 the commitment is the Keccak-256 of the whole state in one message, so each block with a
//! change encodes the whole state. Since version 1 the commitment is a tree of two levels: a digest of each
//! proposal with its deposits and votes, and a root over the digests. A block computes only the digests of the
//! proposals that it changed. ADR 0030 states the reasons.

use super::state::{Entry, GovState, Items};
use alloy_primitives::{B256, keccak256};
use chain::RulesVersion;
use prost::Message;
use std::{collections::BTreeMap, sync::Arc};

/// Digests of proposals, by id.
pub(super) type Digests = BTreeMap<u64, B256>;

/// Returns the commitment to a state, and its digests. `known` is an earlier state with its digests; those of shared
/// entries are not computed again.
pub(super) fn commit(
    state: &GovState,
    known: Option<(&GovState, &Digests)>,
    version: RulesVersion,
) -> (B256, Digests) {
    if version < RulesVersion::V1 {
        return (keccak256(state.to_message().encode_to_vec()), Digests::new());
    }
    let reused = |id: &u64, entry: &Arc<Entry>| {
        let (before, digests) = known?;
        let same = before.entries.get(id).is_some_and(|known| Arc::ptr_eq(known, entry));
        same.then(|| digests.get(id).copied()).flatten()
    };
    let digest_of = |(id, entry): (&u64, &Arc<Entry>)| {
        (*id, reused(id, entry).unwrap_or_else(|| digest(entry)))
    };
    let digests: Digests = state.entries.iter().map(digest_of).collect();
    (root(state.last_id, &digests), digests)
}

/// Returns the Keccak-256 of the last id and of each proposal's id and digest. Numbers are u64 in big-endian
/// order.
fn root(last_id: u64, digests: &Digests) -> B256 {
    let mut bytes = last_id.to_be_bytes().to_vec();
    for (id, digest) in digests {
        bytes.extend(id.to_be_bytes());
        bytes.extend(digest);
    }
    keccak256(bytes)
}

/// Returns the Keccak-256 of the hashes of the two parts of a proposal, followed by its deposits and its votes:
/// their number (u32), and the address and hash of each.
fn digest(entry: &Entry) -> B256 {
    let mut bytes = keccak256(entry.head.encode_to_vec()).to_vec();
    bytes.extend(entry.content().hash);
    put_items(&mut bytes, &entry.deposits);
    put_items(&mut bytes, &entry.votes);
    keccak256(bytes)
}

fn put_items<T: Message>(bytes: &mut Vec<u8>, items: &Items<T>) {
    let count = u32::try_from(items.len()).expect("items are bounded");
    bytes.extend(count.to_be_bytes());
    for (address, placed) in items {
        bytes.extend(address.as_slice());
        bytes.extend(keccak256(placed.item.encode_to_vec()));
    }
}
