//! Many inverses for the cost of one: Montgomery's trick on a stack.
//!
//! Elements are pushed, then all are inverted, then the inverses are popped in reverse order. A zero would make
//! every product with it zero. Therefore, zeros are detected before the inversion, replaced by one, and reported
//! with their group; other lanes are not affected.

use crate::{
    field::{Factor, Fe, limbs52, mul},
    inverse::{FIELD, ORDER, invert_var},
    lanes::{Lanes, Mask, StagePart, five},
    order::Scalar,
};
use core::marker::PhantomData;

/// Number of independent running products, so that the latency of one overlaps with three others.
const CHAINS: usize = 4;

/// An element that can be inverted in a batch.
pub(super) trait Element<V: Lanes>: Copy {
    fn one() -> Self;
    fn times(&self, other: &Self) -> Self;
    /// Returns the inverse of an element that is not zero and equal in every lane.
    fn invert_uniform(&self) -> Self;
    fn zero_mask(&self) -> Mask;
    fn select(mask: Mask, yes: &Self, no: &Self) -> Self;
    fn swap<const DISTANCE: usize>(&self) -> Self;
}

impl<V: Lanes> Element<V> for Factor<V> {
    #[inline(always)]
    fn one() -> Self {
        Self::one()
    }

    #[inline(always)]
    fn times(&self, other: &Self) -> Self {
        mul(self, other)
    }

    #[inline(always)]
    fn invert_uniform(&self) -> Self {
        let words = self.masked().canonical().to_words().map(|word| word.to_words()[0]);
        Fe::splat(limbs52(invert_var(words, &FIELD))).factor()
    }

    #[inline(always)]
    fn zero_mask(&self) -> Mask {
        self.masked().zero_mask()
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &Self, no: &Self) -> Self {
        Self::select(mask, yes, no)
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(&self) -> Self {
        Self(five(|i| self.0[i].swap::<DISTANCE>()))
    }
}

impl<V: Lanes> Element<V> for Scalar<V> {
    #[inline(always)]
    fn one() -> Self {
        Self::one()
    }

    #[inline(always)]
    fn times(&self, other: &Self) -> Self {
        self.mul(other)
    }

    #[inline(always)]
    fn invert_uniform(&self) -> Self {
        Self::splat(limbs52(invert_var(self.first_reduced(), &ORDER))).inverse_to_montgomery()
    }

    /// Always empty: only r is inverted modulo n. It is in 1..n, and n is prime.
    #[inline(always)]
    fn zero_mask(&self) -> Mask {
        0
    }

