//! The vector operations of products of doubles.
//!
//! Every operation states whether its result is exact or rounded. The processor has one instruction for both: the
//! distinction is for the checked model, which panics if a result that must be exact has more than 53 bits above
//! the last place of its operands, or if a rounded sum leaves the binade of the constant that determines where it
//! is rounded. The rounding mode is the default (to the nearest, ties to even); nothing here may change it.

use super::Lanes;

/// A vector of doubles, as used in a product from its factors to its last carry.
pub(crate) trait Double: Copy + core::fmt::Debug + 'static {
    /// Returns the same number in every lane.
    fn splat(value: f64) -> Self;
    /// Returns the exact sum.
    fn add(self, other: Self) -> Self;
    /// Returns the exact difference.
    fn sub(self, other: Self) -> Self;
    /// Returns the exact product with a small factor.
    fn scaled(self, factor: f64) -> Self;
    /// Returns the exact `self * factor + addend`.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// Returns `self * factor + constant`, rounded at the last place of `constant`.
    fn mul_add_rounded(self, factor: Self, constant: Self) -> Self;
    /// Returns `self + constant`, rounded at the last place of `constant`.
    fn add_rounded(self, constant: Self) -> Self;
}

/// Lanes whose words may be the bits of doubles. They are multiplied in two halves, because a product of whole
/// vectors of five limbs would not fit into sixteen registers.
pub(crate) trait DoubleLanes: Lanes {
    type Half: Double;
    /// Returns half 0 or 1 of five limbs, which are multiples of 2^`weights[i]`.
    fn half(limbs: &[Self; 5], half: usize, weights: &[i32; 5]) -> [Self::Half; 5];
    /// Joins two halves.
    fn joined(low: [Self::Half; 5], high: [Self::Half; 5]) -> [Self; 5];
}
