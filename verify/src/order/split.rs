//! GLV: splits a scalar u into k1 + k2 lambda with odd halves of at most 129 bits, and recodes them in signed odd
//! digits.
//!
//! Signed numbers are represented modulo 2^156, in three limbs. Constants are subtracted by adding their
//! complement, so that no limb is ever negative.

use super::Scalar;
use crate::field::{MASK52, limbs52};
use crate::lanes::{Lanes, Mask, three};

/// Number of digits of each half: 26 windows of 5 bits have 130 bits.
pub(crate) const WINDOWS: usize = 26;
/// Number of bits of a digit.
const DIGIT_BITS: u32 = 5;
/// Number of digits per packed word: ten digits have 50 bits and fit into a 52-bit limb.
const DIGITS_PER_WORD: usize = 10;

// The lattice of pairs (x, y) with x + y lambda = 0 mod n has the basis (A1, -M), (A2, A1).
const A1: [u64; 3] = [0xc_90e4_9284_eb15, 0x2_1a7d_46bc_de86, 0x30_86d2];
const A2: [u64; 3] = [0x1_108d_9d44_cfd8, 0xf_7a8e_2f3f_657c, 0x114_ca50];
const M: [u64; 3] = [0x4_7fa9_0abf_e4c3, 0xd_6010_e882_86f5, 0xe4_437e];
const MINUS_A1: [u64; 3] = complement(A1);
const MINUS_A2: [u64; 3] = complement(A2);
const MINUS_M: [u64; 3] = complement(M);
/// round(2^384 A1 / n)
const G1: [u64; 5] = limbs52([
    0xe893_209a_45db_b031,
    0x3daa_8a14_71e8_ca7f,
    0xe86c_90e4_9284_eb15,
    0x3086_d221_a7d4_6bcd,
]);
/// round(2^384 M / n)
const G2: [u64; 5] = limbs52([
    0x1571_b4ae_8ac4_7f71,
    0x2212_08ac_9df5_06c6,
    0x6f54_7fa9_0abf_e4c4,
    0xe443_7ed6_010e_8828,
]);
/// 2^130 - 1. Its sum with a half is not negative, and the digit strings are half of that sum.
const LIFT: [u64; 3] = [MASK52, MASK52, (1 << 26) - 1];

/// Returns 2^156 minus `x`.
const fn complement(x: [u64; 3]) -> [u64; 3] {
    let a = (MASK52 ^ x[0]) + 1;
    let b = (MASK52 ^ x[1]) + (a >> 52);
    let c = (MASK52 ^ x[2]) + (b >> 52);
    [a & MASK52, b & MASK52, c & MASK52]
}

/// The digits of one half: 26 five-bit strings c in three packed words, which stand for the digits 2 c - 31.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits<V>([V; 3]);

impl<V: Lanes> Digits<V> {
    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self([V::splat(0); 3])
    }

    /// Returns string `c` of window `w`: 0 to 31.
    #[inline(always)]
    pub(crate) fn string(&self, w: usize) -> V {
        let word = self.0[w / DIGITS_PER_WORD];
        let bits = DIGIT_BITS * (w % DIGITS_PER_WORD) as u32;
        word.shr_by(bits).and(V::splat(31))
    }

    /// Returns the digit of window `w`: the index `i` of its magnitude 2 i + 1, and the lanes in which it is negative.
    #[inline(always)]
    pub(crate) fn digit(&self, w: usize) -> (V, Mask) {
        let string = self.string(w);
        let negative = string.less_mask(V::splat(16));
        let flipped = V::select(negative, string.xor(V::splat(31)), string);
        (flipped.and(V::splat(15)), negative)
    }
}

/// Splits `u` and recodes both halves.
#[inline(always)]
pub(crate) fn split<V: Lanes>(u: &Scalar<V>) -> (Digits<V>, Digits<V>) {
    let c1 = rounded_quotient(u, &G1);
    let c2 = rounded_quotient(u, &G2);
    let zero = V::splat(0);
    let k1 = [u.0[0], u.0[1], u.0[2]];
    let k1 = carried(plus_product(plus_product(k1, &c1, &MINUS_A1), &c2, &MINUS_A2));
    let k2 = carried(plus_product(plus_product([zero; 3], &c1, &M), &c2, &MINUS_A1));
    let (k1, k2) = made_odd(k1, k2);
    (recode(k1), recode(k2))
}

/// Returns round(u g / 2^384), or one less, because the lowest columns are omitted. This only changes the size
/// of the halves slightly.
#[inline(always)]
fn rounded_quotient<V: Lanes>(u: &Scalar<V>, g: &[u64; 5]) -> [V; 3] {
    const LOWEST: usize = 6;
    // 384 = 7 * 52 + 20: this is half a unit of the result, in column 7.
    let mut c = [V::splat(0), V::splat(1 << 19), V::splat(0), V::splat(0)];
    for i in 0..5 {
        for j in 0..5 {
            let g = V::splat(g[j]);
            if i + j >= LOWEST {
                c[i + j - LOWEST] = c[i + j - LOWEST].madd_lo(u.0[i], g);
            }
            if i + j + 1 >= LOWEST {
                c[i + j + 1 - LOWEST] = c[i + j + 1 - LOWEST].madd_hi(u.0[i], g);
            }
        }
    }
    for i in 0..3 {
        c[i + 1] = c[i + 1].add(c[i].shr::<52>());
    }
    let [a, b, c] = three(|i| c[i + 1].and(V::splat(MASK52)));
    let joined = |low: V, high: V| low.shr::<20>().or(high.shl::<32>().and(V::splat(MASK52)));
    [joined(a, b), joined(b, c), c.shr::<20>()]
}

