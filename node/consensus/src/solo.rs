//! The engine of a single node, which produces every block: at each block time, and at once when a block is full; or,
//! on a development chain, as soon as there is a transaction, or on request.

use super::{Demand, Engine, Mining, MiningControl, Slot, next_timestamp};
use chain::Rules;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum number of seconds by which timestamps may be ahead of the clock. Above it, blocks are produced no
/// faster than the clock advances. Other Ethereum clients refuse blocks that are further in the future.
pub const MAX_SECONDS_AHEAD: u64 = 15;
const SECOND: Duration = Duration::from_secs(1);

/// The default engine.
#[derive(Debug)]
pub struct Solo {
    mining: MiningControl,
    /// The value of `mining` at the last call.
    last_mining: Mining,
    empty_blocks: bool,
    /// Minimum seconds between the timestamps of two blocks: 0 on a native chain, 1 by Ethereum's rules.
    step: u64,
    due: SystemTime,
}

impl Solo {
    /// Creates an engine that produces blocks as `mining` says, starting at `now`. Without `empty_blocks`, a block that
    /// is due waits for a transaction and is then produced at once.
    pub fn new(mining: MiningControl, empty_blocks: bool, rules: Rules, now: SystemTime) -> Self {
        let last_mining = mining.get();
        let due = first_due(last_mining, now);
        Self { mining, last_mining, empty_blocks, step: rules.timestamp_step(), due }
    }
}

/// Returns when the first block is due after a change of `mining`.
fn first_due(mining: Mining, now: SystemTime) -> SystemTime {
    match mining {
        Mining::Instant | Mining::OnRequest => now,
        Mining::Every(time) => now + time,
    }
}

impl Engine for Solo {
    fn slot(&mut self, now: SystemTime, parent_timestamp: u64, demand: Demand) -> Option<Slot> {
        let mining = self.mining.get();
        if mining != self.last_mining {
            (self.last_mining, self.due) = (mining, first_due(mining, now));
        }
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let timestamp = next_timestamp(now, parent_timestamp, self.step);
        // If timestamps must increase, each block advances them, so clients that fill blocks could advance them at
        // will.
        let ahead = self.step > 0 && timestamp > seconds.saturating_add(MAX_SECONDS_AHEAD);
        let block_time = match mining {
            Mining::OnRequest => return None,
            Mining::Instant if demand == Demand::Nothing => return None,
            Mining::Instant if !ahead => return Some(Slot { timestamp }),
            Mining::Instant => Duration::ZERO,
            Mining::Every(time) => time,
        };
        let period = if ahead { block_time.max(SECOND) } else { block_time };
        // If the clock is set back by more than a block time, the chain must not stop until it catches up.
        if self.due.duration_since(now).is_ok_and(|wait| wait > period) {
            self.due = now + period;
        }
        let wanted = match demand {
            Demand::Full => !ahead || now >= self.due,
            Demand::Some => now >= self.due,
            Demand::Nothing => now >= self.due && self.empty_blocks,
        };
        if !wanted {
            return None;
        }
        // The next block is due one block time after this one was due, so that small delays do not add up. If this
        // block is full, or if that time has passed too, the next one is due one block time from now.
        let next = self.due + period;
        self.due = if demand == Demand::Full || next <= now { now + period } else { next };
        Some(Slot { timestamp })
    }

    fn mines_at_once(&self) -> bool {
        self.mining.get() == Mining::Instant
    }

