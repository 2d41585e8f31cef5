//! Transposes the 64-bit words of four or eight rows, which loads the inputs of Keccak and recovery.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Moves word `w` of row `l` to word `l` of row `w`.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
pub(crate) unsafe fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let pair = |i: usize| {
            (_mm512_unpacklo_epi64(r[i], r[i + 1]), _mm512_unpackhi_epi64(r[i], r[i + 1]))
        };
        // even: words 0, 2, 4 and 6 of two rows, in a 128-bit quarter each; odd: words 1, 3, 5 and 7.
        let (even01, odd01) = pair(0);
        let (even23, odd23) = pair(2);
        let (even45, odd45) = pair(4);
        let (even67, odd67) = pair(6);
        // Quarters 0 and 2 of both operands, or quarters 1 and 3.
        let first = |a, b| _mm512_shuffle_i64x2::<0x88>(a, b);
        let second = |a, b| _mm512_shuffle_i64x2::<0xdd>(a, b);
        let (e04, e04b) = (first(even01, even23), first(even45, even67));
        let (e26, e26b) = (second(even01, even23), second(even45, even67));
        let (o15, o15b) = (first(odd01, odd23), first(odd45, odd67));
        let (o37, o37b) = (second(odd01, odd23), second(odd45, odd67));
        [
            first(e04, e04b),
            first(o15, o15b),
            first(e26, e26b),
            first(o37, o37b),
            second(e04, e04b),
            second(o15, o15b),
            second(e26, e26b),
            second(o37, o37b),
        ]
    }
}

/// Moves word `w` of row `l` to word `l` of vector `w`.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
pub(crate) unsafe fn transpose_short(rows: [&[u64; 4]; 8]) -> [__m512i; 4] {
    // SAFETY: a row is 32 readable bytes; the rest is guaranteed by the caller.
    unsafe {
        let row = |i: usize| _mm256_loadu_si256(rows[i].as_ptr().cast());
        let pair = |i| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(row(i)), row(i + 2));
        let (a, b, c, d) = (pair(0), pair(1), pair(4), pair(5));
        // low: words 0 and 2 of rows 0 and 1, then of rows 2 and 3; high: words 1 and 3.
        let (low, high) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        let (low4, high4) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
        [
            _mm512_shuffle_i64x2::<0x88>(low, low4),
            _mm512_shuffle_i64x2::<0x88>(high, high4),
            _mm512_shuffle_i64x2::<0xdd>(low, low4),
            _mm512_shuffle_i64x2::<0xdd>(high, high4),
        ]
    }
}

/// Moves word `w` of row `l` to word `l` of row `w`.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
pub(crate) unsafe fn transpose_four(r: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (a, b) = (_mm256_unpacklo_epi64(r[0], r[1]), _mm256_unpackhi_epi64(r[0], r[1]));
        let (c, d) = (_mm256_unpacklo_epi64(r[2], r[3]), _mm256_unpackhi_epi64(r[2], r[3]));
        [
            _mm256_permute2x128_si256::<0x20>(a, c),
            _mm256_permute2x128_si256::<0x20>(b, d),
            _mm256_permute2x128_si256::<0x31>(a, c),
            _mm256_permute2x128_si256::<0x31>(b, d),
        ]
    }
}
