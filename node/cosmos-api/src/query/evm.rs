//! Answers the queries for accounts, storage and code, as the module `vm` does. Addresses may have any format.

use super::{
    QueryError, Snapshot,
    proto::cosmos::evm::vm::v1::{
        ChainConfig, QueryAccountResponse, QueryBalanceResponse, QueryBaseFeeResponse,
        QueryCodeResponse, QueryConfigResponse, QueryCosmosAccountResponse, QueryParamsResponse,
        QueryStorageResponse, QueryValidatorAccountResponse,
    },
};
use alloy_primitives::{B256, U256};
use chain::EvmParams;
use storage::{Account, StateRead};
use transactions::cosmos::ACCOUNT_NUMBER;

/// Decimal places of ether.
const ETHER_DECIMALS: u64 = 18;
/// Maximum number of hex digits of a storage key.
const MAX_KEY_DIGITS: usize = 64;

impl Snapshot {
    fn account(&self, address: &str) -> Result<Account, QueryError> {
        Ok(self.state()?.account(self.address(address)?)?.unwrap_or_default())
    }

    /// Returns the balance, code hash and nonce. An account that does not exist is shown as an empty one.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn evm_account(&self, address: &str) -> Result<QueryAccountResponse, QueryError> {
        let account = self.account(address)?;
        Ok(QueryAccountResponse {
            balance: account.balance.to_string(),
            code_hash: account.code_hash.to_string(),
            nonce: account.nonce,
        })
    }

    /// Returns the Bech32 address of an account, and its sequence.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn evm_cosmos_account(
        &self,
        address: &str,
    ) -> Result<QueryCosmosAccountResponse, QueryError> {
        let (bytes, account) = (self.address(address)?, self.account(address)?);
        Ok(QueryCosmosAccountResponse {
            cosmos_address: self.bech32(bytes),
            sequence: account.nonce,
            account_number: ACCOUNT_NUMBER,
        })
    }

    /// Returns the account of the validator with this consensus address.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn evm_validator_account(
        &self,
        cons_address: &str,
    ) -> Result<QueryValidatorAccountResponse, QueryError> {
        let operator = self.operator(self.address(cons_address)?);
        Ok(QueryValidatorAccountResponse {
            account_address: self.bech32(operator),
            sequence: self.state()?.account(operator)?.unwrap_or_default().nonce,
            account_number: ACCOUNT_NUMBER,
        })
    }

    /// Returns the balance in wei.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn evm_balance(&self, address: &str) -> Result<QueryBalanceResponse, QueryError> {
        Ok(QueryBalanceResponse { balance: self.account(address)?.balance.to_string() })
    }

    /// Returns a storage slot as `0x` and 64 hex digits. In the key, `0x` and leading zeros are optional.
    ///
    /// # Errors
    /// If the address is invalid, or the key is not hex of at most 32 bytes.
    pub fn evm_storage(
        &self,
        address: &str,
        key: &str,
    ) -> Result<QueryStorageResponse, QueryError> {
        let address = self.address(address)?;
        let digits = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")).unwrap_or(key);
        let is_hex = (1..=MAX_KEY_DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let slot = is_hex
            .then(|| U256::from_str_radix(digits, 16).ok())
            .flatten()
            .ok_or_else(|| QueryError::invalid("invalid storage key: want up to 64 hex digits"))?;
        let value = self.state()?.storage(address, slot)?;
        Ok(QueryStorageResponse { value: B256::from(value).to_string() })
    }

    /// Returns the code of an account. The code of a delegating account (EIP-7702) is its delegation designator.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn evm_code(&self, address: &str) -> Result<QueryCodeResponse, QueryError> {
        let state = self.state()?;
        let account = state.account(self.address(address)?)?.unwrap_or_default();
        Ok(QueryCodeResponse { code: state.code(account.code_hash)?.to_vec() })
    }

    /// Returns the EVM parameters after this block. An Ethereum chain has the default ones.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn evm_params(&self) -> Result<QueryParamsResponse, QueryError> {
        let modules = self.parameters()?;
        let params = modules.map_or_else(EvmParams::default, |modules| modules.evm.clone());
        Ok(QueryParamsResponse { params: Some((&params).into()) })
    }

    /// Returns the base fee of this block in wei, or zero if the rules have no base fee.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn evm_base_fee(&self) -> Result<QueryBaseFeeResponse, QueryError> {
        let (_, header) = self.header(self.number)?;
        let base_fee = header.base_fee_per_gas.unwrap_or_default();
        Ok(QueryBaseFeeResponse { base_fee: base_fee.to_string() })
    }

    /// Returns the chain id, the token and the fork schedule.
    pub fn evm_config(&self) -> QueryConfigResponse {
        let config = self.spec.config();
        let number = |at: Option<u64>| at.map(|at| at.to_string()).unwrap_or_default();
        let decimals = self
            .spec
            .native()
            .map_or(ETHER_DECIMALS, |native| u64::from(native.market.decimals().get()));
        QueryConfigResponse {
            config: Some(ChainConfig {
                homestead_block: number(config.homestead_block),
                dao_fork_block: number(config.dao_fork_block),
                dao_fork_support: config.dao_fork_support,
                eip150_block: number(config.eip150_block),
                eip155_block: number(config.eip155_block),
                eip158_block: number(config.eip158_block),
                byzantium_block: number(config.byzantium_block),
                constantinople_block: number(config.constantinople_block),
                petersburg_block: number(config.petersburg_block),
                istanbul_block: number(config.istanbul_block),
                muir_glacier_block: number(config.muir_glacier_block),
                berlin_block: number(config.berlin_block),
                london_block: number(config.london_block),
                arrow_glacier_block: number(config.arrow_glacier_block),
                gray_glacier_block: number(config.gray_glacier_block),
                merge_netsplit_block: number(config.merge_netsplit_block),
                chain_id: self.spec.chain_id,
                denom: self.denom(),
                decimals,
                shanghai_time: number(config.shanghai_time),
                cancun_time: number(config.cancun_time),
                prague_time: number(config.prague_time),
                osaka_time: number(config.osaka_time),
            }),
        }
    }
}
