//! Accounts, storage and code as the module `vm` shows them. Addresses are read in any form.

use super::{
    QueryError, Snapshot,
    proto::cosmos::evm::vm::v1::{
        QueryAccountResponse, QueryBalanceResponse, QueryBaseFeeResponse, QueryCodeResponse,
        QueryCosmosAccountResponse, QueryParamsResponse, QueryStorageResponse,
        QueryValidatorAccountResponse,
    },
};
use crate::chain::EvmParams;
use alloy_primitives::{B256, U256};
use storage::{Account, StateRead};

/// Hex digits of the longest storage key.
const KEY_DIGITS_MAX: usize = 64;

impl Snapshot {
    fn account(&self, address: &str) -> Result<Account, QueryError> {
        Ok(self.state()?.account(self.address(address)?)?.unwrap_or_default())
    }

    /// Balance, code hash and nonce; those of an empty account where there is none.
    ///
    /// # Errors
    /// If the address is none.
    pub fn evm_account(&self, address: &str) -> Result<QueryAccountResponse, QueryError> {
        let account = self.account(address)?;
        Ok(QueryAccountResponse {
            balance: account.balance.to_string(),
            code_hash: account.code_hash.to_string(),
            nonce: account.nonce,
        })
    }

    /// An account under its Bech32 address.
    ///
    /// # Errors
    /// If the address is none.
    pub fn evm_cosmos_account(
        &self,
        address: &str,
    ) -> Result<QueryCosmosAccountResponse, QueryError> {
        Ok(QueryCosmosAccountResponse {
            cosmos_address: self.bech32(self.address(address)?),
            sequence: self.account(address)?.nonce,
            account_number: 0,
        })
    }

    /// The account of a validator's consensus address: the same bytes.
    ///
    /// # Errors
    /// If the address is none.
    pub fn evm_validator_account(
        &self,
        cons_address: &str,
    ) -> Result<QueryValidatorAccountResponse, QueryError> {
        Ok(QueryValidatorAccountResponse {
            account_address: self.bech32(self.address(cons_address)?),
            sequence: self.account(cons_address)?.nonce,
            account_number: 0,
        })
    }

    /// Balance in wei.
    ///
    /// # Errors
    /// If the address is none.
    pub fn evm_balance(&self, address: &str) -> Result<QueryBalanceResponse, QueryError> {
        Ok(QueryBalanceResponse { balance: self.account(address)?.balance.to_string() })
    }

    /// A storage slot, 0x and 64 hex digits. The key may lack `0x` and leading zeros.
    ///
    /// # Errors
    /// If the address is none, or the key is no hex of up to 32 bytes.
    pub fn evm_storage(
        &self,
        address: &str,
        key: &str,
    ) -> Result<QueryStorageResponse, QueryError> {
        let address = self.address(address)?;
        let digits = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")).unwrap_or(key);
        let hex = (1..=KEY_DIGITS_MAX).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let slot = hex
            .then(|| U256::from_str_radix(digits, 16).ok())
            .flatten()
            .ok_or_else(|| QueryError::invalid("invalid storage key: want up to 64 hex digits"))?;
        let value = self.state()?.storage(address, slot)?;
        Ok(QueryStorageResponse { value: B256::from(value).to_string() })
    }

    /// Code; that of a delegating account (EIP-7702) is its designation.
    ///
    /// # Errors
    /// If the address is none.
    pub fn evm_code(&self, address: &str) -> Result<QueryCodeResponse, QueryError> {
        let state = self.state()?;
        let account = state.account(self.address(address)?)?.unwrap_or_default();
        Ok(QueryCodeResponse { code: state.code(account.code_hash)?.to_vec() })
    }

    /// The parameters of the EVM after this block; the default ones on an Ethereum chain.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn evm_params(&self) -> Result<QueryParamsResponse, QueryError> {
        let modules = self.modules()?;
        let params = modules.map_or_else(EvmParams::default, |modules| modules.evm.clone());
        Ok(QueryParamsResponse { params: Some((&params).into()) })
    }

    /// The base fee of this block in wei; zero where the rules have none.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn evm_base_fee(&self) -> Result<QueryBaseFeeResponse, QueryError> {
        let (_, header) = self.header(self.number)?;
        let base_fee = header.base_fee_per_gas.unwrap_or_default();
        Ok(QueryBaseFeeResponse { base_fee: base_fee.to_string() })
    }
}
