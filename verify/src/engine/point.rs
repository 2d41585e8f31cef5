//! Points of y^2 = x^3 + 7 and the addition and doubling formulas of batch recovery.
//!
//! A denominator, or the Z of the result, is zero if and only if a formula does not apply. `docs/verify-math.md`
//! has the derivations.
// In lockstep code, `k` is the index of the same group in every array.
#![allow(clippy::needless_range_loop)]

use crate::{
    field::{Columns, Factor, Fe, LOCKSTEP, Linear, mul, mul_fe, square},
    lanes::{Lanes, Mask, StagePart},
    order::WINDOWS,
};

/// A point that is not at infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine<V> {
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
}

impl<V: Lanes> Affine<V> {
    pub(super) fn zero() -> Self {
        Self { x: Fe::zero(), y: Fe::zero() }
    }
}

/// Returns x of the affine sum of p and q, whose line has this slope; `minus_x` is 16 p - x_p - x_q.
#[inline(always)]
pub(super) fn along_x<V: Lanes>(slope: &Factor<V>, minus_x: &Linear<V>) -> Fe<V> {
    Columns::square(slope).plus(minus_x).fold().fe()
}

/// Returns the columns of y of the sum of `p` and another point, which has this `x`.
#[inline(always)]
pub(super) fn along_y<V: Lanes>(slope: &Factor<V>, p: &Affine<V>, x: &Fe<V>) -> Columns<V> {
    let minus_y = Linear::multiple_of_p::<16>().minus(&p.y);
    Columns::product(slope, &p.x.sub_factor(x)).plus(&minus_y)
}

/// Points in coordinates x = X / Z^2, y = W / (2 Z^3), for a few groups in lockstep.
#[derive(Clone, Debug)]
pub(super) struct Accumulators<V> {
    pub(super) x: [Fe<V>; LOCKSTEP],
    pub(super) w: [Factor<V>; LOCKSTEP],
    pub(super) z: [Factor<V>; LOCKSTEP],
    scratch: [[Factor<V>; LOCKSTEP]; 3],
    masked: [[Fe<V>; LOCKSTEP]; 2],
}

impl<V: Lanes> Accumulators<V> {
    /// Creates accumulators with the same point in all lanes, given as x and twice y, with Z = 1.
    #[inline(always)]
    pub(super) fn start(point: &Affine<V>) -> Self {
        Self {
            x: [point.x; LOCKSTEP],
            w: [point.y.factor(); LOCKSTEP],
            z: [Factor::one(); LOCKSTEP],
            scratch: [[Factor::one(); LOCKSTEP]; 3],
            masked: [[Fe::one(); LOCKSTEP]; 2],
        }
    }

    /// Replaces P by -2 P in the first `n` groups: 2 M + 4 S and one fused pair.
    #[inline(always)]
    pub(super) fn double(&mut self, n: usize) {
        V::outlined(Doubling { sum: self, n });
    }

    #[inline(always)]
    fn double_here(&mut self, n: usize) {
        let n = n.min(LOCKSTEP);
        let [t, m, _] = &mut self.scratch;
        let [s, _] = &mut self.masked;
        for k in 0..n {
            t[k] = square(&self.w[k]);
        }
        for k in 0..n {
            m[k] = Columns::square(&self.x[k]).fold().tripled().factor();
        }
        for k in 0..n {
            s[k] = mul_fe(&self.x[k], &t[k]);
        }
        for k in 0..n {
            self.z[k] = mul(&self.w[k], &self.z[k]);
        }
        for k in 0..n {
            let minus_2s = Linear::multiple_of_p::<8>().minus(&s[k]).minus(&s[k]);
            self.x[k] = Columns::square(&m[k]).plus(&minus_2s).fold().fe();
        }
        for k in 0..n {
            let d = self.x[k].sub_twice_factor(&s[k]);
            self.w[k] = Columns::square(&t[k]).plus_product(&m[k], &d).fold().factor();
        }
    }

    /// Replaces P by -(P + Q) in the first `n` groups, where Q is `points[k][window]` as x and twice y. Z
    /// becomes zero if and only if P is Q, -Q or infinity.
    #[inline(always)]
    pub(super) fn add(&mut self, n: usize, points: &[[Affine<V>; WINDOWS]], window: usize) {
        V::outlined(Addition { sum: self, n, points, window });
    }

