//! The square root as a fixed power, with the addition chain of libsecp256k1.
// In lockstep code, `k` is the index of the same group in every array.
#![allow(clippy::needless_range_loop)]

use super::Field;
use crate::lanes::{Lanes, StagePart};

/// Number of groups that are processed in lockstep: enough independent chains to hide the latency of the
/// multiplier.
pub(crate) const LOCKSTEP: usize = 4;

type Set<F> = [<F as Field>::Factor; LOCKSTEP];

/// Replaces `a = roots[k]` by `a^((p + 1) / 4)` for the first `n` elements: a root of `a` if it has one, otherwise a
/// root of `-a`.
///
/// `xM` is `a^(2^M - 1)`. In binary, (p + 1) / 4 is 223 ones, a zero, 22 ones, four zeros, two ones and two
/// zeros.
#[inline(always)]
pub(crate) fn square_root<F: Field>(roots: &mut [F::Fe; LOCKSTEP], n: usize) {
    // Written out because a closure may become a separate function (see `lanes::five`).
    let [a, b, c, d] = &*roots;
    let a: Set<F> = [F::factor(a), F::factor(b), F::factor(c), F::factor(d)];
    let x2 = step::<F>(&a, 1, &a, n);
    let x3 = step::<F>(&x2, 1, &a, n);
    let x6 = step::<F>(&x3, 3, &x3, n);
    let x9 = step::<F>(&x6, 3, &x3, n);
    let x11 = step::<F>(&x9, 2, &x2, n);
    let x22 = step::<F>(&x11, 11, &x11, n);
    let x44 = step::<F>(&x22, 22, &x22, n);
    let x88 = step::<F>(&x44, 44, &x44, n);
    let x176 = step::<F>(&x88, 88, &x88, n);
    let x220 = step::<F>(&x176, 44, &x44, n);
    let x223 = step::<F>(&x220, 3, &x3, n);
    let high = step::<F>(&x223, 23, &x22, n);
    let mut power = step::<F>(&high, 6, &x2, n);
    square_times::<F>(&mut power, 2, n);
    for (root, power) in roots.iter_mut().zip(power) {
        *root = F::masked(&power);
    }
}

/// Returns `base^(2^squarings) * factor`.
#[inline(always)]
fn step<F: Field>(base: &Set<F>, squarings: usize, factor: &Set<F>, n: usize) -> Set<F> {
    F::Lanes::outlined(Step::<F> { base, squarings, factor, n })
}

struct Step<'a, F: Field> {
    base: &'a Set<F>,
    squarings: usize,
    factor: &'a Set<F>,
    n: usize,
}

impl<F: Field> StagePart for Step<'_, F> {
    type Result = Set<F>;

    #[inline(always)]
    fn run(self) -> Set<F> {
        let mut power = *self.base;
        square_times::<F>(&mut power, self.squarings, self.n);
        for k in 0..self.n.min(LOCKSTEP) {
            power[k] = F::mul(&power[k], &self.factor[k]);
        }
        power
    }
}

#[inline(always)]
fn square_times<F: Field>(power: &mut Set<F>, squarings: usize, n: usize) {
    for _ in 0..squarings {
        for k in 0..n.min(LOCKSTEP) {
            power[k] = F::square(&power[k]);
        }
    }
}
