//! Points of y^2 = x^3 + 7 and the addition and doubling formulas of batch recovery.
//!
//! A denominator, or the Z of the result, is zero if and only if the formula does not apply. `docs/verify-math.md`
//! contains the derivations.
// In lockstep code, `k` is the index of the same group in every array.
#![allow(clippy::needless_range_loop)]

use crate::{
    field::{Field, LOCKSTEP},
    lanes::{Lanes, Mask, StagePart},
    order::WINDOWS,
};

/// A point that is not at infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine<F: Field> {
    pub(super) x: F::Fe,
    pub(super) y: F::Fe,
}

impl<F: Field> Affine<F> {
    pub(super) fn zero() -> Self {
        let zero = F::splat([0; 4]);
        Self { x: zero, y: zero }
    }
}

/// Points in coordinates x = X / Z^2, y = W / (2 Z^3), for [`LOCKSTEP`] groups.
#[derive(Clone, Debug)]
pub(super) struct Accumulators<F: Field> {
    pub(super) x: [F::Fe; LOCKSTEP],
    pub(super) w: [F::Factor; LOCKSTEP],
    pub(super) z: [F::Factor; LOCKSTEP],
    scratch: [[F::Factor; LOCKSTEP]; 3],
    masked: [[F::Fe; LOCKSTEP]; 2],
}

impl<F: Field> Accumulators<F> {
    /// Creates accumulators with the same point in all lanes, given as x and twice y, with Z = 1.
    #[inline(always)]
    pub(super) fn start(point: &Affine<F>) -> Self {
        Self {
            x: [point.x; LOCKSTEP],
            w: [F::factor(&point.y); LOCKSTEP],
            z: [F::one(); LOCKSTEP],
            scratch: [[F::one(); LOCKSTEP]; 3],
            masked: [[F::splat([1, 0, 0, 0]); LOCKSTEP]; 2],
        }
    }

    /// Replaces P by -2 P in the first `n` groups: 2 M + 3 S and one fused pair (M + S).
    #[inline(always)]
    pub(super) fn double(&mut self, n: usize) {
        F::Lanes::outlined(Doubling { sum: self, n });
    }

    #[inline(always)]
    fn double_here(&mut self, n: usize) {
        let n = n.min(LOCKSTEP);
        let [t, m, _] = &mut self.scratch;
        let [s, _] = &mut self.masked;
        for k in 0..n {
            t[k] = F::square(&self.w[k]);
        }
        for k in 0..n {
            m[k] = F::square_scaled::<3>(&self.x[k]);
        }
        for k in 0..n {
            s[k] = F::mul_fe(&self.x[k], &t[k]);
        }
        for k in 0..n {
            self.z[k] = F::mul(&self.w[k], &self.z[k]);
        }
        for k in 0..n {
            self.x[k] = F::square_plus_fe(&m[k], &F::minus_twice(&s[k]));
        }
        for k in 0..n {
            let d = F::sub_twice_factor(&self.x[k], &s[k]);
            self.w[k] = F::square_plus_mul(&t[k], &m[k], &d);
        }
    }

    /// Replaces P by -(P + Q) in the first `n` groups, where Q is `points[k][window]` as x and twice y. Z
    /// becomes zero if and only if P is Q, -Q or infinity.
    #[inline(always)]
    pub(super) fn add(&mut self, n: usize, points: &[[Affine<F>; WINDOWS]], window: usize) {
        F::Lanes::outlined(Addition { sum: self, n, points, window });
    }

    #[inline(always)]
    fn add_here(&mut self, n: usize, points: &[[Affine<F>; WINDOWS]], window: usize) {
        let q = |k: usize| &points[k][window];
        let n = n.min(LOCKSTEP);
        let [zz, h, r] = &mut self.scratch;
        let [j, v] = &mut self.masked;
        for k in 0..n {
            zz[k] = F::square(&self.z[k]);
        }
        for k in 0..n {
            h[k] = F::mul_plus::<1>(&q(k).x, &zz[k], &F::minus(&self.x[k]));
        }
        for k in 0..n {
            zz[k] = F::mul(&zz[k], &self.z[k]);
        }
        for k in 0..n {
            let minus_w = F::minus(&F::masked(&self.w[k]));
            r[k] = F::mul_plus::<1>(&q(k).y, &zz[k], &minus_w);
        }
        for k in 0..n {
            self.z[k] = F::mul_scaled::<2>(&self.z[k], &h[k]);
        }
        for k in 0..n {
            // I = 4 H^2 replaces Z^3.
            zz[k] = F::square_scaled::<4>(&h[k]);
        }
        for k in 0..n {
            j[k] = F::mul_fe(&zz[k], &h[k]);
        }
        for k in 0..n {
            v[k] = F::mul_fe(&self.x[k], &zz[k]);
        }
        for k in 0..n {
            self.x[k] = F::square_plus_fe(&r[k], &F::minus_and_twice(&j[k], &v[k]));
        }
        for k in 0..n {
            let d = F::sub_factor(&self.x[k], &v[k]);
            self.w[k] = F::twice_mul_plus_mul(&r[k], &d, &self.w[k], &j[k]);
        }
    }

