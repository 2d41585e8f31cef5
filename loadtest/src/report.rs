//! The result of a run: medians of the rounds as a table, as JSON or as a page (`html`).

use crate::{
    html, interrupt,
    options::{Common, Node, Output},
    rounds::Round,
    stats::Stats,
};
use anyhow::Context;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::{fmt::Write as _, io::Write as _, time::Duration};

/// The quantiles printed.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// One part on one node.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) part: String,
    pub(crate) rounds: Vec<Round>,
}

impl Row {
    pub(crate) fn new(part: String) -> Self {
        Self { part, rounds: Vec::new() }
    }

    /// All rounds together.
    pub(crate) fn sum(&self) -> Stats {
        let mut sum = Stats::new();
        for round in &self.rounds {
            sum.add(&round.stats);
            sum.elapsed += round.stats.elapsed;
        }
        sum
    }

    /// Median over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().map(figure).collect::<Option<_>>()?)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.median(|round| Some(round.stats.per_second())).unwrap_or(0.0)
    }

    /// Server CPU per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.median(Round::cpu_us)
    }

    /// Server CPU relative to another row: the median of the ratios of each round. Other work on
    /// the machine affects both measurements of a round alike.
    pub(crate) fn cost_relative_to(&self, other: &Self) -> Option<f64> {
        let rounds = self.rounds.iter().zip(&other.rounds);
        let costs = rounds.map(|(ours, theirs)| {
            let theirs = theirs.cpu_us().filter(|cpu| *cpu > 0.0)?;
            Some(ours.cpu_us()? / theirs)
        });
        median(costs.collect::<Option<_>>()?)
    }

    /// Names and medians of further figures.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        let Some(first) = self.rounds.first() else { return Vec::new() };
        let median = |name: &'static str| {
            let of =
                |round: &Round| Some(round.figures.iter().find(|(other, _)| *other == name)?.1);
            Some((name, self.median(of)?))
        };
        first.figures.iter().filter_map(|(name, _)| median(name)).collect()
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    /// Names and values of the settings.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// URL and version of each node.
    pub(crate) nodes: Vec<(String, String)>,
    /// By node, then by part.
    pub(crate) rows: Vec<Vec<Row>>,
    pub(crate) elapsed: Duration,
    /// Lines below the table.
    pub(crate) notes: Vec<String>,
    /// Observations of a soak test.
    pub(crate) observations: Vec<Value>,
}

impl Report {
    pub(crate) fn new(
        scenario: &str,
        common: &Common,
        nodes: &[Node],
        rows: Vec<Vec<Row>>,
        elapsed: Duration,
    ) -> Self {
        let mode = match common.rate {
            Some(rate) => format!("open loop, {rate} requests per second"),
            None => "closed loop".to_owned(),
        };
        let settings = vec![
            ("mode", mode),
            ("connections", common.connections.to_string()),
            ("threads", common.threads.to_string()),
            ("rounds", common.rounds().to_string()),
            ("seed", common.seed.to_string()),
        ];
        let nodes = nodes.iter().map(|node| (node.url.text.clone(), node.version.clone()));
        let mut report = Self {
            scenario: scenario.to_owned(),
            settings,
            nodes: nodes.collect(),
            rows,
            elapsed,
            notes: Vec::new(),
            observations: Vec::new(),
        };
        report.add_cpu_note();
        if interrupt::requested() {
            report.notes.push("interrupted: these are the results so far".to_owned());
        }
        report
    }

