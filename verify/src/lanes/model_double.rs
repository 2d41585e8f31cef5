//! Products of doubles in checked integer arithmetic: tests with this model check every bound in
//! `docs/verify-math.md`, section 11.

use super::{
    LANES,
    double::{Double, DoubleLanes},
    model::Model,
};

/// Number of bits of the significand of a double.
const SIGNIFICAND_BITS: i32 = 53;
/// The bias of the exponent of a double whose significand is read as an integer.
const EXPONENT_BIAS: i32 = 1023 + 52;

/// `significand * 2^exponent`. The exponent is the last place that the number may use, even if it does not use it.
/// Thus, a sum that is not exact for all operands is detected even with operands that use fewer places.
#[derive(Clone, Copy, Debug)]
struct Exact {
    significand: i128,
    exponent: i32,
}

impl Exact {
    /// Decodes a double that must be a multiple of 2^`exponent`.
    fn decode(value: f64, exponent: i32) -> Self {
        let number = Self::of(value);
        if number.significand == 0 {
            return Self { significand: 0, exponent };
        }
        assert!(number.exponent >= exponent, "not a multiple of the weight of its limb");
        number.at(exponent)
    }

    /// Decodes a double; its last place is its last set bit.
    fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let stored = i32::try_from(bits >> 52 & 0x7ff).expect("eleven bits");
        if value == 0.0 {
            return Self { significand: 0, exponent: 0 };
        }
        assert!(stored != 0 && stored != 0x7ff, "a subnormal number or not a number");
        let magnitude = i128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let zeros = magnitude.trailing_zeros().cast_signed();
        let significand = if value < 0.0 { -magnitude } else { magnitude } >> zeros;
        Self { significand, exponent: stored - EXPONENT_BIAS + zeros }
    }

    fn encode(self) -> f64 {
        let power = u64::try_from(self.exponent + 1023).expect("a normal number") << 52;
        (self.exact().significand as f64) * f64::from_bits(power)
    }

    /// Returns the same number with a lower last place.
    fn at(self, exponent: i32) -> Self {
        let shift = self.exponent - exponent;
        assert!((0..127).contains(&shift));
        let significand = self.significand << shift;
        assert_eq!(significand >> shift, self.significand, "overflow of the model");
        Self { significand, exponent }
    }

    /// Asserts that an exact result has at most 53 bits.
    fn exact(self) -> Self {
        let limit = 1u128 << SIGNIFICAND_BITS;
        assert!(self.significand.unsigned_abs() <= limit, "an exact result has more than 53 bits");
        self
    }

    fn plus(self, other: Self) -> Self {
        if self.significand == 0 || other.significand == 0 {
            return if self.significand == 0 { other } else { self };
        }
        let exponent = self.exponent.min(other.exponent);
        let (a, b) = (self.at(exponent).significand, other.at(exponent).significand);
        Self { significand: a + b, exponent }
    }

    fn times(self, other: Self) -> Self {
        let significand = self.significand * other.significand;
        Self { significand, exponent: self.exponent + other.exponent }
    }

    /// Returns the exponent of the highest bit.
    fn binade(self) -> i32 {
        i128::BITS.cast_signed() - self.significand.leading_zeros().cast_signed() - 1
            + self.exponent
    }

    /// Asserts that the sum with a positive constant stays in the binade of the constant. Returns the sum, rounded to
    /// the nearest multiple of the last place of the binade, ties to even.
    fn rounded_at(self, constant: Self) -> Self {
        let sum = self.plus(constant);
        assert!(
            sum.significand > 0 && sum.binade() == constant.binade(),
            "a sum leaves its binade"
        );
        let exponent = constant.binade() + 1 - SIGNIFICAND_BITS;
        let shift = exponent - sum.exponent;
        if shift <= 0 {
            return sum.at(exponent);
        }
        let (quotient, rest) = (sum.significand >> shift, sum.significand & ((1 << shift) - 1));
        let half = 1 << (shift - 1);
        let up = rest > half || rest == half && quotient & 1 == 1;
        Self { significand: quotient + i128::from(up), exponent }.exact()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedHalf([Exact; LANES / 2]);

impl CheckedHalf {
    #[inline(never)]
    fn zip(self, other: Self, f: impl Fn(Exact, Exact) -> Exact) -> Self {
        Self(core::array::from_fn(|l| f(self.0[l], other.0[l])))
    }
}

impl Double for CheckedHalf {
    #[inline(never)]
    fn splat(value: f64) -> Self {
        Self([Exact::of(value); LANES / 2])
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a.plus(b).exact())
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a.plus(Exact { significand: -b.significand, ..b }).exact())
    }

    #[inline(never)]
    fn scaled(self, factor: f64) -> Self {
        self.zip(Self::splat(factor), |a, b| a.times(b).exact())
    }

    #[inline(never)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        self.zip(factor, Exact::times).zip(addend, |product, c| product.plus(c).exact())
    }

    #[inline(never)]
    fn mul_add_rounded(self, factor: Self, constant: Self) -> Self {
        self.zip(factor, Exact::times).zip(constant, Exact::rounded_at)
    }

    #[inline(never)]
    fn add_rounded(self, constant: Self) -> Self {
        self.zip(constant, Exact::rounded_at)
    }
}

impl DoubleLanes for Model {
    type Half = CheckedHalf;

    #[inline(never)]
    fn half(limbs: &[Self; 5], half: usize, weights: &[i32; 5]) -> [CheckedHalf; 5] {
        let lane = |i: usize, l: usize| f64::from_bits(limbs[i].0[half * LANES / 2 + l]);
        core::array::from_fn(|i| {
            CheckedHalf(core::array::from_fn(|l| Exact::decode(lane(i, l), weights[i])))
        })
    }

    #[inline(never)]
    fn joined(low: [CheckedHalf; 5], high: [CheckedHalf; 5]) -> [Self; 5] {
        let word = |half: &CheckedHalf, l: usize| half.0[l].encode().to_bits();
        core::array::from_fn(|i| {
            Self(core::array::from_fn(|l| word(if l < 4 { &low[i] } else { &high[i] }, l % 4)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: f64) -> CheckedHalf {
        CheckedHalf::splat(value)
    }

    #[test]
    #[should_panic(expected = "more than 53 bits")]
    fn exact_sum_of_54_bits_panics() {
        number(9_007_199_254_740_992.0).add(number(1.0));
    }

    #[test]
    #[should_panic(expected = "leaves its binade")]
    fn rounded_sum_in_the_next_binade_panics() {
        number(2_251_799_813_685_248.0).add_rounded(number(6_755_399_441_055_744.0));
    }

    #[test]
    fn model_rounds_like_the_processor() {
        for value in [0.25, 0.5, 0.75, 1.5, -0.5, -1.5, 2.5, 3.0] {
            let constant = 6_755_399_441_055_744.0;
            let rounded = number(value).add_rounded(number(constant)).0[0].encode();
            assert_eq!(rounded.to_bits(), (value + constant).to_bits());
        }
    }
}
