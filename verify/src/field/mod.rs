//! Eight elements of the field modulo p = 2^256 - 2^32 - 977 at once, in five 52-bit limbs.
//!
//! There are three forms with different types. Their ranges are (`docs/verify-math.md` derives them):
//!
//! | type       | limbs 0..3                       | limb 4    | may be used as             |
//! |------------|----------------------------------|-----------|----------------------------|
//! | [`Fe`]     | below 2^52                       | < 2^51.4  | anything                   |
//! | [`Factor`] | bits 52.. stale, already carried | < 2^51.4  | factor of a product only   |
//! | [`Linear`] | below 2^57, nothing carried      | likewise  | addend to a product only   |
//!
//! Values are congruent, not canonical, until [`Fe::canonical`]. The running time may depend on values, because
//! all of them are public.

mod power;
mod product;

pub(crate) use power::{LOCKSTEP, square_root};
pub(crate) use product::{Columns, mul, mul_fe, square};

use crate::lanes::{Lanes, Mask, five};

pub(crate) const MASK52: u64 = (1 << 52) - 1;
pub(crate) const MASK48: u64 = (1 << 48) - 1;
/// 2^256 mod p.
pub(crate) const C: u64 = 0x1_0000_03d1;
/// 2^260 mod p.
pub(crate) const R: u64 = C << 4;

/// An element with carried, masked limbs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fe<V>(pub(crate) [V; 5]);

/// An element whose limbs have stale bits above the 52nd: a product without the final masks. The multiplier
/// ignores these bits, but sums must not use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor<V>(pub(crate) [V; 5]);

/// A sum of elements without carries; limbs 0 to 3 are never negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear<V>(pub(crate) [V; 5]);

/// A valid operand of a product.
pub(crate) trait Multiplicand<V> {
    fn limbs(&self) -> &[V; 5];
}

impl<V> Multiplicand<V> for Fe<V> {
    #[inline(always)]
    fn limbs(&self) -> &[V; 5] {
        &self.0
    }
}

impl<V> Multiplicand<V> for Factor<V> {
    #[inline(always)]
    fn limbs(&self) -> &[V; 5] {
        &self.0
    }
}

/// Returns the limbs of a 256-bit number in little-endian words.
pub(crate) const fn limbs52(w: [u64; 4]) -> [u64; 5] {
    [
        w[0] & MASK52,
        (w[0] >> 52 | w[1] << 12) & MASK52,
        (w[1] >> 40 | w[2] << 24) & MASK52,
        (w[2] >> 28 | w[3] << 36) & MASK52,
        w[3] >> 16,
    ]
}

/// Adds the excess over 52 bits of each limb to the next limb, without masking it off.
#[inline(always)]
pub(crate) fn carry<V: Lanes>(mut c: [V; 5]) -> [V; 5] {
    c[1] = c[1].add(c[0].shr::<52>());
    c[2] = c[2].add(c[1].shr::<52>());
    c[3] = c[3].add(c[2].shr::<52>());
    c[4] = c[4].add(c[3].shr::<52>());
    c
}

/// Masks limbs 0 to 3.
#[inline(always)]
pub(crate) fn masked<V: Lanes>(c: [V; 5]) -> [V; 5] {
    let mask = V::splat(MASK52);
    [c[0].and(mask), c[1].and(mask), c[2].and(mask), c[3].and(mask), c[4]]
}

impl<V: Lanes> Factor<V> {
    #[inline(always)]
    pub(crate) fn one() -> Self {
        Fe::one().factor()
    }

    /// Clears the stale bits.
    #[inline(always)]
    pub(crate) fn masked(self) -> Fe<V> {
        Fe(masked(self.0))
    }

    #[inline(always)]
    pub(crate) fn select(mask: Mask, yes: &Self, no: &Self) -> Self {
        Self(five(|i| V::select(mask, yes.0[i], no.0[i])))
    }
}

impl<V: Lanes> Fe<V> {
    #[inline(always)]
    pub(crate) fn splat(limbs: [u64; 5]) -> Self {
        Self(five(|i| V::splat(limbs[i])))
    }