    #[inline(always)]
    fn add_here(&mut self, n: usize, points: &[[Affine<V>; WINDOWS]], window: usize) {
        let q = |k: usize| &points[k][window];
        let n = n.min(LOCKSTEP);
        let [zz, h, r] = &mut self.scratch;
        let [j, v] = &mut self.masked;
        for k in 0..n {
            zz[k] = square(&self.z[k]);
        }
        for k in 0..n {
            let minus_x = Linear::multiple_of_p::<16>().minus(&self.x[k]);
            h[k] = Columns::product(&q(k).x, &zz[k]).plus(&minus_x).fold().factor();
        }
        for k in 0..n {
            zz[k] = mul(&zz[k], &self.z[k]);
        }
        for k in 0..n {
            let minus_w = Linear::multiple_of_p::<16>().minus(&self.w[k].masked());
            r[k] = Columns::product(&q(k).y, &zz[k]).plus(&minus_w).fold().factor();
        }
        for k in 0..n {
            self.z[k] = Columns::product(&self.z[k], &h[k]).fold().doubled().factor();
        }
        for k in 0..n {
            // I = 4 H^2 replaces Z^3.
            zz[k] = Columns::square(&h[k]).fold().quadrupled().factor();
        }
        for k in 0..n {
            j[k] = mul_fe(&zz[k], &h[k]);
        }
        for k in 0..n {
            v[k] = mul_fe(&self.x[k], &zz[k]);
        }
        for k in 0..n {
            let minus = Linear::multiple_of_p::<16>().minus(&j[k]).minus(&v[k]).minus(&v[k]);
            self.x[k] = Columns::square(&r[k]).plus(&minus).fold().fe();
        }
        for k in 0..n {
            let d = self.x[k].sub_factor(&v[k]);
            let sum = Columns::product(&r[k], &d).plus_product(&self.w[k], &j[k]);
            self.w[k] = sum.fold().doubled().factor();
        }
    }

    /// Returns the lanes of group `k` in which adding `q` results in infinity: same x, different y.
    #[inline(always)]
    pub(super) fn opposite_mask(&self, k: usize, q: &Affine<V>) -> Mask {
        let zz = square(&self.z[k]);
        let minus_x = Linear::multiple_of_p::<16>().minus(&self.x[k]);
        let h = Columns::product(&q.x, &zz).plus(&minus_x).fold().fe();
        let zzz = mul(&zz, &self.z[k]);
        let minus_w = Linear::multiple_of_p::<16>().minus(&self.w[k].masked());
        let r = Columns::product(&q.y, &zzz).plus(&minus_w).fold().fe();
        h.zero_mask() & !r.zero_mask() & !self.z[k].masked().zero_mask()
    }
}

/// [`Accumulators::double`]
struct Doubling<'a, V> {
    sum: &'a mut Accumulators<V>,
    n: usize,
}

impl<V: Lanes> StagePart for Doubling<'_, V> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.sum.double_here(self.n);
    }
}

/// [`Accumulators::add`]
struct Addition<'a, V> {
    sum: &'a mut Accumulators<V>,
    n: usize,
    points: &'a [[Affine<V>; WINDOWS]],
    window: usize,
}

