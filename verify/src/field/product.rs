//! Products modulo p: ten columns of 52-bit partial products, folded twice.
//!
//! The order of the folds and every bound is derived in `docs/verify-math.md`. Requirement on the
//! factors of one reduction: the sum of their limb-4 products stays below 2^104.

use super::{C, Factor, Fe, Linear, MASK48, Multiplicand, R, carry, masked};
use crate::lanes::{Lanes, five};
use core::ops::Range;

/// The columns of a product that take seven or nine terms.
const MIDDLE: Range<usize> = 3..7;

/// The columns of a sum of products, weight 2^(52 i), before any reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<V>([V; 10]);

/// Five columns and what exceeds the fifth, after the fold at 2^260.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded<V> {
    columns: [V; 5],
    top: V,
}

impl<V: Lanes> Columns<V> {
    /// The product of `a` and `b`.
    #[inline(always)]
    pub(crate) fn product(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Self {
        Self([V::splat(0); 10]).plus_product(a, b)
    }

    /// Adds the product of `a` and `b`. The upper halves that belong to the middle columns, which
    /// have the most terms, are summed apart: a chain of nine multiply-adds would take longer than
    /// the processor needs for the whole product.
    #[inline(always)]
    pub(crate) fn plus_product(self, a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Self {
        let (a, b, mut c) = (a.limbs(), b.limbs(), self.0);
        let mut upper = [V::splat(0); MIDDLE.end - MIDDLE.start];
        for i in 0..5 {
            for j in 0..5 {
                c[i + j] = c[i + j].madd_lo(a[i], b[j]);
                let k = i + j + 1;
                let column =
                    if MIDDLE.contains(&k) { &mut upper[k - MIDDLE.start] } else { &mut c[k] };
                *column = column.madd_hi(a[i], b[j]);
            }
        }
        for (column, upper) in c[MIDDLE].iter_mut().zip(upper) {
            *column = column.add(upper);
        }
        Self(c)
    }

    /// The square of `a`: the ten mixed products once, doubled by column, then the diagonal.
    #[inline(always)]
    pub(crate) fn square(a: &impl Multiplicand<V>) -> Self {
        let a = a.limbs();
        let mut c = [V::splat(0); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                c[i + j] = c[i + j].madd_lo(a[i], a[j]);
                c[i + j + 1] = c[i + j + 1].madd_hi(a[i], a[j]);
            }
        }
        for column in &mut c[1..9] {
            *column = column.add(*column);
        }
        Self(c).plus_diagonal(a)
    }

    /// Adds the ten terms `a_i a_i`.
    #[inline(always)]
    fn plus_diagonal(self, a: &[V; 5]) -> Self {
        let mut c = self.0;
        for i in 0..5 {
            c[2 * i] = c[2 * i].madd_lo(a[i], a[i]);
            c[2 * i + 1] = c[2 * i + 1].madd_hi(a[i], a[i]);
        }
        Self(c)
    }

    /// Adds a sum.
    #[inline(always)]
    pub(crate) fn plus(mut self, addend: &Linear<V>) -> Self {
        for (column, limb) in self.0.iter_mut().zip(addend.0) {
            *column = column.add(limb);
        }
        self
    }

    /// Folds columns 5..10 with 2^260 = R. The carries run through them first, so that each
    /// enters the multiplier with exactly 52 bits.
    #[inline(always)]
    pub(crate) fn fold(self) -> Folded<V> {
        let mut c = self.0;
        let r = V::splat(R);
        for i in 5..9 {
            c[i + 1] = c[i + 1].add(c[i].shr::<52>());
        }
        for i in 5..9 {
            c[i - 5] = c[i - 5].madd_lo(c[i], r);
            c[i - 4] = c[i - 4].madd_hi(c[i], r);
        }
        c[4] = c[4].madd_lo(c[9], r);
        let top = V::splat(0).madd_hi(c[9], r);
        Folded { columns: [c[0], c[1], c[2], c[3], c[4]], top }
    }
}

impl<V: Lanes> Folded<V> {
    /// Twice the value.
    #[inline(always)]
    pub(crate) fn doubled(self) -> Self {
        Self {
            columns: five(|i| self.columns[i].add(self.columns[i])),
            top: self.top.add(self.top),
        }
    }

    /// Three times the value.
    #[inline(always)]
    pub(crate) fn tripled(self) -> Self {
        let triple = |c: V| c.add(c).add(c);
        Self { columns: five(|i| triple(self.columns[i])), top: triple(self.top) }
    }

    /// Four times the value.
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
        c[0] = c[0].madd_lo(top, V::splat(C));
        c[1] = c[1].madd_hi(top, V::splat(C));
        Factor(carry(c))
    }

    /// Folds at 2^256, carries and masks.
    #[inline(always)]
    pub(crate) fn fe(self) -> Fe<V> {
        Fe(masked(self.factor().0))
    }
}

/// `a b`
#[inline(always)]
pub(crate) fn mul<V: Lanes>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Factor<V> {
    Columns::product(a, b).fold().factor()
}

/// `a b`, masked.
#[inline(always)]
pub(crate) fn mul_fe<V: Lanes>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Fe<V> {
    Columns::product(a, b).fold().fe()
}

/// `a^2`
#[inline(always)]
pub(crate) fn square<V: Lanes>(a: &impl Multiplicand<V>) -> Factor<V> {
    Columns::square(a).fold().factor()
}
