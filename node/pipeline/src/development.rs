//! Requests from clients of a development chain, which set the time and accounts and request blocks.

use alloy_primitives::{Address, B256};
use consensus::next_timestamp;
use evm::AccountOverride;
use modules::decorator::Reject;
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use storage::BlockFlags;
use tokio::sync::oneshot;
use transactions::RecoveredTx;

/// Maximum number of blocks of a request. Some thousand are produced per second.
pub(super) const MAX_BLOCKS_AT_ONCE: u64 = 100_000;
/// Maximum number of seconds by which the clock is ahead of that of the machine: about a thousand years.
pub(super) const MAX_CLOCK_OFFSET_S: u64 = 1000 * 366 * 86_400;

/// The settings that clients of a development chain have made for the next blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextBlockSettings {
    /// The clock.
    pub clock: DevelopmentClock,
    /// Fields of the header of the next block.
    pub header: HeaderSettings,
}

/// Fields that are set in the header of a block. The others follow the rules of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderSettings {
    /// The base fee, in wei.
    pub base_fee: Option<u64>,
    /// The fee recipient, which later blocks inherit.
    pub coinbase: Option<Address>,
    /// The random value (EIP-4399).
    pub prev_randao: Option<B256>,
}

/// The settings of one block.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockSettings {
    /// Accounts to set before the first transaction.
    pub(super) accounts: Vec<AccountOverride>,
    /// Fields of the header.
    pub(super) header: HeaderSettings,
}

impl BlockSettings {
    /// Returns the flags of a block with these settings.
    pub(super) fn flags(&self) -> BlockFlags {
        let sets_header = self.header != HeaderSettings::default();
        let sets_state = !self.accounts.is_empty();
        let flags = BlockFlags::NONE.with(BlockFlags::HEADER_SET, sets_header);
        flags.with(BlockFlags::STATE_SET, sets_state)
    }
}

/// The clock of a development chain, relative to that of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DevelopmentClock {
    /// Seconds to add to the machine's time. Never negative after a restart, because the clock then continues
    /// from the head only if the head is ahead.
    pub offset_s: i64,
    /// The timestamp of the next block, if it was set.
    pub next_timestamp: Option<u64>,
    /// Seconds from each block to the next, if the clock does not decide.
    pub interval_s: Option<u64>,
}

impl DevelopmentClock {
    /// Returns the timestamp of a block produced now: if not set, at least `step` seconds after that of its parent.
    pub fn timestamp(&self, now: SystemTime, parent: u64, step: u64) -> u64 {
        match (self.next_timestamp, self.interval_s) {
            (Some(set), _) => set,
            (None, Some(interval)) => parent.saturating_add(interval.max(step)),
            (None, None) => next_timestamp(self.moved(now), parent, step),
        }
    }

    /// Moves the clock so that time continues from `timestamp`, at most [`MAX_CLOCK_OFFSET_S`] ahead of `now`. The
    /// limit applies because intervals can lead to any timestamp.
    pub(super) fn continue_from(&mut self, timestamp: u64, now: SystemTime) {
        let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        let offset = signed(timestamp).saturating_sub(signed(seconds(now)));
        self.offset_s = offset.min(MAX_CLOCK_OFFSET_S as i64);
    }

    /// Returns the time of the chain.
    fn moved(&self, now: SystemTime) -> SystemTime {
        let offset = Duration::from_secs(self.offset_s.unsigned_abs());
        let moved = match self.offset_s < 0 {
            true => now.checked_sub(offset),
            false => now.checked_add(offset),
        };
        moved.unwrap_or(now)
    }
}

/// Returns the seconds since the Unix epoch.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A request to the stage that proposes blocks.
#[derive(Debug)]
pub enum Develop {
    /// Produce this many blocks, even if there are no transactions. From the second one on, timestamps are `interval`
    /// seconds apart, if that is set.
    Mine {
        /// Number of blocks.
        count: u64,
        /// Seconds between them.
        interval: Option<u64>,
    },
    /// Move the clock forward by this number of seconds.
    IncreaseTime(u64),
    /// Set the timestamp of the next block.
    SetNextTimestamp(u64),
    /// Set the number of seconds from each block to the next. With `None`, the clock decides again.
    SetTimestampInterval(Option<u64>),
    /// Set the base fee of the next block, in wei.
    SetNextBaseFee(u64),
    /// Set the fee recipient of the next block and of those after it.
    SetCoinbase(Address),
    /// Set the random value of the next block.
    SetPrevRandao(B256),
    /// Produce a block without transactions in which accounts are set. It has the timestamp of its parent. The other
    /// settings apply to the block after it.
    SetAccounts(Vec<AccountOverride>),
    /// Admit a transaction of an impersonated account to the pool.
    Submit(Arc<RecoveredTx>),
    /// Remove a transaction from the pool.
    DropTransaction(B256),
    /// Produce no block until [`Self::Resume`] or [`Self::Restore`].
    Suspend,
    /// Replace the pool and the settings of the next block, and produce blocks again.
    Restore(Vec<Arc<RecoveredTx>>, NextBlockSettings),
    /// Produce blocks again.
    Resume,
}

/// The state after a request.
#[derive(Clone, Copy, Debug)]
pub struct Developed {
    /// The settings of the next block.
    pub settings: NextBlockSettings,
    /// The number of the last block that was requested or is in production. While production is suspended, requested
    /// blocks do not count.
    pub last_block: u64,
    /// Whether the transaction was in the pool.
    pub dropped: bool,
}

/// The reason why a request was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevelopError {
    /// Too many queries are waiting.
    #[error(transparent)]
    Busy(#[from] Reject),
    /// The node does not produce blocks, or is stopping.
    #[error("this node does not produce blocks")]
    NoProduction,
    /// The transaction was refused.
    #[error(transparent)]
    Refused(Box<Reject>),
    /// The timestamp is not above that of the head.
    #[error("timestamp {timestamp} is lower than or equal to previous block's timestamp {head}")]
    TimestampTooLow {
        /// The timestamp.
        timestamp: u64,
        /// The timestamp of the newest block.
        head: u64,
    },
    /// The clock would be moved too far.
    #[error(
        "the clock can be ahead of that of the machine by at most {MAX_CLOCK_OFFSET_S} seconds"
    )]
    TooFar,
    /// Too many blocks.
    #[error("{count} blocks are too many for one call: at most {MAX_BLOCKS_AT_ONCE}")]
    TooManyBlocks {
        /// The number of blocks.
        count: u64,
    },
}

/// The channel for the result of a request.
pub(super) type DevelopReply = oneshot::Sender<Result<Developed, DevelopError>>;
