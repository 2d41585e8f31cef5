//! Products modulo p: ten columns of 52-bit partial products, folded twice.
//!
//! `docs/verify-math.md` derives the order of the folds and every bound. The sum of the products of limbs 4 in one
//! reduction must be below 2^104.

use super::{
    C, MASK48, Multiplicand, R,
    limbs52::{Factor, Linear, carry},
};
use crate::lanes::{Lanes, five};

/// The columns of a sum of products, with weights 2^(52 i), before any reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<V>([V; 10]);

/// Five columns and the excess over the fifth, after the fold at 2^260.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded<V> {
    columns: [V; 5],
    top: V,
}

impl<V: Lanes> Columns<V> {
    /// Returns the product of `a` and `b`.
    #[inline(always)]
    pub(super) fn product(a: &impl Multiplicand<[V; 5]>, b: &impl Multiplicand<[V; 5]>) -> Self {
        Self([V::splat(0); 10]).plus_product(a, b)
    }

    /// Adds the product of `a` and `b`.
    #[inline(always)]
    pub(super) fn plus_product(
        self,
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
    ) -> Self {
        Self(V::plus_product(self.0, a.limbs(), b.limbs()))
    }

    /// Returns the square of `a`.
    #[inline(always)]
    pub(super) fn square(a: &impl Multiplicand<[V; 5]>) -> Self {
        Self(V::square(a.limbs()))
    }

    /// Adds `addend` to columns 0 to 4.
    #[inline(always)]
    pub(super) fn plus(mut self, addend: &Linear<V>) -> Self {
        for (column, limb) in self.0.iter_mut().zip(addend.0) {
            *column = column.add(limb);
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
            c[i - 5] = c[i - 5].madd_lo(c[i], r);
            c[i - 4] = c[i - 4].madd_hi(c[i], r);
        }
        c[4] = c[4].madd_lo(c[9], r);
        let top = V::splat(0).madd_hi(c[9], r);
        Folded { columns: [c[0], c[1], c[2], c[3], c[4]], top }
    }
}

impl<V: Lanes> Folded<V> {
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
    pub(super) fn factor(self) -> Factor<V> {
        let mut c = self.columns;
        let top = self.top.shl::<4>().add(c[4].shr::<48>());
        c[4] = c[4].and(V::splat(MASK48));
        c[0] = c[0].madd_lo(top, V::splat(C));
        c[1] = c[1].madd_hi(top, V::splat(C));
        Factor(carry(c))
    }
}
