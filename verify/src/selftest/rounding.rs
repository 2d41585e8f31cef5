//! The rounding mode of doubles, on which the products of the AVX2 backend rely.
//!
//! The mode belongs to the thread. A new thread inherits its creator's mode, and no Rust code may change it, but a
//! library in another language can. The test assumes that the other threads have the mode of its thread.

use core::hint::black_box;

/// Returns whether sums are rounded to the nearest number, and ties to the one whose last bit is zero.
pub(super) fn is_to_nearest_even() -> bool {
    rounds_to_nearest_even(|a, b| black_box(a) + black_box(b))
}

fn rounds_to_nearest_even(sum: impl Fn(f64, f64) -> f64) -> bool {
    let last_place = f64::EPSILON;
    let even = 1.0;
    let odd = even + last_place;
    [1.0, -1.0].into_iter().all(|sign| {
        sum(sign * even, sign * last_place / 2.0) == sign * even
            && sum(sign * odd, sign * last_place / 2.0) == sign * (odd + last_place)
            && sum(sign * even, sign * last_place * 0.75) == sign * odd
            && sum(sign * even, sign * last_place * 0.25) == sign * even
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_mode_is_to_nearest_even() {
        assert!(is_to_nearest_even());
    }

    #[test]
    fn other_rounding_modes_are_detected() {
        // If `moves(error, nearest)`, returns the neighbour of the rounded sum above (`up`) or below it.
        let rounded = |moves: fn(f64, f64) -> bool, up: bool| {
            move |a: f64, b: f64| {
                let nearest = a + b;
                // This is the exact error of the sum, because |a| is not less than |b|.
                let error = (a - nearest) + b;
                match moves(error, nearest) {
                    true if up => nearest.next_up(),
                    true => nearest.next_down(),
                    false => nearest,
                }
            }
        };
        assert!(!rounds_to_nearest_even(rounded(|error, _| error > 0.0, true)), "upwards");
        assert!(!rounds_to_nearest_even(rounded(|error, _| error < 0.0, false)), "downwards");
        let towards_zero = |a: f64, b: f64| {
            let nearest = a + b;
            let error = (a - nearest) + b;
            match (nearest > 0.0, error) {
                (true, error) if error < 0.0 => nearest.next_down(),
                (false, error) if error > 0.0 => nearest.next_up(),
                _ => nearest,
            }
        };
        assert!(!rounds_to_nearest_even(towards_zero), "towards zero");
    }
}
