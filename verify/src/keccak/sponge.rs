//! The Keccak-256 sponge over several messages at once: one algorithm for all vector types.
//!
//! Each vector lane absorbs its own message. A lane whose message ends continues with the next message, so all
//! lanes are used for any mix of lengths. This module must not depend on an instruction set, and must not read
//! outside of the messages.

/// Bytes absorbed per permutation: 1600 bits minus twice the digest (Keccak, capacity 512).
pub(super) const RATE_BYTES: usize = 136;
/// Number of words in a block.
pub(super) const RATE_WORDS: usize = RATE_BYTES / 8;

/// FIPS 202, iota: one word per round.
const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// The input of one lane to one permutation.
#[derive(Clone, Copy)]
pub(super) enum Block<'a> {
    /// A whole block.
    Full(&'a [u8; RATE_BYTES]),
    /// The last, incomplete block (possibly empty), which is padded.
    Last(&'a [u8]),
    /// There is no message for this lane. The state of the lane is not read.
    Idle,
}

/// A vector of 64-bit words. Word `l` belongs to lane `l`.
pub(super) trait Words: Copy {
    /// Number of lanes, at most 8.
    const LANES: usize;
    /// Returns the same word in every lane.
    fn splat(word: u64) -> Self;
    /// Returns `self ^ other`.
    fn xor(self, other: Self) -> Self;
    /// Returns `self ^ b ^ c`.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Returns `self ^ (!b & c)`, the chi step.
    fn chi(self, b: Self, c: Self) -> Self;
    /// Rotates left by `LEFT` bits; `RIGHT` must be `64 - LEFT`.
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Self;
    /// Returns `self` with the lanes in `lanes` (one bit each) set to zero.
    fn clear(self, lanes: u8) -> Self;
    /// Returns the words in lane order; lanes from `LANES` on are zero.
    fn to_array(self) -> [u64; 8];
    /// Returns the padded words of one block per lane, word-major.
    fn load(blocks: &[Block<'_>; 8]) -> [Self; RATE_WORDS];
    /// Does the same as [`Self::load`] for full blocks, which most blocks of long messages are.
    fn load_full(blocks: &[&[u8; RATE_BYTES]; 8]) -> [Self; RATE_WORDS];
}

/// Position of a lane in its message.
#[derive(Clone, Copy, Default)]
struct Cursor<'a> {
    /// The bytes that are not absorbed yet.
    rest: &'a [u8],
    /// Index of the message; `None` if no message was left for this lane.
    message: Option<usize>,
}

/// Hashes `count` messages; `message(i)` returns the bytes of the i-th.
#[inline(always)]
pub(super) fn hash_all<'a, W: Words>(
    count: usize,
    message: impl Fn(usize) -> &'a [u8],
    hashes: &mut [[u8; 32]],
) {
    let mut cursors = [Cursor::default(); 8];
    let mut state = [W::splat(0); 25];
    let mut next = 0;
    let mut fresh = u8::MAX;
    let mut live = 0;
    loop {
        for (lane, cursor) in cursors[..W::LANES].iter_mut().enumerate() {
            if fresh & (1 << lane) != 0 {
                cursor.message = (next < count).then_some(next);
                cursor.rest = if next < count { message(next) } else { &[] };
                live += usize::from(next < count);
                next += 1;
            }
        }
        if live == 0 {
            return;
        }
        if fresh != 0 {
            for word in &mut state {
                *word = word.clear(fresh);
            }
        }
        let done = absorb(&mut state, &mut cursors);
        permute(&mut state);
        fresh = done;
        if done != 0 {
            let words = [0, 1, 2, 3].map(|i: usize| state[i].to_array());
            for (lane, cursor) in cursors[..W::LANES].iter().enumerate() {
                let Some(index) = cursor.message.filter(|_| done & (1 << lane) != 0) else {
                    continue;
                };
                live -= 1;
                for (bytes, word) in hashes[index].chunks_exact_mut(8).zip(&words) {
                    bytes.copy_from_slice(&word[lane].to_le_bytes());
                }
            }
        }
    }
}

/// Absorbs the next block of every lane. Returns the lanes (one bit each) whose message has ended.
#[inline(always)]
fn absorb<W: Words>(state: &mut [W; 25], cursors: &mut [Cursor<'_>; 8]) -> u8 {
    const ZEROS: &[u8; RATE_BYTES] = &[0; RATE_BYTES];
    let lanes = &mut cursors[..W::LANES];
    if lanes.iter().all(|cursor| cursor.rest.len() >= RATE_BYTES) {
        let mut blocks = [ZEROS; 8];
        for (cursor, block) in lanes.iter_mut().zip(&mut blocks) {
            if let Some((head, rest)) = cursor.rest.split_first_chunk() {
                (*block, cursor.rest) = (head, rest);
            }
        }
        mix(state, W::load_full(&blocks));
        return 0;
    }
    let mut blocks = [Block::Idle; 8];
    let mut done = 0;
    for (lane, (cursor, block)) in lanes.iter_mut().zip(&mut blocks).enumerate() {
        if let Some((head, rest)) = cursor.rest.split_first_chunk() {
            *block = Block::Full(head);
            cursor.rest = rest;
        } else if cursor.message.is_some() {
            *block = Block::Last(cursor.rest);
            done |= 1 << lane;
        }
    }
    mix(state, W::load(&blocks));
    done
}

#[inline(always)]
fn mix<W: Words>(state: &mut [W; 25], block: [W; RATE_WORDS]) {
    for (word, input) in state.iter_mut().zip(block) {
        *word = word.xor(input);
    }
}

/// Applies the permutation Keccak-f\[1600\].
#[inline(always)]
pub(super) fn permute<W: Words>(a: &mut [W; 25]) {
    for constant in ROUND_CONSTANTS {
        let column = |x: usize| a[x].xor3(a[x + 5], a[x + 10]).xor3(a[x + 15], a[x + 20]);
        let c = [column(0), column(1), column(2), column(3), column(4)];
        let r = c.map(|word| word.rotate::<1, 63>());
        let t = |i: usize| a[i].xor3(c[(i + 4) % 5], r[(i + 1) % 5]);
        // Rho and pi: the source of each plane of the result, rotated by its offset in FIPS 202.
        let planes = [
            [
                t(0),
                t(6).rotate::<44, 20>(),
                t(12).rotate::<43, 21>(),
                t(18).rotate::<21, 43>(),
                t(24).rotate::<14, 50>(),
            ],
            [
                t(3).rotate::<28, 36>(),
                t(9).rotate::<20, 44>(),
                t(10).rotate::<3, 61>(),
                t(16).rotate::<45, 19>(),
                t(22).rotate::<61, 3>(),
            ],
            [
                t(1).rotate::<1, 63>(),
                t(7).rotate::<6, 58>(),
                t(13).rotate::<25, 39>(),
                t(19).rotate::<8, 56>(),
                t(20).rotate::<18, 46>(),
            ],
            [
                t(4).rotate::<27, 37>(),
                t(5).rotate::<36, 28>(),
                t(11).rotate::<10, 54>(),
                t(17).rotate::<15, 49>(),
                t(23).rotate::<56, 8>(),
            ],
            [
                t(2).rotate::<62, 2>(),
                t(8).rotate::<55, 9>(),
                t(14).rotate::<39, 25>(),
                t(15).rotate::<41, 23>(),
                t(21).rotate::<2, 62>(),
            ],
        ];
        for (y, b) in planes.iter().enumerate() {
            for x in 0..5 {
                a[5 * y + x] = b[x].chi(b[(x + 1) % 5], b[(x + 2) % 5]);
            }
        }
        a[0] = a[0].xor(W::splat(constant));
    }
}

/// Copies `tail` to the front of a block and pads it: 0x01 after the message, 0x80 in the last
/// byte (Keccak padding, not the 0x06 of SHA-3).
#[inline(always)]
pub(super) fn pad(tail: &[u8]) -> [u8; RATE_BYTES] {
    let mut block = [0; RATE_BYTES];
    block[..tail.len()].copy_from_slice(tail);
    block[tail.len()] = 0x01;
    block[RATE_BYTES - 1] |= 0x80;
    block
}
