//! Answers the queries for accounts, as the module `auth` does.

use super::{
    QueryError, Snapshot,
    envelope::any,
    page::Page,
    proto::cosmos::{
        auth::v1beta1::{
            AddressBytesToStringResponse, AddressStringToBytesResponse, BaseAccount,
            Bech32PrefixResponse, ModuleAccount, Params, QueryAccountInfoResponse,
            QueryAccountResponse, QueryAccountsResponse, QueryModuleAccountByNameResponse,
            QueryModuleAccountsResponse, QueryParamsResponse,
        },
        base::query::v1beta1::{PageRequest, PageResponse},
        evm::crypto::v1::ethsecp256k1::PubKey,
    },
};
use alloy_primitives::Address;
use keys::{EthAccount, MODULE_ACCOUNTS, is_module_account, module_address};
use prost_types::Any;
use server::interrupt::Interrupt;
use std::{collections::BTreeSet, time::Duration};
use storage::StateRead;
use transactions::cosmos::ACCOUNT_NUMBER;

/// Maximum time for a page of accounts, because their public keys may have to be searched for.
const LIST_TIME: Duration = Duration::from_secs(5);
/// The module accounts and their token permissions.
const MODULES: [(&str, &[&str]); MODULE_ACCOUNTS.len()] = [
    ("evm", &["minter", "burner"]),
    ("fee_collector", &[]),
    ("feemarket", &[]),
    ("gov", &["burner"]),
];

impl Snapshot {
    /// Returns an account, which may be a module account.
    ///
    /// # Errors
    /// If the address is invalid, or the account does not exist.
    pub fn auth_account(&self, address: &str) -> Result<QueryAccountResponse, QueryError> {
        let address = self.address(address)?;
        let module = MODULES.into_iter().find(|(name, _)| module_address(name) == address);
        let account = match module {
            Some(module) => self.module_account(module)?,
            None => any(&self.base_account(address)?),
        };
        Ok(QueryAccountResponse { account: Some(account) })
    }

    /// Returns the part of an account that is common to all kinds of accounts.
    ///
    /// # Errors
    /// Same as [`Self::auth_account`].
    pub fn auth_account_info(&self, address: &str) -> Result<QueryAccountInfoResponse, QueryError> {
        let info = self.base_account(self.address(address)?)?;
        Ok(QueryAccountInfoResponse { info: Some(info) })
    }

    /// Lists accounts in the order of their addresses, at the newest block only, because the index has no older lists.
    ///
    /// # Errors
    /// If the height is not the newest, the page is invalid, or the list takes too long.
    pub fn auth_accounts(
        &self,
        page: Option<PageRequest>,
        interrupt: &Interrupt,
    ) -> Result<QueryAccountsResponse, QueryError> {
        if self.number != self.view.number() {
            let reason = "accounts are only listed at the newest block";
            return Err(QueryError::invalid(reason));
        }
        let page = Page::of(page)?.forward()?;
        let first = match &page.key {
            Some(key) => Address::try_from(key.as_slice())
                .map_err(|_| QueryError::invalid("pagination: key is not a key of this list"))?,
            None => Address::ZERO,
        };
        // One item more than fits on the page is read, because its key is the start of the next page.
        let mut found = self.existing_from(first, page.skip + page.limit + 1)?;
        found.drain(..page.skip.min(found.len()));
        let next = found.get(page.limit).map(|address| address.to_vec());
        found.truncate(page.limit);
        let total = if page.count_total { self.existing()? } else { 0 };
        let deadline = interrupt.within(LIST_TIME);
        let accounts = found.into_iter().map(|address| {
            if deadline.passed() {
                let seconds = LIST_TIME.as_secs();
                let message = format!("the list takes longer than {seconds} s: use a lower limit");
                return Err(QueryError::too_slow(message));
            }
            Ok(any(&self.base_account(address)?))
        });
        Ok(QueryAccountsResponse {
            accounts: accounts.collect::<Result<_, QueryError>>()?,
            pagination: Some(PageResponse { next_key: next.unwrap_or_default(), total }),
        })
    }

    /// Returns the accounts that recent blocks changed. These changes are not in the index yet.
    fn recent(&self) -> BTreeSet<Address> {
        let layers = self.view.state.layers().iter();
        let changes = layers.flat_map(|layer| layer.changes().accounts.iter());
        changes.map(|change| change.address).collect()
    }

    /// Returns the number of addresses that have an account.
    fn existing(&self) -> Result<u64, QueryError> {
        let state = self.state()?;
        let index = self.view.state.index().reader()?;
        let mut count = index.accounts()?;
        for address in self.recent() {
            let (was, is) = (index.account(address)?.is_some(), state.account(address)?.is_some());
            count = count + u64::from(is) - u64::from(was);
        }
        Ok(count)
    }

