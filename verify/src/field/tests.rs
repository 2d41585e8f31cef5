//! Tests of every implementation of the field against big integers, at the limits of the limbs.

use super::*;
use crate::oracle::{self, Stream, over_every_field};
use num_bigint::{BigInt, BigUint};

/// What the tests need to know about the representation of an implementation.
pub(crate) trait Subject: Field {
    /// Returns elements whose limbs are at, next to, and between the limits of a product or, if `are_sums`, of a
    /// sum.
    fn extremes(are_sums: bool) -> Vec<Self::Fe>;
    /// Returns the number that the limbs of a lane represent. It may be negative.
    fn value(a: &Self::Fe, lane: usize) -> BigInt;
    /// Panics if a limb exceeds the limits of a product or, if `is_sum`, of a sum.
    fn assert_carried(a: &Self::Fe, is_sum: bool);
}

impl<V: Lanes> Subject for Limbs52<V> {
    fn extremes(are_sums: bool) -> Vec<Fe<V>> {
        let mut stream = Stream(2);
        let top = if are_sums { (1 << 51) + (1 << 49) } else { PRODUCT_TOP };
        let mut all = vec![Fe::splat([MASK52, MASK52, MASK52, MASK52, top])];
        for _ in 0..8 {
            let limbs = core::array::from_fn(|i| {
                let full = if i == 4 { top } else { MASK52 };
                V::from_words(core::array::from_fn(|_| match stream.word() % 3 {
                    0 => 0,
                    1 => full,
                    _ => stream.word() % (full + 1),
                }))
            });
            all.push(Fe(limbs));
        }
        all
    }

    fn value(a: &Fe<V>, lane: usize) -> BigInt {
        let limbs = a.0.map(|limb| limb.to_words()[lane]);
        limbs.iter().rev().fold(BigInt::ZERO, |sum, &limb| (sum << 52) + limb)
    }

    fn assert_carried(a: &Fe<V>, is_sum: bool) {
        let limit = if is_sum { SUM_TOP } else { PRODUCT_TOP };
        for lane in 0..LANES {
            let limbs = a.0.map(|limb| limb.to_words()[lane]);
            assert!(limbs[..4].iter().all(|&limb| limb <= MASK52) && limbs[4] <= limit);
        }
    }
}

const PRODUCT_TOP: u64 = (1 << 48) + 48;
const SUM_TOP: u64 = 5 << 49;

/// Returns elements at the edges of the ranges: plain numbers, and limbs at the limits of their form.
fn elements<F: Subject>() -> Vec<F::Fe> {
    let plain = oracle::batches(&oracle::scalar_edges(), 64).into_iter();
    let mut all: Vec<_> =
        plain.map(|words| F::from_words(words.map(F::Lanes::from_words))).collect();
    all.extend(F::extremes(false));
    all.extend(F::extremes(true));
    all
}

fn check<F: Subject>(got: F::Factor, is_sum: bool, expected: impl Fn(usize) -> BigInt) {
    let p = oracle::prime();
    let got = F::masked(&got);
    F::assert_carried(&got, is_sum);
    let words = F::to_words(&got).map(F::Lanes::to_words);
    for lane in 0..LANES {
        let expected = oracle::modulo(&expected(lane), &p);
        assert_eq!(oracle::modulo(&F::value(&got, lane), &p), expected);
        assert_eq!(oracle::lane(&words, lane), expected);
    }
}

#[test]
fn products_match_big_integers() {
    over_every_field!(products_and_scales_over);
}

fn products_and_scales_over<F: Subject>() {
    let all = elements::<F>();
    for (i, a) in all.iter().enumerate() {
        // All pairs would take too long with the models; these strides combine each element with two others.
        for stride in [1, 7] {
            let b = &all[(i * stride + 3) % all.len()];
            let (va, vb) = (|l| F::value(a, l), |l| F::value(b, l));
            check::<F>(F::mul(a, b), false, |l| va(l) * vb(l));
            check::<F>(F::square(a), false, |l| va(l) * va(l));
            check::<F>(F::mul_scaled::<2>(a, b), false, |l| va(l) * vb(l) * 2);
            check::<F>(F::mul_scaled::<3>(a, b), false, |l| va(l) * vb(l) * 3);
            check::<F>(F::square_scaled::<3>(a), false, |l| va(l) * va(l) * 3);
            check::<F>(F::square_scaled::<4>(a), false, |l| va(l) * va(l) * 4);
        }
    }
}

