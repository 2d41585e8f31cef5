//! Finds addresses and slots by their hashes. The trie stores only hashes. This module therefore hashes the addresses
//! or slots of the state until it has found all that are requested.

use crate::replay::Replay;
use alloy_primitives::{
    Address, B256, U256,
    map::{B256Map, B256Set},
};
use rpc_eth::method::Call;
use rpc_types::error::Error;

/// Number of addresses or slots that are hashed in one batch.
const BATCH: usize = 4_096;

/// The hashes that are still missing, and the preimages that were found.
struct PreimageSearch<T> {
    wanted: B256Set,
    found: B256Map<T>,
}

impl<T: AsRef<[u8]> + Copy> PreimageSearch<T> {
    fn new(wanted: impl Iterator<Item = B256>) -> Self {
        Self { wanted: wanted.collect(), found: B256Map::default() }
    }

    fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    fn check(&mut self, candidates: &[T]) {
        let messages: Vec<&[u8]> = candidates.iter().map(AsRef::as_ref).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        verify::keccak256_batch(&messages, &mut hashes);
        for (hash, candidate) in hashes.into_iter().map(B256::new).zip(candidates) {
            if self.wanted.remove(&hash) {
                self.found.insert(hash, *candidate);
            }
        }
    }
}

/// Returns the addresses with these hashes, if the current state has accounts with them.
pub(super) fn addresses(
    call: &Call,
    replay: &Replay<'_>,
    wanted: impl Iterator<Item = B256>,
) -> Result<B256Map<Address>, Error> {
    let mut search = PreimageSearch::new(wanted);
    for layer in call.view.state.layers() {
        let changed = layer.changes().accounts.iter().map(|change| change.address);
        search.check(&changed.collect::<Vec<_>>());
    }
    let index = call.view.state.index().reader()?;
    let mut next = Some(Address::ZERO);
    while let Some(first) = next.filter(|_| !search.is_done()) {
        replay.in_time()?;
        let page = index.addresses_from(first, BATCH)?;
        search.check(&page);
        next = page.last().filter(|_| page.len() == BATCH).and_then(after_address);
    }
    Ok(search.found)
}

fn after_address(last: &Address) -> Option<Address> {
    let next = U256::from_be_slice(last.as_slice()) + U256::ONE;
    (next.bit_len() <= 160).then(|| Address::from_word(next.into()))
}

/// Returns the slots of an account with these hashes, if they are set in the current state or are in `more`.
pub(super) fn slots(
    call: &Call,
    replay: &Replay<'_>,
    address: Address,
    more: &[U256],
    wanted: impl Iterator<Item = B256>,
) -> Result<B256Map<B256>, Error> {
    let words = |slots: &[U256]| slots.iter().map(|slot| B256::from(*slot)).collect::<Vec<_>>();
    let mut search = PreimageSearch::new(wanted);
    search.check(&words(more));
    for layer in call.view.state.layers() {
        let changes = layer.changes().accounts.iter().filter(|change| change.address == address);
        let changed: Vec<U256> =
            changes.flat_map(|change| change.slots.iter().map(|(slot, _)| *slot)).collect();
        search.check(&words(&changed));
    }
    let index = call.view.state.index().reader()?;
    let mut next = Some(U256::ZERO);
    while let Some(first) = next.filter(|_| !search.is_done()) {
        replay.in_time()?;
        let page = index.slots_from(address, first, BATCH)?;
        search.check(&words(&page));
        let last = page.last().filter(|_| page.len() == BATCH);
        next = last.and_then(|last| last.checked_add(U256::ONE));
    }
    Ok(search.found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_address_has_no_successor() {
        let last = Address::repeat_byte(0xff);
        assert_eq!(after_address(&last), None);
        assert_eq!(after_address(&Address::ZERO), Some(Address::with_last_byte(1)));
        let mut before = last;
        before.0[19] = 0xfe;
        assert_eq!(after_address(&before), Some(last));
    }
}
