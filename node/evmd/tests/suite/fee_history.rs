//! Tests the fee history against its definition: every percentile equals the one computed by sorting the receipts,
//! whatever the transactions are and however the history is stored.

use alloy_consensus::{
    Header, SignableTransaction, Transaction as _, TxEip1559, TxEip2930, TxEip7702, TxLegacy,
};
use alloy_primitives::{Signature, U256};
use chain::Genesis;
use feehistory::fee_row;
use feehistory::{FeeColumns, FeeEntry, FeeRow, RowReader};
use proptest::prelude::*;
use transactions::Transaction;

/// A transaction's type, gas price or fee cap above the base fee, priority fee, and gas used.
type Mined = (u8, u64, u64, u64);

/// Returns transactions with few different prices and priority fees, so that many are equal.
fn mined() -> impl Strategy<Value = Mined> {
    let priority_fee = prop_oneof![0..4u64, 0..u64::MAX / 4];
    (0..4u8, 0..1000u64, priority_fee, prop_oneof![Just(21_000), 21_000..9_000_000u64])
}

fn transaction((kind, above, priority_fee, _): Mined, base_fee: u64) -> Transaction {
    let signature = Signature::new(U256::ONE, U256::ONE, false);
    let price = u128::from(base_fee) + u128::from(above);
    let (max_fee_per_gas, max_priority_fee_per_gas) = (price, u128::from(priority_fee));
    match kind {
        0 => TxLegacy { gas_price: price, ..TxLegacy::default() }.into_signed(signature).into(),
        1 => TxEip2930 { gas_price: price, ..TxEip2930::default() }.into_signed(signature).into(),
        2 => TxEip1559 { max_fee_per_gas, max_priority_fee_per_gas, ..TxEip1559::default() }
            .into_signed(signature)
            .into(),
        _ => TxEip7702 { max_fee_per_gas, max_priority_fee_per_gas, ..TxEip7702::default() }
            .into_signed(signature)
            .into(),
    }
}

/// Applies geth's algorithm to the effective gas price and the gas used in each receipt.
fn naive(receipts: &[(u128, u64)], base_fee: u64, gas_used: u64, percentiles: &[f64]) -> Vec<u128> {
    let priority_fees = receipts.iter().map(|(price, gas)| (price - u128::from(base_fee), *gas));
    let mut sorted: Vec<_> = priority_fees.collect();
    sorted.sort_unstable();
    let (mut at, mut sum) = (0, sorted.first().map_or(0, |(_, gas)| *gas));
    let reward = |percentile: &f64| {
        if sorted.is_empty() {
            return 0;
        }
        let threshold = (gas_used as f64 * percentile / 100.0) as u64;
        while sum < threshold && at < sorted.len() - 1 {
            at += 1;
            sum += sorted[at].1;
        }
        sorted[at].0
    };
    percentiles.iter().map(reward).collect()
}

fn percentiles() -> impl Strategy<Value = Vec<f64>> {
    let percentile = prop_oneof![0.0..=100.0f64, (0..=100u8).prop_map(f64::from)];
    prop::collection::vec(percentile, 0..8).prop_map(|mut list| {
        list.sort_unstable_by(f64::total_cmp);
        list.dedup();
        list
    })
}

proptest! {
    #[test]
    fn rewards_equal_those_computed_from_receipts(
        blocks in prop::collection::vec(prop::collection::vec(mined(), 0..40), 1..12),
        base_fee in 0..1u64 << 40,
        percentiles in percentiles(),
        range in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let spec = Genesis::native_dev(0).spec;
        let columns = FeeColumns::default();
        let mut expected = Vec::new();
        for (number, mined) in blocks.iter().enumerate() {
            let txs: Vec<_> = mined.iter().map(|tx| transaction(*tx, base_fee)).collect();
            let gas_used = mined.iter().map(|tx| tx.3).sum();
            let header = Header {
                number: number as u64,
                base_fee_per_gas: Some(base_fee),
                gas_used,
                gas_limit: 100_000_000,
                ..Header::default()
            };
            let gas = mined.iter().map(|tx| tx.3);
            let row = fee_row(&spec, &header, None, txs.iter().zip(gas.clone()));
            let receipts: Vec<_> =
                txs.iter().map(|tx| tx.effective_gas_price(Some(base_fee))).zip(gas).collect();
            let rewards = naive(&receipts, base_fee, gas_used, &percentiles);
            prop_assert_eq!(&row.rewards(&percentiles), &rewards);
            let stored = row.to_bytes();
            let decoded = FeeRow::read(&stored).unwrap();
            prop_assert_eq!(&decoded, &row);
            let reader = RowReader::new(&stored).unwrap();
            let read: Vec<_> = percentiles.iter().map(|p| reader.reward(*p)).collect();
            prop_assert_eq!(&read, &rewards);
            columns.push(0, number as u64, FeeEntry::new(&reader).unwrap());
            expected.push(rewards);
        }
        let (a, b) = (range.0.index(blocks.len()), range.1.index(blocks.len()));
        let (first, last) = (a.min(b), a.max(b));
        // The request is made twice because the second response is computed from data that the first one cached.
        for _ in 0..2 {
            let text = columns.answer(0, first as u64, last as u64, &percentiles).unwrap();
            let response: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let returned = response.get("reward").cloned().unwrap_or_default();
            let hex = |rewards: &Vec<u128>| -> Vec<_> {
                rewards.iter().map(|reward| format!("{reward:#x}")).collect()
            };
            let wanted: Vec<_> = expected[first..=last].iter().map(hex).collect();
            let wanted = if percentiles.is_empty() { serde_json::Value::Null } else { serde_json::json!(wanted) };
            prop_assert_eq!(returned, wanted);
        }
    }
}
