//! Clocks that run a thousand times as fast as those of the machine. Timestamps of Ethereum blocks increase by at least
//! a second, and the node does not produce blocks far ahead of its clock. With the machine's clocks, a test of
//! thousands of blocks would take hours.

use pipeline::{SystemTimeSource, TimeSource};
use std::{
    sync::OnceLock,
    time::{Duration, SystemTime},
};

const SPEED: u32 = 1000;

/// Returns the wall time at the first use in this process, and the accelerated time since then.
fn elapsed() -> (SystemTime, Duration) {
    static START: OnceLock<(SystemTime, Duration)> = OnceLock::new();
    let machine = SystemTimeSource;
    let (wall, monotonic) = *START.get_or_init(|| (machine.wall(), machine.monotonic()));
    (wall, machine.monotonic().saturating_sub(monotonic).saturating_mul(SPEED))
}

struct FastClock;

impl TimeSource for FastClock {
    fn wall(&self) -> SystemTime {
        let (start, elapsed) = elapsed();
        start + elapsed
    }

    fn monotonic(&self) -> Duration {
        elapsed().1
    }
}

pub(super) fn clocks() -> Box<dyn TimeSource> {
    Box::new(FastClock)
}
