//! The vector operations on AVX2 with fused multiply-adds.
//!
//! AVX2 has no 52-bit multiplier for integers, but its multiplier for doubles has 53 bits. The field is represented by
//! doubles (`field/doubles`), and the scalars by integers. For integers a and b below 2^52, as doubles,
//! h = fma(a, b, 2^104) is 2^104 + hi 2^52, rounded to the nearest, and l = fma(a, b, 2^104 - h) is exactly the
//! rounding error: a b = hi 2^52 + l with l in -2^51..=2^51. hi is read from the low bits of the double h, and l from
//! the low bits of l + 1.5 2^52, whose last place is one. The rounding mode is the default; code here must not
//! change it.
//!
//! `unsafe` is sound for the reason in `ifma.rs`, with the token [`crate::Avx2`]: an `Fma` is only created if
//! AVX2, FMA and BMI2 were detected.
#![allow(unsafe_code)]

use super::{
    LANES, Lanes, MASK52, Mask, StagePart,
    double::{Double, DoubleLanes},
};
use core::arch::x86_64::*;

/// The bits of 2^52. The low 52 bits of a double in 2^52..2^53 are the double minus 2^52.
const EXPONENT: u64 = 0x433 << 52;
const TWO_52: f64 = f64::from_bits(EXPONENT);
/// 1.5 2^52: added to an integer between -2^51 and 2^51, it makes the integer readable from the bits.
const MIDDLE: f64 = f64::from_bits(MIDDLE_BITS);
const MIDDLE_BITS: u64 = 0x4338 << 48;
/// 2^104: its unit in the last place is 2^52.
const TWO_104: f64 = f64::from_bits(TWO_104_BITS);
const TWO_104_BITS: u64 = 0x467 << 52;

/// Eight words in two 256-bit registers.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Fma([Half; 2]);

/// Four words.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Half(__m256i);

impl Half {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX2 is available, see the module's proof.
        Self(unsafe { _mm256_set1_epi64x(word.cast_signed()) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    /// Shifts left. If the count is a constant, this compiles to the instruction with an immediate.
    #[inline(always)]
    fn shl(self, bits: u32) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed())) })
    }

    /// Shifts right logically; see [`Half::shl`].
    #[inline(always)]
    fn shr(self, bits: u32) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed())) })
    }

    /// Returns the low 52 bits as a double.
    #[inline(always)]
    fn double(self) -> FourDoubles {
        let bits = self.and(Self::splat(MASK52)).or(Self::splat(EXPONENT));
        // SAFETY: as in `splat`.
        FourDoubles(unsafe { _mm256_sub_pd(_mm256_castsi256_pd(bits.0), _mm256_set1_pd(TWO_52)) })
    }

    /// Returns lane `l` of row `l` in lane `l`.
    #[inline(always)]
    fn gather(rows: [&Self; 4]) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe {
            let low = _mm256_blend_epi32::<0b0000_1100>(rows[0].0, rows[1].0);
            let high = _mm256_blend_epi32::<0b1100_0000>(rows[2].0, rows[3].0);
            _mm256_blend_epi32::<0b1111_0000>(low, high)
        })
    }

    /// Returns a vector with lane `l ^ DISTANCE` in lane `l`, for a distance of 1 or 2.
    #[inline(always)]
    fn swap<const DISTANCE: usize>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe {
            match DISTANCE {
                1 => _mm256_permute4x64_epi64::<0b10_11_00_01>(self.0),
                _ => _mm256_permute4x64_epi64::<0b01_00_11_10>(self.0),
            }
        })
    }

    /// Sets all bits in the lanes of the low half of `mask`.
    #[inline(always)]
    fn from_mask(mask: Mask) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe {
            let lane = _mm256_set_epi64x(8, 4, 2, 1);
            let mask = _mm256_set1_epi64x(i64::from(mask));
            _mm256_cmpeq_epi64(_mm256_and_si256(mask, lane), lane)
        })
    }

    /// Returns the lanes whose highest bit is set.
    #[inline(always)]
    fn to_mask(self) -> Mask {
        // SAFETY: as in `splat`.
        (unsafe { _mm256_movemask_pd(_mm256_castsi256_pd(self.0)) }) as Mask
    }

    #[inline(always)]
    fn select(mask: Self, yes: Self, no: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_blendv_epi8(no.0, yes.0, mask.0) })
    }

    #[inline(always)]
    fn zero_mask(self) -> Mask {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_cmpeq_epi64(self.0, _mm256_setzero_si256()) }).to_mask()
    }

    #[inline(always)]
    fn less_mask(self, other: Self) -> Mask {
        // The comparison instruction is signed.
        let sign = Self::splat(1 << 63);
        let (a, b) = (self.xor(sign), other.xor(sign));
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_cmpgt_epi64(b.0, a.0) }).to_mask()
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct FourDoubles(__m256d);

