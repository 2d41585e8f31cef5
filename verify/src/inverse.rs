//! Computes a single modular inverse with the variable-time safegcd algorithm of Bernstein and Yang, after
//! libsecp256k1's `modinv64`.
//!
//! Numbers have five signed 62-bit limbs. `docs/verify-math.md` explains the method; a test checks that a result
//! times its input is one.

const LIMBS: usize = 5;
const MASK62: u64 = u64::MAX >> 2;

/// An odd modulus of 256 bits.
#[derive(Debug)]
pub(crate) struct Modulus {
    limbs: [i64; LIMBS],
    /// 1 / modulus mod 2^62.
    inverse62: u64,
}

/// The field's p.
pub(crate) const FIELD: Modulus = Modulus {
    limbs: [0x3fff_fffe_ffff_fc2f, MASK62 as i64, MASK62 as i64, MASK62 as i64, 0xff],
    inverse62: 0x27c7_f6e2_2dda_cacf,
};

/// The group's n.
pub(crate) const ORDER: Modulus = Modulus {
    limbs: [
        0x3fd2_5e8c_d036_4141,
        0x2abb_739a_bd22_80ee,
        0x3fff_ffff_ffff_ffeb,
        MASK62 as i64,
        0xff,
    ],
    inverse62: 0x34f2_0099_aa77_4ec1,
};

