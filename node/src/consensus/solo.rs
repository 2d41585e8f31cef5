//! One node that makes every block: at each block time, and at once when a block is full.

use super::{Demand, Engine, Slot};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The default engine.
#[derive(Debug)]
pub struct Solo {
    block_time: Duration,
    empty_blocks: bool,
    due: SystemTime,
}

impl Solo {
    /// Makes a block each `block_time` from `now` on. Without `empty_blocks`, a block that would
    /// have no transaction waits for one, and is then made at once.
    pub fn new(block_time: Duration, empty_blocks: bool, now: SystemTime) -> Self {
        Self { block_time, empty_blocks, due: now + block_time }
    }
}

impl Engine for Solo {
    fn slot(&mut self, now: SystemTime, parent_timestamp: u64, demand: Demand) -> Option<Slot> {
        // A clock set back by more than a block time must not stop the chain until it catches up.
        if self.due.duration_since(now).is_ok_and(|wait| wait > self.block_time) {
            self.due = now + self.block_time;
        }
        let wanted = match demand {
            Demand::Full => true,
            Demand::Some => now >= self.due,
            Demand::Nothing => now >= self.due && self.empty_blocks,
        };
        if !wanted {
            return None;
        }
        // The next one is due a block time after this one was, not after it was made, unless
        // that has passed too: small delays do not add up.
        let next = self.due + self.block_time;
        self.due = if demand == Demand::Full || next <= now { now + self.block_time } else { next };
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // Strictly rising, even with several blocks a second (as Ethereum headers require).
        Some(Slot { timestamp: seconds.max(parent_timestamp.saturating_add(1)) })
    }

    fn patience(&self, now: SystemTime) -> Duration {
        match self.due.duration_since(now) {
            Ok(wait) => wait,
            // Due: only a transaction can change the answer, and its arrival rings the bell.
            Err(_) if !self.empty_blocks => self.block_time,
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

    fn slot(timestamp: u64) -> Option<Slot> {
        Some(Slot { timestamp })
    }

    #[test]
    fn a_block_each_block_time_and_at_once_when_full() {
        let mut solo = Solo::new(BLOCK_TIME, true, at(0));
        assert_eq!(solo.slot(at(0), 90, Demand::Nothing), None);
        assert_eq!(solo.slot(at(0), 90, Demand::Some), None);
        assert_eq!(solo.patience(at(0)), BLOCK_TIME);
        assert_eq!(solo.slot(at(2000), 90, Demand::Nothing), slot(102));
        assert_eq!(solo.slot(at(2000), 102, Demand::Some), None);
        assert_eq!(solo.slot(at(2000), 102, Demand::Full), slot(103), "strictly rising");
        assert_eq!(solo.patience(at(2000)), BLOCK_TIME, "a full block starts the wait anew");
    }

    #[test]
    fn delays_do_not_add_up() {
        let mut solo = Solo::new(BLOCK_TIME, true, at(0));
        assert_eq!(solo.slot(at(2300), 90, Demand::Some), slot(102));
        assert_eq!(solo.patience(at(2300)), Duration::from_millis(1700));
        assert_eq!(solo.slot(at(9000), 102, Demand::Some), slot(109));
        assert_eq!(solo.patience(at(9000)), BLOCK_TIME, "but missed blocks are not made up for");
    }

    #[test]
    fn without_empty_blocks_the_first_transaction_gets_one_at_once() {
        let mut solo = Solo::new(BLOCK_TIME, false, at(0));
        assert_eq!(solo.slot(at(2000), 90, Demand::Nothing), None);
        assert_eq!(solo.slot(at(60_000), 90, Demand::Nothing), None);
        assert!(solo.patience(at(60_000)) > Duration::ZERO, "no spinning meanwhile");
        assert_eq!(solo.slot(at(60_001), 90, Demand::Some), slot(160));
        assert_eq!(solo.slot(at(60_002), 160, Demand::Some), None, "the second one waits");
    }

    #[test]
    fn a_clock_set_back_does_not_stop_the_chain() {
        let mut solo = Solo::new(BLOCK_TIME, true, at(1_000_000));
        assert_eq!(solo.slot(at(0), 1100, Demand::Nothing), None);
        assert_eq!(solo.slot(at(2000), 1100, Demand::Nothing), slot(1101));
    }
}
