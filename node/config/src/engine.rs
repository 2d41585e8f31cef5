//! Settings of making blocks.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `[engine]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Engine {
    /// Make blocks; on a chain of Ethereum rules only with `--block-time`.
    pub produce: bool,
    /// Milliseconds between blocks, 1 to 86400000; a full block does not wait.
    #[serde(deserialize_with = "super::bounds::block_time_ms")]
    pub block_time_ms: u64,
    /// Make blocks without transactions too. If not, a quiet chain waits, and the first
    /// transaction gets a block at once.
    pub empty_blocks: bool,
    /// Seconds, 1 to 86400, by which the system clock may be set at once and still be followed. After a
    /// larger step timestamps follow the monotonic clock. A head that is further ahead is refused at start.
    #[serde(deserialize_with = "super::bounds::wait_s")]
    pub max_clock_step_s: u64,
}

impl Default for Engine {
    fn default() -> Self {
        Self { produce: true, block_time_ms: 1000, empty_blocks: true, max_clock_step_s: 30 }
    }
}

impl Engine {
    /// Time between blocks.
    pub const fn block_time(&self) -> Duration {
        Duration::from_millis(self.block_time_ms)
    }

    /// The largest step of the system clock that is followed.
    pub const fn max_clock_step(&self) -> Duration {
        Duration::from_secs(self.max_clock_step_s)
    }
}
