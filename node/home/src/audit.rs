//! Recomputes stored data independently of the code that maintains it, to check home folders after a fault.
//!
//! It only reads, so it also works while a node is running. It does not use any record of the state trie.

use crate::{Home, HomeError, stored_header};
use alloy_primitives::{Address, B256, U256};
use alloy_trie::{
    EMPTY_ROOT_HASH, TrieAccount,
    root::{state_root_unhashed, storage_root_unhashed},
};
use std::path::Path;
use storage::{ChainReader, IndexReader, ReadError, StateRead};

/// Number of addresses read at a time.
const PAGE: usize = 4096;

/// The state root computed from the index, to be compared with the header of the newest indexed block.
#[derive(Clone, Copy, Debug)]
pub struct StateAudit {
    /// The newest block in the index.
    pub number: u64,
    /// Number of accounts in the state of that block.
    pub accounts: u64,
    /// State root computed from all accounts and slots.
    pub root: B256,
    /// State root in the header of the block.
    pub expected: B256,
    /// Newest block of the chain.
    pub head: u64,
    /// Number of transactions in the blocks that the index does not have yet.
    pub unflushed: u64,
}

/// Recomputes the state root of the newest block in the index of a home folder from scratch. Uses about 200
/// bytes of memory per account.
///
/// # Errors
/// If the folder holds no chain, if its index is not built, or if it cannot be read.
pub fn state_root(path: &Path) -> Result<StateAudit, HomeError> {
    let (chain, index) = Home::attach(path)?;
    // The index is read from first: it must not contain a block that the chain reader does not see.
    let reader = index.reader()?;
    let audit = flat_state(&chain.reader()?, &reader)?;
    audit.ok_or_else(|| HomeError::NoIndex(path.to_owned()))
}

/// Does the same as [`state_root`] with open environments. Returns `None` if the index is empty.
///
/// # Errors
/// If something cannot be read, or if a code is missing.
pub fn flat_state(
    blocks: &ChainReader,
    reader: &IndexReader,
) -> Result<Option<StateAudit>, HomeError> {
    let Some(number) = reader.flushed()? else { return Ok(None) };
    let Some((head, _)) = blocks.head()? else { return Ok(None) };
    let (_, header) = stored_header(blocks, number)?;
    let accounts = accounts(reader)?;
    let count = accounts.len() as u64;
    let mut unflushed = 0;
    for number in number + 1..=head {
        unflushed += blocks.tx_count(number)? as u64;
    }
    let (root, expected) = (state_root_unhashed(accounts), header.state_root);
    Ok(Some(StateAudit { number, accounts: count, root, expected, head, unflushed }))
}

fn accounts(reader: &IndexReader) -> Result<Vec<(Address, TrieAccount)>, ReadError> {
    let mut accounts = Vec::new();
    let mut first = Some(Address::ZERO);
    while let Some(from) = first {
        let addresses = reader.addresses_from(from, PAGE)?;
        for address in &addresses {
            let Some(account) = reader.account(*address)? else { continue };
            let storage_root = storage_root(reader, *address)?;
            // A missing code is an error.
            StateRead::code(reader, account.code_hash)?;
            let (nonce, balance, code_hash) = (account.nonce, account.balance, account.code_hash);
            accounts.push((*address, TrieAccount { nonce, balance, storage_root, code_hash }));
        }
        first = addresses.last().and_then(|last| after(*last));
    }
    Ok(accounts)
}

fn storage_root(reader: &IndexReader, address: Address) -> Result<B256, ReadError> {
    if !reader.has_storage(address)? {
        return Ok(EMPTY_ROOT_HASH);
    }
    let mut slots = Vec::new();
    for slot in reader.slots_with_history(address)? {
        let value = reader.storage(address, slot)?;
        if !value.is_zero() {
            slots.push((B256::from(slot), value));
        }
    }
    Ok(storage_root_unhashed(slots))
}

/// Returns the next address, or `None` after the highest one.
fn after(address: Address) -> Option<Address> {
    let next = U256::from_be_slice(address.as_slice()) + U256::ONE;
    let bytes: [u8; 32] = next.to_be_bytes();
    (bytes[..12] == [0; 12]).then(|| Address::from_slice(&bytes[12..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::INDEX_FOLDER;
    use chain::Genesis;

    /// Prepares the state in which a killed `reindex` leaves the folder.
    #[test]
    fn an_index_that_is_not_built_is_not_a_missing_chain() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path();
        drop(Home::init(path, &Genesis::native_dev(1_700_000_000)).expect("a chain"));
        std::fs::remove_dir_all(path.join(INDEX_FOLDER)).expect("was there");
        let error = state_root(path).expect_err("there is no index");
        assert!(matches!(error, HomeError::NoIndex(_)), "{error}");
        assert!(error.to_string().contains("evmd reindex"), "{error}");
    }
}
