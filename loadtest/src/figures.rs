//! Selects and formats the figures of a result.

use hdrhistogram::Histogram;

/// The quantiles in reports; the text table omits p90.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Returns the name of a node in tables.
pub(crate) const fn letter(number: usize) -> char {
    if number == 0 { 'A' } else { 'B' }
}

/// Returns a quantile in microseconds.
pub(crate) fn quantile_us(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1e3
}

/// Formats a figure with two decimals below 10, one below 100 and none above.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => group(value.round() as i64),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn group(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = if value < 0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_figures_have_fewer_decimals() {
        let shown = [0.123, 12.34, 123.4, 1_234_567.0].map(short);
        assert_eq!(shown, ["0.12", "12.3", "123", "1,234,567"]);
    }
}
