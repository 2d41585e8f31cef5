//! Inverts many elements with one inversion: Montgomery's trick on a stack.
//!
//! Elements are pushed, all of them are inverted, and the inverses are popped in reverse order. A zero would make every
//! product with it zero. Therefore, zeros are detected before the inversion, replaced by one, and reported with their
//! group; other lanes are not affected.

use crate::{
    field::{Field, limbs52},
    inverse::{FIELD, ORDER, invert_var},
    lanes::{Lanes, Mask, StagePart, five},
    order::Scalar,
};
use core::marker::PhantomData;

/// Number of independent running products, so that the latency of one overlaps with three others.
const CHAINS: usize = 4;

/// A kind of elements that can be inverted in a batch.
pub(super) trait Invertible {
    type Lanes: Lanes;
    type Element: Copy;
    fn one() -> Self::Element;
    fn times(a: &Self::Element, b: &Self::Element) -> Self::Element;
    /// Returns the inverse of an element that is not zero and equal in every lane.
    fn invert_uniform(a: &Self::Element) -> Self::Element;
    fn zero_mask(a: &Self::Element) -> Mask;
    fn select(mask: Mask, yes: &Self::Element, no: &Self::Element) -> Self::Element;
    fn swap<const DISTANCE: usize>(a: &Self::Element) -> Self::Element;
}

/// The field modulo p.
#[derive(Debug)]
pub(super) struct ModuloP<F>(PhantomData<F>);

impl<F: Field> Invertible for ModuloP<F> {
    type Lanes = F::Lanes;
    type Element = F::Factor;

    #[inline(always)]
    fn one() -> F::Factor {
        F::one()
    }

    #[inline(always)]
    fn times(a: &F::Factor, b: &F::Factor) -> F::Factor {
        F::mul(a, b)
    }

    #[inline(always)]
    fn invert_uniform(a: &F::Factor) -> F::Factor {
        let [a, b, c, d] = F::to_words(&F::masked(a));
        let words = [a.to_words()[0], b.to_words()[0], c.to_words()[0], d.to_words()[0]];
        F::factor(&F::splat(invert_var(words, &FIELD)))
    }

    #[inline(always)]
    fn zero_mask(a: &F::Factor) -> Mask {
        F::zero_mask(&F::masked(a))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &F::Factor, no: &F::Factor) -> F::Factor {
        F::select(mask, yes, no)
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(a: &F::Factor) -> F::Factor {
        F::swap::<DISTANCE>(a)
    }
}

/// The scalars modulo n.
#[derive(Debug)]
pub(super) struct ModuloN<V>(PhantomData<V>);

impl<V: Lanes> Invertible for ModuloN<V> {
    type Lanes = V;
    type Element = Scalar<V>;

    #[inline(always)]
    fn one() -> Scalar<V> {
        Scalar::one()
    }

    #[inline(always)]
    fn times(a: &Scalar<V>, b: &Scalar<V>) -> Scalar<V> {
        a.mul(b)
    }

    #[inline(always)]
    fn invert_uniform(a: &Scalar<V>) -> Scalar<V> {
        Scalar::splat(limbs52(invert_var(a.first_reduced(), &ORDER))).inverse_to_montgomery()
    }

