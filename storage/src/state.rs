//! The state vocabulary shared by execution, storage and readers: accounts, and what a block
//! changed in them.

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};

/// An account as flat state keeps it. Its storage root lives in the trie only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Transactions sent, or contracts created.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// Keccak-256 of the code; [`KECCAK256_EMPTY`] without code.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}

/// An address in two parts that sort as it does; the first nearly always decides, and is one number.
#[inline]
pub fn address_order(address: &Address) -> (u64, [u8; 12]) {
    let (mut first, mut rest) = ([0; 8], [0; 12]);
    first.copy_from_slice(&address[..8]);
    rest.copy_from_slice(&address[8..]);
    (u64::from_be_bytes(first), rest)
}

/// What one block did to one account. Values are those after the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountChange {
    /// Whose.
    pub address: Address,
    /// The account after the block; `None` when it no longer exists.
    pub account: Option<Account>,
    /// All earlier storage was cleared before `slots` were written.
    pub wiped: bool,
    /// Slot and value after the block, ascending by slot; zero means cleared.
    pub slots: Vec<(U256, U256)>,
}

/// What one block did to the state: ascending by address, each address once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateChanges {
    /// Changed accounts, ascending by address.
    pub accounts: Vec<AccountChange>,
    /// Code first stored by this block, with its Keccak-256.
    pub codes: Vec<(B256, Bytes)>,
}

/// State as of one block.
pub trait StateRead {
    /// Why a read failed.
    type Error;
    /// The account at `address`, or `None` when there is none.
    fn account(&self, address: Address) -> Result<Option<Account>, Self::Error>;
    /// The accounts at these addresses, in their order. Whoever knows several at once should ask so:
    /// many implementations can wait for them together.
    fn accounts(&self, addresses: &[Address]) -> Result<Vec<Option<Account>>, Self::Error> {
        addresses.iter().map(|address| self.account(*address)).collect()
    }
    /// The value of a storage slot; zero when never set.
    fn storage(&self, address: Address, slot: U256) -> Result<U256, Self::Error>;
    /// The values of these slots of an account, in their order, as [`Self::accounts`] for accounts.
    fn slots(&self, address: Address, slots: &[U256]) -> Result<Vec<U256>, Self::Error> {
        slots.iter().map(|slot| self.storage(address, *slot)).collect()
    }
    /// The code with this hash; empty for [`KECCAK256_EMPTY`].
    fn code(&self, code_hash: B256) -> Result<Bytes, Self::Error>;
    /// Whether any storage slot of `address` is not zero. Asked only for accounts without code and
    /// nonce that a contract is to be created at (EIP-7610), so it may be slow.
    fn has_storage(&self, address: Address) -> Result<bool, Self::Error>;
}