    fn wake_after(&self, now: SystemTime) -> Duration {
        let Mining::Every(block_time) = self.mining.get() else { return Duration::MAX };
        match self.due.duration_since(now) {
            Ok(wait) => wait,
            // A block is due, so only a transaction can change the result, and its arrival wakes the stage.
            Err(_) if !self.empty_blocks => block_time,
            Err(_) => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: SystemTime = UNIX_EPOCH;
    const BLOCK_TIME: Duration = Duration::from_secs(2);

    fn at(ms: u64) -> SystemTime {
        START + Duration::from_millis(100_000 + ms)
    }

    fn every(block_time: Duration) -> MiningControl {
        MiningControl::new(Mining::Every(block_time))
    }

    fn slot(timestamp: u64) -> Option<Slot> {
        Some(Slot { timestamp })
    }

    #[test]
    fn blocks_are_due_each_block_time_and_at_once_when_full() {
        let mut solo = Solo::new(every(BLOCK_TIME), true, Rules::Ethereum, at(0));
        assert_eq!(solo.slot(at(0), 90, Demand::Nothing), None);
        assert_eq!(solo.slot(at(0), 90, Demand::Some), None);
        assert_eq!(solo.wake_after(at(0)), BLOCK_TIME);
        assert_eq!(solo.slot(at(2000), 90, Demand::Nothing), slot(102));
        assert_eq!(solo.slot(at(2000), 102, Demand::Some), None);
        assert_eq!(solo.slot(at(2000), 102, Demand::Full), slot(103), "strictly rising");
        assert_eq!(solo.wake_after(at(2000)), BLOCK_TIME, "a full block restarts the wait");
    }

    #[test]
    fn blocks_of_one_second_have_its_timestamp_on_a_native_chain() {
        let mut solo = Solo::new(every(BLOCK_TIME), true, Rules::Native, at(0));
        for _ in 0..1000 {
            assert_eq!(solo.slot(at(500), 100, Demand::Full), slot(100));
        }
        assert_eq!(solo.slot(at(500), 104, Demand::Full), slot(104), "a clock set back");
    }

    #[test]
    fn full_blocks_do_not_outrun_the_clock_by_more_than_the_limit() {
        for block_time in [BLOCK_TIME, Duration::from_millis(50)] {
            let mut solo = Solo::new(every(block_time), true, Rules::Ethereum, at(0));
            let (mut parent, mut blocks) = (100, 0);
            for ms in 0..60_000 {
                while let Some(slot) = solo.slot(at(ms), parent, Demand::Full) {
                    assert_eq!(slot.timestamp, parent + 1);
                    (parent, blocks) = (slot.timestamp, blocks + 1);
                }
                assert!(solo.wake_after(at(ms)) > Duration::ZERO, "no busy waiting");
                assert!(
                    parent <= 100 + ms / 1000 + MAX_SECONDS_AHEAD + 2,
                    "{parent} after {ms} ms"
                );
            }
            let min_blocks = if block_time < SECOND { 60 } else { 30 };
            assert!(blocks > min_blocks, "only {blocks} blocks");
        }
    }

    #[test]
    fn delays_do_not_add_up() {
        let mut solo = Solo::new(every(BLOCK_TIME), true, Rules::Ethereum, at(0));
        assert_eq!(solo.slot(at(2300), 90, Demand::Some), slot(102));
        assert_eq!(solo.wake_after(at(2300)), Duration::from_millis(1700));
        assert_eq!(solo.slot(at(9000), 102, Demand::Some), slot(109));
        assert_eq!(solo.wake_after(at(9000)), BLOCK_TIME, "but missed blocks are not made up for");
    }

    #[test]
    fn without_empty_blocks_the_first_transaction_is_included_at_once() {
        let mut solo = Solo::new(every(BLOCK_TIME), false, Rules::Ethereum, at(0));
        assert_eq!(solo.slot(at(2000), 90, Demand::Nothing), None);
        assert_eq!(solo.slot(at(60_000), 90, Demand::Nothing), None);
        assert!(solo.wake_after(at(60_000)) > Duration::ZERO, "no busy waiting");
        assert_eq!(solo.slot(at(60_001), 90, Demand::Some), slot(160));
        assert_eq!(solo.slot(at(60_002), 160, Demand::Some), None, "the second one waits");
    }

    #[test]
    fn a_clock_set_back_does_not_stop_the_chain() {
        let mut solo = Solo::new(every(BLOCK_TIME), true, Rules::Ethereum, at(1_000_000));
        assert_eq!(solo.slot(at(0), 1100, Demand::Nothing), None);
        assert_eq!(solo.slot(at(2000), 1100, Demand::Nothing), slot(1101));
    }

    #[test]
    fn instant_mining_waits_only_for_a_transaction() {
        let control = MiningControl::new(Mining::Instant);
        let mut solo = Solo::new(control.clone(), true, Rules::Native, at(0));
        assert!(solo.mines_at_once());
        assert_eq!(solo.slot(at(0), 90, Demand::Nothing), None);
        assert_eq!(solo.wake_after(at(0)), Duration::MAX);
        for _ in 0..2 {
            assert_eq!(solo.slot(at(0), 90, Demand::Some), slot(100));
        }
        control.set(Mining::Every(BLOCK_TIME));
        assert_eq!(solo.slot(at(1), 100, Demand::Some), None, "the first block is due later");
        assert_eq!(solo.wake_after(at(1)), BLOCK_TIME);
        assert_eq!(solo.slot(at(2000), 100, Demand::Some), None);
        assert_eq!(solo.slot(at(2001), 100, Demand::Some), slot(102));
        control.set(Mining::Instant);
        assert_eq!(solo.slot(at(2002), 102, Demand::Some), slot(102));
    }
}
