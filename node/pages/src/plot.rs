//! Draws one series as SVG, with a text alternative that has the lowest, the highest and the last value.

use maud::{Markup, html};
use std::fmt::Write as _;

/// Size of the drawing in SVG units.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 130.0;
/// Height of the space for labels at the top and at the bottom.
const MARGIN: f64 = 20.0;

/// A plot of values over a range of blocks.
#[derive(Debug)]
pub(crate) struct Plot<'a> {
    pub(crate) title: &'a str,
    /// The first and the last block.
    pub(crate) range: (u64, u64),
    /// One value for each block, from the first on.
    pub(crate) values: &'a [f64],
    /// The maximum of the vertical axis; `None` for the highest value.
    pub(crate) maximum: Option<f64>,
    /// Formats a value.
    pub(crate) label: fn(f64) -> String,
}

impl Plot<'_> {
    pub(crate) fn render(&self) -> Markup {
        let last = self.values.last().copied().unwrap_or_default();
        let lowest = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = self.values.iter().copied().fold(0.0, f64::max);
        let top = self.maximum.unwrap_or(highest);
        let label = self.label;
        let summary = match self.values.is_empty() {
            true => format!("{}: no blocks.", self.title),
            false => format!(
                "{} of blocks {} to {}: from {} to {}, now {}.",
                self.title,
                self.range.0,
                self.range.1,
                label(lowest),
                label(highest),
                label(last)
            ),
        };
        html! {
            figure {
                figcaption { (self.title) ": " strong { (label(last)) } }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(summary) {
                    line x1="0" x2=(WIDTH) y1=(MARGIN) y2=(MARGIN) {}
                    line x1="0" x2=(WIDTH) y1=(HEIGHT - MARGIN) y2=(HEIGHT - MARGIN) {}
                    path.area d=(self.path(top, true)) {}
                    path.line d=(self.path(top, false)) {}
                    text x="0" y=(MARGIN - 4.0) { (label(top)) }
                    text x="0" y=(HEIGHT - 3.0) { "block " (self.range.0) }
                    text x=(WIDTH) y=(HEIGHT - 3.0) text-anchor="end" { (self.range.1) }
                }
            }
        }
    }

    /// Returns the path of the line, or of the area below it if `closes`.
    fn path(&self, top: f64, closes: bool) -> String {
        let (floor, height) = (HEIGHT - MARGIN, HEIGHT - 2.0 * MARGIN);
        let step = WIDTH / self.values.len().saturating_sub(1).max(1) as f64;
        let mut path = String::with_capacity(16 * self.values.len() + 32);
        for (position, value) in self.values.iter().enumerate() {
            let share = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
            let command = if position == 0 { 'M' } else { 'L' };
            let (x, y) = (position as f64 * step, floor - share * height);
            let _ = write!(path, "{command}{x:.1} {y:.1}");
        }
        if closes && !self.values.is_empty() {
            let last = (self.values.len() - 1) as f64 * step;
            let _ = write!(path, "L{last:.1} {floor:.1}L0 {floor:.1}Z");
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[f64]) -> String {
        let label = |value: f64| format!("{value:.0}");
        let plot = Plot { title: "Use", range: (1, 9), values, maximum: None, label };
        plot.render().into_string()
    }

    #[test]
    fn any_number_of_values_can_be_drawn() {
        assert!(plot(&[]).contains("no blocks"));
        assert!(plot(&[0.0]).contains("M0.0 110.0"));
        assert!(plot(&[1.0, 4.0, 2.0]).contains("from 1 to 4, now 2"));
        let many = vec![1.0; 100_000];
        assert!(!plot(&many).contains("NaN"));
    }
}
