//! The part of block production that clients of a development chain control.

use super::{Ante, Arriving};
use crate::{
    development::{
        BlockSettings, Develop, DevelopError, Developed, MAX_BLOCKS_AT_ONCE, MAX_CLOCK_OFFSET_S,
        NextBlockSettings, seconds,
    },
    fault::Fault,
};
use alloy_primitives::B256;
use evm::AccountOverride;
use mempool::{Reject, Submitter};
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};
use storage::BlockFlags;
use tokio::sync::watch;
use transactions::RecoveredTx;

/// The blocks that clients have requested, and their settings for the next blocks.
#[derive(Debug)]
pub(super) struct Development {
    settings: NextBlockSettings,
    /// A copy of the settings, for clients.
    published: watch::Sender<NextBlockSettings>,
    /// Accounts to be set in a separate block.
    accounts: Vec<AccountOverride>,
    /// Number of requested blocks that are still to be produced, whatever the engine decides.
    requested: u64,
    /// Seconds from each requested block to the next; the first one has the clock's timestamp.
    interval: Option<u64>,
    /// Whether the next requested block is the first one.
    is_first: bool,
    /// No block is produced, because a client is taking a snapshot or changing the head.
    is_suspended: bool,
}

impl Development {
    pub(super) fn new(published: watch::Sender<NextBlockSettings>) -> Self {
        Self {
            settings: NextBlockSettings::default(),
            published,
            accounts: Vec::new(),
            requested: 0,
            interval: None,
            is_first: false,
            is_suspended: false,
        }
    }

    /// Continues from the head's timestamp if it is ahead of `now`: the clock was moved forward before a restart.
    pub(super) fn continue_from(&mut self, head_timestamp: u64, now: SystemTime) {
        let ahead = head_timestamp.saturating_sub(seconds(now)).min(MAX_CLOCK_OFFSET_S);
        self.settings.clock.offset_s = ahead as i64;
        self.publish();
    }

    pub(super) const fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    pub(super) const fn has_requested_blocks(&self) -> bool {
        self.requested > 0
    }

    /// Publishes the settings of the next block to clients.
    pub(super) fn publish(&self) {
        self.published.send_if_modified(|published| {
            let is_changed = *published != self.settings;
            *published = self.settings;
            is_changed
        });
    }

    /// Takes the settings of a block in which accounts are set, if a client has requested one.
    pub(super) fn take_accounts(&mut self) -> Option<Box<BlockSettings>> {
        let accounts = std::mem::take(&mut self.accounts);
        let settings = BlockSettings { accounts, ..BlockSettings::default() };
        (!settings.accounts.is_empty()).then(|| Box::new(settings))
    }

    /// Takes the settings of the block that is being produced.
    pub(super) fn take_settings(&mut self) -> Option<Box<BlockSettings>> {
        let header = std::mem::take(&mut self.settings.header);
        let settings = BlockSettings { accounts: Vec::new(), header };
        (settings.flags() != BlockFlags::NONE).then(|| Box::new(settings))
    }

    /// Returns the timestamp of the block that is being produced; `parent` is its parent's timestamp.
    pub(super) fn timestamp(&mut self, now: SystemTime, parent: u64) -> u64 {
        let clock = &mut self.settings.clock;
        let later = self.interval.filter(|_| self.requested > 0 && !self.is_first);
        self.is_first = false;
        self.requested = self.requested.saturating_sub(1);
        if let (None, Some(interval)) = (clock.next_timestamp, later) {
            let timestamp = parent.saturating_add(interval);
            // Time continues from this block.
            if timestamp > seconds(now).saturating_add_signed(clock.offset_s) {
                clock.continue_from(timestamp, now);
            }
            return timestamp;
        }
        let timestamp = clock.timestamp(now, parent, 0);
        if clock.next_timestamp.take().is_some() || clock.interval_s.is_some() {
            clock.continue_from(timestamp, now);
        }
        timestamp
    }
}