/// The halves of a product, which still include the exponents of the doubles from which they were read: they are
/// too large by `MIDDLE_BITS` and `TWO_104_BITS`.
struct Halves {
    low: Half,
    high: Half,
}

impl FourDoubles {
    /// Multiplies integers below 2^52.
    #[inline(always)]
    fn times(self, other: Self) -> Halves {
        // SAFETY: AVX2 and FMA are available, see the module's proof.
        unsafe {
            let base = _mm256_set1_pd(TWO_104);
            let high = _mm256_fmadd_pd(self.0, other.0, base);
            let low = _mm256_fmadd_pd(self.0, other.0, _mm256_sub_pd(base, high));
            let low = _mm256_add_pd(low, _mm256_set1_pd(MIDDLE));
            Halves { low: Half(_mm256_castpd_si256(low)), high: Half(_mm256_castpd_si256(high)) }
        }
    }
}

impl Fma {
    /// Returns the lower and upper half of `a b`; the lower one is signed.
    #[inline(always)]
    fn halves(a: Self, b: Self) -> (Self, Self) {
        let x = a.0[0].double().times(b.0[0].double());
        let y = a.0[1].double().times(b.0[1].double());
        let (low, high) = (Self([x.low, y.low]), Self([x.high, y.high]));
        (low.sub(Self::splat(MIDDLE_BITS)), high.sub(Self::splat(TWO_104_BITS)))
    }
}

impl Double for FourDoubles {
    #[inline(always)]
    fn splat(value: f64) -> Self {
        // SAFETY: AVX2 is available, see the module's proof.
        Self(unsafe { _mm256_set1_pd(value) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_add_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_sub_pd(self.0, other.0) })
    }

    #[inline(always)]
    fn scaled(self, factor: f64) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_mul_pd(self.0, _mm256_set1_pd(factor)) })
    }

    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        // SAFETY: AVX2 and FMA are available, see the module's proof.
        Self(unsafe { _mm256_fmadd_pd(self.0, factor.0, addend.0) })
    }

    #[inline(always)]
    fn mul_add_rounded(self, factor: Self, constant: Self) -> Self {
        self.mul_add(factor, constant)
    }

    #[inline(always)]
    fn add_rounded(self, constant: Self) -> Self {
        self.add(constant)
    }
}

impl DoubleLanes for Fma {
    type Half = FourDoubles;

    #[inline(always)]
    fn half(limbs: &[Self; 5], half: usize, _: &[i32; 5]) -> [FourDoubles; 5] {
        // SAFETY: as in `Half::splat`.
        let cast = |limb: &Self| FourDoubles(unsafe { _mm256_castsi256_pd(limb.0[half].0) });
        [cast(&limbs[0]), cast(&limbs[1]), cast(&limbs[2]), cast(&limbs[3]), cast(&limbs[4])]
    }

    #[inline(always)]
    fn joined(low: [FourDoubles; 5], high: [FourDoubles; 5]) -> [Self; 5] {
        // SAFETY: as in `Half::splat`.
        let cast = |half: FourDoubles| Half(unsafe { _mm256_castpd_si256(half.0) });
        super::five(|i| Self([cast(low[i]), cast(high[i])]))
    }
}

