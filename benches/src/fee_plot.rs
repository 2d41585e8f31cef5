//! Draws `docs/base-fee.svg`: how the base fee responds to the gas used in blocks, computed by the
//! fee market itself.
//!
//! The left panel shows the change of the fee after one block. The right panel shows the fee over
//! many blocks with varying demand, and the gas used below it.

use feemarket::{Genesis, Market, Params, TokenDecimals};
use std::fmt::Write;

/// Gas limit of a block.
const LIMIT: u64 = 10_000_000;
/// Number of blocks in the right panel.
const BLOCKS: u64 = 160;
/// Fee before the first block, in wei.
const START: u64 = 1_000_000_000;
/// Width and height of a panel's drawing, in pixels.
const PANEL: (f64, f64) = (400.0, 260.0);
/// Left edges of the panels, and the top of both.
const LEFT: [f64; 2] = [60.0, 560.0];
const TOP: f64 = 40.0;
/// Top and height of the fullness bars.
const BARS: (f64, f64) = (330.0, 60.0);
/// Range of the changes in the left panel, in percent.
const CHANGES: (f64, f64) = (-30.0, 80.0);
/// Range of the fees in the right panel, as the decimal logarithm relative to [`START`].
const POWERS: (f64, f64) = (-1.5, 3.0);

/// Two parameters of the fee market, and the colour of their curve.
struct Curve {
    denominator: u32,
    elasticity: u32,
    colour: &'static str,
    /// Whether the curve is also in the right panel, whose demand assumes a target of half the
    /// limit.
    in_right_panel: bool,
}

const CURVES: [Curve; 4] = [
    Curve { denominator: 8, elasticity: 2, colour: "#1f5fa8", in_right_panel: true },
    Curve { denominator: 16, elasticity: 2, colour: "#2f8f4e", in_right_panel: true },
    Curve { denominator: 4, elasticity: 2, colour: "#b5432a", in_right_panel: true },
    Curve { denominator: 4, elasticity: 4, colour: "#8a6fb0", in_right_panel: false },
];

impl Curve {
    fn market(&self) -> Market {
        let params = Params {
            base_fee_change_denominator: self.denominator,
            elasticity_multiplier: self.elasticity,
            base_fee: START.into(),
            ..Params::default()
        };
        Market::new(Genesis { params, block_gas: 0 }, TokenDecimals::EVM)
            .expect("parameters of a plot are valid")
    }

    /// Returns the change of the fee in percent, after a block that used this share of its gas limit.
    fn change(&self, permille: u64) -> f64 {
        let mut market = self.market();
        end_block(&mut market, permille);
        let next = market.next_base_fee_wei(2, LIMIT);
        (next as f64 / START as f64 - 1.0) * 100.0
    }

    /// Returns the fee after each block, as the decimal logarithm relative to [`START`].
    fn fees_over_time(&self) -> Vec<f64> {
        let mut market = self.market();
        let mut fees = Vec::new();
        for block in 1..=BLOCKS {
            end_block(&mut market, fullness(block));
            market.begin_block(block + 1, LIMIT);
            fees.push((market.base_fee_wei() as f64 / START as f64).log10());
        }
        fees
    }
}

fn end_block(market: &mut Market, permille: u64) {
    let gas = LIMIT * permille / 1000;
    market.end_block(gas, gas).expect("far below what overflows");
}

/// Gas used by the blocks of the right panel, in thousandths of the limit: high demand and then low
/// demand between half-full blocks, and at the end alternately empty and full blocks.
const fn fullness(block: u64) -> u64 {
    match block {
        1..=20 => 500,
        21..=50 => 900,
        51..=80 => 500,
        81..=110 => 200,
        111..=130 => 500,
        _ => {
            if block.is_multiple_of(2) {
                1000
            } else {
                0
            }
        }
    }
}

