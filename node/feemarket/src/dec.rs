//! Implements the decimals of the Cosmos SDK: signed integers that count units of 10^-18.
//!
//! The product of two decimals is rounded half to even. All other results are exact unless their documentation
//! states how they are rounded. Nothing wraps: a value beyond [`LegacyDec::MAX`] is an error.

mod text;

use alloy_primitives::{Sign, U256, U512, Uint, aliases::I512};

pub use text::DecError;

/// The number of units in 1: 10^18.
const ONE: u64 = 1_000_000_000_000_000_000;
/// Digits after the point.
const FRACTION_DIGITS: usize = 18;
/// Maximum magnitude in units of 10^-18: 2^256 * 10^18, as in `cosmossdk.io/math`.
const MAX_MAGNITUDE: U512 = U512::from_limbs([0, 0, 0, 0, ONE, 0, 0, 0]);

/// An integer that fits the product of any two magnitudes.
type Wide = Uint<1024, 16>;

/// `n / 10^18` for a signed integer `n` of magnitude up to 2^256 * 10^18.
///
/// As text it is a decimal with 18 digits after the point; in protobuf it is `n`.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LegacyDec(I512);

impl LegacyDec {
    /// Zero.
    pub const ZERO: Self = Self(I512::ZERO);
    /// One.
    pub const ONE: Self = Self(I512::from_raw(U512::from_limbs([ONE, 0, 0, 0, 0, 0, 0, 0])));
    /// The maximum value, 2^256.
    pub const MAX: Self = Self(I512::from_raw(MAX_MAGNITUDE));

    /// The value of `raw` units of 10^-18.
    ///
    /// # Errors
    /// [`DecError::Overflow`] if the magnitude exceeds [`Self::MAX`].
    pub fn from_raw(raw: I512) -> Result<Self, DecError> {
        Self::bounded(Some(raw))
    }

    /// The value in units of 10^-18.
    pub const fn raw(self) -> I512 {
        self.0
    }

    /// Returns whether the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.0.is_negative()
    }

    /// Returns the exact sum.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn checked_add(self, other: Self) -> Result<Self, DecError> {
        Self::bounded(self.0.checked_add(other.0))
    }

    /// Returns the exact difference.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn checked_sub(self, other: Self) -> Result<Self, DecError> {
        Self::bounded(self.0.checked_sub(other.0))
    }

    /// Returns the product with another decimal, rounded half to even at the 18th digit after the point.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn checked_mul(self, other: Self) -> Result<Self, DecError> {
        let product: Wide = self.0.unsigned_abs().widening_mul(other.0.unsigned_abs());
        let (mut quotient, rest) = product.div_rem(Wide::from(ONE));
        let half = Wide::from(ONE / 2);
        if rest > half || (rest == half && quotient.bit(0)) {
            quotient = quotient.checked_add(Wide::ONE).ok_or(DecError::Overflow)?;
        }
        let magnitude = U512::checked_from_limbs_slice(quotient.as_limbs());
        let sign =
            if self.is_negative() == other.is_negative() { Sign::Positive } else { Sign::Negative };
        Self::bounded(magnitude.and_then(|abs| I512::checked_from_sign_and_abs(sign, abs)))
    }

    /// Returns the exact product with an integer.
    ///
    /// # Errors
    /// [`DecError::Overflow`].
    pub fn checked_mul_int(self, factor: U256) -> Result<Self, DecError> {
        Self::bounded(self.0.checked_mul(I512::from_raw(U512::from(factor))))
    }

    /// Divides by an integer. Truncates the quotient towards zero at the 18th digit after the point.
    ///
    /// # Errors
    /// [`DecError::DivisionByZero`].
    pub fn quo_int(self, divisor: U256) -> Result<Self, DecError> {
        let quotient = self.0.checked_div(I512::from_raw(U512::from(divisor)));
        quotient.map(Self).ok_or(DecError::DivisionByZero)
    }

    /// The integer part, truncated towards zero.
    pub fn truncate(self) -> I512 {
        self.0.checked_div(Self::ONE.0).expect("one is not zero")
    }

    /// The smallest integer that is not below the value.
    pub fn ceil(self) -> I512 {
        let whole = self.truncate();
        let rest = self.0.checked_rem(Self::ONE.0).expect("one is not zero");
        if rest.is_positive() { whole.saturating_add(I512::ONE) } else { whole }
    }

    /// The integer part as an unsigned 256-bit integer; `None` if the value is negative or too large.
    pub fn truncate_u256(self) -> Option<U256> {
        if self.is_negative() {
            return None;
        }
        U256::checked_from_limbs_slice(self.truncate().into_raw().as_limbs())
    }

    /// The integer part as an unsigned 64-bit integer; `None` if the value is negative or too large.
    pub fn truncate_u64(self) -> Option<u64> {
        self.truncate_u256()?.try_into().ok()
    }

    fn bounded(raw: Option<I512>) -> Result<Self, DecError> {
        raw.filter(|raw| raw.unsigned_abs() <= MAX_MAGNITUDE).map(Self).ok_or(DecError::Overflow)
    }
}

