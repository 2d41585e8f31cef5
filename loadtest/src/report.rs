//! The result of a run: medians of the rounds as a table or as JSON.

use crate::{
    environment::environment,
    figures::{QUANTILES, letter, quantile_us, short},
    interrupt,
    options::{Common, Node},
    round::Row,
};
use serde_json::{Value, json};
use std::{fmt::Write as _, time::Duration};

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    /// Names and values of the settings.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// Where and how the figures were measured, by name.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// URL and version of each node.
    pub(crate) nodes: Vec<(String, String)>,
    /// The rows, by node and then by part.
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
            environment: environment(),
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

    /// Returns the number of failed operations on the node under test.
    pub(crate) fn errors(&self) -> u64 {
        let rounds = self.rows.iter().take(1).flatten().flat_map(|row| &row.rounds);
        rounds.map(|round| round.stats.errors).sum()
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
        let object = |pairs: &[(&'static str, String)]| -> serde_json::Map<_, _> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect()
        };
        json!({
            "scenario": self.scenario,
            "settings": object(&self.settings),
            "environment": object(&self.environment),
            "elapsedSeconds": self.elapsed.as_secs_f64(),
            "nodes": nodes.collect::<Vec<_>>(),
            "notes": self.notes,
            "looks": self.observations,
        })
    }
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

/// Formats the ratios by which the first node is better: more operations, less CPU, lower latencies.
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