#[test]
fn fused_products_match_big_integers() {
    over_every_field!(fused_products_over);
}

fn fused_products_over<F: Subject>() {
    let all = elements::<F>();
    for (i, a) in all.iter().enumerate() {
        for stride in [1, 7] {
            let at = |shift| &all[(i * stride + shift) % all.len()];
            // b and c are products and d is a difference, as in the point formulas.
            let (b, c) = (F::mul_fe(a, at(3)), F::mul_fe(at(1), at(2)));
            let d = F::masked(&F::sub_twice_factor(&c, &b));
            let (va, vb) = (|l| F::value(a, l), |l| F::value(&b, l));
            let (vc, vd) = (|l| F::value(&c, l), |l| F::value(&d, l));
            check::<F>(F::square_plus_mul(&b, &c, &d), false, |l| vb(l) * vb(l) + vc(l) * vd(l));
            check::<F>(F::twice_mul_plus_mul(&b, a, &c, &b), false, |l| {
                (vb(l) * va(l) + vc(l) * vb(l)) * 2
            });
        }
    }
}

#[test]
fn stale_bits_do_not_matter_to_products() {
    over_every_field!(stale_bits_do_not_matter_to_products_over);
}

fn stale_bits_do_not_matter_to_products_over<F: Subject>() {
    let all = elements::<F>();
    for (i, a) in all.iter().enumerate() {
        let b = &all[(i * 5 + 1) % all.len()];
        let stale = F::mul_fe(&F::mul(a, b), &F::square(a));
        let clean = F::mul_fe(&F::mul_fe(a, b), &F::masked(&F::square(a)));
        for lane in 0..LANES {
            assert_eq!(F::value(&stale, lane), F::value(&clean, lane));
        }
    }
}

#[test]
fn sums_and_differences_match_big_integers() {
    over_every_field!(sums_and_signs_over);
}

fn sums_and_signs_over<F: Subject>() {
    let all = elements::<F>();
    for (i, a) in all.iter().enumerate() {
        let b = F::mul_fe(&all[(i * 3 + 5) % all.len()], &all[i]);
        let a = F::mul_fe(a, a);
        let (va, vb) = (|l| F::value(&a, l), |l| F::value(&b, l));
        let difference = F::sub(&a, &b);
        check::<F>(F::factor(&difference), true, |l| va(l) - vb(l));
        check::<F>(F::sub_factor(&a, &b), true, |l| va(l) - vb(l));
        check::<F>(F::sub_twice_factor(&a, &b), true, |l| (va(l) - vb(l)) * 2);
        check::<F>(F::factor(&F::twice(&a)), true, |l| va(l) * 2);
        let negated = F::factor(&F::negate_where(&a, 0x0f));
        check::<F>(negated, true, |l| if l < 4 { -va(l) } else { va(l) });
        let (ab, vd) = (|l| va(l) * vb(l), |l| F::value(&difference, l));
        check::<F>(F::mul_plus::<1>(&a, &b, &F::small(7)), false, |l| ab(l) + 7);
        check::<F>(F::mul_plus::<1>(&a, &b, &F::minus(&b)), false, |l| ab(l) - vb(l));
        check::<F>(F::mul_plus::<2>(&a, &b, &F::minus(&b)), false, |l| (ab(l) - vb(l)) * 2);
        let aa = |l| va(l) * va(l);
        check::<F>(F::square_plus(&a, &F::minus_twice(&b)), false, |l| aa(l) - vb(l) * 2);
        check::<F>(F::square_plus(&a, &F::minus_both(&a, &b)), false, |l| aa(l) - va(l) - vb(l));
        check::<F>(F::square_plus(&a, &F::minus_and_twice(&difference, &b)), false, |l| {
            aa(l) - vd(l) - vb(l) * 2
        });
    }
}

#[test]
fn sums_of_extremes_may_be_added_to_products() {
    over_every_field!(sums_of_extremes_over);
}

