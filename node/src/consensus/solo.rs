//! One node that makes every block: at each block time, and at once when a block is full.

use super::{Demand, Engine, Slot};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The default engine.
#[derive(Debug)]
pub struct Solo {
    block_time: Duration,
    due: SystemTime,
}

impl Solo {
    /// Makes a block each `block_time` from `now` on.
    pub fn new(block_time: Duration, now: SystemTime) -> Self {
        Self { block_time, due: now + block_time }
    }
}

impl Engine for Solo {
    fn slot(&mut self, now: SystemTime, parent_timestamp: u64, demand: Demand) -> Option<Slot> {
        let full = demand.gas >= demand.gas_limit;
        if now < self.due && !full {
            return None;
        }
        self.due = now + self.block_time;
        let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // Strictly rising, even with several blocks a second (as Ethereum headers require).
        Some(Slot { timestamp: seconds.max(parent_timestamp + 1) })
    }

    fn patience(&self, now: SystemTime) -> Duration {
        self.due.duration_since(now).unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_each_block_time_and_at_once_when_full() {
        let start = UNIX_EPOCH + Duration::from_secs(100);
        let mut solo = Solo::new(Duration::from_secs(2), start);
        let quiet = Demand { gas: 0, gas_limit: 10 };
        let full = Demand { gas: 10, gas_limit: 10 };
        assert_eq!(solo.slot(start, 90, quiet), None);
        assert_eq!(solo.patience(start), Duration::from_secs(2));
        let later = start + Duration::from_secs(2);
        assert_eq!(solo.slot(later, 90, quiet), Some(Slot { timestamp: 102 }));
        assert_eq!(solo.slot(later, 102, quiet), None);
        assert_eq!(solo.slot(later, 102, full), Some(Slot { timestamp: 103 }), "strictly rising");
    }
}
