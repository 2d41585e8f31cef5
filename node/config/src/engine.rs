//! Settings of block production.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// `[engine]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Engine {
    /// Produce blocks. A chain that follows Ethereum's rules also needs `--block-time`.
    pub produce: bool,
    /// Milliseconds between blocks, 1 to 86400000. A full block does not wait.
    #[serde(deserialize_with = "super::bounds::block_time_ms")]
    pub block_time_ms: u64,
    /// Produce empty blocks. Otherwise, no block is produced until there is a transaction, which is included at
    /// once.
    pub empty_blocks: bool,
    /// Maximum step of the system clock in seconds, 1 to 86400, that timestamps follow. After a larger step,
    /// timestamps follow the monotonic clock. A head that is further ahead of the system clock is refused at
    /// start.
    #[serde(deserialize_with = "super::bounds::wait_s")]
    pub max_clock_step_s: u64,
}

impl Default for Engine {
    fn default() -> Self {
        Self { produce: true, block_time_ms: 1000, empty_blocks: true, max_clock_step_s: 30 }
    }
}

impl Engine {
    /// Returns the time between blocks.
    pub const fn block_time(&self) -> Duration {
        Duration::from_millis(self.block_time_ms)
    }

    /// Returns the maximum step of the system clock that timestamps follow.
    pub const fn max_clock_step(&self) -> Duration {
        Duration::from_secs(self.max_clock_step_s)
    }
}
