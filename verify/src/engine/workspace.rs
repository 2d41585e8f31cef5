//! The memory of batch recovery, which is allocated once and reused for all chunks.

use super::{
    base::BaseTable,
    invert::{Inverter, ModuloN, ModuloP},
    point::Affine,
};
use crate::{
    field::Field,
    lanes::{LANES, Lanes, Mask},
    order::{Digits, WINDOWS},
};
use std::{ops::Range, sync::Arc};

/// Number of signatures that are processed together. They share the cost of seven inversions, and their tables,
/// 2.4 KB each, fit into an L2 cache of 1 MB.
pub(super) const CHUNK: usize = 256;
/// Number of groups in a chunk.
pub(super) const GROUPS: usize = CHUNK / LANES;
/// Number of groups that are processed together from tables to result. The windows of a whole chunk, 17 KB per
/// group, would not fit into the cache. A block costs two inversions.
pub(super) const BLOCK: usize = 16;
/// Maximum number of elements that are inverted together: the last round of the tables, or the windows of a
/// block.
const INVERSIONS: usize = if GROUPS * MAX_ROUND_STEPS > BLOCK * WINDOWS {
    GROUPS * MAX_ROUND_STEPS
} else {
    BLOCK * WINDOWS
};
/// Number of steps of the longest round of the tables.
const MAX_ROUND_STEPS: usize = 8;
/// Number of odd multiples, 1 P to 31 P, of a point.
pub(super) const ODD: usize = 16;

/// 256-bit numbers, one per lane, word-major and little-endian.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Words([[u64; LANES]; 4]);

impl Words {
    pub(super) fn set(&mut self, lane: usize, words: &[u64; 4]) {
        for (row, word) in self.0.iter_mut().zip(words) {
            row[lane] = *word;
        }
    }

    pub(super) fn get(&self, lane: usize) -> [u64; 4] {
        self.0.map(|row| row[lane])
    }

    #[inline(always)]
    pub(super) fn vectors<V: Lanes>(&self) -> [V; 4] {
        let [a, b, c, d] = self.0;
        [V::from_words(a), V::from_words(b), V::from_words(c), V::from_words(d)]
    }

    #[inline(always)]
    pub(super) fn of<V: Lanes>([a, b, c, d]: [V; 4]) -> Self {
        Self([a.to_words(), b.to_words(), c.to_words(), d.to_words()])
    }
}

/// Inputs and outputs of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    /// x of R; in the end x of the public key.
    pub(super) x: Words,
    /// Output of decompression: y of -R; in the end y of the public key.
    pub(super) y: Words,
    /// Signature r, below n.
    pub(super) r: Words,
    /// Signature s, below n.
    pub(super) s: Words,
    /// The digest.
    pub(super) z: Words,
    /// The lanes whose R has an odd y.
    pub(super) odd: Mask,
    /// Output of decompression: the lanes whose x is on the curve.
    pub(super) on_curve: Mask,
    /// Output: the lanes without a result, which are recovered one by one.
    pub(super) redo: Mask,
    /// Output: the lanes whose result is the point at infinity.
    pub(super) infinite: Mask,
}

/// Intermediate values of a group of eight signatures.
#[derive(Clone, Debug)]
pub(super) struct Group<F: Field> {
    /// Digits of u2 (for P and lambda P) and of u1 (for G and lambda G).
    pub(super) digits: [Digits<F::Lanes>; 4],
    /// 1 P, 3 P, ... 31 P for P = -R.
    pub(super) odd: [Affine<F>; ODD],
    /// 2 P, 4 P, 8 P, 16 P.
    pub(super) even: [Affine<F>; 4],
    /// beta x of the odd multiples: the x of lambda times the point.
    pub(super) beta_x: [F::Fe; ODD],
    /// The result: X, W and Z.
    pub(super) x: F::Fe,
    pub(super) w: F::Factor,
    pub(super) z: F::Factor,
}

/// The workspace of one recoverer.
#[derive(Debug)]
pub(crate) struct Workspace<F: Field> {
    pub(super) exchange: Vec<Exchange>,
    pub(super) groups: Vec<Group<F>>,
    /// For each group of the block and each window: the sum of its points, in the end as x and twice y.
    pub(super) windows: Vec<[Affine<F>; WINDOWS]>,
    pub(super) field: Inverter<ModuloP<F>>,
    pub(super) order: Inverter<ModuloN<F::Lanes>>,
    pub(super) zeros: [Mask; GROUPS],
    pub(super) base: Arc<BaseTable>,
    /// Number of groups in use.
    pub(super) used: usize,
    /// The groups that the stages from `pairs` to `ladder` process.
    pub(super) block: Range<usize>,
}

impl<F: Field> Workspace<F> {
    pub(super) fn new(base: Arc<BaseTable>) -> Self {
        let point = Affine::zero();
        let group = Group {
            digits: [Digits::zero(); 4],
            odd: [point; ODD],
            even: [point; 4],
            beta_x: [F::splat([0; 4]); ODD],
            x: F::splat([0; 4]),
            w: F::one(),
            z: F::one(),
        };
        Self {
            exchange: vec![Exchange::default(); GROUPS],
            groups: vec![group; GROUPS],
            windows: vec![[point; WINDOWS]; BLOCK],
            field: Inverter::new(INVERSIONS),
            order: Inverter::new(GROUPS),
            zeros: [0; GROUPS],
            base,
            used: 0,
            block: 0..0,
        }
    }
}
