//! Applies what precedes the first transaction of a block: the DAO fork and system calls.

use std::error::Error;

use alloy_consensus::Header;
use alloy_eips::{eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS};
use alloy_evm::eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY};
use alloy_primitives::{Address, B256, Bytes, U256};
use chain::{ChainSpec, Fork};
use modules::{
    Modules,
    decorator::{CheckContext, has_code},
};
use storage::StateRead;

use super::BlockBuilder;
use crate::{
    AccountOverride, ExecutionError, ExecutionHost, StateError,
    cosmos::session,
    deferred_parent_hash::{PARENT_UNKNOWN, ParentUnknown, is_history_code, parent_slot},
    environment::Environment,
    overlay::{Overlay, StorageOverride},
};

impl<'a, S> BlockBuilder<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Starts a block and applies what precedes its first transaction: the DAO fork, and the system calls of
    /// EIP-4788 and EIP-2935. Ignores the header fields that transactions cannot observe, such as gas used, state root
    /// and bloom.
    ///
    /// For a native chain, `modules` holds its modules as of the beginning of the block. Without them, its checks,
    /// access rules, additional precompiles and minimum charge do not apply.
    ///
    /// # Errors
    /// If state cannot be read.
    pub fn start(
        spec: &'a ChainSpec,
        state: &'a S,
        host: &'a dyn ExecutionHost,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Result<Self, ExecutionError> {
        let mut block = Self::new(spec, state, host, modules, header);
        block.begin(header)?;
        Ok(block)
    }

    /// Does the same as [`Self::start`] before the parent's hash is known. The header contains [`PARENT_UNKNOWN`]
    /// instead of the hash, and `host` must fail if the hash is requested. [`put_parent_hash`] completes the changes.
    ///
    /// # Errors
    /// [`ParentUnknown`] if the history contract's code is not the code from EIP-2935; otherwise as [`Self::start`].
    ///
    /// [`put_parent_hash`]: crate::put_parent_hash
    pub fn start_before_parent(
        spec: &'a ChainSpec,
        state: &'a S,
        host: &'a dyn ExecutionHost,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Result<Self, ExecutionError> {
        debug_assert_eq!(header.parent_hash, PARENT_UNKNOWN);
        let mut block = Self::start(spec, state, host, modules, header)?;
        if block.environment.fork >= Fork::Prague {
            block.hide_parent_hash().map_err(|source| block.state_error(source))?;
        }
        Ok(block)
    }

    /// Hides the slot of the history contract that contains the placeholder, so that reads of the slot fail.
    fn hide_parent_hash(&mut self) -> Result<(), StateError> {
        let overlay = self.machine.overlay_mut();
        let Some(contract) = overlay.account(HISTORY_STORAGE_ADDRESS)? else { return Ok(()) };
        if has_code(&contract) && !is_history_code(contract.code_hash) {
            return Err(ParentUnknown.into());
        }
        overlay.hide_slot(HISTORY_STORAGE_ADDRESS, parent_slot(self.number));
        Ok(())
    }

    pub(super) fn new(
        spec: &'a ChainSpec,
        state: &'a S,
        host: &'a dyn ExecutionHost,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Self {
        let mut environment = Environment::new(spec, modules, header);
        environment.set_min_gas_multiplier(modules);
        let checks = modules.map(|_| CheckContext::of_block(spec, modules, header));
        let overlay = Overlay::new(state, host, environment.fork < Fork::SpuriousDragon);
        let block = Self::over(spec, overlay, environment, header.number, ());
        Self { checks, gov: session(spec, modules, header), ..block }
    }
}

impl<S, I> BlockBuilder<'_, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    pub(crate) fn begin(&mut self, header: &Header) -> Result<(), ExecutionError> {
        if self.spec.dao_fork() == Some((self.number, true)) {
            self.apply_dao_fork().map_err(|source| self.state_error(source))?;
        }
        if let Some(root) = header.parent_beacon_block_root
            && self.environment.fork >= Fork::Cancun
        {
            self.silent_call(BEACON_ROOTS_ADDRESS, root)?;
        }
        if self.environment.fork >= Fork::Prague {
            self.silent_call(HISTORY_STORAGE_ADDRESS, header.parent_hash)?;
        }
        self.record_fees_before().map_err(|source| self.state_error(source))
    }

    /// Sets accounts before the first transaction, as requested by a client of a development chain.
    ///
    /// # Errors
    /// If state cannot be read.
    pub fn set_accounts(&mut self, accounts: &[AccountOverride]) -> Result<(), ExecutionError> {
        for account in accounts {
            self.set_account(account).map_err(|source| self.state_error(source))?;
        }
        self.record_fees_before().map_err(|source| self.state_error(source))
    }

    fn set_account(&mut self, account: &AccountOverride) -> Result<(), StateError> {
        let storage = match (&account.state, &account.state_diff) {
            (Some(all), _) => Some(StorageOverride::All(all)),
            (None, Some(some)) => Some(StorageOverride::Some(some)),
            (None, None) => None,
        };
        let (overlay, has_storage) = (self.machine.overlay_mut(), storage.is_some());
        overlay.replace(account.address, account, storage)?;
        // An account without nonce, balance and code does not exist (EIP-161), unless its storage was set.
        match overlay.account(account.address)? {
            Some(set) if !has_storage => overlay.put(account.address, set),
            _ => Ok(()),
        }
    }

    /// Applies EIP-779: moves the balances of the DAO and its children to the refund contract.
    fn apply_dao_fork(&mut self) -> Result<(), StateError> {
        let overlay = self.machine.overlay_mut();
        let mut total = U256::ZERO;
        for address in DAO_HARDFORK_ACCOUNTS {
            total += overlay.drain(address)?;
        }
        overlay.credit(DAO_HARDFORK_BENEFICIARY, total)
    }

    /// Makes a system call (EIP-4788, EIP-2935). Ignores a missing contract and a call that fails.
    fn silent_call(&mut self, contract: Address, data: B256) -> Result<(), ExecutionError> {
        if self.number == 0 {
            return Ok(());
        }
        let data = Bytes::copy_from_slice(data.as_slice());
        self.machine.system_call(contract, data).map_err(|error| self.fatal(error))?;
        Ok(())
    }
}