/// The transition matrix of 62 division steps, multiplied by 2^62.
struct Transition {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

/// Returns the inverse of `x` (little-endian words, below the modulus); zero for zero.
pub(crate) fn invert_var(x: [u64; 4], modulus: &Modulus) -> [u64; 4] {
    let mut d = [0i64; LIMBS];
    let mut e = [1, 0, 0, 0, 0];
    let mut f = modulus.limbs;
    let mut g = to_limbs62(x);
    let mut eta = -1;
    let mut length = LIMBS;
    loop {
        let t = division_steps(&mut eta, f[0] as u64, g[0] as u64);
        update_de(&mut d, &mut e, &t, modulus);
        update_fg(&mut f[..length], &mut g[..length], &t);
        if g[..length].iter().all(|&limb| limb == 0) {
            break;
        }
        // The top limb is dropped if it is only a sign in both numbers.
        let (top_f, top_g) = (f[length - 1], g[length - 1]);
        if length > 1 && top_f ^ (top_f >> 63) | top_g ^ (top_g >> 63) == 0 {
            f[length - 2] |= ((top_f as u64) << 62) as i64;
            g[length - 2] |= ((top_g as u64) << 62) as i64;
            length -= 1;
        }
    }
    to_words(normalized(d, f[length - 1], modulus))
}

fn to_limbs62(x: [u64; 4]) -> [i64; LIMBS] {
    [
        x[0] & MASK62,
        (x[0] >> 62 | x[1] << 2) & MASK62,
        (x[1] >> 60 | x[2] << 4) & MASK62,
        (x[2] >> 58 | x[3] << 6) & MASK62,
        x[3] >> 56,
    ]
    .map(u64::cast_signed)
}

fn to_words(limbs: [i64; LIMBS]) -> [u64; 4] {
    let l = limbs.map(i64::cast_unsigned);
    [l[0] | l[1] << 62, l[1] >> 2 | l[2] << 60, l[2] >> 4 | l[3] << 58, l[3] >> 6 | l[4] << 56]
}

/// Executes 62 division steps on the low words of f and g, several at a time.
fn division_steps(eta: &mut i64, f0: u64, g0: u64) -> Transition {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    let (mut f, mut g) = (f0, g0);
    let mut left = 62u32;
    loop {
        // A sentinel bit limits the number of zeros to the remaining steps.
        let zeros = (g | (u64::MAX << left)).trailing_zeros();
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        *eta -= i64::from(zeros);
        left -= zeros;
        if left == 0 {
            break;
        }
        // Low bits of g are cancelled until eta changes its sign or the steps end: up to 6 after a swap, otherwise 4.
        let swap = *eta < 0;
        if swap {
            *eta = -*eta;
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
        }
        let limit = (*eta + 1).min(i64::from(left));
        let mask = (u64::MAX >> (64 - limit)) & if swap { 63 } else { 15 };
        let w = if swap {
            f.wrapping_mul(g).wrapping_mul(f.wrapping_mul(f).wrapping_sub(2)) & mask
        } else {
            let inverse = f.wrapping_add((f.wrapping_add(1) & 4) << 1);
            inverse.wrapping_neg().wrapping_mul(g) & mask
        };
        g = g.wrapping_add(f.wrapping_mul(w));
        q = q.wrapping_add(u.wrapping_mul(w));
        r = r.wrapping_add(v.wrapping_mul(w));
    }
    let [u, v, q, r] = [u, v, q, r].map(u64::cast_signed);
    Transition { u, v, q, r }
}

fn wide(a: i64, b: i64) -> i128 {
    i128::from(a) * i128::from(b)
}

/// Replaces (d, e) by its transition divided by 2^62, modulo the modulus.
fn update_de(d: &mut [i64; LIMBS], e: &mut [i64; LIMBS], t: &Transition, modulus: &Modulus) {
    let (d_sign, e_sign) = (d[4] >> 63, e[4] >> 63);
    let m = &modulus.limbs;
    let mut md = (t.u & d_sign) + (t.v & e_sign);
    let mut me = (t.q & d_sign) + (t.r & e_sign);
    let mut cd = wide(t.u, d[0]) + wide(t.v, e[0]);
    let mut ce = wide(t.q, d[0]) + wide(t.r, e[0]);
    // The multiple of the modulus that makes the low 62 bits zero.
    let correction = |column: i128, m: i64| {
        let low = modulus.inverse62.wrapping_mul(column as u64).wrapping_add(m as u64);
        (low & MASK62).cast_signed()
    };
    md -= correction(cd, md);
    me -= correction(ce, me);
    cd = (cd + wide(m[0], md)) >> 62;
    ce = (ce + wide(m[0], me)) >> 62;
    for i in 1..LIMBS {
        cd += wide(t.u, d[i]) + wide(t.v, e[i]) + wide(m[i], md);
        ce += wide(t.q, d[i]) + wide(t.r, e[i]) + wide(m[i], me);
        d[i - 1] = (cd as u64 & MASK62).cast_signed();
        e[i - 1] = (ce as u64 & MASK62).cast_signed();
        cd >>= 62;
        ce >>= 62;
    }
    d[4] = cd as i64;
    e[4] = ce as i64;
}

/// Replaces (f, g) by its transition divided by 2^62, which is exact.
fn update_fg(f: &mut [i64], g: &mut [i64], t: &Transition) {
    let mut cf = (wide(t.u, f[0]) + wide(t.v, g[0])) >> 62;
    let mut cg = (wide(t.q, f[0]) + wide(t.r, g[0])) >> 62;
    let last = f.len() - 1;
    for i in 1..f.len() {
        cf += wide(t.u, f[i]) + wide(t.v, g[i]);
        cg += wide(t.q, f[i]) + wide(t.r, g[i]);
        f[i - 1] = (cf as u64 & MASK62).cast_signed();
        g[i - 1] = (cg as u64 & MASK62).cast_signed();
        cf >>= 62;
        cg >>= 62;
    }
    f[last] = cf as i64;
    g[last] = cg as i64;
}

/// Returns `r`, negated if `sign` is negative, reduced to 0..modulus.
fn normalized(mut r: [i64; LIMBS], sign: i64, modulus: &Modulus) -> [i64; LIMBS] {
    let negate = sign >> 63;
    for pass in 0..2 {
        let add = r[4] >> 63;
        for (limb, m) in r.iter_mut().zip(modulus.limbs) {
            *limb += m & add;
            if pass == 0 {
                *limb = (*limb ^ negate) - negate;
            }
        }
        for i in 0..4 {
            r[i + 1] += r[i] >> 62;
            r[i] &= MASK62.cast_signed();
        }
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;

    #[test]
    fn nonzero_number_times_its_inverse_is_one() {
        for (modulus, value) in [(&FIELD, oracle::prime()), (&ORDER, oracle::order())] {
            for words in oracle::batches(&oracle::scalar_edges(), 500) {
                for lane in 0..8 {
                    let x = oracle::lane(&words, lane) % &value;
                    let inverse = invert_var(oracle::to_words(&x), modulus);
                    let product = oracle::from_words(&inverse) * &x % &value;
                    let expected = u32::from(x != num_bigint::BigUint::ZERO);
                    assert_eq!(product, expected.into());
                    assert!(oracle::from_words(&inverse) < value);
                }
            }
        }
    }
}
