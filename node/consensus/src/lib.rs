//! Who says when a block is made. The engine decides the slot; the ante stage fills it.

mod clock;
mod solo;

pub use clock::{Clock, ClockStatus, SystemTimeSource, TimeSource};
pub use solo::{MAX_SECONDS_AHEAD, Solo};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Leave to make one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The block's timestamp, in seconds since 1970; at least what the chain's rules ask for
    /// after the parent's.
    pub timestamp: u64,
}

/// The timestamp of a block that is made at `now`: the clock's seconds, but at least `step` seconds
/// after the parent's.
pub fn next_timestamp(now: SystemTime, parent_timestamp: u64, step: u64) -> u64 {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    seconds.max(parent_timestamp.saturating_add(step))
}

/// The work waiting for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No pending transaction.
    Nothing,
    /// Some, that a block could take now or at a lower base fee.
    Some,
    /// Enough to fill a block.
    Full,
}

/// Decides when this node makes a block, and when one is final.
pub trait Engine: Send {
    /// Asks for leave to make the block after one with timestamp `parent_timestamp`.
    fn slot(&mut self, now: SystemTime, parent_timestamp: u64, demand: Demand) -> Option<Slot>;

    /// How long until the answer may change with no new demand.
    fn patience(&self, now: SystemTime) -> Duration;
}
