//! The vector operations in checked integer arithmetic: the oracle for the SIMD code, and the check of its
//! ranges. The model is slow, and only used in tests.

use super::{LANES, Lanes, MASK52, Mask, StagePart};

/// Eight words. The operations are not inlined: otherwise the stages that use them would take minutes to compile. An
/// overflow of a signed 64-bit word in an addition or subtraction panics, and so does the carry of a negative limb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Model(pub(super) [u64; LANES]);

impl Model {
    #[inline(never)]
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(core::array::from_fn(|l| f(self.0[l], other.0[l])))
    }

    fn mask(self, f: impl Fn(u64) -> bool) -> Mask {
        self.0.iter().enumerate().fold(0, |m, (l, &word)| m | Mask::from(f(word)) << l)
    }
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a & MASK52) * u128::from(b & MASK52)
}

fn plus(a: u64, b: u64) -> u64 {
    let sum = a.cast_signed().checked_add(b.cast_signed());
    sum.expect("the ranges keep every sum inside a word").cast_unsigned()
}

impl Lanes for Model {
    #[inline(never)]
    fn splat(word: u64) -> Self {
        Self([word; LANES])
    }

    #[inline(never)]
    fn from_words(words: [u64; LANES]) -> Self {
        Self(words)
    }

    #[inline(never)]
    fn to_words(self) -> [u64; LANES] {
        self.0
    }

    #[inline(never)]
    fn gather(rows: [&Self; LANES]) -> Self {
        Self(core::array::from_fn(|l| rows[l].0[l]))
    }

    #[inline(never)]
    fn transpose(rows: [&[u64; 4]; LANES]) -> [Self; 4] {
        core::array::from_fn(|w| Self(core::array::from_fn(|l| rows[l][w])))
    }

    #[inline(never)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        let low = a.zip(b, |a, b| (product(a, b) as u64) & MASK52);
        self.add(low)
    }

    #[inline(never)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        let high = a.zip(b, |a, b| (product(a, b) >> 52) as u64);
        self.add(high)
    }

    #[inline(never)]
    fn outlined<P: StagePart>(part: P) -> P::Result {
        part.run()
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        self.zip(other, plus)
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| {
            let difference = a.cast_signed().checked_sub(b.cast_signed());
            difference.expect("the ranges keep every difference inside a word").cast_unsigned()
        })
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    #[inline(never)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline(never)]
    fn xor(self, other: Self) -> Self {
        self.zip(other, |a, b| a ^ b)
    }

    #[inline(never)]
    fn shr<const BITS: u32>(self) -> Self {
        if BITS == 52 || BITS == 48 {
            // Carries are right shifts by 52 or 48 bits. Their operand must not be negative.
            assert!(self.0.iter().all(|word| word >> 63 == 0), "carry of a negative limb");
        }
        self.shr_by(BITS)
    }

    #[inline(never)]
    fn shl<const BITS: u32>(self) -> Self {
        Self(self.0.map(|word| word << BITS))
    }

    #[inline(never)]
    fn funnel<const BITS: i32>(high: Self, low: Self) -> Self {
        high.zip(low, |high, low| ((u128::from(high) << 64 | u128::from(low)) >> BITS) as u64)
    }

    #[inline(never)]
    fn shr_by(self, bits: u32) -> Self {
        Self(self.0.map(|word| word >> bits))
    }

    #[inline(never)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(core::array::from_fn(|l| if mask >> l & 1 == 1 { yes.0[l] } else { no.0[l] }))
    }

    #[inline(never)]
    fn sub_where(self, mask: Mask, a: Self, b: Self) -> Self {
        Self::select(mask, a.sub(b), self)
    }

    #[inline(never)]
    fn zero_mask(self) -> Mask {
        self.mask(|word| word == 0)
    }

    #[inline(never)]
    fn less_mask(self, other: Self) -> Mask {
        (0..LANES).fold(0, |m, l| m | Mask::from(self.0[l] < other.0[l]) << l)
    }

    #[inline(never)]
    fn swap<const DISTANCE: usize>(self) -> Self {
        Self(core::array::from_fn(|l| self.0[l ^ DISTANCE]))
    }
}
