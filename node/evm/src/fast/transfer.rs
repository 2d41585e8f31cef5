//! Computes the result of plain transfers between accounts without code, without the interpreter.
//!
//! The fast path accepts only transfers that cannot fail and have no special properties. The interpreter executes
//! everything else, including transactions that will be refused. Tests execute the same random blocks with
//! and without the fast path and compare the results.

use std::error::Error;

use alloy_consensus::{Transaction as _, Typed2718};
use alloy_primitives::{Address, KECCAK256_EMPTY, U256};
use storage::{Account, StateRead};

use crate::{
    environment::Environment, error::StateError, overlay::Overlay, precompiles::may_be_precompile,
};
use chain::Fork;
use transactions::RecoveredTx;

/// Gas of a transfer without data.
const TRANSFER_GAS: u64 = 21_000;
/// Largest transaction type that adds only a price and an access list: EIP-1559.
const DYNAMIC_FEE_TYPE: u8 = 2;

/// Executes a transfer and returns its gas. If it returns `None`, the state is unchanged, and the interpreter must
/// execute the transaction.
///
/// # Errors
/// If state cannot be read.
pub(super) fn transfer<S>(
    overlay: &mut Overlay<'_, S>,
    environment: &Environment,
    tx: &RecoveredTx,
) -> Result<Option<u64>, StateError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let Some((to, price)) = transfer_fields(environment, tx) else { return Ok(None) };
    let native = environment.native.as_ref();
    let fee_recipient = native.map_or(environment.block.beneficiary, |native| native.fee_collector);
    if tx.sender == to || tx.sender == fee_recipient || to == fee_recipient {
        return Ok(None);
    }
    let minimum = native.map_or(0, |native| native.min_charge(tx.tx.gas_limit()));
    let gas = TRANSFER_GAS.max(minimum);
    // On an Ethereum chain, the base fee is burned.
    let burned_price = if native.is_some() { 0 } else { u128::from(environment.block.basefee) };
    let (Some(charge), Some(fee)) =
        (wei(price, gas), price.checked_sub(burned_price).and_then(|p| wei(p, gas)))
    else {
        return Ok(None);
    };
    let Some(sender) = paid(overlay.account(tx.sender)?, tx, charge) else { return Ok(None) };
    let Some(receiver) = credited(overlay.account(to)?, tx.tx.value()) else { return Ok(None) };
    // Adding zero would still touch the recipient of the fees, and a touched empty account is removed.
    let fee_recipient_account = overlay.account(fee_recipient)?;
    let fee_recipient_account = if fee.is_zero() {
        if fee_recipient_account.is_some_and(|account| account == Account::default()) {
            return Ok(None);
        }
        None
    } else {
        let mut account = fee_recipient_account.unwrap_or_default();
        let Some(balance) = account.balance.checked_add(fee) else { return Ok(None) };
        account.balance = balance;
        Some(account)
    };
    overlay.set(tx.sender, sender);
    overlay.set(to, receiver);
    if let Some(account) = fee_recipient_account {
        overlay.set(fee_recipient, account);
    }
    Ok(Some(gas))
}

/// Returns the recipient and the price, if the transaction's own fields allow the fast path.
fn transfer_fields(environment: &Environment, tx: &RecoveredTx) -> Option<(Address, u128)> {
    let envelope = &tx.tx;
    let known_fork = (Fork::London..=Fork::Prague).contains(&environment.fork);
    let is_transfer = envelope.ty() <= DYNAMIC_FEE_TYPE
        && envelope.input().is_empty()
        && envelope.access_list().is_none_or(|list| list.is_empty())
        && !envelope.value().is_zero()
        && envelope.gas_limit() >= TRANSFER_GAS;
    let to = envelope.to()?;
    let native = environment.native.as_ref();
    let is_unrestricted = native.is_none_or(|native| native.is_open() && !native.refuses_ether(to));
    if !known_fork || !is_transfer || !is_unrestricted || may_be_precompile(to) {
        return None;
    }
    if envelope.chain_id().is_some_and(|id| id != environment.cfg.chain_id) {
        return None;
    }
    let base_fee = u128::from(environment.block.basefee);
    let (fee_cap, priority_fee) = (envelope.max_fee_per_gas(), envelope.max_priority_fee_per_gas());
    let is_valid = fee_cap >= base_fee && priority_fee.is_none_or(|fee| fee <= fee_cap);
    is_valid.then(|| (to, envelope.effective_gas_price(Some(environment.block.basefee))))
}

/// Returns the sender after the transfer, if the sender can make it.
fn paid(account: Option<Account>, tx: &RecoveredTx, charge: U256) -> Option<Account> {
    let mut account = account?;
    if account.code_hash != KECCAK256_EMPTY || account.nonce != tx.tx.nonce() {
        return None;
    }
    let max_cost = wei(tx.tx.max_fee_per_gas(), tx.tx.gas_limit())?;
    if account.balance < max_cost.checked_add(tx.tx.value())? {
        return None;
    }
    account.nonce = account.nonce.checked_add(1)?;
    account.balance -= tx.tx.value() + charge;
    // Whether a nonce of 2^64 - 1 is valid is left to the interpreter.
    (account.nonce != u64::MAX).then_some(account)
}

/// Returns the recipient after the transfer, if the recipient has no code.
fn credited(account: Option<Account>, value: U256) -> Option<Account> {
    let mut account = account.unwrap_or_default();
    account.balance = account.balance.checked_add(value)?;
    (account.code_hash == KECCAK256_EMPTY).then_some(account)
}

/// Returns the cost of `gas` at `price` in wei, or `None` above 128 bits, where the interpreter's sums saturate.
fn wei(price: u128, gas: u64) -> Option<U256> {
    price.checked_mul(u128::from(gas)).map(U256::from)
}
