//! The report as one HTML page without scripts or external resources, in a light and a dark theme.

use crate::{
    figures::{QUANTILES, letter, quantile_us, short},
    plot::{CLASSES, Chart, Line, Scale, bars, escape},
    report::Report,
    round::Row,
    stats::STEP,
};
use std::fmt::Write as _;

/// Steps between the points of a percentile curve.
const CURVE_STEPS: u32 = 120;
/// Maximum number of nines of a percentile curve: p99.99.
const MAX_NINES: f64 = 4.0;

const STYLE: &str = "\
:root{--a:#2463c9;--b:#d9622b;--text:#1c2330;--dim:#5d6777;--line:#d5dae2;--back:#fff;--card:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--a:#6ea3ff;--b:#ff9a62;--text:#e4e8ef;--dim:#98a2b3;\
--line:#343c49;--back:#12161d;--card:#1a202a}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:1180px;\
margin:0 auto;padding:24px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:32px 0 8px}
p.dim,td.dim,.settings{color:var(--dim)}
.settings span{margin-right:18px;white-space:nowrap}
.nodes{margin:12px 0;padding:0;list-style:none}
.key{display:inline-block;width:12px;height:12px;border-radius:3px;margin-right:8px}
.key.a{background:var(--a)}.key.b{background:var(--b)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:5px 7px;font-size:14px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--dim);font-weight:600}th:first-child,td:first-child{text-align:left}
tr.ratio td{color:var(--dim);font-size:13px}
.bad{color:#c62828;font-weight:600}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}
figure{margin:0;padding:12px;background:var(--card);border-radius:8px}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--text);font-size:12px}svg .title{font-weight:600;font-size:13px}
svg .x{text-anchor:middle;fill:var(--dim)}svg .y{text-anchor:end;fill:var(--dim)}
svg .grid{stroke:var(--line);stroke-width:1}svg .axis{stroke:var(--dim);stroke-width:1}
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}
svg .line.a{stroke:var(--a)}svg .line.b{stroke:var(--b)}
svg rect.a{fill:var(--a)}svg rect.b{fill:var(--b)}
li{margin:2px 0}code{font-size:13px}";

pub(crate) fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>loadtest {0}</title><style>{STYLE}</style></head><body><h1>loadtest {0}</h1>",
        escape(&report.scenario)
    );
    page.push_str("<div class=\"settings\">");
    for (name, value) in &report.settings {
        let _ = write!(page, "<span>{}: <b>{}</b></span>", escape(name), escape(value));
    }
    page.push_str("</div><table>");
    for (name, value) in &report.environment {
        let _ = write!(
            page,
            "<tr><td class=\"dim\">{}</td><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    page.push_str("</table><ul class=\"nodes\">");
    for (number, (url, version)) in report.nodes.iter().enumerate() {
        let _ = write!(
            page,
            "<li><span class=\"key {}\"></span><b>{}</b> <code>{}</code> {}</li>",
            CLASSES[number],
            letter(number),
            escape(url),
            escape(version)
        );
    }
    page.push_str("</ul>");
    page.push_str(&table(report));
    page.push_str(&overview(report));
    for part in 0..report.rows[0].len() {
        page.push_str(&details(report, part));
    }
    page.push_str("<h2>Notes</h2><ul>");
    for note in &report.notes {
        let _ = write!(page, "<li>{}</li>", escape(note));
    }
    page.push_str(
        "<li>Latency is the time from when a request was due until its complete response. CPU is user \
         and system time of the node's process per operation.</li></ul></body></html>\n",
    );
    page
}

fn table(report: &Report) -> String {
    let mut html = String::from(
        "<h2>Figures</h2><div class=\"scroll\"><table><thead><tr><th>Part</th><th></th><th>op/s</th>\
         <th>CPU µs</th>",
    );
    for (name, _) in QUANTILES {
        let _ = write!(html, "<th>{name} µs</th>");
    }
    html.push_str("<th>max</th><th>bytes</th><th>errors</th></tr></thead><tbody>");
    for part in 0..report.rows[0].len() {
        for (number, rows) in report.rows.iter().enumerate() {
            html.push_str(&table_row(&rows[part], number));
        }
        if let [ours, theirs] = report.rows.as_slice() {
            let speed = ours[part].per_second() / theirs[part].per_second().max(1e-9);
            let cpu = ours[part].cpu_us().zip(theirs[part].cpu_us());
            let cpu = cpu.map(|(ours, theirs)| format!("{:.2}×", theirs / ours.max(1e-9)));
            let _ = write!(
                html,
                "<tr class=\"ratio\"><td></td><td>A/B</td><td>{speed:.2}×</td><td>{}</td></tr>",
                cpu.unwrap_or_default()
            );
        }
    }
    html.push_str("</tbody></table></div>");
    html
}

