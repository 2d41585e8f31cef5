//! The square root as a fixed power, with the addition chain of libsecp256k1.
// In lockstep code, `k` is the index of the same group in every array.
#![allow(clippy::needless_range_loop)]

use super::{Factor, Fe, mul, square};
use crate::lanes::{Lanes, StagePart};

/// Number of groups that are processed in lockstep: enough independent chains to hide the latency of the
/// multiplier.
pub(crate) const LOCKSTEP: usize = 4;

type Set<V> = [Factor<V>; LOCKSTEP];

/// Computes `a[k]^((p + 1) / 4)` in place for the first `n` elements: a root of `a[k]` if it has one, otherwise
/// a root of its negative.
///
/// `x_m` is `a^(2^m - 1)`. In binary, (p + 1) / 4 is 223 ones, a zero, 22 ones, four zeros, two ones and two
/// zeros.
#[inline(always)]
pub(crate) fn square_root<V: Lanes>(roots: &mut [Fe<V>; LOCKSTEP], n: usize) {
    let a: Set<V> = roots.map(Fe::factor);
    let x2 = step(&a, 1, &a, n);
    let x3 = step(&x2, 1, &a, n);
    let x6 = step(&x3, 3, &x3, n);
    let x9 = step(&x6, 3, &x3, n);
    let x11 = step(&x9, 2, &x2, n);
    let x22 = step(&x11, 11, &x11, n);
    let x44 = step(&x22, 22, &x22, n);
    let x88 = step(&x44, 44, &x44, n);
    let x176 = step(&x88, 88, &x88, n);
    let x220 = step(&x176, 44, &x44, n);
    let x223 = step(&x220, 3, &x3, n);
    let high = step(&x223, 23, &x22, n);
    let mut power = step(&high, 6, &x2, n);
    square_times(&mut power, 2, n);
    for (root, power) in roots.iter_mut().zip(power) {
        *root = power.masked();
    }
}

/// Returns `base^(2^squarings) * factor`.
#[inline(always)]
fn step<V: Lanes>(base: &Set<V>, squarings: usize, factor: &Set<V>, n: usize) -> Set<V> {
    V::outlined(Step { base, squarings, factor, n })
}

struct Step<'a, V> {
    base: &'a Set<V>,
    squarings: usize,
    factor: &'a Set<V>,
    n: usize,
}

impl<V: Lanes> StagePart for Step<'_, V> {
    type Result = Set<V>;

    #[inline(always)]
    fn run(self) -> Set<V> {
        let mut power = *self.base;
        square_times(&mut power, self.squarings, self.n);
        for k in 0..self.n.min(LOCKSTEP) {
            power[k] = mul(&power[k], &self.factor[k]);
        }
        power
    }
}

#[inline(always)]
fn square_times<V: Lanes>(power: &mut Set<V>, squarings: usize, n: usize) {
    for _ in 0..squarings {
        for k in 0..n.min(LOCKSTEP) {
            power[k] = square(&power[k]);
        }
    }
}
