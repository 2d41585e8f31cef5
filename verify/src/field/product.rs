//! Products modulo p: ten columns of 52-bit partial products, folded twice.
//!
//! The order of the folds and every bound is derived in `docs/verify-math.md`. For the factors of one reduction,
//! the sum of their limb-4 products must be below 2^104.

use super::{C, MASK48, R, limbs52::carry};
use crate::lanes::{Words, five};

/// Initial columns of a product if lower halves are signed. The sum is zero modulo p, and each
/// column is large enough for all its lower halves, including that of the first fold. Every 2^52 is
/// subtracted from the next column, except for column 4: its 2^260 is R, which is subtracted from
/// column 0, so that columns 5 to 9 remain the exact quotient and are never negative.
const BIAS: [u64; 10] = {
    const UNITS: [u64; 10] = [2, 2, 3, 3, 4, 2, 2, 2, 1, 0];
    let mut bias = [0u64; 10];
    let mut i = 0;
    while i < 10 {
        let borrowed = match i {
            0 => UNITS[4] * R,
            5 => 0,
            _ => UNITS[i - 1],
        };
        bias[i] = (UNITS[i] << 52).wrapping_sub(borrowed);
        i += 1;
    }
    bias
};

/// The columns of a sum of products, with weights 2^(52 i), before any reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<V>([V; 10]);

/// Five columns and the excess over the fifth, after the fold at 2^260.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded<V> {
    columns: [V; 5],
    top: V,
}

impl<V: Words> Columns<V> {
    /// Returns the product of `a` and `b`.
    #[inline(always)]
    pub(super) fn product(a: &[V; 5], b: &[V; 5]) -> Self {
        Self([V::splat(0); 10]).plus_product(a, b)
    }

    /// Adds the product of `a` and `b`.
    #[inline(always)]
    pub(super) fn plus_product(self, a: &[V; 5], b: &[V; 5]) -> Self {
        Self(V::plus_product(self.biased().0, a, b))
    }

    /// Returns the square of `a`.
    #[inline(always)]
    pub(super) fn square(a: &[V; 5]) -> Self {
        Self(V::square(a)).biased()
    }

    /// Prepares the columns for signed lower halves, if products have them.
    #[inline(always)]
    fn biased(mut self) -> Self {
        if V::SIGNED {
            for (column, bias) in self.0.iter_mut().zip(BIAS) {
                *column = column.add(V::splat(bias));
            }
        }
        self
    }

    /// Adds a sum.
    #[inline(always)]
    pub(super) fn plus(mut self, addend: &[V; 5]) -> Self {
        for (column, limb) in self.0.iter_mut().zip(addend) {
            *column = column.add(*limb);
        }
        self
    }

    /// Folds columns 5..10 with 2^260 = R. They are carried first, so that each enters the multiplier with
    /// exactly 52 bits.
    #[inline(always)]
    pub(super) fn fold(self) -> Folded<V> {
        let mut c = self.0;
        let r = V::splat(R);
        for i in 5..9 {
            c[i + 1] = c[i + 1].add(c[i].shr::<52>());
        }
        for i in 5..9 {
            (c[i - 5], c[i - 4]) = V::plus_halves(c[i - 5], c[i - 4], c[i], r);
        }
        let top;
        (c[4], top) = V::plus_halves(c[4], V::splat(0), c[9], r);
        Folded { columns: [c[0], c[1], c[2], c[3], c[4]], top }
    }
}

impl<V: Words> Folded<V> {
    /// Returns `SCALE` times the value, for a scale of 1 to 4.
    #[inline(always)]
    pub(super) fn scaled<const SCALE: u32>(self) -> Self {
        let scale = |c: V| match SCALE {
            1 => c,
            2 => c.add(c),
            3 => c.add(c).add(c),
            _ => c.shl::<2>(),
        };
        Self { columns: five(|i| scale(self.columns[i])), top: scale(self.top) }
    }

    /// Folds at 2^256 and carries, without the final masks.
    #[inline(always)]
    pub(super) fn factor(self) -> [V; 5] {
        let mut c = self.columns;
        let top = self.top.shl::<4>().add(c[4].shr::<48>());
        c[4] = c[4].and(V::splat(MASK48));
        (c[0], c[1]) = V::plus_halves(c[0], c[1], top, V::splat(C));
        carry(c)
    }
}
