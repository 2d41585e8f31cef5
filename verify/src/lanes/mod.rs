//! The vector operations of batch recovery, over eight 64-bit words.
//!
//! There is one algorithm, which is generic over the trait [`Lanes`]. `ifma.rs` implements the trait with AVX-512 IFMA,
//! `fma.rs` with AVX2 and the multiplier for doubles, and `model.rs` with checked integer arithmetic, which shows in
//! tests that no column or limb overflows. Lanes on processors whose widest multiplier multiplies doubles also
//! implement [`double::DoubleLanes`], and so does the model. This module does not depend on fields or curves.

use core::ops::Range;

pub(crate) mod double;
#[cfg(target_arch = "x86_64")]
pub(crate) mod fma;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ifma;
#[cfg(test)]
pub(crate) mod model;
#[cfg(test)]
mod model_double;

/// Elements per vector.
pub(crate) const LANES: usize = 8;

const MASK52: u64 = (1 << 52) - 1;

/// The columns of a product that have seven or nine terms.
const MIDDLE: Range<usize> = 3..7;

/// One bit per lane.
pub(crate) type Mask = u8;

/// Returns `[f(0), .. f(4)]`. This is written out because a closure that is passed to `core::array::from_fn` may
/// become a separate function, which would be compiled without the target features.
#[inline(always)]
pub(crate) fn five<T>(f: impl Fn(usize) -> T) -> [T; 5] {
    [f(0), f(1), f(2), f(3), f(4)]
}

/// Returns `[f(0), f(1), f(2)]`, written out for the same reason.
#[inline(always)]
pub(crate) fn three<T>(f: impl Fn(usize) -> T) -> [T; 3] {
    [f(0), f(1), f(2)]
}

/// Code that occurs more than once in a stage of batch recovery, that is, in a function of `engine/stages.rs`. See
/// [`Lanes::outlined`].
pub(crate) trait StagePart {
    type Result;
    /// Runs the part. Implementations are `#[inline(always)]`.
    fn run(self) -> Self::Result;
}

/// Eight 64-bit words. Additions do not overflow if callers respect the ranges in `docs/verify-math.md`. A difference
/// may be negative (two's complement) if additions make it positive before anything but an addition uses it.
pub(crate) trait Lanes: Copy + core::fmt::Debug + 'static {
    /// Returns the same word in every lane.
    fn splat(word: u64) -> Self;
    /// Converts words in lane order.
    fn from_words(words: [u64; LANES]) -> Self;
    /// Returns the words in lane order.
    fn to_words(self) -> [u64; LANES];
    /// Returns lane `l` of `rows[l]` in lane `l`.
    fn gather(rows: [&Self; LANES]) -> Self;
    /// Moves word `w` of row `l` to lane `l` of vector `w`.
    fn transpose(rows: [&[u64; 4]; LANES]) -> [Self; 4];
    /// Returns `self` + bits 0..52 of the product of the low 52 bits of `a` and `b`.
    fn madd_lo(self, a: Self, b: Self) -> Self;
    /// Returns `self` + bits 52..104 of the product of the low 52 bits of `a` and `b`.
    fn madd_hi(self, a: Self, b: Self) -> Self;
    /// Adds the product of `a` and `b`, five limbs each, to ten columns: the lower half of `a[i] b[j]` to column
    /// `i + j`, and the upper half to the next column. The upper halves in the middle columns, which have the
    /// most terms, are summed separately: the latency of nine dependent multiply-adds would exceed the time of
    /// the whole product.
    #[inline(always)]
    fn plus_product(mut columns: [Self; 10], a: &[Self; 5], b: &[Self; 5]) -> [Self; 10] {
        let c = &mut columns;
        let mut upper = [Self::splat(0); MIDDLE.end - MIDDLE.start];
        for (i, a) in a.iter().enumerate() {
            for (j, b) in b.iter().enumerate() {
                let k = i + j + 1;
                let above = if MIDDLE.contains(&k) { upper[k - MIDDLE.start] } else { c[k] };
                c[k - 1] = c[k - 1].madd_lo(*a, *b);
                *(if MIDDLE.contains(&k) { &mut upper[k - MIDDLE.start] } else { &mut c[k] }) =
                    above.madd_hi(*a, *b);
            }
        }
        for (column, upper) in c[MIDDLE].iter_mut().zip(upper) {
            *column = column.add(upper);
        }
        columns
    }
    /// Returns the columns of the square of `a`: the ten mixed products once, doubled by column, plus the
    /// diagonal.
    #[inline(always)]
    fn square(a: &[Self; 5]) -> [Self; 10] {
        let mut c = [Self::splat(0); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                c[i + j] = c[i + j].madd_lo(a[i], a[j]);
                c[i + j + 1] = c[i + j + 1].madd_hi(a[i], a[j]);
            }
        }
        for column in &mut c[1..9] {
            *column = column.add(*column);
        }
        for i in 0..5 {
            c[2 * i] = c[2 * i].madd_lo(a[i], a[i]);
            c[2 * i + 1] = c[2 * i + 1].madd_hi(a[i], a[i]);
        }
        c
    }
    /// Runs a part of a stage, inline by default. Implementations run it as a separate function if the code of a
    /// product is so long that compiling its many copies would take minutes.
    #[inline(always)]
    fn outlined<P: StagePart>(part: P) -> P::Result {
        part.run()
    }
    /// Returns the sum.
    fn add(self, other: Self) -> Self;
    /// Returns the difference.
    fn sub(self, other: Self) -> Self;
    /// Returns the bitwise and.
    fn and(self, other: Self) -> Self;
    /// Returns the bitwise or.
    fn or(self, other: Self) -> Self;
    /// Returns the bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Shifts right logically.
    fn shr<const BITS: u32>(self) -> Self;
    /// Shifts left.
    fn shl<const BITS: u32>(self) -> Self;
    /// Returns the low word of the 128-bit `high:low`, shifted right.
    fn funnel<const BITS: i32>(high: Self, low: Self) -> Self;
    /// Shifts right logically by a number of bits that is known at run time.
    fn shr_by(self, bits: u32) -> Self;
    /// Returns `yes` in the lanes of `mask`, and `no` in the others.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;
    /// Returns `a - b` in the lanes of `mask`, and `self` in the others.
    fn sub_where(self, mask: Mask, a: Self, b: Self) -> Self;
    /// Returns the lanes that are zero.
    fn zero_mask(self) -> Mask;
    /// Returns the lanes in which `self < other`, unsigned.
    fn less_mask(self, other: Self) -> Mask;
    /// Returns a vector with lane `l ^ DISTANCE` in lane `l`, for a distance of 1, 2 or 4.
    fn swap<const DISTANCE: usize>(self) -> Self;
}