impl<V: Lanes> StagePart for Addition<'_, V> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        self.sum.add_here(self.n, self.points, self.window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, Point, over_every_lanes};
    use num_bigint::BigUint;

    fn element<V: Lanes>(values: &[BigUint; 8]) -> Fe<V> {
        let words: [[u64; 8]; 4] =
            core::array::from_fn(|w| core::array::from_fn(|l| oracle::to_words(&values[l])[w]));
        Fe::from_words(words.map(V::from_words))
    }

    fn value<V: Lanes>(element: Fe<V>, lane: usize) -> BigUint {
        oracle::lane(&element.canonical().to_words().map(V::to_words), lane)
    }

    fn affine<V: Lanes>(points: &[Point; 8]) -> Affine<V> {
        let coordinate = |f: fn(&(BigUint, BigUint)) -> &BigUint| {
            element(&core::array::from_fn(|l| f(points[l].as_ref().expect("finite")).clone()))
        };
        Affine { x: coordinate(|p| &p.0), y: coordinate(|p| &p.1) }
    }

    /// Creates accumulators of `points` with the given Z.
    fn accumulators<V: Lanes>(points: &[Point; 8], zs: &[BigUint; 8]) -> Accumulators<V> {
        let Affine { x, y } = affine(points);
        let z = element::<V>(zs).factor();
        let zz = square(&z);
        let mut sum = Accumulators::start(&Affine { x, y: y.twice() });
        sum.x = [mul_fe(&x, &zz); LOCKSTEP];
        sum.w = [mul(&y.twice(), &mul(&zz, &z)); LOCKSTEP];
        sum.z = [z; LOCKSTEP];
        sum
    }

    /// Returns the affine point of a lane; `None` if Z is zero.
    fn point<V: Lanes>(sum: &Accumulators<V>, lane: usize) -> Point {
        let p = oracle::prime();
        let z = value(sum.z[0].masked(), lane);
        if z == BigUint::ZERO {
            return None;
        }
        let zi = oracle::inverse(&z, &p);
        let half = oracle::inverse(&BigUint::from(2u8), &p);
        let x = value(sum.x[0], lane) * &zi * &zi % &p;
        let y = value(sum.w[0].masked(), lane) * &zi * &zi * &zi * half % &p;
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

    /// The small groups of libsecp256k1's exhaustive tests, on y^2 = x^3 + 6, 2 and 4. No formula uses b.
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
    fn every_pair_of_small_groups() {
        over_every_lanes!(pairs_over);
    }

    /// Z is zero, and a denominator is zero, if and only if P = +-Q; otherwise the sum is correct.
    fn pairs_over<V: Lanes>() {
        let mut stream = oracle::Stream(7);
        let p = oracle::prime();
        for points in groups() {
            // All pairs of the small groups, and some rows of the large one.
            let rows = if points.len() > 20 { points.len() / 24 } else { 1 };
            for (i, a) in points.iter().enumerate().step_by(rows) {
                for from in (0..points.len()).step_by(8) {
                    let at = |l: usize| (from + l) % points.len();
                    let bs: [Point; 8] = core::array::from_fn(|l| points[at(l)].clone());
                    let a8: [Point; 8] = core::array::from_fn(|_| a.clone());
                    let zs = core::array::from_fn(|_| oracle::from_words(&stream.words()) % &p);
                    check_pair::<V>(i, &a8, &bs, &zs, &at, points.len());
                }
            }
        }
    }

    fn check_pair<V: Lanes>(
        i: usize,
        a: &[Point; 8],
        b: &[Point; 8],
        zs: &[BigUint; 8],
        at: &impl Fn(usize) -> usize,
        count: usize,
    ) {
        let q = affine::<V>(b);
        let doubled = Affine { x: q.x, y: q.y.twice() };
        let mut sum = accumulators::<V>(a, zs);
        let opposite = sum.opposite_mask(0, &doubled);
        let p = affine::<V>(a);
        let run = q.x.sub(&p.x);
        let vertical = run.zero_mask();
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
                let inverse = oracle::inverse(&value(run, l), &oracle::prime());
                let inverse = element::<V>(&core::array::from_fn(|_| inverse.clone()));
                let slope = mul(&q.y.sub_factor(&p.y), &inverse);
                let minus_x = Linear::multiple_of_p::<16>().minus(&p.x).minus(&q.x);
                let x = along_x(&slope, &minus_x);
                let y = along_y(&slope, &p, &x).fold().fe();
                assert_eq!(Some((value(x, l), value(y, l))), expected);
            }
        }
    }

    #[test]
    fn doubling_negates() {
        over_every_lanes!(doubling_over);
    }

    fn doubling_over<V: Lanes>() {
        let points = multiples(
            "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
            "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8",
            64,
        );
        let mut stream = oracle::Stream(8);
        for eight in points.as_chunks::<8>().0 {
            let zs = core::array::from_fn(|_| oracle::from_words(&stream.words()));
            let mut sum = accumulators::<V>(eight, &zs);
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
