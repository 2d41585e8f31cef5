//! Four messages at once on AVX2.
//!
//! `unsafe` is sound for one reason: [`hash_all`] takes an [`Avx2`], and a `Ymm` is not created anywhere else.
#![allow(unsafe_code)]

use super::sponge::{self, Block, RATE_BYTES, RATE_WORDS, Words};
use crate::{processor::Avx2, transpose::transpose_four};
use core::arch::x86_64::*;

/// Hashes `count` messages, four at a time.
pub(super) fn hash_all<'a>(
    _: Avx2,
    count: usize,
    message: impl Fn(usize) -> &'a [u8],
    hashes: &mut [[u8; 32]],
) {
    #[target_feature(enable = "avx2")]
    fn run<'a>(count: usize, message: impl Fn(usize) -> &'a [u8], hashes: &mut [[u8; 32]]) {
        sponge::hash_all::<Ymm>(count, message, hashes);
    }
    // SAFETY: the first argument proves that the processor has these features.
    unsafe { run(count, message, hashes) }
}

#[derive(Clone, Copy)]
struct Ymm(__m256i);

impl Words for Ymm {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(word: u64) -> Self {
        // SAFETY: AVX2 is available, see the module's proof.
        Self(unsafe { _mm256_set1_epi64x(word.cast_signed()) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }

    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        // SAFETY: as in `splat`.
        self.xor(Self(unsafe { _mm256_andnot_si256(b.0, c.0) }))
    }

    #[inline(always)]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self {
        // SAFETY: as in `splat`.
        Self(unsafe {
            _mm256_or_si256(_mm256_slli_epi64::<LEFT>(self.0), _mm256_srli_epi64::<RIGHT>(self.0))
        })
    }

    #[inline(always)]
    fn clear(self, lanes: u8) -> Self {
        let keep = |lane: u8| i64::from(lanes >> lane & 1) - 1;
        // SAFETY: as in `splat`.
        Self(unsafe {
            _mm256_and_si256(self.0, _mm256_set_epi64x(keep(3), keep(2), keep(1), keep(0)))
        })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; 8] {
        // SAFETY: both are 32 bytes without invalid values.
        let [a, b, c, d] = unsafe { core::mem::transmute::<__m256i, [u64; 4]>(self.0) };
        [a, b, c, d, 0, 0, 0, 0]
    }

    #[inline(always)]
    fn load(blocks: &[Block<'_>; 8]) -> [Self; RATE_WORDS] {
        const IDLE: &[u8; RATE_BYTES] = &[0; RATE_BYTES];
        let mut padded = [[0; RATE_BYTES]; 4];
        let mut rows = [IDLE; 4];
        for ((block, padded), row) in blocks.iter().zip(&mut padded).zip(&mut rows) {
            *row = match block {
                Block::Full(block) => block,
                Block::Last(tail) => {
                    *padded = sponge::pad(tail);
                    padded
                }
                Block::Idle => continue,
            };
        }
        words(rows)
    }

    #[inline(always)]
    fn load_full(blocks: &[&[u8; RATE_BYTES]; 8]) -> [Self; RATE_WORDS] {
        words([blocks[0], blocks[1], blocks[2], blocks[3]])
    }
}

/// Loads the words with four transposes, and the last word of each row separately.
#[inline(always)]
fn words(rows: [&[u8; RATE_BYTES]; 4]) -> [Ymm; RATE_WORDS] {
    let mut words = [Ymm::splat(0); RATE_WORDS];
    for (quarter, words) in words[..16].as_chunks_mut::<4>().0.iter_mut().enumerate() {
        // SAFETY: 32 bytes are readable at 0, 32, 64 and 96 of a 136-byte block.
        let r = rows.map(|row| unsafe {
            _mm256_loadu_si256(row.as_ptr().add(32 * quarter).cast::<__m256i>())
        });
        // SAFETY: AVX2 is available, see the module's proof.
        *words = unsafe { transpose_four(r) }.map(Ymm);
    }
    let last = rows.map(|row| i64::from_le_bytes(*row.last_chunk().expect("136 bytes")));
    // SAFETY: AVX2 is available, see the module's proof.
    words[16] = Ymm(unsafe { _mm256_set_epi64x(last[3], last[2], last[1], last[0]) });
    words
}