fn sums_of_extremes_over<F: Subject>() {
    let all = F::extremes(false);
    for (i, a) in all.iter().enumerate() {
        let (b, c) = (&all[(i * 3 + 1) % all.len()], &all[(i * 5 + 2) % all.len()]);
        let (va, vb, vc) = (|l| F::value(a, l), |l| F::value(b, l), |l| F::value(c, l));
        let aa = |l| va(l) * va(l);
        check::<F>(F::square_plus(a, &F::minus_twice(b)), false, |l| aa(l) - vb(l) * 2);
        check::<F>(F::square_plus(a, &F::minus_both(b, c)), false, |l| aa(l) - vb(l) - vc(l));
        check::<F>(F::square_plus(a, &F::minus_and_twice(b, c)), false, |l| {
            aa(l) - vb(l) - vc(l) * 2
        });
        check::<F>(F::mul_plus::<1>(a, b, &F::minus(c)), false, |l| va(l) * vb(l) - vc(l));
    }
}

#[test]
fn conversions_and_lane_operations_match_big_integers() {
    over_every_field!(words_zero_and_lanes_over);
}

fn words_zero_and_lanes_over<F: Subject>() {
    let p = oracle::prime();
    let all = elements::<F>();
    for (i, a) in all.iter().enumerate() {
        let b = &all[(i * 7 + 1) % all.len()];
        let words = F::to_words(a).map(F::Lanes::to_words);
        let swapped = F::masked(&F::swap::<4>(&F::swap::<1>(&F::factor(a))));
        let selected = F::masked(&F::select(0x35, &F::factor(a), &F::factor(b)));
        let gathered = F::gather([a, b, a, b, b, b, a, a]);
        for lane in 0..LANES {
            let expected = oracle::modulo(&F::value(a, lane), &p);
            assert_eq!(oracle::lane(&words, lane), expected);
            assert_eq!(F::zero_mask(a) >> lane & 1 == 1, expected == BigUint::ZERO);
            assert_eq!(F::value(&swapped, lane), F::value(a, lane ^ 5));
            let from = if 0x35 >> lane & 1 == 1 { a } else { b };
            assert_eq!(F::value(&selected, lane), F::value(from, lane));
            let from = if 0xc5 >> lane & 1 == 1 { a } else { b };
            assert_eq!(F::value(&gathered, lane), F::value(from, lane));
        }
    }
}

#[test]
fn canonical_form_is_right_at_multiples_of_p_and_2_256() {
    crate::oracle::over_every_lanes!(canonical_form_over);
}

/// Tests values next to the multiples of p and of 2^256, up to the largest that an element can have, at
/// which a fold or the comparison with p could be wrong by one.
fn canonical_form_over<V: Lanes>() {
    let p = oracle::prime();
    let largest = (BigUint::from(1u8) << 260) - 1u8;
    let power = BigUint::from(1u8) << 256;
    for (step, multiple) in [&p, &power].into_iter().flat_map(|n| (0..16u64).map(move |k| (n, k))) {
        for distance in [0, 1, 2, C - 1, C, C + 1, 15 * C] {
            let (base, distance) = (step * multiple, BigUint::from(distance));
            for number in [&base + &distance, base.max(distance.clone()) - &distance] {
                if number > largest {
                    continue;
                }
                let limbs = core::array::from_fn(|i| {
                    let limb = (&number >> (52 * i)) & BigUint::from(MASK52);
                    u64::try_from(limb).unwrap()
                });
                let words = Limbs52::<V>::to_words(&Fe::splat(limbs)).map(V::to_words);
                assert_eq!(oracle::lane(&words, 0), &number % &p, "{number:x}");
            }
        }
    }
}

#[test]
fn square_root_of_a_square_squares_to_it() {
    over_every_field!(roots_of_squares_over);
}

fn roots_of_squares_over<F: Subject>() {
    for a in elements::<F>().into_iter().step_by(9) {
        let square = F::mul_fe(&a, &a);
        let mut roots = [square; LOCKSTEP];
        square_root::<F>(&mut roots, 2);
        check::<F>(F::mul(&roots[1], &roots[1]), false, |l| F::value(&square, l));
    }
}
