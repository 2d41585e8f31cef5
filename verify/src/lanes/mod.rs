//! The vector vocabulary of batch recovery: eight 64-bit words worked on alike.
//!
//! One algorithm is written over [`Lanes`]; `ifma.rs` runs it on AVX-512 IFMA, `model.rs` runs it
//! in checked integer arithmetic, which proves in tests that no column or limb overflows. Nothing
//! here knows about fields or curves.

#[cfg(target_arch = "x86_64")]
pub(crate) mod ifma;
#[cfg(test)]
pub(crate) mod model;

/// Elements per vector.
pub(crate) const LANES: usize = 8;

/// A bit per lane.
pub(crate) type Mask = u8;

/// `[f(0), .. f(4)]`, written out: a closure handed to `core::array::from_fn` may be left as a
/// function of its own, which would then be compiled without the instruction set.
#[inline(always)]
pub(crate) fn five<T>(f: impl Fn(usize) -> T) -> [T; 5] {
    [f(0), f(1), f(2), f(3), f(4)]
}

/// `[f(0), f(1), f(2)]`, written out for the same reason.
#[inline(always)]
pub(crate) fn three<T>(f: impl Fn(usize) -> T) -> [T; 3] {
    [f(0), f(1), f(2)]
}

/// Eight 64-bit words. Additions never overflow when the callers keep their stated ranges; a
/// difference may be negative for a moment (two's complement) if a carry lifts it again before
/// anything but an addition looks at it.
pub(crate) trait Lanes: Copy + core::fmt::Debug + 'static {
    /// The same word in every lane.
    fn splat(word: u64) -> Self;
    /// From words in lane order.
    fn from_words(words: [u64; LANES]) -> Self;
    /// The words in lane order.
    fn to_words(self) -> [u64; LANES];
    /// Lane `l` of the result is lane `l` of `rows[l]`.
    fn gather(rows: [&Self; LANES]) -> Self;
    /// Word `w` of row `l` becomes lane `l` of vector `w`.
    fn transpose(rows: [&[u64; 4]; LANES]) -> [Self; 4];
    /// `self` + low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn madd_lo(self, a: Self, b: Self) -> Self;
    /// `self` + bits 52..104 of the product of the low 52 bits of `a` and `b`.
    fn madd_hi(self, a: Self, b: Self) -> Self;
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
    /// Logical shift to the right.
    fn shr<const BITS: u32>(self) -> Self;
    /// Shift to the left.
    fn shl<const BITS: u32>(self) -> Self;
    /// The low word of the 128-bit `high:low`, shifted to the right.
    fn funnel<const BITS: i32>(high: Self, low: Self) -> Self;
    /// Logical shift to the right by a count known at run time.
    fn shr_by(self, bits: u32) -> Self;
    /// `yes` in the lanes of `mask`, `no` in the others.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;
    /// `a - b` in the lanes of `mask`, `self` in the others.
    fn sub_where(self, mask: Mask, a: Self, b: Self) -> Self;
    /// The lanes that are zero.
    fn zero_mask(self) -> Mask;
    /// The lanes where `self < other`, unsigned.
    fn less_mask(self, other: Self) -> Mask;
    /// Lane `l` of the result is lane `l ^ DISTANCE`, for a distance of 1, 2 or 4.
    fn swap<const DISTANCE: usize>(self) -> Self;
}