/// The whole drawing.
pub fn draw() -> String {
    let mut out = String::new();
    let mut put = |line: &str| {
        out.push_str(line);
        out.push('\n');
    };
    put(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 430" font-family="sans-serif" font-size="12">"#,
    );
    put(r#"<rect width="1000" height="430" fill="white"/>"#);
    put(&title(0, "Change of the base fee after one block, by its fullness"));
    put(&title(1, "Base fee while blocks fill and empty (start: 1 gwei)"));
    put(&change_axes());
    put(&fee_axes());
    put(&bars());
    for (row, curve) in CURVES.iter().enumerate() {
        let changes =
            (0..=100).map(|step| (f64::from(step) / 100.0, curve.change(step as u64 * 10)));
        put(&line(0, changes, CHANGES, curve.colour));
        if curve.in_right_panel {
            let fees = curve.fees_over_time();
            let points = fees
                .iter()
                .enumerate()
                .map(|(block, power)| ((block as f64 + 1.0) / BLOCKS as f64, *power));
            put(&line(1, points, POWERS, curve.colour));
        }
        put(&legend(row, curve));
    }
    put("</svg>");
    out
}

/// A height in the panel; values outside the range are clamped.
fn height(value: f64, (min, max): (f64, f64)) -> f64 {
    TOP + PANEL.1 * (1.0 - (value.clamp(min, max) - min) / (max - min))
}

fn line(
    panel: usize,
    points: impl Iterator<Item = (f64, f64)>,
    range: (f64, f64),
    colour: &str,
) -> String {
    let mut path = String::new();
    for (share, value) in points {
        let (x, y) = (LEFT[panel] + PANEL.0 * share, height(value, range));
        write!(path, "{x:.1},{y:.1} ").expect("writing to a string does not fail");
    }
    format!(
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
        path.trim_end()
    )
}

fn text(x: f64, y: f64, anchor: &str, content: &str) -> String {
    format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{content}</text>"#)
}

fn title(panel: usize, content: &str) -> String {
    text(LEFT[panel], TOP - 16.0, "start", content)
}

/// A horizontal line with its label.
fn level(panel: usize, value: f64, range: (f64, f64), label: &str) -> String {
    let (left, y) = (LEFT[panel], height(value, range));
    let right = left + PANEL.0;
    let rule =
        format!(r##"<line x1="{left}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#ddd"/>"##);
    rule + &text(left - 6.0, y + 4.0, "end", label)
}

fn change_axes() -> String {
    let mut lines: Vec<_> = (-25..=75)
        .step_by(25)
        .map(|change| level(0, f64::from(change), CHANGES, &format!("{change:+} %")))
        .collect();
    for percent in [0, 25, 50, 75, 100] {
        let x = LEFT[0] + PANEL.0 * f64::from(percent) / 100.0;
        lines.push(text(x, TOP + PANEL.1 + 18.0, "middle", &format!("{percent} % full")));
    }
    lines.join("\n")
}

fn fee_axes() -> String {
    let labels = ["0.1 gwei", "1 gwei", "10 gwei", "100 gwei", "1000 gwei"];
    let lines =
        labels.iter().zip(-1..).map(|(label, power)| level(1, f64::from(power), POWERS, label));
    lines.collect::<Vec<_>>().join("\n")
}

/// The fullness of every block of the right panel.
fn bars() -> String {
    let width = PANEL.0 / BLOCKS as f64;
    let mut lines = vec![text(LEFT[1] - 6.0, BARS.0 + 10.0, "end", "full")];
    for block in 1..=BLOCKS {
        let tall = BARS.1 * fullness(block) as f64 / 1000.0;
        let (x, y) = (LEFT[1] + width * (block - 1) as f64, BARS.0 + BARS.1 - tall);
        lines.push(format!(
            r##"<rect x="{x:.2}" y="{y:.1}" width="{width:.2}" height="{tall:.1}" fill="#999"/>"##
        ));
    }
    lines.push(text(LEFT[1] - 6.0, BARS.0 + BARS.1, "end", "empty"));
    for block in (0..=BLOCKS).step_by(40) {
        let x = LEFT[1] + width * block as f64;
        lines.push(text(x, BARS.0 + BARS.1 + 16.0, "middle", &format!("block {block}")));
    }
    lines.join("\n")
}

fn legend(row: usize, curve: &Curve) -> String {
    let (x, y) = (LEFT[0], BARS.0 + 20.0 * row as f64 + 14.0);
    let Curve { denominator, elasticity, colour, .. } = curve;
    let sample = format!(
        r#"<line x1="{x}" y1="{y}" x2="{}" y2="{y}" stroke="{colour}" stroke-width="2"/>"#,
        x + 30.0
    );
    let name = format!("change denominator {denominator}, elasticity multiplier {elasticity}");
    sample + &text(x + 38.0, y + 4.0, "start", &name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn drawing_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/base-fee.svg");
        let shown = std::fs::read_to_string(path).expect("the drawing is in docs");
        assert!(
            shown == super::draw(),
            "docs/base-fee.svg is stale: cargo run -p benches --example fee_plot"
        );
    }
}