impl Ante {
    /// Carries out a request.
    pub(super) fn develop(
        &mut self,
        request: Develop,
    ) -> Result<Result<Developed, DevelopError>, Fault> {
        let (head, now) = (self.parent.header.timestamp, self.clock.now());
        let development = &mut self.development;
        let mut dropped = false;
        match request {
            Develop::Mine { .. } if self.engine.is_none() => {
                return Ok(Err(DevelopError::NoProduction));
            }
            Develop::Mine { count, .. } if count > MAX_BLOCKS_AT_ONCE => {
                return Ok(Err(DevelopError::TooManyBlocks { count }));
            }
            Develop::Mine { count, interval } => {
                let is_first = development.requested == 0;
                development.requested = development.requested.saturating_add(count);
                (development.interval, development.is_first) = (interval, is_first);
            }
            Develop::IncreaseTime(by) => {
                let offset = development.settings.clock.offset_s.saturating_add_unsigned(by);
                if offset > MAX_CLOCK_OFFSET_S as i64 {
                    return Ok(Err(DevelopError::TooFar));
                }
                development.settings.clock.offset_s = offset;
            }
            Develop::SetNextTimestamp(timestamp) if timestamp <= head => {
                return Ok(Err(DevelopError::TimestampTooLow { timestamp, head }));
            }
            Develop::SetNextTimestamp(timestamp) => {
                if timestamp.saturating_sub(seconds(now)) > MAX_CLOCK_OFFSET_S {
                    return Ok(Err(DevelopError::TooFar));
                }
                development.settings.clock.next_timestamp = Some(timestamp);
            }
            Develop::SetTimestampInterval(Some(interval)) if interval > MAX_CLOCK_OFFSET_S => {
                return Ok(Err(DevelopError::TooFar));
            }
            Develop::SetTimestampInterval(interval) => {
                development.settings.clock.interval_s = interval;
            }
            Develop::SetNextBaseFee(wei) => {
                development.settings.header.base_fee = Some(wei);
                self.apply_base_fee();
            }
            Develop::SetPrevRandao(value) => development.settings.header.prev_randao = Some(value),
            Develop::SetCoinbase(address) => development.settings.header.coinbase = Some(address),
            Develop::SetAccounts(_) if self.engine.is_none() => {
                return Ok(Err(DevelopError::NoProduction));
            }
            Develop::SetAccounts(accounts) => development.accounts.extend(accounts),
            Develop::Submit(tx) => {
                if let Err(reject) = self.admit_alone(tx)? {
                    return Ok(Err(DevelopError::Refused(reject)));
                }
            }
            Develop::DropTransaction(hash) => {
                dropped = self.pool.remove(hash, Instant::now()).is_some();
                self.rewrite_journal()?;
            }
            Develop::Suspend => development.is_suspended = true,
            Develop::Resume => development.is_suspended = false,
            Develop::Restore(txs, settings) => {
                (development.settings, development.is_suspended) = (settings, false);
                // The head is durable at this point. `next_base_fee` may still be a value that a client set.
                self.parent.next_base_fee = self.published.load().head.next_base_fee;
                self.pool.set_base_fee(self.parent.next_base_fee);
                self.apply_base_fee();
                let lanes = self.pool.lanes();
                let pooled =
                    lanes.flat_map(|lane| lane.pending().iter().chain(lane.queued().values()));
                let hashes: Vec<B256> = pooled.map(|pooled| pooled.tx.hash).collect();
                for hash in hashes {
                    self.pool.remove(hash, Instant::now());
                }
                self.readmit(txs)?;
                self.rewrite_journal()?;
            }
        }
        let in_flight = u64::from(self.proposal_in_flight);
        let development = &self.development;
        development.publish();
        let waiting = match development.is_suspended {
            true => 0,
            false => u64::from(!development.accounts.is_empty()) + development.requested,
        };
        let last_block = self.parent.header.number + in_flight + waiting;
        Ok(Ok(Developed { settings: development.settings, last_block, dropped }))
    }