    #[inline(always)]
    fn select(mask: Mask, yes: &Self, no: &Self) -> Self {
        Self(five(|i| V::select(mask, yes.0[i], no.0[i])))
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(&self) -> Self {
        Self(five(|i| self.0[i].swap::<DISTANCE>()))
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
pub(super) struct Inverter<E> {
    slots: Vec<Slot<E>>,
    groups: Vec<u16>,
    used: usize,
    running: [E; CHAINS],
}

impl<E: Copy> Inverter<E> {
    /// Creates a stack for at most `capacity` elements, which is filled with `one`.
    pub(super) fn new(capacity: usize, one: E) -> Self {
        Self {
            slots: vec![Slot { element: one, before: one }; capacity],
            groups: vec![0; capacity],
            used: 0,
            running: [one; CHAINS],
        }
    }

    /// Pushes an element that belongs to `group`.
    #[inline(always)]
    pub(super) fn push<V: Lanes>(&mut self, group: usize, element: E)
    where
        E: Element<V>,
    {
        let chain = &mut self.running[self.used % CHAINS];
        self.slots[self.used] = Slot { element, before: *chain };
        self.groups[self.used] = group as u16;
        *chain = chain.times(&element);
        self.used += 1;
    }

    /// Pops the last element. Returns its inverse and the element itself.
    #[inline(always)]
    pub(super) fn pop<V: Lanes>(&mut self) -> (E, E)
    where
        E: Element<V>,
    {
        self.used -= 1;
        let slot = &self.slots[self.used];
        let chain = &mut self.running[self.used % CHAINS];
        let inverse = chain.times(&slot.before);
        *chain = chain.times(&slot.element);
        (inverse, slot.element)
    }

    /// Inverts all elements. Lanes that are zero are replaced by one, and are set in the entry of `zeros` for
    /// their group.
    #[inline(always)]
    pub(super) fn invert<V: Lanes>(&mut self, zeros: &mut [Mask])
    where
        E: Element<V>,
    {
        V::outlined(Inversion { stack: self, zeros, lanes: PhantomData });
    }

    #[inline(always)]
    fn invert_here<V: Lanes>(&mut self, zeros: &mut [Mask])
    where
        E: Element<V>,
    {
        let mut halves = self.halves();
        let mut all = halves[0].times(&halves[1]);
        if all.zero_mask() != 0 {
            self.replace_zeros(zeros);
            halves = self.halves();
            all = halves[0].times(&halves[1]);
        }
        let [a, b, c, d] = self.running;
        let all = inverse_by_lanes(&all);
        let (ab, cd) = (all.times(&halves[1]), all.times(&halves[0]));
        self.running = [ab.times(&b), ab.times(&a), cd.times(&d), cd.times(&c)];
    }

    #[inline(always)]
    fn halves<V: Lanes>(&self) -> [E; 2]
    where
        E: Element<V>,
    {
        let [a, b, c, d] = &self.running;
        [a.times(b), c.times(d)]
    }

    /// The cold path: detects the zeros, replaces them, and multiplies the chains again.
    #[inline(always)]
    fn replace_zeros<V: Lanes>(&mut self, zeros: &mut [Mask])
    where
        E: Element<V>,
    {
        self.running = [E::one(); CHAINS];
        for i in 0..self.used {
            let slot = &mut self.slots[i];
            let mask = slot.element.zero_mask();
            zeros[usize::from(self.groups[i])] |= mask;
            slot.element = E::select(mask, &E::one(), &slot.element);
            let chain = &mut self.running[i % CHAINS];
            slot.before = *chain;
            *chain = chain.times(&slot.element);
        }
    }
}

/// [`Inverter::invert`]
struct Inversion<'a, V, E> {
    stack: &'a mut Inverter<E>,
    zeros: &'a mut [Mask],
    lanes: PhantomData<V>,
}

impl<V: Lanes, E: Element<V>> StagePart for Inversion<'_, V, E> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.stack.invert_here::<V>(self.zeros);
    }
}

/// Inverts each lane, for the cost of one scalar inversion and six products.
#[inline(always)]
fn inverse_by_lanes<V: Lanes, E: Element<V>>(a: &E) -> E {
    let pairs = a.times(&a.swap::<1>());
    let fours = pairs.times(&pairs.swap::<2>());
    let eight = fours.times(&fours.swap::<4>());
    let inverse = eight.invert_uniform().times(&fours.swap::<4>());
    inverse.times(&pairs.swap::<2>()).times(&a.swap::<1>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lanes::model::Model, oracle};

    #[test]
    fn zeros_are_reported_and_the_rest_inverted() {
        let mut stream = oracle::Stream(3);
        for count in [1, 2, 3, 4, 5, 8, 13] {
            let mut inverter = Inverter::new(13, Factor::<Model>::one());
            let mut elements = Vec::new();
            for i in 0..count {
                let words = core::array::from_fn(|_| {
                    Model::from_words(core::array::from_fn(|_| stream.word()))
                });
                // Lane 3 of the second element is p, which is zero modulo p.
                let mask = if i == 1 { 0b1000 } else { 0 };
                let p = Fe::splat(limbs52(oracle::to_words(&oracle::prime())));
                let plain: Fe<Model> = Fe::from_words(words);
                let element = Factor::select(mask, &p.factor(), &plain.factor()).masked();
                elements.push(element);
                inverter.push(i, element.factor());
            }
            let mut zeros = vec![0; count];
            inverter.invert(&mut zeros);
            for (i, element) in elements.iter().enumerate().rev() {
                assert_eq!(zeros[i], if i == 1 { 0b1000 } else { 0 });
                let (inverse, _) = inverter.pop();
                let product = mul(&inverse, element).masked();
                let minus_one = product.sub(&Fe::one());
                assert_eq!(minus_one.zero_mask(), !zeros[i]);
            }
        }
    }
}