impl From<u64> for LegacyDec {
    fn from(value: u64) -> Self {
        Self::from(U256::from(value))
    }
}

impl From<U256> for LegacyDec {
    fn from(value: U256) -> Self {
        // A product of 256 and 60 bits cannot wrap.
        Self(I512::from_raw(U512::from(value).wrapping_mul(U512::from(ONE))))
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow in a test fails it")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn raw(value: i128) -> LegacyDec {
        LegacyDec::from_raw(I512::try_from(value).unwrap()).unwrap()
    }

    #[test]
    fn multiplication_rounds_half_to_even() {
        let rows = [
            (1, 500_000_000_000_000_000, 0),
            (3, 500_000_000_000_000_000, 2),
            (5, 500_000_000_000_000_000, 2),
            (1, 500_000_000_000_000_001, 1),
            (1, 499_999_999_999_999_999, 0),
            (3_000_000_000_000_000_000, 333_333_333_333_333_333, 999_999_999_999_999_999),
        ];
        for (a, b, product) in rows {
            for (a, b, product) in [(a, b, product), (-a, b, -product), (-a, -b, product)] {
                assert_eq!(raw(a).checked_mul(raw(b)), Ok(raw(product)), "{a} * {b}");
                assert_eq!(raw(b).checked_mul(raw(a)), Ok(raw(product)), "{b} * {a}");
            }
        }
    }

    #[test]
    fn integer_parts_are_truncated_or_rounded_up() {
        let i = |value: i64| I512::try_from(value).unwrap();
        let half = i128::from(ONE / 2);
        for (value, truncated, ceiling) in
            [(0, 0, 0), (half, 0, 1), (-half, 0, 0), (3 * half, 1, 2), (-3 * half, -1, -1)]
        {
            assert_eq!(raw(value).truncate(), i(truncated), "{value}");
            assert_eq!(raw(value).ceil(), i(ceiling), "{value}");
        }
        assert_eq!(raw(-1).truncate_u256(), None);
        assert_eq!(LegacyDec::MAX.truncate_u256(), None);
        assert_eq!(LegacyDec::from(U256::MAX).truncate_u256(), Some(U256::MAX));
        assert_eq!(LegacyDec::from(u64::MAX).truncate_u64(), Some(u64::MAX));
    }

    #[test]
    fn division_truncates_towards_zero() {
        assert_eq!(raw(-7).quo_int(U256::from(2)), Ok(raw(-3)));
        assert_eq!(raw(7).quo_int(U256::from(2)), Ok(raw(3)));
        assert_eq!(raw(7).quo_int(U256::ZERO), Err(DecError::DivisionByZero));
        assert_eq!(LegacyDec::MAX.quo_int(U256::MAX), Ok(LegacyDec::ONE));
    }

    #[test]
    fn overflow_is_an_error_exactly_above_the_maximum() {
        let max = LegacyDec::MAX;
        let min = max.checked_mul(raw(-i128::from(ONE))).unwrap();
        assert_eq!(max.checked_add(raw(1)), Err(DecError::Overflow));
        assert_eq!(min.checked_sub(raw(1)), Err(DecError::Overflow));
        assert_eq!(max.checked_add(min), Ok(LegacyDec::ZERO));
        assert_eq!(max.checked_mul(max), Err(DecError::Overflow));
        assert_eq!(max.checked_mul_int(U256::MAX), Err(DecError::Overflow));
        assert_eq!(max.checked_mul(LegacyDec::ONE), Ok(max));
        assert_eq!(LegacyDec::from_raw(I512::MIN), Err(DecError::Overflow));
    }

    proptest! {
        /// Checks the definition of rounding instead of computing the product again.
        #[test]
        fn product_is_the_nearest_decimal(a: i64, b: i64) {
            let exact = i128::from(a) * i128::from(b);
            let product = raw(a.into()).checked_mul(raw(b.into())).unwrap();
            let product = i128::try_from(product.raw()).unwrap();
            let twice_off = 2 * (exact - product * i128::from(ONE)).abs();
            prop_assert!(twice_off <= i128::from(ONE));
            prop_assert!(twice_off < i128::from(ONE) || product % 2 == 0);
        }
    }
}
