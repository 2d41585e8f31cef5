//! The checks a transaction passes before it may enter the mempool, cheapest first.

use crate::{
    chain::ChainSpec,
    execution::{RecoveredTx, Transaction},
    mempool::Reject,
};
use alloy_consensus::{Header, Transaction as _};
use alloy_eips::eip7702::constants::EIP7702_DELEGATION_DESIGNATOR;
use alloy_primitives::KECCAK256_EMPTY;
use revm::{
    interpreter::gas::calculate_initial_tx_gas,
    primitives::{eip3860::MAX_INITCODE_SIZE, hardfork::SpecId},
};
use storage::{Account, StateRead};

/// Checks that need no state.
pub(super) fn stateless(tx: &RecoveredTx, spec: &ChainSpec, head: &Header) -> Result<(), Reject> {
    let envelope = &tx.tx;
    if matches!(envelope, Transaction::Eip4844(_)) {
        return Err(Reject::TypeNotSupported);
    }
    match envelope.chain_id() {
        Some(have) if have != spec.chain_id => {
            return Err(Reject::ChainId { have, want: spec.chain_id });
        }
        None => return Err(Reject::Unprotected),
        Some(_) => {}
    }
    if tx.high_s {
        return Err(Reject::InvalidSender);
    }
    let (gas, limit) = (envelope.gas_limit(), head.gas_limit);
    if gas > limit {
        return Err(Reject::BlockGasLimit { gas, limit });
    }
    let cap = envelope.max_fee_per_gas();
    if let Some(tip) = envelope.max_priority_fee_per_gas().filter(|tip| *tip > cap) {
        return Err(Reject::TipAboveCap { tip, cap });
    }
    let size = envelope.input().len();
    if envelope.is_create() && size > MAX_INITCODE_SIZE {
        return Err(Reject::InitCodeSize { size, limit: MAX_INITCODE_SIZE });
    }
    if let Transaction::Eip7702(set_code) = envelope
        && set_code.tx().authorization_list.is_empty()
    {
        return Err(Reject::EmptySetCode);
    }
    let needed = minimum_gas(envelope);
    if gas < needed {
        return Err(Reject::IntrinsicGas { gas, needed });
    }
    Ok(())
}

/// Gas a transaction needs before it runs: intrinsic (EIP-2028, 2930, 3860, 7702), and at least
/// the calldata floor (EIP-7623).
fn minimum_gas(tx: &Transaction) -> u64 {
    let (accounts, slots) = tx.access_list().map_or((0, 0), |list| {
        (list.len() as u64, list.iter().map(|item| item.storage_keys.len() as u64).sum())
    });
    let authorizations = tx.authorization_list().map_or(0, |list| list.len() as u64);
    let gas = calculate_initial_tx_gas(
        SpecId::PRAGUE,
        tx.input(),
        tx.is_create(),
        accounts,
        slots,
        authorizations,
        None,
    );
    gas.initial_total_gas().max(gas.floor_gas)
}

/// EIP-3607: only accounts without code may send, or with an EIP-7702 delegation.
pub(super) fn may_send<S: StateRead>(account: &Account, state: &S) -> Result<bool, S::Error> {
    if account.code_hash == KECCAK256_EMPTY || account.code_hash.is_zero() {
        return Ok(true);
    }
    Ok(state.code(account.code_hash)?.starts_with(&EIP7702_DELEGATION_DESIGNATOR))
}
