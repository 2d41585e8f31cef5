//! Eight scalars modulo the group order n at once: Montgomery products in five 52-bit limbs.
//!
//! Values stay below 1.07 n with masked limbs. They do not have to be smaller, because the split and the
//! recoding accept any representative.

mod split;

pub(crate) use split::{Digits, WINDOWS, split};

use crate::field::{Fe, carry, limbs52, masked};
use crate::{
    lanes::{Lanes, five},
    limbs::{self, ORDER_WORDS},
};

/// n, the order of the group.
const N: [u64; 5] = limbs52(ORDER_WORDS);
/// -1/n mod 2^52.
const N_NEGATED_INVERSE: u64 = 0xd_ff66_5588_b13f;
/// 2^520 mod n, which converts into the Montgomery domain, whose radix is 2^260.
const R_SQUARED: [u64; 5] = [
    0xe_180c_268b_3b23,
    0x9_4fd6_e33e_4c8e,
    0xd_07c7_3b97_5948,
    0xc_5e69_7f5e_45bc,
    0x671c_d581_c69b,
];
/// 2^780 mod n, which converts the plain inverse of a Montgomery form back into the domain.
const R_CUBED: [u64; 5] = [
    0xb_e9cd_c2d4_e06b,
    0x4_8a4e_4692_6404,
    0xb_2da6_c80f_e86a,
    0xd_b1b3_1347_f1d0,
    0xd800_c18e_f116,
];
/// 2^260 mod n, which is one in the Montgomery domain.
const R: [u64; 5] = [0xa_1732_fc9b_ebf0, 0x9_50b7_5fc4_402d, 0x1455_1231, 0, 0];

/// An element modulo n: masked limbs, below 1.07 n or below 2^256.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar<V>(pub(crate) [V; 5]);

impl<V: Lanes> Scalar<V> {
    #[inline(always)]
    pub(crate) fn splat(limbs: [u64; 5]) -> Self {
        Self(five(|i| V::splat(limbs[i])))
    }

    /// Converts 256-bit numbers, word-major.
    #[inline(always)]
    pub(crate) fn from_words(words: [V; 4]) -> Self {
        Self(Fe::from_words(words).0)
    }

    /// Returns one in the Montgomery domain.
    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self::splat(R)
    }

    /// Returns `a b / 2^260` modulo n.
    #[inline(always)]
    pub(crate) fn mul(&self, other: &Self) -> Self {
        let zero = V::splat(0);
        let n: [V; 5] = five(|i| V::splat(N[i]));
        let b = &other.0;
        let mut t = [zero; 6];
        for a in self.0 {
            for j in 0..5 {
                t[j] = t[j].madd_lo(a, b[j]);
                t[j + 1] = t[j + 1].madd_hi(a, b[j]);
            }
            let q = zero.madd_lo(t[0], V::splat(N_NEGATED_INVERSE));
            for j in 0..5 {
                t[j] = t[j].madd_lo(q, n[j]);
                t[j + 1] = t[j + 1].madd_hi(q, n[j]);
            }
            // The choice of q makes the low 52 bits of t[0] zero, so this divides by 2^52.
            t = [t[1].add(t[0].shr::<52>()), t[2], t[3], t[4], t[5], zero];
        }
        Self(masked(carry([t[0], t[1], t[2], t[3], t[4]])))
    }

    /// Converts into the Montgomery domain.
    #[inline(always)]
    pub(crate) fn to_montgomery(self) -> Self {
        self.mul(&Self::splat(R_SQUARED))
    }

    /// Converts the inverse of a Montgomery form to the Montgomery form of the inverse.
    #[inline(always)]
    pub(crate) fn inverse_to_montgomery(self) -> Self {
        self.mul(&Self::splat(R_CUBED))
    }

    /// Returns lane 0 reduced to 0..n, as words.
    #[inline(always)]
    pub(crate) fn first_reduced(&self) -> [u64; 4] {
        let [a, b, c, d, e] = self.0.map(|limb| limb.to_words()[0]);
        let x = [a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16];
        // The value is below 1.07 n: bit 256 may be set, and n is subtracted at most once.
        let (less, negative) = limbs::subtract(&x, &ORDER_WORDS);
        if negative && e >> 48 == 0 { x } else { less }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, over_every_lanes};
    use num_bigint::BigUint;

    #[test]
    fn montgomery_products_match_big_integers() {
        over_every_lanes!(products_over);
    }

    fn products_over<V: Lanes>() {
        let n = oracle::order();
        let radix_inverse = oracle::inverse(&((BigUint::from(1u8) << 260u32) % &n), &n);
        let batches = oracle::batches(&oracle::scalar_edges(), 200);
        for (i, a) in batches.iter().enumerate() {
            let b = &batches[(i * 7 + 1) % batches.len()];
            let scalar = |words: &[[u64; 8]; 4]| Scalar::<V>::from_words(words.map(V::from_words));
            let product = scalar(a).mul(&scalar(b));
            let round_trip = scalar(a).to_montgomery().mul(&Scalar::splat([1, 0, 0, 0, 0]));
            let again = scalar(a).inverse_to_montgomery();
            for lane in 0..8 {
                let value = |s: &Scalar<V>| {
                    let limbs = s.0.map(|limb| limb.to_words()[lane]);
                    limbs.iter().rev().fold(BigUint::ZERO, |sum, &limb| (sum << 52u32) + limb)
                };
                let (va, vb) = (oracle::lane(a, lane), oracle::lane(b, lane));
                assert_eq!(value(&product) % &n, &va * &vb * &radix_inverse % &n);
                assert!(value(&product) < &n * 107u32 / 100u32);
                assert_eq!(value(&round_trip) % &n, &va % &n);
                assert_eq!(value(&again) % &n, (&va << 520u32) % &n);
            }
            let first = oracle::from_words(&product.first_reduced());
            let (va, vb) = (oracle::lane(a, 0), oracle::lane(b, 0));
            assert_eq!(first, &va * &vb * &radix_inverse % &n);
        }
    }

    #[test]
    fn constants_match_their_definitions() {
        let n = oracle::order();
        let limbs = |l: [u64; 5]| l.iter().rev().fold(BigUint::ZERO, |sum, &x| (sum << 52u32) + x);
        for (constant, power) in [(R, 260u32), (R_SQUARED, 520), (R_CUBED, 780)] {
            assert_eq!(limbs(constant), (BigUint::from(1u8) << power) % &n);
        }
        assert_eq!(limbs(N), n);
        let one = N[0].wrapping_mul(N_NEGATED_INVERSE).wrapping_add(1);
        assert_eq!(one & crate::field::MASK52, 0);
    }
}