    /// Returns the lanes of group `k` in which adding `q` results in infinity: same x, different y.
    #[inline(always)]
    pub(super) fn opposite_mask(&self, k: usize, q: &Affine<F>) -> Mask {
        let zz = F::square(&self.z[k]);
        let h = F::mul_plus::<1>(&q.x, &zz, &F::minus(&self.x[k]));
        let zzz = F::mul(&zz, &self.z[k]);
        let r = F::mul_plus::<1>(&q.y, &zzz, &F::minus(&F::masked(&self.w[k])));
        let zero_mask = |a| F::zero_mask(&F::masked(a));
        zero_mask(&h) & !zero_mask(&r) & !zero_mask(&self.z[k])
    }
}

/// The arguments of [`Accumulators::double`].
struct Doubling<'a, F: Field> {
    sum: &'a mut Accumulators<F>,
    n: usize,
}

impl<F: Field> StagePart for Doubling<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.sum.double_here(self.n);
    }
}

/// The arguments of [`Accumulators::add`].
struct Addition<'a, F: Field> {
    sum: &'a mut Accumulators<F>,
    n: usize,
    points: &'a [[Affine<F>; WINDOWS]],
    window: usize,
}

impl<F: Field> StagePart for Addition<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.sum.add_here(self.n, self.points, self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, Point, over_every_field};
    use num_bigint::BigUint;

    fn element<F: Field>(values: &[BigUint; 8]) -> F::Fe {
        let words: [[u64; 8]; 4] =
            core::array::from_fn(|w| core::array::from_fn(|l| oracle::to_words(&values[l])[w]));
        F::from_words(words.map(F::Lanes::from_words))
    }

    fn value<F: Field>(element: F::Fe, lane: usize) -> BigUint {
        oracle::lane(&F::to_words(&element).map(F::Lanes::to_words), lane)
    }

    fn affine<F: Field>(points: &[Point; 8]) -> Affine<F> {
        let coordinate = |f: fn(&(BigUint, BigUint)) -> &BigUint| {
            element::<F>(&core::array::from_fn(|l| f(points[l].as_ref().expect("finite")).clone()))
        };
        Affine { x: coordinate(|p| &p.0), y: coordinate(|p| &p.1) }
    }

    /// Creates accumulators of `points` with the given Z.
    fn accumulators<F: Field>(points: &[Point; 8], zs: &[BigUint; 8]) -> Accumulators<F> {
        let Affine { x, y } = affine::<F>(points);
        let z = F::factor(&element::<F>(zs));
        let zz = F::square(&z);
        let w = F::twice(&y);
        let mut sum = Accumulators::start(&Affine { x, y: w });
        sum.x = [F::mul_fe(&x, &zz); LOCKSTEP];
        sum.w = [F::mul(&w, &F::mul(&zz, &z)); LOCKSTEP];
        sum.z = [z; LOCKSTEP];
        sum
    }

    /// Returns the affine point of a lane; `None` if Z is zero.
    fn point<F: Field>(sum: &Accumulators<F>, lane: usize) -> Point {
        let p = oracle::prime();
        let z = value::<F>(F::masked(&sum.z[0]), lane);
        if z == BigUint::ZERO {
            return None;
        }
        let zi = oracle::inverse(&z, &p);
        let half = oracle::inverse(&BigUint::from(2u8), &p);
        let x = value::<F>(sum.x[0], lane) * &zi * &zi % &p;
        let y = value::<F>(F::masked(&sum.w[0]), lane) * &zi * &zi * &zi * half % &p;
        Some((x, y))
    }

    fn multiples(x: &str, y: &str, count: usize) -> Vec<Point> {
        let generator = Some((oracle::hex(x), oracle::hex(y)));
        let mut all = vec![generator.clone()];
        while all.len() < count {
            all.push(oracle::sum(&all[all.len() - 1], &generator));
        }
        all
    }

    /// Returns the small groups of libsecp256k1's exhaustive tests: y^2 = x^3 + b, b = 6, 2, 4. No formula uses b.
    fn groups() -> Vec<Vec<Point>> {
        [
            (
                7,
                "66625d13317ffe4463d32cff1ca02b9be5c6d07050b4b05e81cc30dbf5166f0a",
                "1e60e897a7c00c7c2df53eb698274ff464252f428ca44e173b25418cff4ab0cf",
            ),
            (
                13,
                "a2482ff84bf34edfa51262fde57921dbe0dd2cb7a5914790bc71631fc09704fb",
                "942536cba3e494923a701cc3ee3e443fdf182aa915b8aa6a166d3b19ba84b045",
            ),
            (
                199,
                "7fb07b5cd07c3bda553902e27a87ea2c35108a7f051f41e5b76abad51f2703ad",
                "0a2515395b4c4438952a634fac10dd4d6d6f474598990c273a4f3116d32ff969",
            ),
        ]
        .iter()
        .map(|&(order, x, y)| {
            let points = multiples(x, y, order - 1);
            assert_eq!(oracle::sum(&points[order - 2], &points[0]), None, "order {order}");
            points
        })
        .collect()
    }

    #[test]
    fn formulas_fail_only_for_equal_or_opposite_points() {
        over_every_field!(pairs_over);
    }

    /// Checks that Z or a denominator is zero if and only if P = +-Q, and that the sum is correct otherwise.
    fn pairs_over<F: Field>() {
        let mut stream = oracle::Stream(7);
        let p = oracle::prime();
        for points in groups() {
            // All pairs of points of the small groups; in the large one, every eighth point is paired with all points.
            let rows = if points.len() > 20 { points.len() / 24 } else { 1 };
            for (i, a) in points.iter().enumerate().step_by(rows) {
                for from in (0..points.len()).step_by(8) {
                    let at = |l: usize| (from + l) % points.len();
                    let bs: [Point; 8] = core::array::from_fn(|l| points[at(l)].clone());
                    let a8: [Point; 8] = core::array::from_fn(|_| a.clone());
                    let zs = core::array::from_fn(|_| oracle::from_words(&stream.words()) % &p);
                    check_pair::<F>(i, &a8, &bs, &zs, &at, points.len());
                }
            }
        }
    }

    fn check_pair<F: Field>(
        i: usize,
        a: &[Point; 8],
        b: &[Point; 8],
        zs: &[BigUint; 8],
        at: &impl Fn(usize) -> usize,
        count: usize,
    ) {
        let q = affine::<F>(b);
        let doubled = Affine { x: q.x, y: F::twice(&q.y) };
        let mut sum = accumulators::<F>(a, zs);
        let opposite = sum.opposite_mask(0, &doubled);
        let p = affine::<F>(a);
        let run = F::sub(&q.x, &p.x);
        let vertical = F::zero_mask(&run);
        sum.add(1, &[[doubled; WINDOWS]], 0);
        for l in 0..8 {
            let equal = at(l) == i;
            let negative = at(l) + i + 2 == count + 1;
            let expected = oracle::sum(&a[l], &b[l]);
            let got = point(&sum, l);
            assert_eq!(vertical >> l & 1 == 1, equal || negative);
            assert_eq!(opposite >> l & 1 == 1, negative);
            assert_eq!(got.is_none(), equal || negative);
            if got.is_some() {
                assert_eq!(got, oracle::negated(&expected));
                let inverse = oracle::inverse(&value::<F>(run, l), &oracle::prime());
                let inverse = element::<F>(&core::array::from_fn(|_| inverse.clone()));
                let slope = F::mul(&F::sub_factor(&q.y, &p.y), &inverse);
                let x = F::square_plus_fe(&slope, &F::minus_both(&p.x, &q.x));
                let rise = F::sub_factor(&p.x, &x);
                let y = F::masked(&F::mul_plus::<1>(&slope, &rise, &F::minus(&p.y)));
                assert_eq!(Some((value::<F>(x, l), value::<F>(y, l))), expected);
            }
        }
    }

    #[test]
    fn doubling_negates() {
        over_every_field!(doubling_over);
    }

    fn doubling_over<F: Field>() {
        let points = multiples(
            "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
            "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
            64,
        );
        let mut stream = oracle::Stream(8);
        for eight in points.as_chunks::<8>().0 {
            let zs = core::array::from_fn(|_| oracle::from_words(&stream.words()));
            let mut sum = accumulators::<F>(eight, &zs);
            let mut expected = eight.clone();
            for _ in 0..6 {
                sum.double(1);
                for (l, expected) in expected.iter_mut().enumerate() {
                    *expected = oracle::negated(&oracle::sum(expected, expected));
                    assert_eq!(point(&sum, l), *expected);
                }
            }
        }
    }
}