    fn add_cpu_note(&mut self) {
        let rounds = || self.rows.iter().flatten().flat_map(|row| &row.rounds);
        let percent = |cpu: f64, wall: f64| 100.0 * cpu / wall.max(1e-9);
        // A row without client CPU ran concurrently with one that has it.
        let measured = rounds().filter(|round| !round.client_cpu.is_zero());
        let wall: f64 = measured.map(|round| round.elapsed.as_secs_f64()).sum();
        let client: f64 = rounds().map(|round| round.client_cpu.as_secs_f64()).sum();
        let known = || rounds().filter_map(|round| round.server_cpu.zip(Some(round.elapsed)));
        let server: f64 = known().map(|(cpu, _)| cpu.as_secs_f64()).sum();
        let watched: f64 = known().map(|(_, elapsed)| elapsed.as_secs_f64()).sum();
        let node = match known().next() {
            Some(_) => format!("node {:.0}", percent(server, watched)),
            None => "node unknown (set --pid)".to_owned(),
        };
        self.notes.push(format!(
            "CPU in percent of one core during the measurement: {node}, this client {:.0}",
            percent(client, wall)
        ));
    }

    /// Number of failed operations on the node under test.
    pub(crate) fn errors(&self) -> u64 {
        let rounds = self.rows.iter().take(1).flatten().flat_map(|row| &row.rounds);
        rounds.map(|round| round.stats.errors).sum()
    }

    /// Prints the result, and writes the page if `--html` is set.
    pub(crate) fn publish(&self, common: &Common) -> anyhow::Result<()> {
        if let Some(path) = &common.html {
            std::fs::write(path, html::page(self))
                .with_context(|| format!("writing {}", path.display()))?;
        }
        let text = match common.output {
            Output::Json => format!("{:#}\n", self.json()),
            Output::Text => self.text(),
        };
        let mut out = std::io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader of the pipe has closed it.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (number, (url, version)) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "node {}  {url}  {version}", letter(number));
        }
        let settings: Vec<_> = self.settings.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let _ = writeln!(text, "{}: {}\n", self.scenario, settings.join(", "));
        let width = self.rows[0].iter().map(|row| row.part.len()).max().unwrap_or(4).max(4);
        let _ = writeln!(
            text,
            "{:width$}      {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "part", "op/s", "CPU us", "p50 us", "p99", "p99.9", "p99.99", "max", "bytes", "errors"
        );
        for part in 0..self.rows[0].len() {
            for (number, rows) in self.rows.iter().enumerate() {
                text.push_str(&line(&rows[part], number, width));
            }
            if let [ours, theirs] = self.rows.as_slice() {
                text.push_str(&ratio(&ours[part], &theirs[part], width));
            }
        }
        for (number, rows) in self.rows.iter().enumerate() {
            for row in rows {
                let figures: Vec<_> =
                    row.figures().iter().map(|(name, v)| format!("{name} {}", short(*v))).collect();
                if !figures.is_empty() {
                    let _ =
                        writeln!(text, "{} {}: {}", row.part, letter(number), figures.join(", "));
                }
            }
        }
        text.push('\n');
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        for (number, rows) in self.rows.iter().enumerate() {
            for row in rows {
                let mut refusals: Vec<_> = row.rounds.iter().flat_map(|r| &r.refusals).collect();
                refusals.sort_unstable();
                refusals.dedup();
                for refusal in refusals {
                    let _ = writeln!(text, "refused in {} {}: {refusal}", row.part, letter(number));
                }
                for error in row.sum().error_texts {
                    let _ = writeln!(text, "error in {} {}: {error}", row.part, letter(number));
                }
            }
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let nodes = self.nodes.iter().zip(&self.rows).map(|((url, version), rows)| {
            json!({ "url": url, "version": version, "parts": rows.iter().map(row_json).collect::<Vec<_>>() })
        });
        let settings: serde_json::Map<_, _> =
            self.settings.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        json!({
            "scenario": self.scenario,
            "settings": settings,
            "elapsedSeconds": self.elapsed.as_secs_f64(),
            "nodes": nodes.collect::<Vec<_>>(),
            "notes": self.notes,
            "looks": self.observations,
        })
    }
}

/// The name of a node in tables.
pub(crate) const fn letter(number: usize) -> char {
    if number == 0 { 'A' } else { 'B' }
}

/// Microseconds of a quantile.
pub(crate) fn quantile_us(latency: &Histogram<u64>, quantile: f64) -> f64 {
    latency.value_at_quantile(quantile) as f64 / 1e3
}

