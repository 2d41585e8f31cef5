//! The checks of a Cosmos transaction, with the results that the pool and the block need for any transaction.

use super::{
    Admitted, CheckContext, Mode, Reject, Sender, Standing,
    account::{self, externally_owned},
    steps,
};
use alloy_consensus::Transaction as _;
use alloy_primitives::U256;
use chain::Token;
use feemarket::LegacyDec;
use transactions::code;
use transactions::{
    RecoveredTx,
    cosmos::{self, ChainFacts, CosmosTx},
};

/// Priorities are in units of 10^6 wei per gas.
const PRIORITY_UNIT: U256 = U256::from_limbs([1_000_000, 0, 0, 0]);

impl CheckContext<'_> {
    fn token(&self) -> Token<'_> {
        Token { denom: &self.evm.evm_denom, unit: self.token_unit }
    }

    /// Returns the context for checking a Cosmos transaction.
    pub fn cosmos_facts(&self, mode: Mode) -> ChainFacts<'_> {
        let minimum = if mode.is_in_pool() { self.mempool_min_gas_price } else { LegacyDec::ZERO };
        ChainFacts {
            prefix: self.bech32_prefix,
            token: self.token(),
            rules: self.rules,
            height: self.height,
            base_fee: self.cosmos_base_fee,
            gas_limit: self.block_gas_limit,
            min_gas_price: self.min_gas_price,
            mempool_min_gas_price: minimum,
        }
    }
}

/// Returns whether a transaction is rejected only because of the block's base fee or blob base fee, so that it may
/// wait for a lower one.
pub fn awaits_base_fee(tx: &RecoveredTx, context: &CheckContext<'_>, reject: &Reject) -> bool {
    match (reject, &tx.cosmos) {
        (Reject::FeeCapBelowBaseFee { .. } | Reject::BlobFeeCapBelowBaseFee { .. }, _) => true,
        // The SDK uses this code also for a price below the minimum of the chain or of the pool.
        (Reject::Cosmos(refusal), Some(cosmos)) if refusal.code == code::INSUFFICIENT_FEE => {
            let (price, token) = (&cosmos.price, context.token());
            price.reaches_minimum(context.min_gas_price, token).is_ok()
                && price.reaches_mempool_minimum(context.mempool_min_gas_price, token).is_ok()
        }
        _ => false,
    }
}

/// Does the same as [`super::check_sender`] for a Cosmos transaction. Its signature and its own fields were
/// checked during recovery.
pub(super) fn check_cosmos(
    tx: &RecoveredTx,
    cosmos: &CosmosTx,
    context: &CheckContext<'_>,
    sender: &Sender,
    mode: Mode,
) -> Result<Admitted, Reject> {
    let facts = context.cosmos_facts(mode);
    externally_owned(sender, tx.sender)?;
    let passed = cosmos::check(cosmos, &facts, &sender.account)?;
    let ahead = mode.is_in_pool()
        && cosmos.sequence() > sender.account.nonce
        && cosmos.sequence() < u64::MAX;
    if !ahead {
        cosmos::check_sequence(cosmos, &sender.account)?;
    }
    let gas_wanted = steps::gas_wanted(tx.tx.gas_limit(), context)?;
    let excess = passed.price.checked_sub(context.cosmos_base_fee).unwrap_or_default();
    let priority_fee = excess.truncate_u256().unwrap_or(U256::MAX);
    Ok(Admitted {
        sender: *sender,
        standing: if ahead { Standing::Ahead } else { Standing::Next },
        effective_price: passed
            .price
            .truncate_u256()
            .map_or(u128::MAX, |price| price.saturating_to()),
        priority: (priority_fee / PRIORITY_UNIT).saturating_to(),
        cost: account::cost(&tx.tx),
        escrow: passed.fee,
        gas_wanted,
    })
}
