//! Products modulo p of elements whose limbs are doubles.
//!
//! `docs/verify-math.md`, section 11, proves every bound. The proof depends on the order of the operations: a column is
//! rounded ("fixed") before a sum that would otherwise have more than 53 bits. Columns are computed from the highest to
//! the lowest, so that few of them are live at a time.

use super::WEIGHTS;
use crate::{field::C, lanes::double::Double};

/// Five limbs.
pub(super) type Limbs<D> = [D; 5];

/// Returns 2^`exponent`.
pub(super) const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Returns the constant whose last place is the unit of column `k + 1`: `(x + c) - c` is `x`, rounded to a
/// multiple of that unit.
const fn rounding(k: usize) -> f64 {
    1.5 * power_of_two(52 + WEIGHTS[k + 1])
}

/// C / 2^256. 2^256 is C modulo p, so a product with `FOLD` moves a column down by five without changing its value.
const FOLD: f64 = C as f64 * power_of_two(-256);

/// A sum of products in column `k`, as `low - high`: `high` is a multiple of the unit of column `k + 1`.
#[derive(Clone, Copy)]
pub(super) struct Column<D> {
    low: D,
    high: D,
}

impl<D: Double> Column<D> {
    /// Returns `a b` in column `K`. `SCALE` is 2 if `a b` may be twice as large as a product of two carried limbs.
    #[inline(always)]
    fn of<const K: usize, const SCALE: u32>(a: D, b: D) -> Self {
        let constant = D::splat(rounding(K) * SCALE as f64);
        let high = constant.sub(a.mul_add_rounded(b, constant));
        Self { low: a.mul_add(b, high), high }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self { low: self.low.add(other.low), high: self.high.add(other.high) }
    }

    /// Moves the excess of `low` over half a unit of the next column to `high`.
    #[inline(always)]
    fn fixed<const K: usize>(self) -> Self {
        let excess = excess::<K, D>(self.low);
        Self { low: self.low.sub(excess), high: self.high.sub(excess) }
    }
}

/// Returns `x`, rounded to a multiple of the unit of column `K + 1`.
#[inline(always)]
fn excess<const K: usize, D: Double>(x: D) -> D {
    let constant = D::splat(rounding(K));
    x.add_rounded(constant).sub(constant)
}

/// The factors of a product.
pub(super) trait Factors<D: Double> {
    /// Returns the sum of the products in column `K`.
    fn column<const K: usize>(&self) -> Column<D>;
}

/// Two different factors.
pub(super) struct Product<'a, D>(pub(super) &'a Limbs<D>, pub(super) &'a Limbs<D>);

impl<D: Double> Factors<D> for Product<'_, D> {
    #[inline(always)]
    fn column<const K: usize>(&self) -> Column<D> {
        let Self(a, b) = self;
        let (first, last) = if K < 4 { (0, K) } else { (K - 4, 4) };
        let mut sum = Column::of::<K, 1>(a[first], b[K - first]);
        for i in first + 1..=last {
            sum = sum.plus(Column::of::<K, 1>(a[i], b[K - i]));
        }
        sum
    }
}

/// A factor and twice its limbs.
pub(super) struct Square<'a, D>(&'a Limbs<D>, Limbs<D>);

impl<'a, D: Double> Square<'a, D> {
    #[inline(always)]
    pub(super) fn of(a: &'a Limbs<D>) -> Self {
        let twice = |i: usize| a[i].add(a[i]);
        // The first limb is never the second factor of a mixed product.
        Self(a, [a[0], twice(1), twice(2), twice(3), twice(4)])
    }
}

impl<D: Double> Factors<D> for Square<'_, D> {
    #[inline(always)]
    fn column<const K: usize>(&self) -> Column<D> {
        let Self(a, twice) = self;
        let (first, mixed) = (K.saturating_sub(4), K.div_ceil(2));
        if first == mixed {
            return Column::of::<K, 1>(a[first], a[first]);
        }
        let mut sum = Column::of::<K, 2>(a[first], twice[K - first]);
        for i in first + 1..mixed {
            sum = sum.plus(Column::of::<K, 2>(a[i], twice[K - i]));
        }
        if mixed == K / 2 {
            sum = sum.plus(Column::of::<K, 1>(a[K / 2], a[K / 2]));
        }
        sum
    }
}

/// Column 9, which is `-high` of column 8, after its fold to column 4: `low4` is the low part there, and `column0` is
/// the high part, folded once more.
struct Top<D> {
    low4: D,
    column0: Column<D>,
}

impl<D: Double> Top<D> {
    #[inline(always)]
    fn of(c8: &Column<D>) -> Self {
        let fold = D::splat(-FOLD);
        let folded = Column::of::<4, 1>(c8.high, fold);
        Self { low4: folded.low, column0: Column::of::<0, 1>(folded.high, fold) }
    }
}

/// Returns `z - subtrahend[K]`, if there is a subtrahend.
#[inline(always)]
fn minus<const K: usize, D: Double>(z: D, subtrahend: Option<&Limbs<D>>) -> D {
    match subtrahend {
        Some(limbs) => z.sub(limbs[K]),
        None => z,
    }
}