    #[inline(always)]
    pub(crate) fn zero() -> Self {
        Self::splat([0; 5])
    }

    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self::splat([1, 0, 0, 0, 0])
    }

    #[inline(always)]
    pub(crate) fn factor(self) -> Factor<V> {
        Factor(self.0)
    }

    /// Converts 256-bit numbers, word-major: `words[w]` contains word `w` of each lane.
    #[inline(always)]
    pub(crate) fn from_words(w: [V; 4]) -> Self {
        Self(masked([
            w[0],
            V::funnel::<52>(w[1], w[0]),
            V::funnel::<40>(w[2], w[1]),
            V::funnel::<28>(w[3], w[2]),
            w[3].shr::<16>(),
        ]))
    }

    /// Does the inverse of `from_words`, for values below 2^256 in masked limbs.
    #[inline(always)]
    pub(crate) fn to_words(self) -> [V; 4] {
        let l = self.0;
        [
            l[0].or(l[1].shl::<52>()),
            l[1].shr::<12>().or(l[2].shl::<40>()),
            l[2].shr::<24>().or(l[3].shl::<28>()),
            l[3].shr::<36>().or(l[4].shl::<16>()),
        ]
    }

    /// Returns `self - other`, not yet carried. `other` is at most 4p: a product, or a negated one.
    #[inline(always)]
    fn difference(&self, other: &Self) -> [V; 5] {
        let bias = bias::<4>();
        five(|i| self.0[i].add(V::splat(bias[i])).sub(other.0[i]))
    }

    /// Returns `self - other`; `other` is at most 4p.
    #[inline(always)]
    pub(crate) fn sub(&self, other: &Self) -> Self {
        Self(masked(carry(self.difference(other))))
    }

    /// Returns `self - other` for use in a product; `other` is at most 4p.
    #[inline(always)]
    pub(crate) fn sub_factor(&self, other: &Self) -> Factor<V> {
        Factor(carry(self.difference(other)))
    }

    /// Returns `2 (self - other)` for use in a product; both are products.
    #[inline(always)]
    pub(crate) fn sub_twice_factor(&self, other: &Self) -> Factor<V> {
        let c = self.difference(other);
        Factor(carry(five(|i| c[i].add(c[i]))))
    }

    /// Returns `2 self`; `self` is a product or a negated one.
    #[inline(always)]
    pub(crate) fn twice(&self) -> Self {
        Self(masked(carry(five(|i| self.0[i].add(self.0[i])))))
    }

    /// Returns `self`, negated in the lanes of `mask`, carried; `self` is at most 4p.
    #[inline(always)]
    pub(crate) fn negate_where(&self, mask: Mask) -> Self {
        let bias = bias::<4>();
        let c = five(|i| self.0[i].sub_where(mask, V::splat(bias[i]), self.0[i]));
        Self(masked(carry(c)))
    }

    /// Returns the representative in 0..p.
    #[inline(always)]
    pub(crate) fn canonical(self) -> Self {
        // Limb 4 is below 2^52, so that `top` is below 16 and f < 2^256 + 15 C < 2 p after one fold.
        // Limb 4 keeps the bit of weight 2^256, if it is set.
        let mut f = self.0;
        let top = f[4].shr::<48>();
        f[4] = f[4].and(V::splat(MASK48));
        f[0] = f[0].madd_lo(top, V::splat(C));
        let f = masked(carry(f));
        // f >= p if and only if f + C reaches 2^256. In that case f - p is f + C without that bit.
        let mut g = f;
        g[0] = g[0].add(V::splat(C));
        let mut g = masked(carry(g));
        let below = g[4].shr::<48>().zero_mask();
        g[4] = g[4].and(V::splat(MASK48));
        Self(five(|i| V::select(below, f[i], g[i])))
    }

    /// Returns the lanes that are zero modulo p.
    #[inline(always)]
    pub(crate) fn zero_mask(self) -> Mask {
        let [a, b, c, d, e] = self.canonical().0;
        a.or(b).or(c.or(d)).or(e).zero_mask()
    }

    /// Returns the lanes that are odd; `self` must be canonical.
    #[inline(always)]
    pub(crate) fn odd_mask(&self) -> Mask {
        !self.0[0].and(V::splat(1)).zero_mask()
    }
}

