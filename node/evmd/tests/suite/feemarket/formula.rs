//! Tests the base-fee formula.

use super::dec;
use crate::common::fixtures;
use alloy_consensus::Header;
use alloy_primitives::{U256, U512, aliases::I512};
use feemarket::{Inputs, LegacyDec, TokenDecimals, block_gas_limit, gas_target, next_base_fee};
use proptest::prelude::*;
use serde::Deserialize;

fn next(
    used: u64,
    max_gas: i64,
    (elasticity, denominator): (u32, u32),
    base: &str,
    (decimals, floor): (u8, &str),
) -> LegacyDec {
    let limit = block_gas_limit(Some(max_gas)).unwrap();
    next_base_fee(&Inputs {
        used,
        target: gas_target(limit, elasticity).unwrap(),
        denominator: denominator.into(),
        base: dec(base),
        unit: TokenDecimals::new(decimals).unwrap().unit(),
        floor: dec(floor),
    })
    .unwrap()
}

#[test]
fn next_base_fee_matches_worked_examples() {
    const TEN: i64 = 10_000_000;
    let (std, wei) = ((2, 8), (18, "0"));
    let raised = (18, "1500000000");
    let deep = "123456789.123456789123456789";
    let rows = [
        ("A", 0, TEN, std, "1000000000", wei, "875000000"),
        ("B", 0, TEN, std, "875000000", wei, "765625000"),
        ("C", 10_000_000, TEN, std, "1000000000", wei, "1125000000"),
        ("D", 7_500_000, TEN, std, "1000000000", wei, "1062500000"),
        ("E", 2_500_000, TEN, std, "1000000000", wei, "937500000"),
        ("F", 5_000_001, TEN, std, "1000", wei, "1001"),
        ("G", 5_000_001, TEN, std, "1000", (6, "0"), "1000.000025"),
        ("H", 2_500_000, TEN, std, "1000000000", (18, "950000000"), "950000000"),
        ("I", 3_333_333, TEN, std, "1000000000", wei, "958333325"),
        ("J", 6_666_667, TEN, (3, 7), deep, wei, "141093478.574956393389819303"),
        ("K", 21_000, -1, std, "1000000000", wei, "875000000.000000284603070278"),
        ("L", 100, 100, std, "875000000", wei, "984375000"),
        ("M", 25, 100, std, "875000000", wei, "820312500"),
        ("N", 25, 100, std, "875000000", raised, "1500000000"),
        ("O", 50, 100, std, "875000000", raised, "875000000"),
        ("P", 100, 100, std, "875000000", raised, "984375000"),
        ("Q", 29_000_000, 30_000_000, std, "1000000000", wei, "1116666666.666666666666666666"),
        ("R", 20_000_000, 20_000_000, (4, 4), "1000000000", wei, "1750000000"),
        ("S", 0, 0, std, "1000000000", wei, "1000000000"),
        ("T", 1, 0, std, "1000000000", (18, "5"), "0"),
        ("U", 10, 10, std, "0", wei, "1"),
        ("V", 0, TEN, std, "0.000000000000000007", wei, "0.000000000000000007"),
        ("W", 0, TEN, std, "0.000000000000000008", wei, "0.000000000000000007"),
        ("X1", 0, TEN, std, "0.01", (6, "0"), "0.00875"),
        ("X2", 5_000_000, TEN, std, "0.01", (6, "0"), "0.01"),
        ("X3", 10_000_000, TEN, std, "0.01", (6, "0"), "0.01125"),
    ];
    for (name, used, max_gas, curve, base, token, expected) in rows {
        assert_eq!(next(used, max_gas, curve, base, token), dec(expected), "example {name}");
    }
}

#[test]
fn units_and_factors_follow_from_the_decimals() {
    for (decimals, unit, factor) in [
        (18, "1", 1),
        (8, "0.0000000001", 10_000_000_000),
        (6, "0.000000000001", 1_000_000_000_000),
        (2, "0.0000000000000001", 10_000_000_000_000_000),
        (1, "0.00000000000000001", 100_000_000_000_000_000),
    ] {
        let token = TokenDecimals::new(decimals).unwrap();
        assert_eq!((token.unit(), token.conversion_factor()), (dec(unit), factor), "{decimals}");
    }
    assert!(TokenDecimals::new(0).is_err() && TokenDecimals::new(19).is_err());
}