/// Runs a part of a stage, compiled with the features of the stage.
#[target_feature(enable = "avx2,fma,bmi2")]
#[inline(never)]
fn run<P: StagePart>(part: P) -> P::Result {
    part.run()
}

/// Evaluates an expression for each half, whose index is `$h`.
macro_rules! each_half {
    ($h:ident => $value:expr) => {
        Fma([
            {
                let $h = 0;
                $value
            },
            {
                let $h = 1;
                $value
            },
        ])
    };
}

impl Lanes for Fma {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        Self([Half::splat(word); 2])
    }

    #[inline(always)]
    fn from_words(words: [u64; LANES]) -> Self {
        // SAFETY: both are 64 bytes without invalid values.
        unsafe { core::mem::transmute::<[u64; LANES], Self>(words) }
    }

    #[inline(always)]
    fn to_words(self) -> [u64; LANES] {
        // SAFETY: both are 64 bytes without invalid values.
        unsafe { core::mem::transmute::<Self, [u64; LANES]>(self) }
    }

    #[inline(always)]
    fn gather(r: [&Self; LANES]) -> Self {
        Self([
            Half::gather([&r[0].0[0], &r[1].0[0], &r[2].0[0], &r[3].0[0]]),
            Half::gather([&r[4].0[1], &r[5].0[1], &r[6].0[1], &r[7].0[1]]),
        ])
    }

    #[inline(always)]
    fn transpose(rows: [&[u64; 4]; LANES]) -> [Self; 4] {
        // SAFETY: a row is 32 readable bytes; for the rest see `Half::splat`.
        let row = |i: usize| unsafe { _mm256_loadu_si256(rows[i].as_ptr().cast()) };
        // SAFETY: as in `Half::splat`.
        let four = |i| unsafe {
            crate::transpose::transpose_four([row(i), row(i + 1), row(i + 2), row(i + 3)])
        };
        let (low, high) = (four(0), four(4));
        let word = |w: usize| Self([Half(low[w]), Half(high[w])]);
        [word(0), word(1), word(2), word(3)]
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        self.add(Self::halves(a, b).0.and(Self::splat(MASK52)))
    }

    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        // The upper half is rounded up if the lower half is negative.
        let (low, high) = Self::halves(a, b);
        self.add(high).sub(low.shr::<63>())
    }

    #[inline(always)]
    fn outlined<P: StagePart>(part: P) -> P::Result {
        // SAFETY: AVX2, FMA and BMI2 are available, see the module's proof.
        unsafe { run(part) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        each_half!(h => self.0[h].add(other.0[h]))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        each_half!(h => self.0[h].sub(other.0[h]))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        each_half!(h => self.0[h].and(other.0[h]))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        each_half!(h => self.0[h].or(other.0[h]))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        each_half!(h => self.0[h].xor(other.0[h]))
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        self.shr_by(BITS)
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        each_half!(h => self.0[h].shl(BITS))
    }

    #[inline(always)]
    fn funnel<const BITS: i32>(high: Self, low: Self) -> Self {
        let bits = BITS.cast_unsigned();
        each_half!(h => low.0[h].shr(bits).or(high.0[h].shl(64 - bits)))
    }

    #[inline(always)]
    fn shr_by(self, bits: u32) -> Self {
        each_half!(h => self.0[h].shr(bits))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        each_half!(h => Half::select(Half::from_mask(mask >> (4 * h)), yes.0[h], no.0[h]))
    }

    #[inline(always)]
    fn sub_where(self, mask: Mask, a: Self, b: Self) -> Self {
        Self::select(mask, a.sub(b), self)
    }

    #[inline(always)]
    fn zero_mask(self) -> Mask {
        self.0[0].zero_mask() | self.0[1].zero_mask() << 4
    }

    #[inline(always)]
    fn less_mask(self, other: Self) -> Mask {
        self.0[0].less_mask(other.0[0]) | self.0[1].less_mask(other.0[1]) << 4
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(self) -> Self {
        let [low, high] = self.0;
        if DISTANCE == 4 {
            return Self([high, low]);
        }
        Self([low.swap::<DISTANCE>(), high.swap::<DISTANCE>()])
    }
}
