//! Line charts and bar charts as SVG text without dependencies.

use crate::figures::short;
use std::fmt::Write as _;

/// Outer size of a chart, in SVG units.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 250.0;
/// Margins for labels.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 40.0;
/// Approximate maximum number of ticks of an axis.
const MAX_TICKS: f64 = 5.0;
/// Height of one bar including its gap.
const BAR: f64 = 22.0;
/// Margins for the names to the left of bars and the figures to their right.
const BAR_LEFT: f64 = 230.0;
const BAR_RIGHT: f64 = 70.0;
const BARS_WIDTH: f64 = 940.0;

/// CSS classes of node A and node B, which determine their colours.
pub(crate) const CLASSES: [&str; 2] = ["a", "b"];

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// Equal steps for equal factors.
    Log,
    /// Equal steps for each further nine of a quantile.
    Nines,
}

impl Scale {
    fn scaled(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-3).log10(),
            Self::Nines => -(1.0 - value).max(1e-6).log10(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Index of the node.
    pub(crate) node: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: &'static str,
    pub(crate) x_scale: Scale,
    pub(crate) y_scale: Scale,
    /// Formats a value of the y axis.
    pub(crate) y_show: fn(f64) -> String,
    pub(crate) lines: Vec<Line>,
}

/// Returns the minimum and maximum of some values, extended so that they are never equal.
fn span(values: impl Iterator<Item = f64>, from_zero: bool) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let low = if from_zero { low.min(0.0) } else { low };
    Some(if high - low < 1e-9 { (low, low + 1.0) } else { (low, high) })
}

/// Returns round values that divide a span into a few parts.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / MAX_TICKS;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|unit| unit * power).find(|s| *s >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

/// Values for the labels of an axis whose scaled values span `low` to `high`.
fn ticks(scale: Scale, low: f64, high: f64) -> Vec<f64> {
    match scale {
        Scale::Linear => linear_ticks(low, high),
        Scale::Log => {
            let decades = (low.floor() as i32..=high.ceil() as i32).map(|power| 10f64.powi(power));
            let fine = high - low < 2.0;
            let units: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let values = decades.flat_map(|decade| units.iter().map(move |unit| unit * decade));
            values.filter(|v| (low - 1e-9..=high + 1e-9).contains(&v.log10())).collect()
        }
        Scale::Nines => {
            let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
            all.into_iter().filter(|v| scale.scaled(*v) <= high + 1e-9).collect()
        }
    }
}

impl Chart {
    /// Draws the chart as SVG; returns an empty string if there are no points.
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x_span = span(points().map(|(x, _)| self.x_scale.scaled(*x)), false);
        let from_zero = self.y_scale == Scale::Linear;
        let y_span = span(points().map(|(_, y)| self.y_scale.scaled(*y)), from_zero);
        let (Some((x0, x1)), Some((y0, y1))) = (x_span, y_span) else { return String::new() };
        let y1 = if from_zero { y1 * 1.05 } else { y1 };
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let to_x = |x: f64| LEFT + (self.x_scale.scaled(x) - x0) / (x1 - x0) * (right - LEFT);
        let to_y = |y: f64| bottom - (self.y_scale.scaled(y) - y0) / (y1 - y0) * (bottom - TOP);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{0}</title>\
             <text class=\"title\" x=\"{LEFT}\" y=\"16\">{0}</text>",
            escape(&self.title)
        );
        for tick in ticks(self.y_scale, y0, y1) {
            let y = to_y(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                (self.y_show)(tick)
            );
        }
        for tick in ticks(self.x_scale, x0, x1) {
            let label = match self.x_scale {
                Scale::Nines => format!("p{}", plain(tick * 100.0)),
                _ => plain(tick),
            };
            let (x, low) = (to_x(tick), bottom + 16.0);
            let _ = write!(svg, "<text class=\"x\" x=\"{x:.1}\" y=\"{low:.1}\">{label}</text>");
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"x label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 6.0,
            self.x_label
        );
        for line in &self.lines {
            let path: Vec<_> = line
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", to_x(*x), to_y(*y)))
                .collect();
            let class = CLASSES[line.node];
            let _ = write!(svg, "<polyline class=\"line {class}\" points=\"{}\"/>", path.join(" "));
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Draws one bar per name and node, scaled to the maximum.
pub(crate) fn bars(title: &str, names: &[String], values: &[Vec<Option<f64>>]) -> String {
    let all = || values.iter().flatten().flatten();
    let Some((_, max)) = span(all().copied(), true) else { return String::new() };
    let nodes = values.len() as f64;
    let height = TOP + names.len() as f64 * (BAR * nodes + 8.0) + 8.0;
    let max_width = BARS_WIDTH - BAR_LEFT - BAR_RIGHT;
    let mut svg = format!(
        "<svg class=\"wide\" viewBox=\"0 0 {BARS_WIDTH} {height}\" role=\"img\"><title>{0}</title>\
         <text class=\"title\" x=\"0\" y=\"16\">{0}</text>",
        escape(title)
    );
    for (row, name) in names.iter().enumerate() {
        let top = TOP + row as f64 * (BAR * nodes + 8.0);
        let middle = top + BAR * nodes / 2.0 + 3.0;
        let _ = write!(
            svg,
            "<text class=\"y\" x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
            BAR_LEFT - 8.0,
            escape(name)
        );
        for (node, values) in values.iter().enumerate() {
            let Some(value) = values[row] else { continue };
            let (y, width) = (top + node as f64 * BAR, (value / max * max_width).max(1.0));
            let _ = write!(
                svg,
                "<rect class=\"{}\" x=\"{BAR_LEFT}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{:.1}\" rx=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                CLASSES[node],
                BAR - 4.0,
                BAR_LEFT + width + 6.0,
                y + 13.0,
                short(value)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Formats a number without trailing zeros.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes text for HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside_the_span() {
        assert_eq!(linear_ticks(0.0, 9.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(ticks(Scale::Log, 1.0, 4.0), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(Scale::Nines, 0.0, 2.0), [0.0, 0.5, 0.9, 0.99]);
    }

    #[test]
    fn chart_points_are_inside_the_axes_and_text_is_escaped() {
        let line = Line { node: 0, points: vec![(0.0, 10.0), (0.5, 100.0), (0.99, 5000.0)] };
        let chart = Chart {
            title: "<script>".to_owned(),
            x_label: "percentile",
            x_scale: Scale::Nines,
            y_scale: Scale::Log,
            y_show: plain,
            lines: vec![line],
        };
        let svg = chart.svg();
        assert!(!svg.contains("<script>"));
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        for point in points.split(' ') {
            let (x, y) = point.split_once(',').unwrap();
            assert!((LEFT..=WIDTH - RIGHT).contains(&x.parse().unwrap()), "{point}");
            assert!((TOP..=HEIGHT - BOTTOM).contains(&y.parse().unwrap()), "{point}");
        }
        assert!(Chart { lines: Vec::new(), ..chart }.svg().is_empty());
    }

    #[test]
    fn flat_line_is_drawn() {
        let line = Line { node: 1, points: vec![(0.0, 0.0), (1.0, 0.0)] };
        let chart = Chart {
            title: String::new(),
            x_label: "s",
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            y_show: plain,
            lines: vec![line],
        };
        assert!(!chart.svg().contains("NaN"));
    }
}
