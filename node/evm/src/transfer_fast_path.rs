//! The short way of a plain transfer: ether from one account without code to another, with what the
//! interpreter would do for it worked out directly.
//!
//! Takes only what cannot fail and touches nothing special; everything else, refusals included, is
//! the interpreter's. The tests run both on the same random blocks and compare all they give.

use std::error::Error;

use alloy_consensus::{Transaction as _, Typed2718};
use alloy_primitives::{Address, KECCAK256_EMPTY, U256};
use storage::{Account, StateRead};

use super::{StateError, environment::Environment, overlay::Overlay, precompiles::may_be_one};
use chain::Fork;
use transactions::RecoveredTx;

/// Gas of a transfer without data.
const TRANSFER_GAS: u64 = 21_000;
/// Largest type that has nothing but a price and an access list: EIP-1559.
const DYNAMIC_FEE_TYPE: u8 = 2;

/// Runs a transfer and gives its gas; `None` leaves everything as it was, for the interpreter.
///
/// # Errors
/// When state cannot be read.
pub(super) fn transfer<S>(
    overlay: &mut Overlay<'_, S>,
    environment: &Environment,
    tx: &RecoveredTx,
) -> Result<Option<u64>, StateError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let Some((to, price)) = plain(environment, tx) else { return Ok(None) };
    let native = environment.native.as_ref();
    let payee = native.map_or(environment.block.beneficiary, |native| native.fee_collector);
    if tx.sender == to || tx.sender == payee || to == payee {
        return Ok(None);
    }
    let least = native.map_or(0, |native| native.least_charge(tx.tx.gas_limit()));
    let gas = TRANSFER_GAS.max(least);
    // The base fee burns on an Ethereum chain.
    let kept = if native.is_some() { 0 } else { u128::from(environment.block.basefee) };
    let (Some(charge), Some(fee)) =
        (wei(price, gas), price.checked_sub(kept).and_then(|p| wei(p, gas)))
    else {
        return Ok(None);
    };
    let Some(sender) = paid(overlay.account(tx.sender)?, tx, charge) else { return Ok(None) };
    let Some(receiver) = credited(overlay.account(to)?, tx.tx.value()) else { return Ok(None) };
    // To add nothing would still touch the payee, and a touched empty account is removed.
    let payee_account = overlay.account(payee)?;
    let payee_account = if fee.is_zero() {
        if payee_account.is_some_and(|account| account == Account::default()) {
            return Ok(None);
        }
        None
    } else {
        let mut account = payee_account.unwrap_or_default();
        let Some(balance) = account.balance.checked_add(fee) else { return Ok(None) };
        account.balance = balance;
        Some(account)
    };
    overlay.set(tx.sender, sender);
    overlay.set(to, receiver);
    if let Some(account) = payee_account {
        overlay.set(payee, account);
    }
    Ok(Some(gas))
}

/// The recipient and the price, if the transaction's own fields allow the short way.
fn plain(environment: &Environment, tx: &RecoveredTx) -> Option<(Address, u128)> {
    let envelope = &tx.tx;
    let known_fork = (Fork::London..=Fork::Prague).contains(&environment.fork);
    let is_transfer = envelope.ty() <= DYNAMIC_FEE_TYPE
        && envelope.input().is_empty()
        && envelope.access_list().is_none_or(|list| list.is_empty())
        && !envelope.value().is_zero()
        && envelope.gas_limit() >= TRANSFER_GAS;
    let to = envelope.to()?;
    let native = environment.native.as_ref();
    let open = native.is_none_or(|native| native.is_open() && !native.refuses_ether(to));
    if !known_fork || !is_transfer || !open || may_be_one(to) {
        return None;
    }
    if envelope.chain_id().is_some_and(|id| id != environment.cfg.chain_id) {
        return None;
    }
    let base_fee = u128::from(environment.block.basefee);
    let (cap, tip) = (envelope.max_fee_per_gas(), envelope.max_priority_fee_per_gas());
    let sound = cap >= base_fee && tip.is_none_or(|tip| tip <= cap);
    sound.then(|| (to, envelope.effective_gas_price(Some(environment.block.basefee))))
}

/// The sender after the transfer, if it may and can.
fn paid(account: Option<Account>, tx: &RecoveredTx, charge: U256) -> Option<Account> {
    let mut account = account?;
    if account.code_hash != KECCAK256_EMPTY || account.nonce != tx.tx.nonce() {
        return None;
    }
    let most = wei(tx.tx.max_fee_per_gas(), tx.tx.gas_limit())?;
    if account.balance < most.checked_add(tx.tx.value())? {
        return None;
    }
    account.nonce = account.nonce.checked_add(1)?;
    account.balance -= tx.tx.value() + charge;
    // Whether 2^64 - 1 is a nonce or one too many is the interpreter's to say.
    (account.nonce != u64::MAX).then_some(account)
}

/// The receiver after the transfer, if it is an account without code.
fn credited(account: Option<Account>, value: U256) -> Option<Account> {
    let mut account = account.unwrap_or_default();
    account.balance = account.balance.checked_add(value)?;
    (account.code_hash == KECCAK256_EMPTY).then_some(account)
}

/// `None` above 128 bits, where the interpreter's own sums saturate.
fn wei(price: u128, gas: u64) -> Option<U256> {
    price.checked_mul(u128::from(gas)).map(U256::from)
}