#[test]
fn base_fees_are_scaled_to_wei() {
    for (base_fee, decimals, wei) in [
        ("1000000000", 18, 1_000_000_000),
        ("875000000.000000284603070278", 18, 875_000_000),
        ("0.01", 6, 10_000_000_000),
        ("0.00000000123456789", 8, 12),
        ("0.000000000000000007", 18, 0),
        ("0.000000000000000007", 6, 0),
        ("1000.000025", 6, 1_000_000_025_000_000_u64),
    ] {
        let scaled = TokenDecimals::new(decimals).unwrap().to_wei(dec(base_fee)).unwrap();
        assert_eq!(scaled.truncate_u64(), Some(wei), "{base_fee} with {decimals} decimals");
    }
}

#[test]
fn drift_over_blocks_matches_worked_examples() {
    let drift = |used, curve, blocks| {
        let mut base = "1000000000".to_owned();
        for _ in 0..blocks {
            base = next(used, 1000, curve, &base, (18, "0")).to_string();
        }
        let percent = base.parse::<f64>().unwrap() / 1e7 - 100.0;
        (percent * 10.0).round() / 10.0
    };
    for ((denominator, elasticity), rise_5, fall_5, fall_10) in [
        ((8, 2), 80.2, -48.7, -73.7),
        ((16, 2), 35.4, -27.6, -47.6),
        ((4, 2), 205.2, -76.3, -94.4),
        ((32, 2), 16.6, -14.7, -27.2),
    ] {
        let curve = (elasticity, denominator);
        assert_eq!(drift(1000, curve, 5), rise_5, "{curve:?}");
        assert_eq!(drift(0, curve, 5), fall_5, "{curve:?}");
        assert_eq!(drift(0, curve, 10), fall_10, "{curve:?}");
    }
    assert_eq!(drift(1000, (4, 4), 5).round(), 1541.0);
    assert_eq!(drift(1000, (2, 8), 10), 224.7);
}

#[test]
fn gas_limits_and_targets_are_checked() {
    assert_eq!(block_gas_limit(None), Ok(u64::MAX));
    assert_eq!(block_gas_limit(Some(-1)), Ok(u64::MAX));
    assert_eq!(block_gas_limit(Some(0)), Ok(0));
    assert_eq!(block_gas_limit(Some(i64::MAX)), Ok(i64::MAX as u64));
    assert!(block_gas_limit(Some(-2)).is_err());
    assert_eq!(gas_target(u64::MAX, 2), Some(9_223_372_036_854_775_807));
    assert_eq!(gas_target(7, 10), Some(0));
    assert_eq!(gas_target(7, 0), None);
}

/// A vector of Hyperledger Besu. The vectors follow a draft of EIP-1559 that rounds a decrease up, to at least 1 wei
/// and at most an eighth of the fee. The final version rounds it down, so that the fee may stay the same.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DraftVector {
    parent_base_fee: u64,
    parent_gas_used: u64,
    parent_target_gas_used: u64,
    expected_base_fee: u64,
}

impl DraftVector {
    /// The gas used, capped at the gas limit, which is twice the target.
    fn gas_used(&self) -> u64 {
        self.parent_gas_used.min(self.parent_target_gas_used * 2)
    }

