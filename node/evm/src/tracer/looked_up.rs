//! Adds accounts that geth's `prestateTracer` reads because a transaction names them, and that `revm` does not
//! load: signers of authorizations that are ignored, and the target address of a creation that fails before
//! it begins.

use super::is_set;
use alloy_primitives::{Address, Bytes, KECCAK256_EMPTY, U256};
use alloy_rpc_types_trace::geth::{AccountState, PreStateFrame, PreStateMode};
use revm::{
    DatabaseRef,
    context::TxEnv,
    context_interface::transaction::AuthorizationTr as _,
    state::{AccountInfo, EvmState},
};
use serde_json::Value;

/// Returns the signers of a transaction's authorizations, for any chain and nonce, and the addresses in `created`.
pub(super) fn addresses(env: &TxEnv, created: &[Address]) -> Vec<Address> {
    let signers = env.authorization_list.iter().filter_map(|signed| signed.authority());
    signers.chain(created.iter().copied()).collect()
}

/// Adds these accounts as of `before`, unless `revm` has loaded them. A diff does not need them, because accounts
/// that are not loaded do not change.
///
/// # Errors
/// If `before` cannot be read.
pub(super) fn add<D: DatabaseRef>(
    frame: &mut PreStateFrame,
    config: &Value,
    addresses: &[Address],
    loaded: &EvmState,
    before: &D,
) -> Result<(), D::Error> {
    let PreStateFrame::Default(PreStateMode(accounts)) = frame else { return Ok(()) };
    for address in addresses {
        if loaded.contains_key(address) || accounts.contains_key(address) {
            continue;
        }
        let account = before.basic_ref(*address)?.unwrap_or_default();
        if !account.is_empty() {
            let code = match is_set(config, "disableCode") {
                true => None,
                false => code(&account, before)?,
            };
            let shown = AccountState::from_account_info(account.nonce, account.balance, code);
            accounts.insert(*address, shown);
        } else if is_set(config, "includeEmpty") {
            let balance = Some(U256::ZERO);
            accounts.insert(*address, AccountState { balance, ..AccountState::default() });
        }
    }
    Ok(())
}

fn code<D: DatabaseRef>(account: &AccountInfo, before: &D) -> Result<Option<Bytes>, D::Error> {
    if account.code_hash == KECCAK256_EMPTY {
        return Ok(None);
    }
    let code = match &account.code {
        Some(code) => code.original_bytes(),
        None => before.code_by_hash_ref(account.code_hash)?.original_bytes(),
    };
    Ok(Some(code))
}