/// Returns `columns + a b` modulo 2^156, not carried.
#[inline(always)]
fn plus_product<V: Lanes>(mut columns: [V; 3], a: &[V; 3], b: &[u64; 3]) -> [V; 3] {
    for i in 0..3 {
        for j in 0..3 - i {
            let b = V::splat(b[j]);
            columns[i + j] = columns[i + j].madd_lo(a[i], b);
            if i + j < 2 {
                columns[i + j + 1] = columns[i + j + 1].madd_hi(a[i], b);
            }
        }
    }
    columns
}

#[inline(always)]
fn carried<V: Lanes>(mut c: [V; 3]) -> [V; 3] {
    c[1] = c[1].add(c[0].shr::<52>());
    c[2] = c[2].add(c[1].shr::<52>());
    three(|i| c[i].and(V::splat(MASK52)))
}

/// Returns `k + constant` in the lanes of `mask`, and `k` in the others.
#[inline(always)]
fn plus_where<V: Lanes>(k: [V; 3], mask: Mask, constant: &[u64; 3]) -> [V; 3] {
    carried(three(|i| k[i].add(V::select(mask, V::splat(constant[i]), V::splat(0)))))
}

#[inline(always)]
fn even_mask<V: Lanes>(k: &[V; 3]) -> Mask {
    k[0].and(V::splat(1)).zero_mask()
}

/// Adds lattice vectors to make both halves odd. A1 and M are odd, and A2 is even: the first vector makes an even
/// k1 odd, then the second makes an even k2 odd, with the sign that keeps k1 small.
#[inline(always)]
fn made_odd<V: Lanes>(k1: [V; 3], k2: [V; 3]) -> ([V; 3], [V; 3]) {
    let even = even_mask(&k1);
    let k1 = plus_where(k1, even, &A1);
    let k2 = plus_where(k2, even, &MINUS_M);
    let even = even_mask(&k2);
    let positive = k1[2].shr::<51>().zero_mask();
    let (up, down) = (even & !positive, even & positive);
    let k1 = plus_where(plus_where(k1, up, &A2), down, &MINUS_A2);
    let k2 = plus_where(plus_where(k2, up, &A1), down, &MINUS_A1);
    (k1, k2)
}

/// Returns the strings of an odd k whose absolute value is below 2^130: (k + 2^130 - 1) / 2, five bits each.
#[inline(always)]
fn recode<V: Lanes>(k: [V; 3]) -> Digits<V> {
    let [a, b, c] = plus_where(k, Mask::MAX, &LIFT);
    let half = |low: V, high: V| low.shr::<1>().or(high.shl::<51>().and(V::splat(MASK52)));
    let (a, b, c) = (half(a, b), half(b, c), c.shr::<1>());
    let fifty = V::splat((1 << 50) - 1);
    Digits([
        a.and(fifty),
        a.shr::<50>().or(b.shl::<2>()).and(fifty),
        b.shr::<48>().or(c.shl::<4>()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, over_every_lanes};

    /// Returns the value of a digit string, after checking the range of its digits.
    fn value<V: Lanes>(digits: &Digits<V>, lane: usize) -> num_bigint::BigInt {
        (0..WINDOWS).rev().fold(num_bigint::BigInt::ZERO, |sum, w| {
            let (index, negative) = digits.digit(w);
            let odd = 2 * i64::try_from(index.to_words()[lane]).expect("small") + 1;
            assert!((1..=31).contains(&odd));
            sum * 32 + if negative >> lane & 1 == 1 { -odd } else { odd }
        })
    }

    #[test]
    fn digits_recombine_to_the_scalar() {
        over_every_lanes!(digits_over);
    }

    fn digits_over<V: Lanes>() {
        let n = oracle::order();
        let lambda = oracle::lambda();
        for words in oracle::batches(&oracle::scalar_edges(), 400) {
            let u = Scalar::<V>::from_words(words.map(V::from_words));
            let (d1, d2) = split(&u);
            for lane in 0..8 {
                let (k1, k2) = (value(&d1, lane), value(&d2, lane));
                let limit = num_bigint::BigInt::from(1) << 130u32;
                assert!(k1.magnitude() < limit.magnitude() && k2.magnitude() < limit.magnitude());
                let sum = oracle::modulo(&(k1 + k2 * &lambda), &n);
                assert_eq!(sum, oracle::lane(&words, lane) % &n);
            }
        }
    }
}