    /// Returns an empty mask: only r is inverted modulo n, r is in 1..n, and n is prime.
    #[inline(always)]
    fn zero_mask(_: &Scalar<V>) -> Mask {
        0
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &Scalar<V>, no: &Scalar<V>) -> Scalar<V> {
        Scalar(five(|i| V::select(mask, yes.0[i], no.0[i])))
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(a: &Scalar<V>) -> Scalar<V> {
        Scalar(five(|i| a.0[i].swap::<DISTANCE>()))
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot<E> {
    element: E,
    /// The product of the elements before this one in its chain.
    before: E,
}

/// The stack of elements to be inverted, with a fixed capacity.
#[derive(Debug)]
pub(super) struct Inverter<I: Invertible> {
    slots: Vec<Slot<I::Element>>,
    groups: Vec<u16>,
    used: usize,
    running: [I::Element; CHAINS],
}

impl<I: Invertible> Inverter<I> {
    /// Creates a stack for at most `capacity` elements.
    pub(super) fn new(capacity: usize) -> Self {
        let one = I::one();
        Self {
            slots: vec![Slot { element: one, before: one }; capacity],
            groups: vec![0; capacity],
            used: 0,
            running: [one; CHAINS],
        }
    }

    /// Pushes an element that belongs to `group`.
    #[inline(always)]
    pub(super) fn push(&mut self, group: usize, element: I::Element) {
        let chain = &mut self.running[self.used % CHAINS];
        self.slots[self.used] = Slot { element, before: *chain };
        self.groups[self.used] = group as u16;
        *chain = I::times(chain, &element);
        self.used += 1;
    }

    /// Pops the last element. Returns its inverse and the element itself.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> (I::Element, I::Element) {
        self.used -= 1;
        let slot = &self.slots[self.used];
        let chain = &mut self.running[self.used % CHAINS];
        let inverse = I::times(chain, &slot.before);
        *chain = I::times(chain, &slot.element);
        (inverse, slot.element)
    }

    /// Inverts all elements. Lanes that are zero are replaced by one, and are set in the entry of `zeros` for
    /// their group.
    #[inline(always)]
    pub(super) fn invert(&mut self, zeros: &mut [Mask]) {
        I::Lanes::outlined(Inversion { stack: self, zeros });
    }

    #[inline(always)]
    fn invert_here(&mut self, zeros: &mut [Mask]) {
        let mut halves = self.halves();
        let mut all = I::times(&halves[0], &halves[1]);
        if I::zero_mask(&all) != 0 {
            self.replace_zeros(zeros);
            halves = self.halves();
            all = I::times(&halves[0], &halves[1]);
        }
        let [a, b, c, d] = self.running;
        let all = inverse_by_lanes::<I>(&all);
        let (ab, cd) = (I::times(&all, &halves[1]), I::times(&all, &halves[0]));
        self.running = [I::times(&ab, &b), I::times(&ab, &a), I::times(&cd, &d), I::times(&cd, &c)];
    }

    #[inline(always)]
    fn halves(&self) -> [I::Element; 2] {
        let [a, b, c, d] = &self.running;
        [I::times(a, b), I::times(c, d)]
    }

    /// Detects the zeros, replaces them, and multiplies the chains again (the cold path).
    #[inline(always)]
    fn replace_zeros(&mut self, zeros: &mut [Mask]) {
        self.running = [I::one(); CHAINS];
        for i in 0..self.used {
            let slot = &mut self.slots[i];
            let mask = I::zero_mask(&slot.element);
            zeros[usize::from(self.groups[i])] |= mask;
            slot.element = I::select(mask, &I::one(), &slot.element);
            let chain = &mut self.running[i % CHAINS];
            slot.before = *chain;
            *chain = I::times(chain, &slot.element);
        }
    }
}

/// The arguments of [`Inverter::invert`].
struct Inversion<'a, I: Invertible> {
    stack: &'a mut Inverter<I>,
    zeros: &'a mut [Mask],
}

impl<I: Invertible> StagePart for Inversion<'_, I> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.stack.invert_here(self.zeros);
    }
}

/// Inverts each lane, for the cost of one scalar inversion and six products.
#[inline(always)]
fn inverse_by_lanes<I: Invertible>(a: &I::Element) -> I::Element {
    let pairs = I::times(a, &I::swap::<1>(a));
    let fours = I::times(&pairs, &I::swap::<2>(&pairs));
    let eight = I::times(&fours, &I::swap::<4>(&fours));
    let inverse = I::times(&I::invert_uniform(&eight), &I::swap::<4>(&fours));
    I::times(&I::times(&inverse, &I::swap::<2>(&pairs)), &I::swap::<1>(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, over_every_field};

    #[test]
    fn zeros_are_reported_and_the_rest_inverted() {
        over_every_field!(zeros_over);
    }

    fn zeros_over<F: Field>() {
        let mut stream = oracle::Stream(3);
        for count in [1, 2, 3, 4, 5, 8, 13] {
            let mut inverter = Inverter::<ModuloP<F>>::new(13);
            let mut elements = Vec::new();
            for i in 0..count {
                let words = core::array::from_fn(|_| {
                    F::Lanes::from_words(core::array::from_fn(|_| stream.word()))
                });
                // Lane 3 of the second element is p, which is zero modulo p.
                let mask = if i == 1 { 0b1000 } else { 0 };
                let p = F::splat(oracle::to_words(&oracle::prime()));
                let plain = F::factor(&F::from_words(words));
                let element = F::select(mask, &F::factor(&p), &plain);
                elements.push(element);
                inverter.push(i, element);
            }
            let mut zeros = vec![0; count];
            inverter.invert(&mut zeros);
            for (i, element) in elements.iter().enumerate().rev() {
                assert_eq!(zeros[i], if i == 1 { 0b1000 } else { 0 });
                let (inverse, _) = inverter.pop();
                let product = F::mul_fe(&inverse, element);
                let minus_one = F::sub(&product, &F::splat([1, 0, 0, 0]));
                assert_eq!(F::zero_mask(&minus_one), !zeros[i]);
            }
        }
    }
}
