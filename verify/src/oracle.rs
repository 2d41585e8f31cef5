//! Reference arithmetic with big integers for tests, and numbers at the edges of ranges.

use num_bigint::{BigInt, BigUint};

pub(crate) fn hex(digits: &str) -> BigUint {
    BigUint::parse_bytes(digits.as_bytes(), 16).expect("hexadecimal")
}

/// Returns p.
pub(crate) fn prime() -> BigUint {
    (BigUint::from(1u8) << 256) - BigUint::from(0x1_0000_03d1u64)
}

/// Returns n.
pub(crate) fn order() -> BigUint {
    hex("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
}

/// Returns a cube root of one modulo n.
pub(crate) fn lambda() -> BigInt {
    hex("5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72").into()
}

/// Returns `x` reduced to 0..m.
pub(crate) fn modulo(x: &BigInt, m: &BigUint) -> BigUint {
    let m = BigInt::from(m.clone());
    (((x % &m) + &m) % &m).to_biguint().expect("not negative")
}

/// Returns `1 / x` modulo the prime `m`.
pub(crate) fn inverse(x: &BigUint, m: &BigUint) -> BigUint {
    x.modpow(&(m - 2u32), m)
}

/// A point of a curve y^2 = x^3 + b; `None` is the point at infinity.
pub(crate) type Point = Option<(BigUint, BigUint)>;

/// Returns the sum of two points by the textbook formulas, which do not use b.
pub(crate) fn sum(p: &Point, q: &Point) -> Point {
    let m = prime();
    let (Some((x1, y1)), Some((x2, y2))) = (p, q) else {
        return p.clone().or_else(|| q.clone());
    };
    let slope = if x1 != x2 {
        (y2 + &m - y1) * inverse(&(x2 + &m - x1), &m)
    } else if y1 == y2 {
        x1 * x1 * 3u32 * inverse(&(y1 * 2u32), &m)
    } else {
        return None;
    };
    let x = (&slope * &slope + &m * 2u32 - x1 - x2) % &m;
    let y = (&slope % &m * (x1 + &m - &x) + &m - y1) % &m;
    Some((x, y))
}

/// Returns `-p`.
pub(crate) fn negated(p: &Point) -> Point {
    p.as_ref().map(|(x, y)| (x.clone(), (prime() - y) % prime()))
}

/// Returns the number with these little-endian words.
pub(crate) fn from_words(words: &[u64; 4]) -> BigUint {
    words.iter().rev().fold(BigUint::ZERO, |sum, &word| (sum << 64) + word)
}

/// Returns the little-endian words of a number below 2^256.
pub(crate) fn to_words(x: &BigUint) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, digit) in words.iter_mut().zip(x.iter_u64_digits()) {
        *word = digit;
    }
    words
}

/// Returns lane `l` of word-major numbers.
pub(crate) fn lane(words: &[[u64; 8]; 4], l: usize) -> BigUint {
    from_words(&[words[0][l], words[1][l], words[2][l], words[3][l]])
}

/// Returns numbers at which carries and reductions change: around 0, p, n, 2^256, and every limb and word.
pub(crate) fn scalar_edges() -> Vec<BigUint> {
    let one = BigUint::from(1u8);
    let top = &one << 256u32;
    let mut edges = vec![BigUint::ZERO];
    for centre in
        [prime(), order(), prime() - order(), &order() >> 1u32, BigUint::from(0x1_0000_03d1u64)]
    {
        edges.extend([&centre - &one, centre.clone(), &centre + &one]);
    }
    edges.extend((0..5u32).map(|k| &top - &one - k));
    for bits in (0..256u32).step_by(4).chain([52, 104, 156, 208, 255, 62, 124, 186, 248]) {
        let power = &one << bits;
        edges.extend([&power - &one, power.clone(), &power + &one]);
    }
    edges.extend((0..5u32).map(|limb| ((&one << 52u32) - 1u32) << (52 * limb)));
    edges.into_iter().map(|edge| edge % &top).collect()
}

/// A deterministic pseudorandom generator of words (splitmix64).
pub(crate) struct Stream(pub(crate) u64);

impl Stream {
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn words(&mut self) -> [u64; 4] {
        core::array::from_fn(|_| self.word())
    }
}

/// Returns `edges` followed by `random` pseudorandom numbers, eight at a time, word-major.
pub(crate) fn batches(edges: &[BigUint], random: usize) -> Vec<[[u64; 8]; 4]> {
    let mut stream = Stream(1);
    let mut numbers: Vec<_> = edges.iter().map(to_words).collect();
    numbers.extend((0..random).map(|_| stream.words()));
    while numbers.len() % 8 != 0 {
        numbers.push(stream.words());
    }
    numbers
        .chunks_exact(8)
        .map(|eight| core::array::from_fn(|w| core::array::from_fn(|l| eight[l][w])))
        .collect()
}

/// Runs a generic test with the models and with every instruction set that this processor has.
macro_rules! over_every_lanes {
    ($test:ident) => {{
        $test::<crate::lanes::model::Model>();
        #[cfg(target_arch = "x86_64")]
        if crate::Avx2::detect().is_some() {
            $test::<crate::lanes::fma::Fma>();
        }
        #[cfg(target_arch = "x86_64")]
        if crate::Avx512Ifma::detect().is_some() {
            $test::<crate::lanes::ifma::Ifma>();
        }
    }};
}
pub(crate) use over_every_lanes;

/// Runs a generic test with every implementation of the field: over the models, and over every instruction set
/// that this processor has.
macro_rules! over_every_field {
    ($test:ident) => {{
        $test::<crate::field::Limbs52<crate::lanes::model::Model>>();
        $test::<crate::field::Doubles<crate::lanes::model::Model>>();
        #[cfg(target_arch = "x86_64")]
        if crate::Avx2::detect().is_some() {
            $test::<crate::field::Doubles<crate::lanes::fma::Fma>>();
        }
        #[cfg(target_arch = "x86_64")]
        if crate::Avx512Ifma::detect().is_some() {
            $test::<crate::field::Limbs52<crate::lanes::ifma::Ifma>>();
        }
    }};
}
pub(crate) use over_every_field;