impl<V: Lanes> Linear<V> {
    /// Returns `K p` in limbs from which up to `K - 1` elements can be subtracted.
    #[inline(always)]
    pub(crate) fn multiple_of_p<const K: u64>() -> Self {
        let bias = bias::<K>();
        Self(five(|i| V::splat(bias[i])))
    }

    /// Returns a small constant.
    #[inline(always)]
    pub(crate) fn small(value: u64) -> Self {
        Self(five(|i| V::splat(if i == 0 { value } else { 0 })))
    }

    /// Returns `self - other`.
    #[inline(always)]
    pub(crate) fn minus(self, other: &Fe<V>) -> Self {
        Self(five(|i| self.0[i].sub(other.0[i])))
    }
}

/// Returns `k p` with every limb positive: the telescoping form of 2^256 k - C k.
const fn bias<const K: u64>() -> [u64; 5] {
    let full = K << 52;
    [full - K * C, full - K, full - K, full - K, (K << 48) - K]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, over_every_lanes};
    use num_bigint::BigUint;

    fn value<V: Lanes>(limbs: [V; 5], lane: usize) -> BigUint {
        let limbs = limbs.map(|limb| limb.to_words()[lane]);
        limbs.iter().rev().fold(BigUint::ZERO, |sum, &limb| (sum << 52) + limb)
    }

    /// Elements at the edges of the ranges: plain numbers, and limbs with the maximum of their form.
    fn elements<V: Lanes>() -> Vec<Fe<V>> {
        let mut all: Vec<_> = oracle::batches(&oracle::scalar_edges(), 64)
            .into_iter()
            .map(|words| Fe::from_words(words.map(V::from_words)))
            .collect();
        let mut stream = oracle::Stream(2);
        // The largest output of a product, the largest sum, and single limbs with their maximum.
        for top in [(1 << 48) + 48, (1 << 51) + (1 << 49)] {
            all.push(Fe::splat([MASK52, MASK52, MASK52, MASK52, top]));
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
        }
        all
    }

    fn check<V: Lanes>(got: Fe<V>, limit: u64, expected: impl Fn(usize) -> BigUint) {
        let p = oracle::prime();
        for lane in 0..8 {
            assert_eq!(value(got.0, lane) % &p, expected(lane) % &p);
            let limbs = got.0.map(|limb| limb.to_words()[lane]);
            assert!(limbs[..4].iter().all(|&limb| limb <= MASK52) && limbs[4] <= limit);
        }
    }

    const PRODUCT_TOP: u64 = (1 << 48) + 48;
    const SUM_TOP: u64 = 5 << 49;

    #[test]
    fn products_and_scales() {
        over_every_lanes!(products_and_scales_over);
    }

    fn products_and_scales_over<V: Lanes>() {
        let all = elements::<V>();
        for (i, a) in all.iter().enumerate() {
            let b = &all[(i * 7 + 3) % all.len()];
            let ab = |lane| value(a.0, lane) * value(b.0, lane);
            check(mul_fe(a, b), PRODUCT_TOP, ab);
            check(mul(a, b).masked(), PRODUCT_TOP, ab);
            let aa = |lane| value(a.0, lane) * value(a.0, lane);
            check(square(a).masked(), PRODUCT_TOP, aa);
            let folded = Columns::product(a, b).fold();
            check(folded.doubled().fe(), PRODUCT_TOP, |l| ab(l) * 2u8);
            check(folded.tripled().fe(), PRODUCT_TOP, |l| ab(l) * 3u8);
            check(folded.quadrupled().fe(), PRODUCT_TOP, |l| ab(l) * 4u8);
            let both = Columns::square(&square(a)).plus_product(&square(b), &mul(a, b));
            check(both.fold().doubled().fe(), PRODUCT_TOP, |l| {
                (aa(l) * aa(l) + value(b.0, l).pow(2) * ab(l)) * 2u8
            });
        }
    }

    #[test]
    fn stale_bits_do_not_matter_to_products() {
        over_every_lanes!(stale_bits_do_not_matter_to_products_over);
    }

    fn stale_bits_do_not_matter_to_products_over<V: Lanes>() {
        let all = elements::<V>();
        for (i, a) in all.iter().enumerate() {
            let b = &all[(i * 5 + 1) % all.len()];
            let stale = mul(&mul(a, b), &square(a));
            let clean = mul(&mul_fe(a, b), &square(a).masked());
            let bits = |f: Factor<V>| f.0.map(V::to_words);
            assert_eq!(bits(stale), bits(clean));
        }
    }

    #[test]
    fn sums_and_signs() {
        over_every_lanes!(sums_and_signs_over);
    }

    fn sums_and_signs_over<V: Lanes>() {
        let all = elements::<V>();
        let p = oracle::prime();
        for (i, a) in all.iter().enumerate() {
            let b = mul_fe(&all[(i * 3 + 5) % all.len()], &all[i]);
            let a = mul_fe(a, a);
            let (va, vb) = (|l| value(a.0, l), |l| value(b.0, l));
            check(a.sub(&b), SUM_TOP, |l| va(l) + &p * 4u8 - vb(l));
            check(a.sub_factor(&b).masked(), SUM_TOP, |l| va(l) + &p * 4u8 - vb(l));
            check(a.sub_twice_factor(&b).masked(), SUM_TOP, |l| (va(l) + &p * 4u8 - vb(l)) * 2u8);
            check(a.negate_where(0x0f), SUM_TOP, |l| if l < 4 { &p * 4u8 - va(l) } else { va(l) });
            let linear = Linear::multiple_of_p::<16>().minus(&a).minus(&b).minus(&b);
            check(Columns::product(&a, &b).plus(&linear).fold().fe(), PRODUCT_TOP, |l| {
                va(l) * vb(l) + &p * 16u8 - va(l) - vb(l) * 2u8
            });
        }
    }

    #[test]
    fn canonical_words_zero_and_parity() {
        over_every_lanes!(canonical_words_zero_and_parity_over);
    }

    fn canonical_words_zero_and_parity_over<V: Lanes>() {
        let p = oracle::prime();
        for a in elements::<V>() {
            let canonical = a.canonical();
            let words = canonical.to_words().map(V::to_words);
            for lane in 0..8 {
                let expected = value(a.0, lane) % &p;
                assert_eq!(value(canonical.0, lane), expected);
                assert_eq!(oracle::lane(&words, lane), expected);
                assert_eq!(a.zero_mask() >> lane & 1 == 1, expected == BigUint::ZERO);
                assert_eq!(canonical.odd_mask() >> lane & 1 == 1, expected.bit(0));
            }
        }
    }

    #[test]
    fn canonical_form_at_every_multiple_of_the_modulus() {
        over_every_lanes!(canonical_form_at_every_multiple_of_the_modulus_over);
    }

    /// Tests values next to the multiples of p and of 2^256, up to the largest that an element can have, at
    /// which a fold or the comparison with p could be wrong by one.
    fn canonical_form_at_every_multiple_of_the_modulus_over<V: Lanes>() {
        let p = oracle::prime();
        let largest = value::<V>(Fe::splat([MASK52, MASK52, MASK52, MASK52, MASK52]).0, 0);
        let power = BigUint::from(1u8) << 256;
        for (step, multiple) in
            [&p, &power].into_iter().flat_map(|n| (0..16u64).map(move |k| (n, k)))
        {
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
                    let canonical = Fe::<V>::splat(limbs).canonical();
                    assert_eq!(value(canonical.0, 0), &number % &p, "{number:x}");
                }
            }
        }
    }

    #[test]
    fn roots_of_squares() {
        over_every_lanes!(roots_of_squares_over);
    }

    fn roots_of_squares_over<V: Lanes>() {
        let p = oracle::prime();
        for a in elements::<V>().into_iter().step_by(9) {
            let square = mul_fe(&a, &a);
            let mut roots = [square; LOCKSTEP];
            square_root(&mut roots, 2);
            let expected = |l| value(square.0, l) % &p;
            check(mul_fe(&roots[1], &roots[1]), PRODUCT_TOP, expected);
        }
    }
}
