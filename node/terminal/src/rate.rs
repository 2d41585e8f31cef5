//! Decides which blocks have lines of their own. A chain with more lines per second than a person can read has one
//! summary per second instead.

use std::time::{Duration, Instant};

/// Time that a summary covers.
const PERIOD: Duration = Duration::from_secs(1);

/// Counts the lines of each period.
#[derive(Debug)]
pub(super) struct LineRate {
    /// Maximum number of lines in a period.
    max_lines: u64,
    begun: Instant,
    /// Lines of all blocks of this period, printed or not.
    lines: u64,
    /// Maximum number of lines in this period. It is 0 if the previous period had too many, so that a busy chain has
    /// only summaries.
    allowed: u64,
    left_out: Summary,
}

/// Blocks without lines of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) blocks: u64,
    pub(super) txs: u64,
    pub(super) gas_used: u64,
    /// The time that these blocks cover.
    pub(super) time: Duration,
}

impl LineRate {
    pub(super) const fn new(max_lines: u64, now: Instant) -> Self {
        let left_out =
            Summary { first: 0, last: 0, blocks: 0, txs: 0, gas_used: 0, time: Duration::ZERO };
        Self { max_lines, begun: now, lines: 0, allowed: max_lines, left_out }
    }

    /// Ends the period if it is over. Returns the blocks without lines, if there are any.
    pub(super) fn end_period(&mut self, now: Instant) -> Option<Summary> {
        let time = now.saturating_duration_since(self.begun);
        if time < PERIOD { None } else { self.begin_period(now, time) }
    }

    /// Ends the period now. Returns the blocks without lines, if there are any.
    pub(super) fn finish(&mut self, now: Instant) -> Option<Summary> {
        self.begin_period(now, now.saturating_duration_since(self.begun))
    }

    fn begin_period(&mut self, now: Instant, time: Duration) -> Option<Summary> {
        self.allowed = if self.lines > self.max_lines { 0 } else { self.max_lines };
        (self.begun, self.lines) = (now, 0);
        let left_out = std::mem::take(&mut self.left_out);
        (left_out.blocks > 0).then_some(Summary { time, ..left_out })
    }

    /// Returns when the period ends, if a summary is due then.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.left_out.blocks > 0).then(|| self.begun + PERIOD)
    }

    /// Counts the lines of a block. Returns whether they are printed.
    pub(super) fn admit(&mut self, lines: u64) -> bool {
        self.lines += lines;
        self.lines <= self.allowed
    }

    /// Adds a block without a line to the summary.
    pub(super) fn leave_out(&mut self, number: u64, txs: u64, gas_used: u64) {
        let sum = &mut self.left_out;
        if sum.blocks == 0 {
            sum.first = number;
        }
        sum.last = number;
        sum.blocks += 1;
        sum.txs += txs;
        sum.gas_used += gas_used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_LINES: u64 = 3;

    /// Returns the lines and summaries of a chain with this many blocks in each second.
    fn printed(blocks: &[u64]) -> Vec<(u64, Option<u64>)> {
        let start = Instant::now();
        let mut rate = LineRate::new(MAX_LINES, start);
        let mut number = 0;
        let seconds = blocks.iter().zip(1..).map(|(blocks, second)| {
            let mut lines = 0;
            for _ in 0..*blocks {
                number += 1;
                match rate.admit(1) {
                    true => lines += 1,
                    false => rate.leave_out(number, 10, 210_000),
                }
            }
            let summary = rate.end_period(start + PERIOD * second);
            (lines, summary.map(|summary| summary.blocks))
        });
        seconds.collect()
    }

    #[test]
    fn few_blocks_have_lines_and_many_have_a_summary() {
        assert_eq!(printed(&[1, 3, 0, 2]), [(1, None), (3, None), (0, None), (2, None)]);
        let busy = [(3, Some(97)), (0, Some(100)), (0, Some(50))];
        assert_eq!(printed(&[100, 100, 50]), busy);
        // The second after a quiet one has lines again.
        let calm = [(3, Some(97)), (0, Some(2)), (2, None)];
        assert_eq!(printed(&[100, 2, 2]), calm);
    }

    #[test]
    fn block_with_more_lines_than_a_period_may_have_is_left_out() {
        let start = Instant::now();
        let mut rate = LineRate::new(MAX_LINES, start);
        assert!(rate.admit(1));
        assert!(!rate.admit(MAX_LINES));
        rate.end_period(start + PERIOD);
        assert!(!rate.admit(1), "the period after a busy one has no lines");
        rate.end_period(start + PERIOD * 2);
        assert!(rate.admit(MAX_LINES));
    }

    #[test]
    fn summary_covers_the_blocks_without_lines() {
        let start = Instant::now();
        let mut rate = LineRate::new(0, start);
        assert_eq!(rate.due(), None);
        for number in 5..=7 {
            assert!(!rate.admit(1));
            rate.leave_out(number, 2, 42_000);
        }
        assert_eq!(rate.due(), Some(start + PERIOD));
        assert_eq!(rate.end_period(start + PERIOD / 2), None);
        let time = PERIOD * 2;
        let expected = Summary { first: 5, last: 7, blocks: 3, txs: 6, gas_used: 126_000, time };
        assert_eq!(rate.end_period(start + time), Some(expected));
        assert_eq!(rate.finish(start + time), None);
    }
}
