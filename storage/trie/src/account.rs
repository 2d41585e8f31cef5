//! State types shared by execution, storage and readers: accounts, and the changes of a block.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};

/// An account in the flat state. Only the trie contains its storage root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Nonce, which counts the transactions sent or, for a contract, the contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code; [`KECCAK256_EMPTY`] if there is no code.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}

/// Splits an address into two parts. Comparing such pairs yields the same order as comparing the addresses byte by
/// byte, and the first part, an integer, almost always decides.
#[inline]
pub fn address_order(address: &Address) -> (u64, [u8; 12]) {
    let (mut first, mut rest) = ([0; 8], [0; 12]);
    first.copy_from_slice(&address[..8]);
    rest.copy_from_slice(&address[8..]);
    (u64::from_be_bytes(first), rest)
}

/// The changes of one account in one block. Values are those after the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountChange {
    /// Address of the account.
    pub address: Address,
    /// The account after the block; `None` if it no longer exists.
    pub account: Option<Account>,
    /// Whether all earlier storage was cleared before `slots` were written.
    pub wiped: bool,
    /// Slots with their values after the block, in ascending order; zero means cleared.
    pub slots: Vec<(U256, U256)>,
}

/// The state changes of one block, in ascending order of addresses. Each address occurs once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Changed accounts, ascending by address.
    pub accounts: Vec<AccountChange>,
    /// Code deployed in this block, as pairs of the Keccak-256 hash and the code.
    pub codes: Vec<(B256, Bytes)>,
}

/// State as of one block.
pub trait StateRead {
    /// Why a read failed.
    type Error;
    /// Returns the account at `address`, or `None` if there is none.
    fn account(&self, address: Address) -> Result<Option<Account>, Self::Error>;
    /// Returns the accounts at these addresses, in the same order. Callers that know several addresses should
    /// prefer this method, because many implementations can load them concurrently.
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<Account>>, Self::Error> {
        addresses.iter().map(|address| self.account(*address)).collect()
    }
    /// Returns the value of a storage slot; zero if it was never set.
    fn storage(&self, address: Address, slot: U256) -> Result<U256, Self::Error>;
    /// Returns the values of these slots of an account, in the same order; see [`Self::accounts`].
    fn slots(&self, address: Address, slots: &[U256]) -> Result<Vec<U256>, Self::Error> {
        slots.iter().map(|slot| self.storage(address, *slot)).collect()
    }
    /// Returns the code with this hash; empty for [`KECCAK256_EMPTY`].
    fn code(&self, code_hash: B256) -> Result<Bytes, Self::Error>;
    /// Returns whether any storage slot of `address` is nonzero. It is called only when a contract is created at
    /// an account that has no code and nonce 0 (EIP-7610), so it may be slow.
    fn has_storage(&self, address: Address) -> Result<bool, Self::Error>;
}
