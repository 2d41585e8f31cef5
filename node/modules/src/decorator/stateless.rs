//! Checks that need no account: the transaction's own fields, its signature, and permissions.

use super::{CheckContext, Reject};
use alloy_consensus::{Transaction as _, Typed2718};
use chain::{AccessType, Fork};
use revm::interpreter::gas::calculate_initial_tx_gas;
use transactions::{RecoveredTx, Transaction};

/// Checks the type against the block's fork. A native chain accepts no blob transactions (type 3).
pub(super) fn supported_type(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let first = match tx {
        Transaction::Legacy(_) => return Ok(()),
        Transaction::Eip2930(_) => Fork::Berlin,
        Transaction::Eip1559(_) => Fork::London,
        Transaction::Eip4844(_) => Fork::Cancun,
        Transaction::Eip7702(_) => Fork::Prague,
    };
    if context.fork < first {
        // Before Berlin there are no typed transactions, so geth names that fork for each type.
        let fork = if context.fork < Fork::Berlin { Fork::Berlin } else { first };
        return Err(Reject::TypeNotActive { tx_type: tx.ty(), fork });
    }
    if tx.is_eip4844() && context.blobs.is_none() {
        return Err(Reject::TypeNotSupported);
    }
    Ok(())
}

/// Row 7a: transactions are protected (EIP-155), unless the chain also accepts unprotected ones. Blocks before the
/// fork of EIP-155 reject protected ones.
pub(super) fn protected(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let is_protected = tx.chain_id().is_some();
    if !context.replay_protection {
        return if tx.is_legacy() && is_protected { Err(Reject::InvalidSender) } else { Ok(()) };
    }
    if !is_protected && !context.evm.allow_unprotected_txs {
        return Err(Reject::Unprotected);
    }
    Ok(())
}

/// Row 7b: a transaction with a chain id has that of this chain.
pub(super) fn chain_id(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    match tx.chain_id() {
        Some(have) if have != context.chain_id => {
            Err(Reject::ChainId { have, want: context.chain_id })
        }
        _ => Ok(()),
    }
}

/// Row 7c: the sender has been recovered, so only malleability remains to be checked (EIP-2).
pub(super) const fn signature(tx: &RecoveredTx) -> Result<(), Reject> {
    if tx.high_s { Err(Reject::InvalidSender) } else { Ok(()) }
}

/// Row 0b: checks of the transaction's own fields under the rules of the block's fork.
pub(super) fn self_check(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    priority_fee_within_cap(tx)?;
    init_code_size(tx, context)?;
    authorizations_present(tx)?;
    number_of_blobs(tx, context)?;
    enough_gas(tx, context)?;
    gas_within_cap(tx, context)
}

fn priority_fee_within_cap(tx: &Transaction) -> Result<(), Reject> {
    let cap = tx.max_fee_per_gas();
    match tx.max_priority_fee_per_gas() {
        Some(tip) if tip > cap => Err(Reject::TipAboveCap { tip, cap }),
        _ => Ok(()),
    }
}

/// EIP-3860: the maximum size of init code.
fn init_code_size(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let size = tx.input().len();
    match context.fork.max_init_code_bytes() {
        Some(limit) if tx.is_create() && size > limit => Err(Reject::InitCodeSize { size, limit }),
        _ => Ok(()),
    }
}

/// EIP-7702: there is an authorization. The encoding ensures that there is a recipient.
fn authorizations_present(tx: &Transaction) -> Result<(), Reject> {
    match tx.authorization_list() {
        Some([]) => Err(Reject::EmptySetCode),
        _ => Ok(()),
    }
}

/// EIP-4844: the number of blobs. The blobs themselves were verified when the sidecar was removed.
fn number_of_blobs(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let (Some(blobs), Some(rules)) = (tx.blob_count(), &context.blobs) else { return Ok(()) };
    if blobs == 0 {
        return Err(Reject::Blobless);
    }
    if blobs > rules.per_tx {
        return Err(Reject::TooManyBlobs { have: blobs, permitted: rules.per_tx });
    }
    Ok(())
}

fn enough_gas(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let (intrinsic, floor) = intrinsic_gas(tx, context.fork);
    let gas = tx.gas_limit();
    if gas < intrinsic {
        return Err(Reject::IntrinsicGas { gas, needed: intrinsic });
    }
    if gas < floor {
        return Err(Reject::FloorGas { gas, needed: floor });
    }
    Ok(())
}

fn gas_within_cap(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let gas = tx.gas_limit();
    match context.fork.max_tx_gas() {
        Some(cap) if gas > cap => Err(Reject::TxGasCap { gas, cap }),
        _ => Ok(()),
    }
}

/// Returns the intrinsic gas of a transaction under a fork (EIP-2, 2028, 2930, 3860, 7702), and the minimum gas
/// for its call data (EIP-7623; zero before Prague).
pub(super) fn intrinsic_gas(tx: &Transaction, fork: Fork) -> (u64, u64) {
    let (accounts, slots) = tx.access_list().map_or((0, 0), |list| {
        (list.len() as u64, list.iter().map(|item| item.storage_keys.len() as u64).sum())
    });
    let authorizations = tx.authorization_list().map_or(0, |list| list.len() as u64);
    let gas = calculate_initial_tx_gas(
        fork.spec_id(),
        tx.input(),
        tx.is_create(),
        accounts,
        slots,
        authorizations,
        None,
    );
    (gas.initial_total_gas(), gas.floor_gas)
}

/// Row 2: since London there is a base fee, which may be zero. Returns the base fee in wei; zero if there is none.
pub(super) fn known_base_fee(context: &CheckContext<'_>) -> Result<u64, Reject> {
    match context.base_fee {
        None if context.london => Err(Reject::BaseFeeUnknown),
        base_fee => Ok(base_fee.unwrap_or_default()),
    }
}

/// Row 6: operations that are disabled for all accounts. Address lists are checked inside the EVM, where every
/// caller is known.
pub(super) fn permission(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let rules = &context.evm.access_control;
    if tx.is_create() {
        if rules.create.access_type == AccessType::Restricted {
            return Err(Reject::CreateDisabled);
        }
    } else if rules.call.access_type == AccessType::Restricted {
        return Err(Reject::CallDisabled);
    }
    Ok(())
}

/// Rows 13 and 16: the gas limit is at most that of the block.
pub(super) fn within_block(tx: &Transaction, context: &CheckContext<'_>) -> Result<(), Reject> {
    let (gas, limit) = (tx.gas_limit(), context.block_gas_limit);
    if gas > limit { Err(Reject::BlockGasLimit { gas, limit }) } else { Ok(()) }
}
