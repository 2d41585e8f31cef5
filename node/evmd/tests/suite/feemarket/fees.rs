//! Tests the fee of a transaction and the gas that a block reports.

use super::dec;
use alloy_primitives::U256;
use feemarket::{GasWanted, LegacyDec, Price, block_gas, charge, fee};
use proptest::prelude::*;

const BASE_FEE: u128 = 875_000_000;

/// A transaction with its expected charge and fees. Prices are in wei per gas, and amounts in wei.
struct Example {
    price: Price,
    /// Gas limit and gas used.
    gas: (u64, u64),
    effective: u128,
    escrow: u128,
    balance: u128,
    charged: u64,
    fee: u128,
    priority: i64,
}

#[test]
fn fees_match_worked_examples() {
    let fixed = |gas_price| Price::Fixed { gas_price };
    let dynamic = |fee_cap, tip_cap| Price::Dynamic { fee_cap, tip_cap };
    let row = |price, gas, effective, escrow, balance, charged, fee, priority| Example {
        price,
        gas,
        effective,
        escrow,
        balance,
        charged,
        fee,
        priority,
    };
    let (tera, plain) = (1_000_000_000_000, (21_000, 21_000));
    let examples = [
        row(
            fixed(1_000_000_000),
            plain,
            1_000_000_000,
            21 * tera,
            21 * tera,
            21_000,
            21 * tera,
            125,
        ),
        row(
            fixed(2_000_000_000),
            (50_000, 26_100),
            2_000_000_000,
            100 * tera,
            100 * tera,
            26_100,
            52_200_000_000_000,
            1125,
        ),
        row(
            dynamic(2_000_000_000, 100_000_000),
            (100_000, 21_000),
            975_000_000,
            97_500_000_000_000,
            200 * tera,
            50_000,
            48_750_000_000_000,
            100,
        ),
        row(
            dynamic(900_000_000, 900_000_000),
            plain,
            900_000_000,
            18_900_000_000_000,
            18_900_000_000_000,
            21_000,
            18_900_000_000_000,
            25,
        ),
        row(
            dynamic(875_000_000, 0),
            plain,
            875_000_000,
            18_375_000_000_000,
            18_375_000_000_000,
            21_000,
            18_375_000_000_000,
            0,
        ),
        row(
            dynamic(3_000_000_000, 500_000_000),
            (80_000, 36_800),
            1_375_000_000,
            110 * tera,
            240 * tera,
            40_000,
            55 * tera,
            500,
        ),
    ];
    for example in examples {
        let (limit, used) = example.gas;
        let price = example.price;
        assert_eq!(price.effective(BASE_FEE), example.effective, "{price:?}");
        assert_eq!(fee(limit, price.effective(BASE_FEE)), U256::from(example.escrow), "{price:?}");
        assert_eq!(fee(limit, price.fee_cap()), U256::from(example.balance), "{price:?}");
        let charged = charge(used, limit, dec("0.5"));
        assert_eq!(charged, example.charged, "{price:?}");
        assert_eq!(fee(charged, price.effective(BASE_FEE)), U256::from(example.fee), "{price:?}");
        assert_eq!(price.priority(BASE_FEE), Some(example.priority), "{price:?}");
    }
}

#[test]
fn effective_prices_are_capped_and_priorities_clamped() {
    let dynamic = Price::Dynamic { fee_cap: 10, tip_cap: 3 };
    assert_eq!(dynamic.effective(0), 3, "without a base fee, only the priority fee is paid");
    assert_eq!(dynamic.effective_tip(9), Some(1));
    assert_eq!(dynamic.effective_tip(10), Some(0));
    assert_eq!(dynamic.effective_tip(11), None);
    assert_eq!(dynamic.priority(11), None);
    let fixed = Price::Fixed { gas_price: 10 };
    assert_eq!((fixed.effective(99), fixed.effective_tip(11)), (10, None));
    let uncapped = Price::Dynamic { fee_cap: u128::MAX, tip_cap: u128::MAX };
    assert_eq!(uncapped.effective(5), u128::MAX);
    assert_eq!(uncapped.priority(0), Some(i64::MAX), "clamped");
    let max = fee(u64::MAX, u128::MAX);
    assert_eq!(max / U256::from(u128::MAX), U256::from(u64::MAX));
}

#[test]
fn charges_match_worked_examples() {
    for (limit, used, multiplier, charged) in [
        (21_000, 21_000, "0.5", 21_000),
        (42_000, 21_000, "0.5", 21_000),
        (42_001, 21_000, "0.5", 21_000),
        (100_000, 21_000, "0.5", 50_000),
        (21_001, 21_000, "1", 21_001),
        (300_000, 46_123, "0", 46_123),
        (1_000_001, 100, "0.333333333333333333", 333_333),
    ] {
        assert_eq!(charge(used, limit, dec(multiplier)), charged, "{used} of {limit}");
    }
}

#[test]
fn block_gas_matches_worked_examples() {
    for (wanted, consumed, multiplier, gas) in [
        (5_000_000, 0, "0.5", 2_500_000),
        (5_000_000, 3_000_000, "0.5", 3_000_000),
        (5_000_001, 0, "0.5", 2_500_000),
        (7, 3, "0.5", 3),
        (100_000, 21_000, "0.5", 50_000),
        (30_000_000, 12_345_678, "0.333333333333333333", 12_345_678),
        (3, 0, "0.333333333333333333", 0),
        (9, 0, "0", 0),
        (9, 4, "1", 9),
    ] {
        assert_eq!(block_gas(wanted, consumed, dec(multiplier)), Ok(gas), "{wanted}, {consumed}");
    }
}

#[test]
fn gas_past_63_bits_is_rejected_and_changes_nothing() {
    let max = i64::MAX as u64;
    assert!(block_gas(max + 1, 0, LegacyDec::ZERO).is_err());
    assert!(block_gas(0, max + 1, LegacyDec::ZERO).is_err());
    assert_eq!(block_gas(max, max, LegacyDec::ONE), Ok(max));
    let mut wanted = GasWanted::default();
    wanted.add(max - 5).unwrap();
    assert!(wanted.add(6).is_err() && wanted.add(u64::MAX).is_err());
    assert_eq!(wanted.get(), max - 5);
    wanted.add(5).unwrap();
    assert_eq!(wanted.get(), max);
}

proptest! {
    /// The charge is the product of limit and multiplier, or the gas used if that is more.
    #[test]
    fn charge_is_the_gas_used_or_a_share_of_the_limit(limit: u64, used: u64, parts in 0..=1_000_u32) {
        let multiplier = LegacyDec::from(u64::from(parts)).quo_int(U256::from(1_000)).unwrap();
        let charged = charge(used, limit, multiplier);
        let share = u128::from(limit) * u128::from(parts) / 1_000;
        prop_assert_eq!(u128::from(charged), share.max(used.into()));
    }
}