    /// Applies the base fee that a client has set, if any, to the pool and to transaction checks.
    pub(super) fn apply_base_fee(&mut self) {
        if let Some(wei) = self.development.settings.header.base_fee {
            self.parent.next_base_fee = wei;
            self.pool.set_base_fee(wei);
        }
    }

    /// Admits a transaction that is not part of a batch.
    fn admit_alone(&mut self, tx: Arc<RecoveredTx>) -> Result<Result<(), Box<Reject>>, Fault> {
        let (spec, modules) = (Arc::clone(&self.spec), self.parent.modules.clone());
        let context = self.checks(&spec, modules.as_deref());
        let state = self.parent.state.reader()?;
        let has_listeners = self.arrivals.receiver_count() > 0;
        let arriving = Arriving { submitter: Submitter::Client, has_listeners };
        let admitted = self.admit_one(tx, &context, &state, arriving, Instant::now())?;
        self.journal.write()?;
        Ok(admitted)
    }

    /// Removes transactions that are no longer in the pool from the journal.
    fn rewrite_journal(&mut self) -> Result<(), Fault> {
        let durable = self.published.load().number();
        Ok(self.journal.compact(&self.pool, durable, Instant::now())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn after(now: SystemTime, head_timestamp: u64) -> Development {
        let mut development = Development::new(watch::Sender::default());
        development.continue_from(head_timestamp, now);
        development
    }

    #[test]
    fn time_continues_from_a_set_timestamp() {
        let mut development = after(at(100), 90);
        assert_eq!(development.timestamp(at(100), 90), 100);
        development.settings.clock.offset_s += 50;
        assert_eq!(development.timestamp(at(101), 100), 151);
        development.settings.clock.next_timestamp = Some(1000);
        assert_eq!(development.timestamp(at(102), 151), 1000);
        assert_eq!(development.timestamp(at(103), 1000), 1001);
        // A set timestamp may also be below the time of the machine.
        development.settings.clock.next_timestamp = Some(2000);
        assert_eq!(development.timestamp(at(5000), 1001), 2000);
        assert_eq!(development.timestamp(at(5001), 2000), 2001);
    }

    #[test]
    fn requested_blocks_are_an_interval_apart() {
        let mut development = after(at(100), 0);
        (development.requested, development.interval, development.is_first) = (3, Some(10), true);
        let times = [100, 110, 120]
            .map(|expected| (development.timestamp(at(100), expected - 10), expected));
        assert!(times.iter().all(|(found, expected)| found == expected), "{times:?}");
        assert!(!development.has_requested_blocks());
        assert_eq!(development.timestamp(at(101), 120), 121, "time continues from the head");
    }

    #[test]
    fn blocks_are_an_interval_apart_until_the_interval_is_removed() {
        let mut development = after(at(100), 90);
        development.settings.clock.interval_s = Some(15);
        assert_eq!(development.timestamp(at(100), 90), 105);
        development.settings.clock.next_timestamp = Some(1000);
        assert_eq!(development.timestamp(at(100), 105), 1000, "an exact timestamp comes first");
        assert_eq!(development.timestamp(at(300), 1000), 1015);
        development.settings.clock.interval_s = None;
        assert_eq!(development.timestamp(at(301), 1015), 1016, "time continues from the head");
    }

    #[test]
    fn an_interval_moves_time_within_the_limit() {
        for interval in [MAX_CLOCK_OFFSET_S, u64::MAX / 2, u64::MAX] {
            let mut development = after(at(100), 0);
            (development.requested, development.interval) = (2, Some(interval));
            development.timestamp(at(100), 100);
            let offset = development.settings.clock.offset_s;
            assert!((0..=MAX_CLOCK_OFFSET_S as i64).contains(&offset), "{interval}: {offset}");
        }
    }

    #[test]
    fn moved_time_survives_a_restart() {
        let mut development = after(at(100), 5000);
        assert_eq!(development.timestamp(at(100), 5000), 5000);
        assert_eq!(development.timestamp(at(107), 5000), 5007);
    }
}