/// Returns the product, minus `subtrahend`, which is at most twice as large as a carried element.
#[inline(always)]
pub(super) fn reduced<D: Double>(
    factors: &impl Factors<D>,
    subtrahend: Option<&Limbs<D>>,
) -> Limbs<D> {
    let fold = D::splat(FOLD);
    let c8 = factors.column::<8>();
    let top = Top::of(&c8);
    let c7 = factors.column::<7>();
    let z8 = c8.low.sub(c7.high);
    let c6 = factors.column::<6>();
    let z7 = c7.low.sub(c6.high);
    let c5 = factors.column::<5>().fixed::<5>();
    let z6 = c6.low.sub(c5.high);
    let c4 = factors.column::<4>();
    let z5 = c5.low.sub(c4.high);
    let low4 = c4.low.add(top.low4);
    let excess4 = excess::<4, D>(low4);
    let low4 = minus::<4, D>(low4.sub(excess4), subtrahend);
    let c3 = factors.column::<3>().plus(Column::of::<3, 1>(z8, fold)).fixed::<3>();
    let z4 = low4.sub(c3.high);
    let mut c2 = factors.column::<2>().plus(Column::of::<2, 1>(z7, fold));
    if subtrahend.is_some() {
        c2 = c2.fixed::<2>();
    }
    let z3 = minus::<3, D>(c3.low.sub(c2.high), subtrahend);
    let c1 = factors.column::<1>().plus(Column::of::<1, 1>(z6, fold));
    let z2 = minus::<2, D>(c2.low.sub(c1.high), subtrahend);
    let mut c0 = top.column0.plus(factors.column::<0>()).plus(Column::of::<0, 1>(z5, fold));
    if subtrahend.is_some() {
        c0 = c0.fixed::<0>();
    }
    let z1 = minus::<1, D>(c1.low.sub(c0.high), subtrahend);
    let z0 = minus::<0, D>(c0.low, subtrahend);
    carried_with([z0, z1, z2, z3, z4], Some(excess4))
}

/// Returns the sum of two products, reduced once. Columns 3 and 4 of the first product are fixed before those of the
/// second are added, and the differences that use both are fixed between the two subtractions.
#[inline(always)]
pub(super) fn reduced_sum<D: Double>(
    first: &impl Factors<D>,
    second: &impl Factors<D>,
) -> Limbs<D> {
    let fold = D::splat(FOLD);
    let c8 = first.column::<8>().plus(second.column::<8>());
    let top = Top::of(&c8);
    let c7 = first.column::<7>().plus(second.column::<7>());
    let z8 = c8.low.sub(c7.high);
    let c6 = first.column::<6>().plus(second.column::<6>()).fixed::<6>();
    let z7 = c7.low.sub(c6.high);
    let c5 = first.column::<5>().plus(second.column::<5>()).fixed::<5>();
    let c4 = first.column::<4>();
    let mut excess4 = excess::<4, D>(c4.low);
    let low4 = c4.low.sub(excess4);
    let c4b = second.column::<4>();
    let low4 = c4b.low.add(low4);
    let z5 = c5.low.sub(c4.high);
    let excess5 = excess::<5, D>(z5);
    let z5 = z5.sub(excess5).sub(c4b.high);
    let z6 = c6.low.sub(c5.high.sub(excess5));
    let low4 = low4.add(top.low4);
    let more = excess::<4, D>(low4);
    let low4 = low4.sub(more);
    excess4 = excess4.add(more);
    let c3 = first.column::<3>();
    let excess3 = excess::<3, D>(c3.low);
    let mut c3b = second.column::<3>();
    c3b.low = c3b.low.add(c3.low.sub(excess3));
    let mut c3b = c3b.plus(Column::of::<3, 1>(z8, fold));
    c3b.high = c3b.high.sub(excess3);
    let c3b = c3b.fixed::<3>();
    let z4 = low4.sub(c3.high);
    let more = excess::<4, D>(z4);
    let z4 = z4.sub(more).sub(c3b.high);
    excess4 = excess4.add(more);
    let c2 = first.column::<2>().plus(second.column::<2>());
    let c2 = c2.plus(Column::of::<2, 1>(z7, fold)).fixed::<2>();
    let z3 = c3b.low.sub(c2.high);
    let c1 = first.column::<1>().plus(second.column::<1>()).plus(Column::of::<1, 1>(z6, fold));
    let z2 = c2.low.sub(c1.high);
    let c0 = top.column0.plus(first.column::<0>()).plus(second.column::<0>());
    let c0 = c0.plus(Column::of::<0, 1>(z5, fold));
    carried_with([c0.low, c1.low.sub(c0.high), z2, z3, z4], Some(excess4))
}

/// Carries all limbs at once. They must be at most four times as large as carried ones.
#[inline(always)]
pub(super) fn carried<D: Double>(z: Limbs<D>) -> Limbs<D> {
    carried_with(z, None)
}

/// Carries all limbs. The caller has subtracted `excess4` from limb 4; it is folded together with the carry of limb 4.
#[inline(always)]
fn carried_with<D: Double>([z0, z1, z2, z3, z4]: Limbs<D>, excess4: Option<D>) -> Limbs<D> {
    let (t0, t1) = (excess::<0, D>(z0), excess::<1, D>(z1));
    let (t2, t3, t4) = (excess::<2, D>(z2), excess::<3, D>(z3), excess::<4, D>(z4));
    let top = match excess4 {
        Some(excess4) => t4.add(excess4),
        None => t4,
    };
    [
        top.mul_add(D::splat(FOLD), z0.sub(t0)),
        z1.sub(t1).add(t0),
        z2.sub(t2).add(t1),
        z3.sub(t3).add(t2),
        z4.sub(t4).add(t3),
    ]
}

/// Carries only from limb 0 to limb 1: afterwards limb 0 is at most half a unit of limb 1.
#[inline(always)]
pub(super) fn low_carried<D: Double>([z0, z1, z2, z3, z4]: Limbs<D>) -> Limbs<D> {
    let t0 = excess::<0, D>(z0);
    [z0.sub(t0), z1.add(t0), z2, z3, z4]
}