    /// Returns the first `max` addresses that have an account, starting at `first`.
    fn existing_from(&self, mut first: Address, max: usize) -> Result<Vec<Address>, QueryError> {
        let state = self.state()?;
        let index = self.view.state.index().reader()?;
        let recent = self.recent();
        let mut existing = Vec::with_capacity(max);
        loop {
            let indexed = index.addresses_from(first, max)?;
            // Recent addresses above the last indexed address of this round are left for a later round, because the
            // index may still have lower ones.
            let end = indexed.get(max - 1).copied().unwrap_or(Address::repeat_byte(0xff));
            let mut candidates: BTreeSet<_> = recent.range(first..=end).copied().collect();
            candidates.extend(indexed);
            for address in candidates {
                if state.account(address)?.is_some() {
                    existing.push(address);
                }
                if existing.len() == max {
                    return Ok(existing);
                }
            }
            match following(end) {
                Some(next) => first = next,
                None => return Ok(existing),
            }
        }
    }

    /// Returns the account at an address. A module account that is not in the state is empty.
    fn eth_account(&self, address: Address) -> Result<EthAccount, QueryError> {
        let account = self.state()?.account(address)?;
        let is_module = || is_module_account(address);
        if account.is_none() && !is_module() {
            let text = self.bech32(address);
            return Err(QueryError::not_found(format!("account {text} not found: key not found")));
        }
        let account = account.unwrap_or_default();
        let chain_id = self.spec.chain_id;
        let public_key = self.facts.public_keys.of(&self.view, chain_id, address, &account)?;
        Ok(EthAccount {
            address,
            nonce: account.nonce,
            balance: account.balance,
            code_hash: account.code_hash,
            public_key,
            account_number: ACCOUNT_NUMBER,
        })
    }

    fn base_account(&self, address: Address) -> Result<BaseAccount, QueryError> {
        let account = self.eth_account(address)?;
        let key = account.public_key.map(|key| PubKey { key: key.as_bytes().to_vec() });
        Ok(BaseAccount {
            address: self.bech32(address),
            pub_key: key.as_ref().map(any),
            account_number: account.account_number,
            sequence: account.nonce,
            code_hash: account.has_code().then(|| account.code_hash.to_string()),
        })
    }

    fn module_account(&self, (name, permissions): (&str, &[&str])) -> Result<Any, QueryError> {
        Ok(any(&ModuleAccount {
            base_account: Some(self.base_account(module_address(name))?),
            name: name.to_owned(),
            permissions: permissions.iter().map(|&permission| permission.to_owned()).collect(),
        }))
    }

    /// Returns the module accounts, by name.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn module_accounts(&self) -> Result<QueryModuleAccountsResponse, QueryError> {
        let accounts = MODULES.into_iter().map(|module| self.module_account(module));
        Ok(QueryModuleAccountsResponse { accounts: accounts.collect::<Result<_, _>>()? })
    }

    /// Returns a module account.
    ///
    /// # Errors
    /// If there is no module with that name.
    pub fn module_account_by_name(
        &self,
        name: &str,
    ) -> Result<QueryModuleAccountByNameResponse, QueryError> {
        let module = MODULES.into_iter().find(|(known, _)| *known == name);
        let module =
            module.ok_or_else(|| QueryError::not_found(format!("account {name:?} not found")))?;
        Ok(QueryModuleAccountByNameResponse { account: Some(self.module_account(module)?) })
    }

    /// Returns the default parameters of the module. They do not apply to Ethereum transactions.
    pub const fn auth_params(&self) -> QueryParamsResponse {
        QueryParamsResponse {
            params: Some(Params {
                max_memo_characters: 256,
                tx_sig_limit: 7,
                tx_size_cost_per_byte: 10,
                sig_verify_cost_ed25519: 590,
                sig_verify_cost_secp256k1: 1000,
            }),
        }
    }

    /// Returns the prefix of the chain's addresses.
    pub fn bech32_prefix(&self) -> Bech32PrefixResponse {
        Bech32PrefixResponse { bech32_prefix: self.spec.bech32_prefix.clone() }
    }

    /// Encodes 20 bytes in Bech32.
    ///
    /// # Errors
    /// If there are not 20 bytes.
    pub fn address_string(&self, bytes: &[u8]) -> Result<AddressBytesToStringResponse, QueryError> {
        let address = Address::try_from(bytes).map_err(|_| {
            QueryError::invalid(format!("an address has 20 bytes, got {}", bytes.len()))
        })?;
        Ok(AddressBytesToStringResponse { address_string: self.bech32(address) })
    }

    /// Returns the 20 bytes of an address in any format.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn address_bytes(&self, text: &str) -> Result<AddressStringToBytesResponse, QueryError> {
        Ok(AddressStringToBytesResponse { address_bytes: self.address(text)?.to_vec() })
    }
}

/// Returns the next higher address.
fn following(address: Address) -> Option<Address> {
    let mut bytes = address.into_array();
    for byte in bytes.iter_mut().rev() {
        let (next, carried) = byte.overflowing_add(1);
        *byte = next;
        if !carried {
            return Some(Address::from(bytes));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_address_carries_into_the_next_byte() {
        assert_eq!(following(Address::ZERO), Some(Address::with_last_byte(1)));
        assert_eq!(following(Address::repeat_byte(0xff)), None);
        let mut carried = Address::with_last_byte(0xff);
        carried.0[18] = 1;
        let mut next = Address::ZERO;
        next.0[18] = 2;
        assert_eq!(following(carried), Some(next));
    }
}
