//! Decides when a block is produced. The engine decides the slot, and the ante stage fills the block.

mod clock;
mod mining;
mod solo;
#[cfg(feature = "consensus")]
pub mod validators;

pub use clock::{Clock, ClockStatus, SystemTimeSource, TimeSource};
pub use mining::{Mining, MiningControl};
pub use solo::{MAX_SECONDS_AHEAD, Solo};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Permission to produce one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The block's timestamp, in seconds since 1970. It is at least that of the parent plus the minimum step of the
    /// chain's rules.
    pub timestamp: u64,
}

/// The timestamp of a block that is produced at `now`: the clock's seconds, but at least `step` seconds after
/// the parent's.
pub fn next_timestamp(now: SystemTime, parent_timestamp: u64, step: u64) -> u64 {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    seconds.max(parent_timestamp.saturating_add(step))
}

/// The work waiting for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No pending transaction.
    Nothing,
    /// Some transactions, which a block could include now or at a lower base fee.
    Some,
    /// Enough transactions to fill a block.
    Full,
}

/// Decides when this node produces a block.
pub trait Engine: Send {
    /// Requests permission to produce the block after one with timestamp `parent_timestamp`. `None` means not yet.
    fn slot(&mut self, now: SystemTime, parent_timestamp: u64, demand: Demand) -> Option<Slot>;

    /// Whether blocks are produced as soon as they have transactions. Each block then waits until its parent is
    /// durable, so that transactions that arrive meanwhile share a block.
    fn mines_at_once(&self) -> bool {
        false
    }

    /// Returns the time after which the result of [`Self::slot`] may change without new demand.
    fn wake_after(&self, now: SystemTime) -> Duration;
}
