//! The measurements of one part on one node.

use crate::stats::Stats;
use std::time::Duration;

/// The result of one measurement of one part.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) stats: Stats,
    /// CPU time of the node; `None` if its process is unknown.
    pub(crate) server_cpu: Option<Duration>,
    /// CPU time of this client.
    pub(crate) client_cpu: Duration,
    /// Time from start to end, including work after the last response.
    pub(crate) elapsed: Duration,
    /// Further figures by name.
    pub(crate) figures: Vec<(&'static str, f64)>,
    /// Seconds since the start and base fee in gwei of each block.
    pub(crate) base_fees: Vec<(f64, f64)>,
    /// Refusals by the node that do not count as failures.
    pub(crate) refusals: Vec<String>,
}

impl Round {
    /// Creates a round without CPU times.
    pub(crate) fn from_stats(stats: Stats, elapsed: Duration) -> Self {
        Self {
            stats,
            server_cpu: None,
            client_cpu: Duration::ZERO,
            elapsed,
            figures: Vec::new(),
            base_fees: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// Returns the server CPU time per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        let operations = self.stats.operations.max(1) as f64;
        self.server_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / operations)
    }
}

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

    /// Returns the sum of all rounds.
    pub(crate) fn sum(&self) -> Stats {
        let mut sum = Stats::new();
        for round in &self.rounds {
            sum.add(&round.stats);
            sum.elapsed += round.stats.elapsed;
        }
        sum
    }

    /// Returns the median over the rounds, or `None` if a round lacks the figure.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().map(figure).collect::<Option<_>>()?)
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.median(|round| Some(round.stats.per_second())).unwrap_or(0.0)
    }

    /// Returns the server CPU time per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.median(Round::cpu_us)
    }

    /// Returns the server CPU relative to another row: the median of the ratios of each round. Other work on
    /// the machine affects both measurements of a round alike.
    pub(crate) fn cost_relative_to(&self, other: &Self) -> Option<f64> {
        let rounds = self.rounds.iter().zip(&other.rounds);
        let costs = rounds.map(|(ours, theirs)| {
            let theirs = theirs.cpu_us().filter(|cpu| *cpu > 0.0)?;
            Some(ours.cpu_us()? / theirs)
        });
        median(costs.collect::<Option<_>>()?)
    }

    /// Returns the names of the further figures, and their medians over the rounds.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        let Some(first) = self.rounds.first() else { return Vec::new() };
        let median = |name: &'static str| {
            let figure =
                |round: &Round| Some(round.figures.iter().find(|(other, _)| *other == name)?.1);
            Some((name, self.median(figure)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_values() {
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
}
