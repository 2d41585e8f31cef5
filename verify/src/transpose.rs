//! The 8x8 transpose of 64-bit words that both Keccak and recovery load their inputs with.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Word `w` of row `l` becomes word `l` of row `w`.
///
/// # Safety
/// The processor must have AVX-512F.
#[inline(always)]
pub(crate) unsafe fn transpose(r: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        let pair = |i: usize| {
            (_mm512_unpacklo_epi64(r[i], r[i + 1]), _mm512_unpackhi_epi64(r[i], r[i + 1]))
        };
        // even: words 0 2 4 6 of two rows, a 128-bit quarter each; odd: words 1 3 5 7.
        let (even01, odd01) = pair(0);
        let (even23, odd23) = pair(2);
        let (even45, odd45) = pair(4);
        let (even67, odd67) = pair(6);
        // Quarters 0 and 2 of both operands, or 1 and 3.
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
