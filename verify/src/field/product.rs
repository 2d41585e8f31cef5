//! Products modulo p: ten columns of 52-bit partial products, folded twice.
//!
//! The order of the folds and every bound is derived in `docs/verify-math.md`. For the factors of one reduction,
//! the sum of their limb-4 products must be below 2^104.

use super::{C, Factor, Fe, Linear, MASK48, Multiplicand, R, carry, masked};
use crate::lanes::{Lanes, five};

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
pub(crate) struct Columns<V>([V; 10]);

/// Five columns and the excess over the fifth, after the fold at 2^260.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded<V> {
    columns: [V; 5],
    top: V,
}

impl<V: Lanes> Columns<V> {
    /// Returns the product of `a` and `b`.
    #[inline(always)]
    pub(crate) fn product(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Self {
        Self([V::splat(0); 10]).plus_product(a, b)
    }

    /// Adds the product of `a` and `b`.
    #[inline(always)]
    pub(crate) fn plus_product(self, a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Self {
        Self(V::plus_product(self.biased().0, a.limbs(), b.limbs()))
    }

    /// Returns the square of `a`.
    #[inline(always)]
    pub(crate) fn square(a: &impl Multiplicand<V>) -> Self {
        Self(V::square(a.limbs())).biased()
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
    pub(crate) fn plus(mut self, addend: &Linear<V>) -> Self {
        for (column, limb) in self.0.iter_mut().zip(addend.0) {
            *column = column.add(limb);
        }
        self
    }

    /// Folds columns 5..10 with 2^260 = R. They are carried first, so that each enters the multiplier with
    /// exactly 52 bits.
    #[inline(always)]
    pub(crate) fn fold(self) -> Folded<V> {
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

impl<V: Lanes> Folded<V> {
    /// Returns twice the value.
    #[inline(always)]
    pub(crate) fn doubled(self) -> Self {
        Self {
            columns: five(|i| self.columns[i].add(self.columns[i])),
            top: self.top.add(self.top),
        }
    }

    /// Returns three times the value.
    #[inline(always)]
    pub(crate) fn tripled(self) -> Self {
        let triple = |c: V| c.add(c).add(c);
        Self { columns: five(|i| triple(self.columns[i])), top: triple(self.top) }
    }

    /// Returns four times the value.
    #[inline(always)]
    pub(crate) fn quadrupled(self) -> Self {
        Self { columns: five(|i| self.columns[i].shl::<2>()), top: self.top.shl::<2>() }
    }

    /// Folds at 2^256 and carries, without the final masks.
    #[inline(always)]
    pub(crate) fn factor(self) -> Factor<V> {
        let mut c = self.columns;
        let top = self.top.shl::<4>().add(c[4].shr::<48>());
        c[4] = c[4].and(V::splat(MASK48));
        (c[0], c[1]) = V::plus_halves(c[0], c[1], top, V::splat(C));
        Factor(carry(c))
    }

    /// Folds at 2^256, carries and masks.
    #[inline(always)]
    pub(crate) fn fe(self) -> Fe<V> {
        Fe(masked(self.factor().0))
    }
}

/// Returns `a b`.
#[inline(always)]
pub(crate) fn mul<V: Lanes>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Factor<V> {
    Columns::product(a, b).fold().factor()
}

/// Returns `a b`, masked.
#[inline(always)]
pub(crate) fn mul_fe<V: Lanes>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Fe<V> {
    Columns::product(a, b).fold().fe()
}

/// Returns `a^2`.
#[inline(always)]
pub(crate) fn square<V: Lanes>(a: &impl Multiplicand<V>) -> Factor<V> {
    Columns::square(a).fold().factor()
}
