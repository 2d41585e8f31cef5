//! Points of y^2 = x^3 + 7 and the formulas batch recovery adds and doubles with.
//!
//! Every formula fails in one way only: a denominator, or the Z of the result, is zero exactly
//! when it does not apply. Derivations are in `docs/verify-math.md`.
// In lockstep code `k` names the same group in every array it indexes.
#![allow(clippy::needless_range_loop)]

use crate::{
    field::{Columns, Factor, Fe, LOCKSTEP, Linear, mul, mul_fe, square},
    lanes::{Lanes, Mask},
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

/// x of the affine sum of p and q along the line of slope `slope`; `minus_x` is 16 p - x_p - x_q.
#[inline(always)]
pub(super) fn along_x<V: Lanes>(slope: &Factor<V>, minus_x: &Linear<V>) -> Fe<V> {
    Columns::square(slope).plus(minus_x).fold().fe()
}

/// The columns of y of the sum that starts from `p` and has the given `x`.
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
    /// The same point with Z = 1 everywhere; `w` is twice its y.
    #[inline(always)]
    pub(super) fn start(x: Fe<V>, w: Fe<V>) -> Self {
        Self {
            x: [x; LOCKSTEP],
            w: [w.factor(); LOCKSTEP],
            z: [Factor::one(); LOCKSTEP],
            scratch: [[Factor::one(); LOCKSTEP]; 3],
            masked: [[Fe::one(); LOCKSTEP]; 2],
        }
    }

    /// P becomes -2 P in the first `n` groups: 2 M + 4 S and one fused pair.
    #[inline(always)]
    pub(super) fn double(&mut self, n: usize) {
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

    /// P becomes -(P + Q) in the first `n` groups, Q being `q(k)` as x and twice y. Z becomes zero
    /// exactly when P is Q, -Q or infinity.
    #[inline(always)]
    pub(super) fn add<'a>(&mut self, n: usize, q: impl Fn(usize) -> &'a Affine<V>)
    where
        V: 'a,
    {
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
            // I = 4 H^2, in the place of Z^3.
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

    /// The lanes of group `k` in which adding `q` gives infinity: same x, different y.
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
