//! Determines whether the node has the newest blocks, for `eth_syncing` and the subscription `syncing`.

use alloy_primitives::U64;
use serde::{Serialize, Serializer};
use state::Published;

/// The status. It is serialised as in `eth_syncing`: `false`, or the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStatus {
    /// The node produces the blocks, or has the newest ones.
    Synced,
    /// The node follows others and is behind them.
    Behind(SyncBlocks),
}

/// The blocks of a node that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncBlocks {
    /// The head when the node started.
    starting_block: U64,
    /// The head.
    current_block: U64,
    /// The newest block of the source, as far as the node knows.
    highest_block: U64,
}

impl SyncStatus {
    /// Returns the current status.
    pub fn of(published: &Published) -> Self {
        let Some(following) = published.following().filter(|following| following.is_behind) else {
            return Self::Synced;
        };
        let head = published.load().number();
        Self::Behind(SyncBlocks {
            starting_block: U64::from(following.started_at),
            current_block: U64::from(head),
            highest_block: U64::from(following.source_head.max(head)),
        })
    }
}

impl Serialize for SyncStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Synced => serializer.serialize_bool(false),
            Self::Behind(blocks) => blocks.serialize(serializer),
        }
    }
}
