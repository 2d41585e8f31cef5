//! Tests gas charges, fees and refunds, and the results of failed and rejected transactions.

use super::ledger::{
    CLEAR, Chain, GWEI, INVALID, REVERT, STORE, call, collected, dev, from, legacy,
};
use alloy_primitives::{Address, U256};
use evm::TxError;
use feemarket::LegacyDec;
use modules::decorator::Reject;
use serde_json::json;

const CONTRACT: Address = Address::repeat_byte(0xcc);

/// Returns a chain whose account [`CONTRACT`] has this code, and the value 2 in slot 0.
fn chain_with(code: &[u8], multiplier: &str) -> Chain {
    let mut params = serde_json::to_value(feemarket::Params::default()).unwrap();
    params["min_gas_multiplier"] = json!(multiplier);
    let mut chain = Chain::with(json!({ "feemarket": { "params": params } }));
    chain.ledger.put(CONTRACT, U256::ZERO, code);
    let slots = &mut chain.ledger.accounts.get_mut(&CONTRACT).unwrap().1;
    slots.insert(U256::ZERO, U256::from(2));
    chain
}

#[test]
fn minimum_charge_is_a_share_of_the_limit() {
    for (gas_limit, multiplier, charged) in [
        (21_000, "0.5", 21_000),
        (42_000, "0.5", 21_000),
        (42_001, "0.5", 21_000),
        (100_000, "0.5", 50_000),
        (21_001, "1", 21_001),
        (300_000, "0", 21_000),
        (1_000_001, "0.333333333333333333", 333_333),
    ] {
        let mut chain = chain_with(&[], multiplier);
        let before = chain.ledger.get(dev(0)).balance;
        let built = chain.block(&[from(dev(0), call(0, dev(1), gas_limit))]);
        assert_eq!(built.verdicts, [Ok(charged)], "{gas_limit} x {multiplier}");
        assert_eq!(built.executed.receipts[0].cumulative_gas_used, charged);
        assert_eq!((built.executed.gas_used, built.executed.tx_gas[0]), (charged, charged));
        assert_eq!(built.executed.gas_wanted, gas_limit);
        let price = 875_000_000 + GWEI / 10;
        let fee = U256::from(charged) * U256::from(price);
        assert_eq!(collected(&chain), fee, "the whole base fee and priority fee");
        assert_eq!(chain.ledger.get(dev(0)).balance, before - fee, "the rest is returned");
        assert_eq!(chain.ledger.get(built.header.beneficiary).balance, U256::ZERO);
        let share = LegacyDec::from(gas_limit).checked_mul(multiplier.parse().unwrap()).unwrap();
        assert_eq!(chain.modules.market.block_gas(), charged.max(share.truncate_u64().unwrap()));
    }
}

#[test]
fn refunds_are_applied_before_the_minimum_charge() {
    // 21,000 + 5,004 for the code, minus 4,800 (EIP-3529).
    let mut chain = chain_with(CLEAR, "0.5");
    let built = chain.block(&[from(dev(0), legacy(0, CONTRACT, 30_000))]);
    assert_eq!(built.verdicts, [Ok(26_004 - 4_800)]);
    let mut chain = chain_with(CLEAR, "0.5");
    let built = chain.block(&[from(dev(0), legacy(0, CONTRACT, 60_000))]);
    assert_eq!(built.verdicts, [Ok(30_000)], "the minimum charge is higher");
}

#[test]
fn failed_call_pays_and_uses_its_nonce() {
    for (code, charged) in [(REVERT, 50_000), (INVALID, 100_000)] {
        let mut chain = chain_with(code, "0.5");
        let sent = from(dev(0), legacy(0, CONTRACT, 100_000));
        let built = chain.block(&[sent]);
        assert_eq!(built.verdicts, [Ok(charged)]);
        assert!(!built.succeeded(0));
        assert_eq!(chain.ledger.get(dev(0)).nonce, 1);
        assert_eq!(collected(&chain), U256::from(charged) * U256::from(2 * GWEI));
        assert_eq!(built.executed.gas_wanted, 100_000, "gas wanted is the limit");
    }
}

