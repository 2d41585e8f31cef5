//! The part of block production that clients of a development chain control.

use super::Ante;
use crate::{
    development::{
        Develop, DevelopError, Developed, DevelopmentClock, MAX_BLOCKS_AT_ONCE, MAX_CLOCK_OFFSET_S,
    },
    fault::Fault,
};
use alloy_primitives::B256;
use consensus::next_timestamp;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Blocks that were requested, and the clock.
#[derive(Debug, Default)]
pub(super) struct Development {
    clock: DevelopmentClock,
    /// Blocks to be produced, whatever the engine says.
    requested: u64,
    /// Seconds between these blocks, except before the first.
    interval: Option<u64>,
    is_first: bool,
    /// Nothing is produced, because the head is about to change.
    is_suspended: bool,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Development {
    /// Continues with the time of the head if it is ahead of `now`, because the clock had been moved before a restart.
    pub(super) fn new(now: SystemTime, head_timestamp: u64) -> Self {
        let ahead = head_timestamp.saturating_sub(seconds(now)).min(MAX_CLOCK_OFFSET_S);
        let clock = DevelopmentClock { offset_s: ahead as i64, next_timestamp: None };
        Self { clock, ..Self::default() }
    }

    pub(super) const fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    pub(super) const fn has_requested_blocks(&self) -> bool {
        self.requested > 0
    }

    /// The timestamp of the block that is produced now, on a parent with this timestamp.
    pub(super) fn timestamp(&mut self, now: SystemTime, parent: u64) -> u64 {
        let set = self.clock.next_timestamp.take();
        if let Some(set) = set {
            self.clock.offset_s = set as i64 - seconds(now) as i64;
        }
        let later = self.interval.filter(|_| self.requested > 0 && !self.is_first);
        self.is_first = false;
        self.requested = self.requested.saturating_sub(1);
        match (set, later) {
            (Some(set), _) => set,
            (None, Some(interval)) => {
                let timestamp = parent.saturating_add(interval);
                // Time goes on from the last block.
                self.clock.offset_s =
                    self.clock.offset_s.max(timestamp as i64 - seconds(now) as i64);
                timestamp
            }
            (None, None) => next_timestamp(self.moved(now), parent, 0),
        }
    }

    /// The time of the chain.
    fn moved(&self, now: SystemTime) -> SystemTime {
        let offset = Duration::from_secs(self.clock.offset_s.unsigned_abs());
        let moved = match self.clock.offset_s < 0 {
            true => now.checked_sub(offset),
            false => now.checked_add(offset),
        };
        moved.unwrap_or(now)
    }
}

impl Ante {
    /// Carries out a request.
    pub(super) fn develop(
        &mut self,
        request: Develop,
    ) -> Result<Result<Developed, DevelopError>, Fault> {
        let (head, now) = (self.parent.header.timestamp, self.clock.now());
        let development = &mut self.development;
        let mut dropped = false;
        match request {
            Develop::Mine { .. } if self.engine.is_none() => {
                return Ok(Err(DevelopError::NoProduction));
            }
            Develop::Mine { count, .. } if count > MAX_BLOCKS_AT_ONCE => {
                return Ok(Err(DevelopError::TooManyBlocks { count }));
            }
            Develop::Mine { count, interval } => {
                let is_first = development.requested == 0;
                development.requested = development.requested.saturating_add(count);
                (development.interval, development.is_first) = (interval, is_first);
            }
            Develop::IncreaseTime(by) => {
                let offset = development.clock.offset_s.saturating_add_unsigned(by);
                if offset > MAX_CLOCK_OFFSET_S as i64 {
                    return Ok(Err(DevelopError::TooFar));
                }
                development.clock.offset_s = offset;
            }
            Develop::SetNextTimestamp(timestamp) if timestamp <= head => {
                return Ok(Err(DevelopError::TimestampTooLow { timestamp, head }));
            }
            Develop::SetNextTimestamp(timestamp) => {
                if timestamp.saturating_sub(seconds(now)) > MAX_CLOCK_OFFSET_S {
                    return Ok(Err(DevelopError::TooFar));
                }
                development.clock.next_timestamp = Some(timestamp);
            }
            Develop::DropTransaction(hash) => {
                dropped = self.pool.remove(hash, Instant::now()).is_some();
                self.rewrite_journal()?;
            }
            Develop::Suspend => development.is_suspended = true,
            Develop::Resume => development.is_suspended = false,
            Develop::Restore(txs, clock) => {
                (development.clock, development.is_suspended) = (clock, false);
                let lanes = self.pool.lanes();
                let pooled =
                    lanes.flat_map(|lane| lane.pending().iter().chain(lane.queued().values()));
                let hashes: Vec<B256> = pooled.map(|pooled| pooled.tx.hash).collect();
                for hash in hashes {
                    self.pool.remove(hash, Instant::now());
                }
                self.readmit(txs)?;
                self.rewrite_journal()?;
            }
        }
        let in_flight = u64::from(self.proposal_in_flight);
        let last_block = self.parent.header.number + in_flight + self.development.requested;
        Ok(Ok(Developed { clock: self.development.clock, last_block, dropped }))
    }

    /// Removes from the journal what is not in the pool any more.
    fn rewrite_journal(&mut self) -> Result<(), Fault> {
        let durable = self.published.load().number();
        Ok(self.journal.compact(&self.pool, durable, Instant::now())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn time_goes_on_from_a_timestamp_that_was_set() {
        let mut development = Development::new(at(100), 90);
        assert_eq!(development.timestamp(at(100), 90), 100);
        development.clock.offset_s += 50;
        assert_eq!(development.timestamp(at(101), 100), 151);
        development.clock.next_timestamp = Some(1000);
        assert_eq!(development.timestamp(at(102), 151), 1000);
        assert_eq!(development.timestamp(at(103), 1000), 1001);
        // Also below the time of the machine.
        development.clock.next_timestamp = Some(2000);
        assert_eq!(development.timestamp(at(5000), 1001), 2000);
        assert_eq!(development.timestamp(at(5001), 2000), 2001);
    }

    #[test]
    fn requested_blocks_are_an_interval_apart() {
        let mut development = Development::new(at(100), 0);
        (development.requested, development.interval, development.is_first) = (3, Some(10), true);
        let times = [100, 110, 120]
            .map(|expected| (development.timestamp(at(100), expected - 10), expected));
        assert!(times.iter().all(|(found, expected)| found == expected), "{times:?}");
        assert!(!development.has_requested_blocks());
        assert_eq!(development.timestamp(at(101), 120), 121, "time goes on from the last block");
    }

    #[test]
    fn moved_time_survives_a_restart() {
        let mut development = Development::new(at(100), 5000);
        assert_eq!(development.timestamp(at(100), 5000), 5000);
        assert_eq!(development.timestamp(at(107), 5000), 5007);
    }
}
