//! The field in five 52-bit limbs over any [`Lanes`].
//!
//! | type       | limbs 0..3                       | limb 4    |
//! |------------|----------------------------------|-----------|
//! | [`Fe`]     | below 2^52                       | < 2^51.4  |
//! | [`Factor`] | bits 52.. stale, already carried | < 2^51.4  |
//! | [`Linear`] | below 2^57, nothing carried      | likewise  |

use super::{C, Field, MASK48, MASK52, Multiplicand, product::Columns};
use crate::lanes::{LANES, Lanes, Mask, five};
use core::marker::PhantomData;

/// The field in five 52-bit limbs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limbs52<V>(PhantomData<V>);

/// An element with carried, masked limbs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fe<V>(pub(crate) [V; 5]);

/// An element whose limbs have stale bits above the low 52: a product without the final masks. The multiplier
/// ignores these bits, but sums must not use them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor<V>(pub(crate) [V; 5]);

/// A sum of elements without carries; limbs 0 to 3 are never negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear<V>(pub(crate) [V; 5]);

impl<V> Multiplicand<[V; 5]> for Fe<V> {
    #[inline(always)]
    fn limbs(&self) -> &[V; 5] {
        &self.0
    }
}

impl<V> Multiplicand<[V; 5]> for Factor<V> {
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

impl<V: Lanes> Fe<V> {
    #[inline(always)]
    pub(super) fn splat(limbs: [u64; 5]) -> Self {
        Self(five(|i| V::splat(limbs[i])))
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
    fn to_words(self) -> [V; 4] {
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

    /// Returns the representative in 0..p.
    #[inline(always)]
    pub(super) fn canonical(self) -> Self {
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
}

impl<V: Lanes> Linear<V> {
    /// Returns `K p` in limbs from which up to `K - 1` elements can be subtracted.
    #[inline(always)]
    fn multiple_of_p<const K: u64>() -> Self {
        let bias = bias::<K>();
        Self(five(|i| V::splat(bias[i])))
    }

    /// Returns `self - other`.
    #[inline(always)]
    fn minus(self, other: &Fe<V>) -> Self {
        Self(five(|i| self.0[i].sub(other.0[i])))
    }
}

/// Returns `K p` with every limb positive: the telescoping form of 2^256 K - C K.
const fn bias<const K: u64>() -> [u64; 5] {
    let full = K << 52;
    [full - K * C, full - K, full - K, full - K, (K << 48) - K]
}

impl<V: Lanes> Field for Limbs52<V> {
    type Lanes = V;
    type Limbs = [V; 5];
    type Fe = Fe<V>;
    type Factor = Factor<V>;
    type Linear = Linear<V>;

    #[inline(always)]
    fn splat(words: [u64; 4]) -> Fe<V> {
        Fe::splat(limbs52(words))
    }

    #[inline(always)]
    fn from_words(words: [V; 4]) -> Fe<V> {
        Fe::from_words(words)
    }

    #[inline(always)]
    fn to_words(a: &Fe<V>) -> [V; 4] {
        a.canonical().to_words()
    }

    #[inline(always)]
    fn zero_mask(a: &Fe<V>) -> Mask {
        let [a, b, c, d, e] = a.canonical().0;
        a.or(b).or(c.or(d)).or(e).zero_mask()
    }

    #[inline(always)]
    fn factor(a: &Fe<V>) -> Factor<V> {
        Factor(a.0)
    }

    #[inline(always)]
    fn masked(a: &Factor<V>) -> Fe<V> {
        Fe(masked(a.0))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &Factor<V>, no: &Factor<V>) -> Factor<V> {
        Factor(five(|i| V::select(mask, yes.0[i], no.0[i])))
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(a: &Factor<V>) -> Factor<V> {
        Factor(five(|i| a.0[i].swap::<DISTANCE>()))
    }

    #[inline(always)]
    fn gather(r: [&Fe<V>; LANES]) -> Fe<V> {
        Fe(five(|i| {
            V::gather([
                &r[0].0[i], &r[1].0[i], &r[2].0[i], &r[3].0[i], &r[4].0[i], &r[5].0[i], &r[6].0[i],
                &r[7].0[i],
            ])
        }))
    }

    #[inline(always)]
    fn sub(a: &Fe<V>, b: &Fe<V>) -> Fe<V> {
        Fe(masked(carry(a.difference(b))))
    }

    #[inline(always)]
    fn sub_factor(a: &Fe<V>, b: &Fe<V>) -> Factor<V> {
        Factor(carry(a.difference(b)))
    }

    #[inline(always)]
    fn sub_twice_factor(a: &Fe<V>, b: &Fe<V>) -> Factor<V> {
        let c = a.difference(b);
        Factor(carry(five(|i| c[i].add(c[i]))))
    }

    #[inline(always)]
    fn twice(a: &Fe<V>) -> Fe<V> {
        Fe(masked(carry(five(|i| a.0[i].add(a.0[i])))))
    }

    #[inline(always)]
    fn negate_where(a: &Fe<V>, mask: Mask) -> Fe<V> {
        let bias = bias::<4>();
        let c = five(|i| a.0[i].sub_where(mask, V::splat(bias[i]), a.0[i]));
        Fe(masked(carry(c)))
    }

    #[inline(always)]
    fn small(value: u32) -> Linear<V> {
        Linear(five(|i| V::splat(if i == 0 { u64::from(value) } else { 0 })))
    }

    #[inline(always)]
    fn minus(a: &Fe<V>) -> Linear<V> {
        Linear::multiple_of_p::<16>().minus(a)
    }

    #[inline(always)]
    fn minus_twice(a: &Fe<V>) -> Linear<V> {
        Linear::multiple_of_p::<8>().minus(a).minus(a)
    }

    #[inline(always)]
    fn minus_both(a: &Fe<V>, b: &Fe<V>) -> Linear<V> {
        Linear::multiple_of_p::<16>().minus(a).minus(b)
    }

    #[inline(always)]
    fn minus_and_twice(a: &Fe<V>, b: &Fe<V>) -> Linear<V> {
        Linear::multiple_of_p::<16>().minus(a).minus(b).minus(b)
    }

    #[inline(always)]
    fn mul_scaled<const SCALE: u32>(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
    ) -> Factor<V> {
        Columns::product(a, b).fold().scaled::<SCALE>().factor()
    }

    #[inline(always)]
    fn square_scaled<const SCALE: u32>(a: &impl Multiplicand<[V; 5]>) -> Factor<V> {
        Columns::square(a).fold().scaled::<SCALE>().factor()
    }

    #[inline(always)]
    fn mul_plus<const SCALE: u32>(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        addend: &Linear<V>,
    ) -> Factor<V> {
        Columns::product(a, b).plus(addend).fold().scaled::<SCALE>().factor()
    }

    #[inline(always)]
    fn square_plus(a: &impl Multiplicand<[V; 5]>, addend: &Linear<V>) -> Factor<V> {
        Columns::square(a).plus(addend).fold().factor()
    }

    #[inline(always)]
    fn square_plus_mul(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        c: &impl Multiplicand<[V; 5]>,
    ) -> Factor<V> {
        Columns::square(a).plus_product(b, c).fold().factor()
    }

    #[inline(always)]
    fn twice_mul_plus_mul(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        c: &impl Multiplicand<[V; 5]>,
        d: &impl Multiplicand<[V; 5]>,
    ) -> Factor<V> {
        Columns::product(a, b).plus_product(c, d).fold().scaled::<2>().factor()
    }
}