    /// Whether the draft results in 1 wei less than the final version.
    fn falls_further(&self) -> bool {
        let (used, target) = (self.gas_used(), self.parent_target_gas_used);
        let Some(distance) = target.checked_sub(used) else { return false };
        let base = u128::from(self.parent_base_fee);
        let (product, divisor) = (base * u128::from(distance), u128::from(target) * 8);
        let draft = product.div_ceil(divisor).min(base / 8).max(1);
        draft > product / divisor
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn vectors_of_besu_match() {
    let text = std::fs::read_to_string(fixtures("fees").join("besu-basefee-test.json")).unwrap();
    let vectors: Vec<DraftVector> = serde_json::from_str(&text).unwrap();
    assert_eq!(vectors.len(), 121);
    assert_eq!(vectors.iter().filter(|vector| vector.falls_further()).count(), 33);
    for (index, vector) in vectors.iter().enumerate() {
        let gas_limit = vector.parent_target_gas_used * 2;
        let gas_used = vector.gas_used();
        let base_fee_per_gas = Some(vector.parent_base_fee);
        let parent = Header { gas_limit, gas_used, base_fee_per_gas, ..Header::default() };
        let expected = vector.expected_base_fee + u64::from(vector.falls_further());
        assert_eq!(chain::next_base_fee(&parent), expected, "vector {index}");
        // The native formula is the same, but does not round to whole wei.
        let native = next_base_fee(&Inputs {
            used: gas_used,
            target: vector.parent_target_gas_used,
            denominator: 8,
            base: vector.parent_base_fee.into(),
            unit: LegacyDec::ONE,
            floor: LegacyDec::ZERO,
        });
        let whole = native.unwrap().truncate_u64().unwrap();
        assert!(whole == expected || whole + 1 == expected, "vector {index}: {whole}");
    }
}

/// An independent implementation of the formula on raw integers.
fn model(used: u64, target: u64, den: u64, base: U512, unit: U512, floor: U512) -> U512 {
    if used == target {
        return base;
    }
    if target == 0 {
        return U512::ZERO;
    }
    let distance = U512::from(used.abs_diff(target));
    let delta = distance * base / U512::from(target) / U512::from(den);
    if used > target {
        base + if delta > unit { delta } else { unit }
    } else if base - delta > floor {
        base - delta
    } else {
        floor
    }
}

prop_compose! {
    fn inputs()(
        gas in (any::<u64>(), any::<u64>()),
        small in any::<bool>(),
        denominator in 1..=u32::MAX,
        base in any::<u128>(),
        decimals in 1..=18_u8,
        floor in any::<u64>(),
    ) -> Inputs {
        // In half of the cases, both values are small, so that every branch is taken.
        let (used, target) = if small { (gas.0 % 50, gas.1 % 50) } else { gas };
        let raw = |value: u128| {
            LegacyDec::from_raw(I512::from_raw(U512::from(value))).unwrap()
        };
        Inputs {
            used,
            target,
            denominator: denominator.into(),
            base: raw(base),
            unit: TokenDecimals::new(decimals).unwrap().unit(),
            floor: raw(floor.into()),
        }
    }
}

proptest! {
    #[test]
    fn next_base_fee_equals_the_model(inputs in inputs()) {
        let raw = |dec: LegacyDec| dec.raw().unsigned_abs();
        let Inputs { used, target, denominator, base, unit, floor } = inputs;
        let expected = model(used, target, denominator, raw(base), raw(unit), raw(floor));
        prop_assert_eq!(raw(next_base_fee(&inputs).unwrap()), expected);
    }

    /// A block lowers the fee by at most `base / denominator`, and raises it by at most
    /// `base * (elasticity - 1) / denominator`, or one unit if that is more, or to the floor.
    #[test]
    fn base_fee_change_is_bounded(mut inputs in inputs(), elasticity in 1..=32_u64) {
        inputs.target = inputs.target.max(1) / elasticity + 1;
        inputs.used %= inputs.target.saturating_mul(elasticity).saturating_add(1);
        let next = next_base_fee(&inputs).unwrap();
        let share = |parts: u64| {
            inputs.base.checked_mul_int(U256::from(parts)).unwrap()
                .quo_int(U256::from(inputs.denominator)).unwrap()
        };
        let max = inputs.base.checked_add(share(elasticity - 1).max(inputs.unit)).unwrap();
        let min = inputs.base.checked_sub(share(1)).unwrap();
        prop_assert!(next >= min, "{next} < {min}");
        prop_assert!(next <= max.max(inputs.floor), "{next} > {max}");
        if inputs.used < inputs.target {
            prop_assert!(next >= inputs.floor);
        }
    }

    /// Without a floor, more gas used never results in a lower fee.
    #[test]
    fn base_fee_increases_with_gas_used(inputs in inputs(), more in any::<u64>()) {
        let inputs = Inputs { floor: LegacyDec::ZERO, target: inputs.target.max(1), ..inputs };
        let fuller = Inputs { used: inputs.used.saturating_add(more), ..inputs };
        prop_assert!(next_base_fee(&fuller).unwrap() >= next_base_fee(&inputs).unwrap());
    }
}
