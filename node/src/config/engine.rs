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
}

impl Default for Engine {
    fn default() -> Self {
        Self { produce: true, block_time_ms: 1000, empty_blocks: true }
    }
}

impl Engine {
    /// Time between blocks.
    pub const fn block_time(&self) -> Duration {
        Duration::from_millis(self.block_time_ms)
    }
}
