//! The field in five doubles, for processors whose widest vector multiplier multiplies doubles.
//!
//! An element is the sum of its limbs. Limb `i` is a signed multiple of 2^`WEIGHTS[i]`. The magnitude of a carried
//! limb is at most slightly more than half a unit of the next limb. Powers of two are in the exponents, so there
//! are no masks and no shifts, and a difference takes one subtraction per limb. `docs/verify-math.md`, section
//! 11, derives the bounds, and the checked model of [`crate::lanes::double`] asserts them in tests.

mod product;
#[cfg(test)]
mod tests;

use super::{
    C, Fe, Field, Limbs52, MASK52, Multiplicand,
    limbs52::{carry, masked},
};
use crate::lanes::{
    LANES, Mask,
    double::{Double, DoubleLanes},
    five,
};
use core::marker::PhantomData;
use product::{Product, Square, carried, power_of_two, reduced, reduced_sum};

/// The logarithms of the weights of the columns of a product; the first five also apply to the limbs.
const WEIGHTS: [i32; 11] = [0, 52, 103, 154, 205, 256, 308, 359, 410, 461, 512];
/// The weights of the limbs.
const LIMB_WEIGHTS: [i32; 5] = [WEIGHTS[0], WEIGHTS[1], WEIGHTS[2], WEIGHTS[3], WEIGHTS[4]];
const MASK51: u64 = (1 << 51) - 1;
/// The sign bit of a double.
const SIGN: u64 = 1 << 63;

/// The field in five doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubles<V>(PhantomData<V>);

/// A carried element: the bits of its doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<V>(pub(super) [V; 5]);

/// A number that a product subtracts: the bits of doubles up to twice as large as those of a carried element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subtrahend<V>([V; 5]);

impl<V> Multiplicand<[V; 5]> for Element<V> {
    #[inline(always)]
    fn limbs(&self) -> &[V; 5] {
        &self.0
    }
}

impl<V> Multiplicand<[V; 5]> for Subtrahend<V> {
    #[inline(always)]
    fn limbs(&self) -> &[V; 5] {
        &self.0
    }
}

/// Evaluates an expression for each half of its operands. It is a macro because a closure may become a separate
/// function, which would be compiled without the target features.
macro_rules! by_halves {
    ($lanes:ident; $($operand:ident),+ => $value:expr) => {{
        let low = {
            $(let $operand = $lanes::half($operand.limbs(), 0, &LIMB_WEIGHTS);)+
            $value
        };
        let high = {
            $(let $operand = $lanes::half($operand.limbs(), 1, &LIMB_WEIGHTS);)+
            $value
        };
        $lanes::joined(low, high)
    }};
}

/// Returns `SCALE` times a carried element, carried.
#[inline(always)]
fn scaled<const SCALE: u32, D: Double>(a: [D; 5]) -> [D; 5] {
    if SCALE == 1 { a } else { carried(five(|i| a[i].scaled(f64::from(SCALE)))) }
}

/// Returns `a - b`, not carried.
#[inline(always)]
fn difference<D: Double>(a: &[D; 5], b: &[D; 5]) -> [D; 5] {
    five(|i| a[i].sub(b[i]))
}

impl<V: DoubleLanes> Element<V> {
    /// Converts to 52-bit limbs.
    ///
    /// p is added so that no limb is negative. In the radix of the limbs, p is 2^52 - C followed by four limbs of
    /// 2^51 - 1. Only limb 0 can exceed half a unit of the next limb by more than a few units, so it is carried first.
    #[inline(always)]
    fn to_limbs52(self) -> Fe<V> {
        let offset = |i: usize| 1.5 * power_of_two(52 + WEIGHTS[i]);
        let limbs = self;
        let bits = by_halves!(V; limbs => {
            let x = product::low_carried(limbs);
            five(|i| x[i].add(Double::splat(offset(i))))
        });
        // The last place of the offset is the unit of the limb.
        let p = |i: usize| if i == 0 { MASK52 + 1 - C } else { MASK51 };
        let [a, b, c, d, e] =
            five(|i| bits[i].sub(V::splat(offset(i).to_bits())).add(V::splat(p(i))));
        let shared = |limb: V, bits: u64| limb.and(V::splat(bits));
        Fe(masked(carry([
            a,
            b.add(shared(c, 1).shl::<51>()),
            c.shr::<1>().add(shared(d, 3).shl::<50>()),
            d.shr::<2>().add(shared(e, 7).shl::<49>()),
            e.shr::<3>(),
        ])))
    }
}

impl<V: DoubleLanes> Field for Doubles<V> {
    type Lanes = V;
    type Limbs = [V; 5];
    type Fe = Element<V>;
    type Factor = Element<V>;
    type Linear = Subtrahend<V>;

    #[inline(always)]
    fn splat(words: [u64; 4]) -> Element<V> {
        let [a, b, c, d] = words;
        Self::from_words([V::splat(a), V::splat(b), V::splat(c), V::splat(d)])
    }

    #[inline(always)]
    fn from_words(w: [V; 4]) -> Element<V> {
        let mask = V::splat(MASK51);
        let integers = [
            w[0].and(V::splat(MASK52)),
            V::funnel::<52>(w[1], w[0]).and(mask),
            V::funnel::<39>(w[2], w[1]).and(mask),
            V::funnel::<26>(w[3], w[2]).and(mask),
            w[3].shr::<13>(),
        ];
        // The low 52 bits of a double in 2^(52 + w)..2^(53 + w) are the double minus 2^(52 + w), in units of 2^w.
        let power = |i: usize| power_of_two(52 + WEIGHTS[i]);
        let with_power = Element(five(|i| integers[i].or(V::splat(power(i).to_bits()))));
        Element(by_halves!(V; with_power => {
            carried(five(|i| with_power[i].sub(Double::splat(power(i)))))
        }))
    }