#[test]
fn rejected_transaction_changes_nothing() {
    let mut chain = chain_with(STORE, "0.5");
    let cheap = alloy_consensus::TxLegacy { gas_price: 1, ..legacy(0, CONTRACT, 50_000) };
    let value = U256::MAX;
    let rejected = [
        from(dev(0), cheap),
        from(dev(0), legacy(7, CONTRACT, 50_000)),
        from(dev(0), alloy_consensus::TxLegacy { value, ..legacy(0, CONTRACT, 50_000) }),
        from(CONTRACT, legacy(0, dev(0), 50_000)),
        from(dev(0), legacy(0, CONTRACT, 20_000)),
        from(dev(0), alloy_consensus::TxLegacy { chain_id: None, ..legacy(0, dev(1), 21_000) }),
        from(dev(0), alloy_consensus::TxLegacy { chain_id: Some(1), ..legacy(0, dev(1), 21_000) }),
    ];
    let built = chain.block(&rejected);
    let labels: Vec<_> = built
        .verdicts
        .iter()
        .map(|verdict| match verdict {
            Err(TxError::Rejected(reject)) => reject.label(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        "fee_cap_too_low",
        "nonce_too_high",
        "insufficient_funds",
        "sender_not_eoa",
        "intrinsic_gas",
        "unprotected",
        "chain_id",
    ];
    assert_eq!(labels, expected);
    let mut empty = chain_with(STORE, "0.5");
    let nothing = empty.block(&[]);
    assert_eq!(built.executed, nothing.executed);
    assert_eq!((chain.ledger, chain.modules), (empty.ledger, empty.modules));
}

#[test]
fn without_a_base_fee_only_the_priority_fee_is_paid() {
    let mut params = serde_json::to_value(feemarket::Params::default()).unwrap();
    params["no_base_fee"] = json!(true);
    params["min_gas_price"] = json!("3");
    let mut chain = Chain::with(json!({ "feemarket": { "params": params } }));
    assert_eq!(chain.header.base_fee_per_gas, Some(0));
    let paying = |max_priority_fee_per_gas| alloy_consensus::TxEip1559 {
        max_priority_fee_per_gas,
        ..call(0, dev(1), 21_000)
    };
    let built = chain.block(&[from(dev(0), paying(2)), from(dev(0), paying(3))]);
    let below = Err(TxError::Rejected(Reject::GlobalMinimum {
        fee: U256::from(42_000),
        required: U256::from(63_000),
    }));
    assert_eq!(built.verdicts, [below, Ok(21_000)]);
    assert_eq!(collected(&chain), U256::from(63_000));
    assert_eq!(built.executed.gas_wanted, 0, "not counted");
    assert_eq!(chain.modules.market.block_gas(), 21_000);
}

#[test]
fn without_a_gas_limit_the_base_fee_decreases() {
    let mut chain = Chain::with(json!({ "maxGas": -1 }));
    assert_eq!(chain.header.gas_limit, u64::from(u32::MAX));
    let built = chain.block(&[from(dev(0), call(0, dev(1), 21_000))]);
    assert_eq!(built.header.base_fee_per_gas, Some(875_000_000));
    let built = chain.block(&[]);
    assert_eq!(built.header.base_fee_per_gas, Some(765_625_000), "every block looks empty");
    // The first block used 21,000 gas of a target of 2^63 - 1.
    let fee = "765625000.000000249027686493".parse().unwrap();
    assert_eq!(chain.modules.market.base_fee(), Some(fee));
}

#[test]
fn base_fee_of_a_token_with_six_decimals_is_scaled_to_wei() {
    let params = json!({
        "base_fee_change_denominator": 8, "elasticity_multiplier": 2, "base_fee": "0.01",
        "min_gas_price": "0", "min_gas_multiplier": "0.5",
    });
    let mut chain = Chain::with(json!({ "tokenDecimals": 6, "feemarket": { "params": params } }));
    assert_eq!(chain.header.base_fee_per_gas, Some(10_000_000_000));
    let built = chain.block(&[]);
    assert_eq!(built.header.base_fee_per_gas, Some(8_750_000_000));
}
