//! Checks of the sender's account.

use super::{CheckContext, Mode, Reject, stateless::intrinsic_gas};
use alloy_consensus::Transaction as _;
use alloy_eips::eip7702::constants::EIP7702_DELEGATION_DESIGNATOR;
use alloy_primitives::{Address, KECCAK256_EMPTY, U256};
use chain::Fork;
use feemarket::{Price, fee};
use storage::{Account, StateRead};
use transactions::{RecoveredTx, Transaction};

/// Length of a delegation in bytes: the designator and an address (EIP-7702).
const DELEGATION_BYTES: usize = 23;

/// The sender's account in the state. A missing one is an empty account (row 8b).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The account.
    pub account: Account,
    /// Whether it has no code, or only a delegation (EIP-3607 with the exception of EIP-7702).
    pub may_send: bool,
}

impl Sender {
    /// Reads the account, and its code if it has any.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn read<S: StateRead>(state: &S, address: Address) -> Result<Self, S::Error> {
        let account = state.account(address)?.unwrap_or_default();
        let may_send = !has_code(&account) || is_delegation(&state.code(account.code_hash)?);
        Ok(Self { account, may_send })
    }
}

/// Returns whether the account has code, including a delegation.
pub fn has_code(account: &Account) -> bool {
    account.code_hash != KECCAK256_EMPTY && !account.code_hash.is_zero()
}

/// Returns whether code is a delegation to another account (EIP-7702).
pub fn is_delegation(code: &[u8]) -> bool {
    code.len() == DELEGATION_BYTES && code.starts_with(&EIP7702_DELEGATION_DESIGNATOR)
}

/// Row 8a: the sender is not a contract.
pub(super) const fn externally_owned(sender: &Sender, address: Address) -> Result<(), Reject> {
    if sender.may_send { Ok(()) } else { Err(Reject::SenderNotEoa(address)) }
}

/// Returns the maximum cost of a transaction to its sender, in wei: gas at the fee cap, blob gas at its cap
/// (EIP-4844), and the value. A sum above 256 bits exceeds every balance.
pub fn cost(tx: &Transaction) -> U256 {
    let gas = fee(tx.gas_limit(), tx.max_fee_per_gas());
    let blob_gas = tx.blob_gas_used().map_or(U256::ZERO, |blob_gas| {
        fee(blob_gas, tx.max_fee_per_blob_gas().unwrap_or_default())
    });
    gas.saturating_add(blob_gas).saturating_add(tx.value())
}

/// Row 8c: the balance covers the maximum cost.
pub(super) fn covers_cost(account: &Account, cost: U256) -> Result<(), Reject> {
    let balance = account.balance;
    if balance < cost { Err(Reject::InsufficientFunds { balance, cost }) } else { Ok(()) }
}

/// Row 9a: the fee cap, or the gas price of a legacy transaction, is at least the base fee.
pub(super) fn reaches_base_fee(price: Price, base_fee: u64) -> Result<(), Reject> {
    let cap = price.fee_cap();
    if cap < u128::from(base_fee) {
        return Err(Reject::FeeCapBelowBaseFee { cap, base_fee });
    }
    Ok(())
}

/// EIP-4844: the fee cap of blob gas is at least its price.
pub(super) fn reaches_blob_base_fee(
    tx: &Transaction,
    context: &CheckContext<'_>,
) -> Result<(), Reject> {
    let base_fee = context.blobs.map_or(0, |rules| rules.base_fee);
    match tx.max_fee_per_blob_gas() {
        Some(cap) if cap < base_fee => Err(Reject::BlobFeeCapBelowBaseFee { cap, base_fee }),
        _ => Ok(()),
    }
}

/// Row 9b: the balance covers the value.
pub(super) fn owns_value(account: &Account, value: U256, sender: Address) -> Result<(), Reject> {
    if value > account.balance { Err(Reject::Transfer { value, sender }) } else { Ok(()) }
}

/// Rows 10a to 10c: the full fee is deducted before the transaction is executed. Returns the fee, in wei.
pub(super) fn deduct_fee(
    tx: &RecoveredTx,
    price: Price,
    base_fee: u64,
    account: &Account,
    fork: Fork,
    mode: Mode,
) -> Result<U256, Reject> {
    let gas = tx.tx.gas_limit();
    if mode == Mode::Recheck {
        // The other modes check this in `check_rules`, which a recheck omits.
        let (intrinsic, _) = intrinsic_gas(&tx.tx, fork);
        if gas < intrinsic {
            return Err(Reject::GasBelowIntrinsic { gas, intrinsic });
        }
    }
    let cap = price.fee_cap();
    if cap < u128::from(base_fee) {
        return Err(Reject::FeeCapBelowTxBaseFee { cap, base_fee });
    }
    let fee = fee(gas, price.effective(u128::from(base_fee)));
    if account.balance < fee {
        return Err(Reject::Deduction { fee, sender: tx.sender });
    }
    Ok(fee)
}

/// The position of a transaction among those of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the next one.
    Next,
    /// It follows other transactions, which the pool has or waits for.
    Ahead,
}

/// Row 12: the order of nonces. Only a pool accepts a nonce above the account's next one.
pub(super) fn nonce_order(
    nonce: u64,
    account: &Account,
    sender: Address,
    mode: Mode,
) -> Result<Standing, Reject> {
    let next = account.nonce;
    if nonce == u64::MAX {
        return Err(Reject::NonceExhausted(sender));
    }
    if nonce < next {
        return Err(Reject::NonceTooLow { next, nonce });
    }
    if nonce == next {
        return Ok(Standing::Next);
    }
    match mode {
        Mode::Check | Mode::Recheck => Ok(Standing::Ahead),
        Mode::Deliver | Mode::Simulate => Err(Reject::NonceTooHigh { next, nonce }),
    }
}
