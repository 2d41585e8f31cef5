//! Eight messages at once on AVX-512.
//!
//! `unsafe` is sound for one reason: [`hash_all`] takes an [`Avx512Ifma`], and a `Zmm` is not created anywhere
//! else.
#![allow(unsafe_code)]

use super::sponge::{self, Block, RATE_BYTES, RATE_WORDS, Words};
use crate::processor::Avx512Ifma;
use core::arch::x86_64::*;

/// Hashes `count` messages, eight at a time.
pub(super) fn hash_all<'a>(
    _: Avx512Ifma,
    count: usize,
    message: impl Fn(usize) -> &'a [u8],
    hashes: &mut [[u8; 32]],
) {
    #[target_feature(enable = "avx512f,avx512bw")]
    fn run<'a>(count: usize, message: impl Fn(usize) -> &'a [u8], hashes: &mut [[u8; 32]]) {
        sponge::hash_all::<Zmm>(count, message, hashes);
    }
    // SAFETY: the first argument proves that the processor has these features.
    unsafe { run(count, message, hashes) }
}

#[derive(Clone, Copy)]
struct Zmm(__m512i);

impl Words for Zmm {
    const LANES: usize = 8;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX-512F is available, see the module's proof.
        Self(unsafe { _mm512_set1_epi64(word.cast_signed()) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`. 0x96 is the truth table of a ^ b ^ c.
        Self(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`. 0xd2 is the truth table of a ^ (!b & c).
        Self(unsafe { _mm512_ternarylogic_epi64::<0xd2>(self.0, b.0, c.0) })
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_rol_epi64::<LEFT>(self.0) })
    }

    #[inline(always)]
    fn clear(self, lanes: u8) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm512_maskz_mov_epi64(!lanes, self.0) })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        // SAFETY: both are 64 bytes without invalid values.
        unsafe { core::mem::transmute(self.0) }
    }

    #[inline(always)]
    fn load(blocks: &[Block<'_>; 8]) -> [Self; RATE_WORDS] {
        let mut low = [Self::splat(0); 8];
        let mut high = low;
        let mut last = [0u64; 8];
        for lane in 0..8 {
            (low[lane], high[lane], last[lane]) = match blocks[lane] {
                Block::Full(block) => load_full(block),
                Block::Last(tail) => load_last(tail),
                Block::Idle => continue,
            };
        }
        words(low, high, last)
    }

    #[inline(always)]
    fn load_full(blocks: &[&[u8; RATE_BYTES]; 8]) -> [Self; RATE_WORDS] {
        let mut low = [Self::splat(0); 8];
        let mut high = low;
        let mut last = [0u64; 8];
        for lane in 0..8 {
            (low[lane], high[lane], last[lane]) = load_full(blocks[lane]);
        }
        words(low, high, last)
    }
}

/// Returns words 0..8 from one transpose, words 8..16 from the other, and word 16 from `last`.
#[inline(always)]
fn words(low: [Zmm; 8], high: [Zmm; 8], last: [u64; 8]) -> [Zmm; RATE_WORDS] {
    let low = transpose(low);
    let high = transpose(high);
    let [a, b, c, d, e, f, g, h] = last.map(u64::cast_signed);
    // SAFETY: AVX-512F is available, see the module's proof.
    let last = Zmm(unsafe { _mm512_set_epi64(h, g, f, e, d, c, b, a) });
    core::array::from_fn(|i| match i {
        0..8 => low[i],
        8..16 => high[i - 8],
        _ => last,
    })
}

/// Returns bytes 0..64 and 64..128 of a block, and its last word.
#[inline(always)]
fn load_full(block: &[u8; RATE_BYTES]) -> (Zmm, Zmm, u64) {
    let (rows, last) = block.split_at(128);
    // SAFETY: 64 bytes are readable at 0 and at 64 of a 136-byte block; no alignment is required.
    let (low, high) = unsafe {
        let p = rows.as_ptr().cast::<__m512i>();
        (_mm512_loadu_si512(p), _mm512_loadu_si512(p.add(1)))
    };
    let last = u64::from_le_bytes(last.try_into().expect("136 - 128 is 8 bytes"));
    (Zmm(low), Zmm(high), last)
}

/// Does the same for the last block of a message, which is shorter than a whole block, and pads it.
#[inline(always)]
fn load_last(tail: &[u8]) -> (Zmm, Zmm, u64) {
    const PAD_END: u64 = 0x80 << 56;
    let (low, rest) = tail.split_at(tail.len().min(64));
    let (high, rest) = rest.split_at(rest.len().min(64));
    let row = |bytes: &[u8], ends: bool| {
        let mask = 1u64.checked_shl(bytes.len() as u32).unwrap_or(0).wrapping_sub(1);
        let pad = if ends { mask.wrapping_add(1) } else { 0 };
        // SAFETY: because of the mask, only the bytes of the slice are read.
        Zmm(unsafe {
            let row = _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast());
            _mm512_mask_mov_epi8(row, pad, _mm512_set1_epi8(1))
        })
    };
    let ends_low = tail.len() < 64;
    let ends_high = !ends_low && tail.len() < 128;
    let mut last = PAD_END;
    if tail.len() >= 128 {
        // At most seven bytes, followed by the first padding bit.
        for (i, &byte) in rest.iter().chain(&[1]).enumerate() {
            last ^= u64::from(byte) << (8 * i);
        }
    }
    (row(low, ends_low), row(high, ends_high), last)
}

/// Moves word w of row l to lane l of vector w.
#[inline(always)]
fn transpose(r: [Zmm; 8]) -> [Zmm; 8] {
    // SAFETY: AVX-512F is available, see the module's proof.
    unsafe { crate::transpose::transpose(r.map(|row| row.0)) }.map(Zmm)
}