fn table_row(row: &Row, number: usize) -> String {
    let sum = row.sum();
    let mut html = format!(
        "<tr><td>{}</td><td><span class=\"key {}\"></span>{}</td><td>{}</td><td><b>{}</b></td>",
        escape(&row.part),
        CLASSES[number],
        letter(number),
        short(row.per_second()),
        row.cpu_us().map_or_else(|| "-".to_owned(), short)
    );
    for (_, quantile) in QUANTILES {
        let _ = write!(html, "<td>{}</td>", short(quantile_us(&sum.latency, quantile)));
    }
    let bad = if sum.errors > 0 { " class=\"bad\"" } else { "" };
    let _ = write!(
        html,
        "<td>{}</td><td>{}</td><td{bad}>{}</td></tr>",
        short(sum.latency.max() as f64 / 1e3),
        short(sum.bytes as f64 / sum.requests.max(1) as f64),
        sum.errors
    );
    html
}

/// Draws bar charts over all parts, if there are several.
fn overview(report: &Report) -> String {
    let names: Vec<_> = report.rows[0].iter().map(|row| row.part.clone()).collect();
    if names.len() < 2 {
        return String::new();
    }
    let of = |figure: fn(&Row) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        report.rows.iter().map(|rows| rows.iter().map(figure).collect()).collect()
    };
    let cpu = bars("Server CPU, µs per operation", &names, &of(Row::cpu_us));
    let speed = bars("Operations per second", &names, &of(|row| Some(row.per_second())));
    let figures = [cpu, speed].into_iter().filter(|svg| !svg.is_empty());
    let figures: String = figures.map(|svg| format!("<figure>{svg}</figure><br>")).collect();
    format!("<h2>All parts</h2>{figures}")
}

fn details(report: &Report, part: usize) -> String {
    let rows = || report.rows.iter().map(|rows| &rows[part]).enumerate();
    let lines = |points: fn(&Row) -> Vec<(f64, f64)>| -> Vec<Line> {
        let lines = rows().map(|(node, row)| Line { node, points: points(row) });
        lines.filter(|line| line.points.len() > 1).collect()
    };
    let charts = [
        Chart {
            title: "Latency by percentile".to_owned(),
            x_label: "percentile",
            x_scale: Scale::Nines,
            y_scale: Scale::Log,
            y_show: show_us,
            lines: lines(by_percentile),
        },
        Chart {
            title: "Operations per second".to_owned(),
            x_label: "seconds",
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            y_show: show_count,
            lines: lines(over_time),
        },
        Chart {
            title: "Base fee".to_owned(),
            x_label: "seconds",
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            y_show: show_gwei,
            lines: lines(base_fees),
        },
    ];
    let name = &report.rows[0][part].part;
    let mut html = format!("<h2>{}</h2>", escape(name));
    let figures: Vec<_> = rows()
        .flat_map(|(node, row)| {
            let figures = row.figures().into_iter();
            figures.map(move |(name, value)| format!("{} {name} {}", letter(node), short(value)))
        })
        .collect();
    if !figures.is_empty() {
        let _ = write!(html, "<p class=\"dim\">{}</p>", escape(&figures.join(" · ")));
    }
    html.push_str("<div class=\"grid\">");
    for chart in charts.iter().map(Chart::svg).filter(|svg| !svg.is_empty()) {
        let _ = write!(html, "<figure>{chart}</figure>");
    }
    html.push_str("</div>");
    html
}

fn by_percentile(row: &Row) -> Vec<(f64, f64)> {
    let sum = row.sum();
    if sum.latency.is_empty() {
        return Vec::new();
    }
    let point = |step: u32| {
        let quantile = 1.0 - 10f64.powf(-f64::from(step) / f64::from(CURVE_STEPS) * MAX_NINES);
        (quantile, quantile_us(&sum.latency, quantile))
    };
    (0..=CURVE_STEPS).map(point).collect()
}

/// Returns the curve of the first round; the other rounds are similar.
fn over_time(row: &Row) -> Vec<(f64, f64)> {
    let Some(round) = row.rounds.first() else { return Vec::new() };
    // The last step is incomplete.
    let whole = round.stats.series.len().saturating_sub(1);
    let step = STEP.as_secs_f64();
    let counts = round.stats.series[..whole].iter().enumerate();
    counts.map(|(at, count)| ((at as f64 + 0.5) * step, *count as f64 / step)).collect()
}

fn base_fees(row: &Row) -> Vec<(f64, f64)> {
    row.rounds.first().map(|round| round.base_fees.clone()).unwrap_or_default()
}

fn show_us(us: f64) -> String {
    match us {
        small if small < 1e3 => format!("{small} µs"),
        middle if middle < 1e6 => format!("{} ms", middle / 1e3),
        large => format!("{} s", large / 1e6),
    }
}

fn show_count(count: f64) -> String {
    match count {
        small if small < 1e4 => format!("{small}"),
        middle if middle < 1e6 => format!("{} k", middle / 1e3),
        large => format!("{} M", large / 1e6),
    }
}

fn show_gwei(gwei: f64) -> String {
    // The base fee of a chain with little load may be a few wei.
    if gwei != 0.0 && gwei < 1e-3 {
        return format!("{:.0} wei", gwei * 1e9);
    }
    let text = format!("{gwei:.3}");
    format!("{} gwei", text.trim_end_matches('0').trim_end_matches('.'))
}
