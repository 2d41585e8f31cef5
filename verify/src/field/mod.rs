//! Eight elements of the field modulo p = 2^256 - 2^32 - 977 at once.
//!
//! The algorithm of batch recovery is generic over [`Field`]. [`Limbs52`] implements it with five limbs of 52
//! bits over any [`Lanes`], and [`Doubles`] with five doubles over lanes that multiply doubles.
//!
//! An element has three forms with different types (`docs/verify-math.md` derives their ranges):
//!
//! | type              | contents                       | may be used as             |
//! |-------------------|--------------------------------|----------------------------|
//! | [`Field::Fe`]     | carried limbs                  | anything                   |
//! | [`Field::Factor`] | carried, possibly stale bits   | factor of a product only   |
//! | [`Field::Linear`] | a sum, nothing carried         | addend to a product only   |
//!
//! Values are only congruent modulo p; [`Field::to_words`] returns the canonical ones. The running time may depend on
//! values, because all of them are public.

mod doubles;
mod limbs52;
mod power;
mod product;
#[cfg(test)]
mod tests;

pub(crate) use doubles::Doubles;
pub(crate) use limbs52::{Fe, Limbs52, carry, limbs52, masked};
pub(crate) use power::{LOCKSTEP, square_root};

use crate::lanes::{LANES, Lanes, Mask};
use core::fmt::Debug;

pub(crate) const MASK52: u64 = (1 << 52) - 1;
pub(crate) const MASK48: u64 = (1 << 48) - 1;
/// 2^256 mod p.
pub(crate) const C: u64 = 0x1_0000_03d1;
/// 2^260 mod p.
pub(crate) const R: u64 = C << 4;

/// A valid operand of a product, whose limbs have the type `L`.
pub(crate) trait Multiplicand<L> {
    fn limbs(&self) -> &L;
}

/// An implementation of the field. Unless stated otherwise, operands of differences are products or negated products.
pub(crate) trait Field: Copy + Debug + 'static {
    type Lanes: Lanes;
    type Limbs;
    type Fe: Copy + Debug + Multiplicand<Self::Limbs>;
    type Factor: Copy + Debug + Multiplicand<Self::Limbs>;
    type Linear;

    /// Returns the same number, in little-endian words, in every lane.
    fn splat(words: [u64; 4]) -> Self::Fe;
    /// Converts 256-bit numbers, word-major: `words[w]` contains word `w` of each lane.
    fn from_words(words: [Self::Lanes; 4]) -> Self::Fe;
    /// Returns the representatives in 0..p, word-major.
    fn to_words(a: &Self::Fe) -> [Self::Lanes; 4];
    /// Returns the lanes that are zero modulo p.
    fn zero_mask(a: &Self::Fe) -> Mask;
    /// Converts to the form of a factor.
    fn factor(a: &Self::Fe) -> Self::Factor;
    /// Clears the stale bits.
    fn masked(a: &Self::Factor) -> Self::Fe;
    /// Returns `yes` in the lanes of `mask`, and `no` in the others.
    fn select(mask: Mask, yes: &Self::Factor, no: &Self::Factor) -> Self::Factor;
    /// Returns lane `l ^ DISTANCE` in lane `l`, for a distance of 1, 2 or 4.
    fn swap<const DISTANCE: usize>(a: &Self::Factor) -> Self::Factor;
    /// Returns lane `l` of `rows[l]` in lane `l`.
    fn gather(rows: [&Self::Fe; LANES]) -> Self::Fe;

    /// Returns `a - b`.
    fn sub(a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    /// Returns `a - b` for use in a product.
    fn sub_factor(a: &Self::Fe, b: &Self::Fe) -> Self::Factor;
    /// Returns `2 (a - b)` for use in a product.
    fn sub_twice_factor(a: &Self::Fe, b: &Self::Fe) -> Self::Factor;
    /// Returns `2 a`.
    fn twice(a: &Self::Fe) -> Self::Fe;
    /// Returns `a`, negated in the lanes of `mask`.
    fn negate_where(a: &Self::Fe, mask: Mask) -> Self::Fe;

    /// Returns the constant `value`.
    fn small(value: u32) -> Self::Linear;
    /// Returns `-a`.
    fn minus(a: &Self::Fe) -> Self::Linear;
    /// Returns `-2 a`.
    fn minus_twice(a: &Self::Fe) -> Self::Linear;
    /// Returns `-a - b`.
    fn minus_both(a: &Self::Fe, b: &Self::Fe) -> Self::Linear;
    /// Returns `-a - 2 b`.
    fn minus_and_twice(a: &Self::Fe, b: &Self::Fe) -> Self::Linear;

    /// Returns `SCALE a b`, for a scale of 1 to 4.
    fn mul_scaled<const SCALE: u32>(
        a: &impl Multiplicand<Self::Limbs>,
        b: &impl Multiplicand<Self::Limbs>,
    ) -> Self::Factor;
    /// Returns `SCALE a^2`, for a scale of 1 to 4.
    fn square_scaled<const SCALE: u32>(a: &impl Multiplicand<Self::Limbs>) -> Self::Factor;
    /// Returns `SCALE (a b + addend)`, for a scale of 1 or 2.
    fn mul_plus<const SCALE: u32>(
        a: &impl Multiplicand<Self::Limbs>,
        b: &impl Multiplicand<Self::Limbs>,
        addend: &Self::Linear,
    ) -> Self::Factor;
    /// Returns `a^2 + addend`.
    fn square_plus(a: &impl Multiplicand<Self::Limbs>, addend: &Self::Linear) -> Self::Factor;
    /// Returns `a^2 + b c`, reduced once.
    fn square_plus_mul(
        a: &impl Multiplicand<Self::Limbs>,
        b: &impl Multiplicand<Self::Limbs>,
        c: &impl Multiplicand<Self::Limbs>,
    ) -> Self::Factor;
    /// Returns `2 (a b + c d)`, reduced once.
    fn twice_mul_plus_mul(
        a: &impl Multiplicand<Self::Limbs>,
        b: &impl Multiplicand<Self::Limbs>,
        c: &impl Multiplicand<Self::Limbs>,
        d: &impl Multiplicand<Self::Limbs>,
    ) -> Self::Factor;

    /// Returns one for use in a product.
    #[inline(always)]
    fn one() -> Self::Factor {
        Self::factor(&Self::splat([1, 0, 0, 0]))
    }
    /// Returns `a b`.
    #[inline(always)]
    fn mul(a: &impl Multiplicand<Self::Limbs>, b: &impl Multiplicand<Self::Limbs>) -> Self::Factor {
        Self::mul_scaled::<1>(a, b)
    }
    /// Returns `a b`, masked.
    #[inline(always)]
    fn mul_fe(a: &impl Multiplicand<Self::Limbs>, b: &impl Multiplicand<Self::Limbs>) -> Self::Fe {
        Self::masked(&Self::mul(a, b))
    }
    /// Returns `a^2`.
    #[inline(always)]
    fn square(a: &impl Multiplicand<Self::Limbs>) -> Self::Factor {
        Self::square_scaled::<1>(a)
    }
    /// Returns `a^2 + addend`, masked.
    #[inline(always)]
    fn square_plus_fe(a: &impl Multiplicand<Self::Limbs>, addend: &Self::Linear) -> Self::Fe {
        Self::masked(&Self::square_plus(a, addend))
    }
}