fn line(row: &Row, number: usize, width: usize) -> String {
    let sum = row.sum();
    let us = |quantile| short(quantile_us(&sum.latency, quantile));
    format!(
        "{:width$}  {}   {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
        row.part,
        letter(number),
        short(row.per_second()),
        row.cpu_us().map_or_else(|| "-".to_owned(), short),
        us(0.5),
        us(0.99),
        us(0.999),
        us(0.9999),
        short(sum.latency.max() as f64 / 1e3),
        short(sum.bytes as f64 / sum.requests.max(1) as f64),
        sum.errors,
    )
}

/// Ratios by which the first node is better: more operations, less CPU, lower latencies.
fn ratio(ours: &Row, theirs: &Row, width: usize) -> String {
    let (our_sum, their_sum) = (ours.sum(), theirs.sum());
    let times = |better: f64, worse: f64| format!("{:.2}x", worse / better.max(1e-9));
    let us = |quantile| {
        times(quantile_us(&our_sum.latency, quantile), quantile_us(&their_sum.latency, quantile))
    };
    let cpu = ours.cpu_us().zip(theirs.cpu_us());
    format!(
        "{:width$}  A/B {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "",
        times(theirs.per_second(), ours.per_second()),
        cpu.map_or_else(|| "-".to_owned(), |(ours, theirs)| times(ours, theirs)),
        us(0.5),
        us(0.99),
        us(0.999),
        us(0.9999),
    )
}

/// Formats a figure with about three digits.
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

fn row_json(row: &Row) -> Value {
    let sum = row.sum();
    let latency: serde_json::Map<_, _> = QUANTILES
        .iter()
        .map(|(name, quantile)| ((*name).to_owned(), json!(quantile_us(&sum.latency, *quantile))))
        .chain([("max".to_owned(), json!(sum.latency.max() as f64 / 1e3))])
        .collect();
    let rounds = row.rounds.iter().map(|round| {
        json!({
            "operations": round.stats.operations,
            "seconds": round.stats.elapsed.as_secs_f64(),
            "perSecond": round.stats.per_second(),
            "serverCpuMicroseconds": round.cpu_us(),
            "clientCpuSeconds": round.client_cpu.as_secs_f64(),
        })
    });
    let figures: serde_json::Map<_, _> =
        row.figures().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({
        "part": row.part,
        "operations": sum.operations,
        "errors": sum.errors,
        "errorTexts": sum.error_texts,
        "perSecond": row.per_second(),
        "serverCpuMicroseconds": row.cpu_us(),
        "bytesPerAnswer": sum.bytes as f64 / sum.requests.max(1) as f64,
        "latencyMicroseconds": latency,
        "figures": figures,
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn relative_cost_compares_the_same_rounds() {
        let row = |cpu_us: [u64; 3]| {
            let rounds = cpu_us.map(|us| {
                let stats = Stats { operations: 1000, ..Stats::new() };
                let server_cpu = Some(Duration::from_micros(us * 1000));
                Round { server_cpu, ..Round::from_stats(stats, Duration::ZERO) }
            });
            Row { rounds: rounds.into(), ..Row::new(String::new()) }
        };
        let cost = |ours, theirs| row(ours).cost_relative_to(&row(theirs));
        let near = |cost: Option<f64>, expected: f64| (cost.unwrap() - expected).abs() < 1e-6;
        assert!(near(cost([5, 24, 8], [10, 20, 10]), 0.8));
        assert!(
            near(cost([6, 30, 12], [5, 25, 30]), 1.2),
            "the ratio of the medians would be 0.48"
        );
        assert_eq!(cost([5, 24, 8], [10, 0, 10]), None);
    }

    #[test]
    fn figures_are_formatted_with_about_three_digits() {
        let shown = [0.123, 12.34, 123.4, 1_234_567.0].map(short);
        assert_eq!(shown, ["0.12", "12.3", "123", "1,234,567"]);
    }
}