    #[inline(always)]
    fn to_words(a: &Element<V>) -> [V; 4] {
        Limbs52::to_words(&a.to_limbs52())
    }

    #[inline(always)]
    fn zero_mask(a: &Element<V>) -> Mask {
        Limbs52::zero_mask(&a.to_limbs52())
    }

    #[inline(always)]
    fn factor(a: &Element<V>) -> Element<V> {
        *a
    }

    #[inline(always)]
    fn masked(a: &Element<V>) -> Element<V> {
        *a
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &Element<V>, no: &Element<V>) -> Element<V> {
        Element(five(|i| V::select(mask, yes.0[i], no.0[i])))
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(a: &Element<V>) -> Element<V> {
        Element(five(|i| a.0[i].swap::<DISTANCE>()))
    }

    #[inline(always)]
    fn gather(r: [&Element<V>; LANES]) -> Element<V> {
        Element(five(|i| {
            V::gather([
                &r[0].0[i], &r[1].0[i], &r[2].0[i], &r[3].0[i], &r[4].0[i], &r[5].0[i], &r[6].0[i],
                &r[7].0[i],
            ])
        }))
    }

    #[inline(always)]
    fn sub(a: &Element<V>, b: &Element<V>) -> Element<V> {
        Element(by_halves!(V; a, b => carried(difference(&a, &b))))
    }

    #[inline(always)]
    fn sub_factor(a: &Element<V>, b: &Element<V>) -> Element<V> {
        Self::sub(a, b)
    }

    #[inline(always)]
    fn sub_twice_factor(a: &Element<V>, b: &Element<V>) -> Element<V> {
        Element(by_halves!(V; a, b => scaled::<2, _>(difference(&a, &b))))
    }

    #[inline(always)]
    fn twice(a: &Element<V>) -> Element<V> {
        Element(by_halves!(V; a => scaled::<2, _>(a)))
    }

    #[inline(always)]
    fn negate_where(a: &Element<V>, mask: Mask) -> Element<V> {
        let sign = V::select(mask, V::splat(SIGN), V::splat(0));
        Element(five(|i| a.0[i].xor(sign)))
    }

    #[inline(always)]
    fn small(value: u32) -> Subtrahend<V> {
        let first = -f64::from(value);
        Subtrahend(five(|i| V::splat(if i == 0 { first.to_bits() } else { 0 })))
    }

    #[inline(always)]
    fn minus(a: &Element<V>) -> Subtrahend<V> {
        Subtrahend(a.0)
    }

    #[inline(always)]
    fn minus_twice(a: &Element<V>) -> Subtrahend<V> {
        Subtrahend(by_halves!(V; a => five(|i| a[i].scaled(2.0))))
    }

    #[inline(always)]
    fn minus_both(a: &Element<V>, b: &Element<V>) -> Subtrahend<V> {
        Subtrahend(by_halves!(V; a, b => five(|i| a[i].add(b[i]))))
    }

    /// Carries the sum, because three times the size of a carried element would be too large.
    #[inline(always)]
    fn minus_and_twice(a: &Element<V>, b: &Element<V>) -> Subtrahend<V> {
        Subtrahend(by_halves!(V; a, b => carried(five(|i| a[i].add(b[i].scaled(2.0))))))
    }

    #[inline(always)]
    fn mul_scaled<const SCALE: u32>(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
    ) -> Element<V> {
        Element(by_halves!(V; a, b => scaled::<SCALE, _>(reduced(&Product(&a, &b), None))))
    }

    #[inline(always)]
    fn square_scaled<const SCALE: u32>(a: &impl Multiplicand<[V; 5]>) -> Element<V> {
        Element(by_halves!(V; a => scaled::<SCALE, _>(reduced(&Square::of(&a), None))))
    }

    #[inline(always)]
    fn mul_plus<const SCALE: u32>(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        minus: &Subtrahend<V>,
    ) -> Element<V> {
        Element(by_halves!(V; a, b, minus => {
            scaled::<SCALE, _>(reduced(&Product(&a, &b), Some(&minus)))
        }))
    }

    #[inline(always)]
    fn square_plus(a: &impl Multiplicand<[V; 5]>, minus: &Subtrahend<V>) -> Element<V> {
        Element(by_halves!(V; a, minus => reduced(&Square::of(&a), Some(&minus))))
    }

    #[inline(always)]
    fn square_plus_mul(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        c: &impl Multiplicand<[V; 5]>,
    ) -> Element<V> {
        Element(by_halves!(V; a, b, c => reduced_sum(&Product(&b, &c), &Square::of(&a))))
    }

    #[inline(always)]
    fn twice_mul_plus_mul(
        a: &impl Multiplicand<[V; 5]>,
        b: &impl Multiplicand<[V; 5]>,
        c: &impl Multiplicand<[V; 5]>,
        d: &impl Multiplicand<[V; 5]>,
    ) -> Element<V> {
        Element(by_halves!(V; a, b, c, d => {
            scaled::<2, _>(reduced_sum(&Product(&a, &b), &Product(&c, &d)))
        }))
    }
}
