//! Creates the fee-history row of a block from its header and transactions.

use super::{FeeRow, Tip};
use alloy_consensus::{Header, Transaction as _};
use chain::{ChainSpec, Fork, next_base_fee, next_excess_blob_gas};
use feemarket::Market;
use transactions::Transaction;

/// Creates the fee-history row of a block. `gas` is the gas that each transaction was charged, in block order.
/// `market` is the fee market of a native chain after the block.
pub fn fee_row<'a>(
    spec: &ChainSpec,
    header: &Header,
    market: Option<&Market>,
    txs: impl Iterator<Item = (&'a Transaction, u64)>,
) -> FeeRow {
    let base_fee = header.base_fee_per_gas.unwrap_or(0);
    let tips = txs.map(|(tx, gas)| Tip {
        // Before London the base fee is 0, so the whole price counts. The fee cap of a mined transaction is never below
        // the base fee.
        tip: tx.effective_tip_per_gas(base_fee).unwrap_or(0),
        gas,
    });
    let tips = FeeRow::distribution(tips.collect());
    let fork = spec.fork(header.number, header.timestamp, header.difficulty.is_zero());
    let blobs = spec.blob_params(header.timestamp).zip(header.excess_blob_gas);
    FeeRow {
        base_fee,
        next_base_fee: match spec.native().zip(market) {
            Some((native, market)) => {
                market.next_base_fee_wei(header.number.saturating_add(1), native.max_gas)
            }
            // The first block of London has a base fee, but its parent has none.
            None if spec.fork_after(header, header.timestamp) >= Fork::London => {
                next_base_fee(header)
            }
            None => 0,
        },
        gas_used: header.gas_used,
        gas_limit: header.gas_limit,
        blob_gas_used: header.blob_gas_used.unwrap_or(0),
        blob_gas_max: blobs.map_or(0, |(params, _)| params.max_blob_gas_per_block()),
        blob_base_fee: blobs.map_or(0, |(params, excess)| params.calc_blob_fee(excess)),
        next_blob_base_fee: blobs.map_or(0, |(params, _)| {
            params.calc_blob_fee(next_excess_blob_gas(&params, fork, header))
        }),
        tips,
    }
}
