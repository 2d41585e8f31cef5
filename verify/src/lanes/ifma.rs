//! The vector operations on AVX-512 IFMA.
//!
//! `unsafe` is sound for one reason: only an engine with these lanes and its stages (all `#[target_feature]`,
//! see `engine/kernels.rs`) create or use an `Ifma`, and an engine contains the token [`crate::Avx512Ifma`],
//! which exists only if the instructions were detected. The methods are `#[inline(always)]` and have no feature
//! attribute of their own, so that the generic algorithm can call them. They are correct but
//! slow outside a stage, where only tests and the creation of the workspace call them.
#![allow(unsafe_code)]

use super::{LANES, Lanes, Mask};
use core::arch::x86_64::*;

/// Eight words in one 512-bit register.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct Ifma(__m512i);

impl Lanes for Ifma {
    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX-512F is available, see the module's proof.
        Self(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    #[inline(always)]
    fn from_words(words: [u64; LANES]) -> Self {
        // SAFETY: both are 64 bytes without invalid values.
        Self(unsafe { core::mem::transmute::<[u64; LANES], __m512i>(words) })
    }

    #[inline(always)]
    fn to_words(self) -> [u64; LANES] {
        // SAFETY: both are 64 bytes without invalid values.
        unsafe { core::mem::transmute::<__m512i, [u64; LANES]>(self.0) }
    }

    #[inline(always)]
    fn gather(rows: [&Self; LANES]) -> Self {
        // Whole rows are loaded with a mask of one lane: `vpgatherqq` is microcoded on some processors, and
        // loads of single words need more instructions and the shuffle ports.
        let mut all = rows[0].0;
        for (l, row) in rows.iter().enumerate().skip(1) {
            // SAFETY: a row is 64 aligned bytes; for the rest see `splat`.
            all = unsafe { _mm512_mask_load_epi64(all, 1 << l, core::ptr::from_ref(*row).cast()) };
        }
        Self(all)
    }

    #[inline(always)]
    fn transpose(rows: [&[u64; 4]; LANES]) -> [Self; 4] {
        // SAFETY: AVX-512F is available, see the module's proof.
        unsafe { crate::transpose::transpose_short(rows) }.map(Self)
    }

    #[inline(always)]
    fn madd_lo(self, a: Self, b: Self) -> Self {
        // SAFETY: AVX-512 IFMA is available, see the module's proof.
        Self(unsafe { _mm512_madd52lo_epu64(self.0, a.0, b.0) })
    }

    #[inline(always)]
    fn madd_hi(self, a: Self, b: Self) -> Self {
        // SAFETY: as in `madd_lo`.
        Self(unsafe { _mm512_madd52hi_epu64(self.0, a.0, b.0) })
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_srli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn shl<const BITS: u32>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_slli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn funnel<const BITS: i32>(high: Self, low: Self) -> Self {
        // SAFETY: AVX-512 VBMI2 is available, see the module's proof.
        Self(unsafe { _mm512_shrdi_epi64::<BITS>(low.0, high.0) })
    }

    #[inline(always)]
    fn shr_by(self, bits: u32) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_srl_epi64(self.0, _mm_cvtsi32_si128(bits.cast_signed())) })
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_mask_mov_epi64(no.0, mask, yes.0) })
    }

    #[inline(always)]
    fn sub_where(self, mask: Mask, a: Self, b: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_mask_sub_epi64(self.0, mask, a.0, b.0) })
    }

    #[inline(always)]
    fn zero_mask(self) -> Mask {
        // SAFETY: as in `splat`.
        unsafe { _mm512_testn_epi64_mask(self.0, self.0) }
    }

    #[inline(always)]
    fn less_mask(self, other: Self) -> Mask {
        // SAFETY: as in `splat`.
        unsafe { _mm512_cmplt_epu64_mask(self.0, other.0) }
    }

    #[inline(always)]
    fn swap<const DISTANCE: usize>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe {
            match DISTANCE {
                1 => _mm512_permutex_epi64::<0b10_11_00_01>(self.0),
                2 => _mm512_permutex_epi64::<0b01_00_11_10>(self.0),
                _ => _mm512_shuffle_i64x2::<0b01_00_11_10>(self.0, self.0),
            }
        })
    }
}
