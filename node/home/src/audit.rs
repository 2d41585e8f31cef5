//! Recomputes stored data in another way, as an oracle for homes after a fault.
//!
//! It only reads, also while a node is running, and does not rely on any record of the trie.

use crate::{Home, HomeError, stored_header};
use alloy_primitives::{Address, B256, U256};
use alloy_trie::{
    EMPTY_ROOT_HASH, TrieAccount,
    root::{state_root_unhashed, storage_root_unhashed},
};
use std::path::Path;
use storage::{ChainReader, IndexReader, ReadError, StateRead};

/// Addresses read at once.
const PAGE: usize = 4096;

/// The state of the index, compared with the header of its newest block.
#[derive(Clone, Copy, Debug)]
pub struct StateAudit {
    /// The newest block that the index has.
    pub number: u64,
    /// Its accounts.
    pub accounts: u64,
    /// Root of its state, of all accounts and slots.
    pub root: B256,
    /// Root in its header.
    pub expected: B256,
    /// Newest block of the chain.
    pub head: u64,
    /// Transactions of the blocks that the index does not have.
    pub unflushed: u64,
}

/// Recomputes the state root of the newest block that the index of a home folder has, from scratch. Takes
/// about 200 bytes of memory an account.
///
/// # Errors
/// If the folder holds no chain, if its index is not built, or if it cannot be read.
pub fn state_root(path: &Path) -> Result<StateAudit, HomeError> {
    let (chain, index) = Home::attach(path)?;
    // The index first: it must not know of a block that the snapshot of the chain does not have.
    let reader = index.reader()?;
    let audit = flat_state(&chain.reader()?, &reader)?;
    audit.ok_or_else(|| HomeError::NoIndex(path.to_owned()))
}

/// The same of open environments; `None` if the index is empty.
///
/// # Errors
/// If something cannot be read, or a code is missing.
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
            // A code that is missing is an error.
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

/// The next address; none after the last there can be.
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

    /// As a `reindex` leaves it that was killed.
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
