//! Refuses a chain whose newest block has a timestamp too far in the future.

use super::{Home, HomeError, stored_header};
use chain::Rules;
use consensus::MAX_SECONDS_AHEAD;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use storage::ChainReader;

/// How far full blocks of an Ethereum chain may get ahead of the clock in ordinary production, in seconds: the
/// engine's bound, the block that reaches it, and a fraction of a second.
const ORDINARY_SECONDS_AHEAD: u64 = MAX_SECONDS_AHEAD + 2;

impl Home {
    /// Checks that the timestamp of the newest block is at most `limit` ahead of `now`. Timestamps never decrease, so
    /// later blocks would be in the future, too. On an Ethereum chain the limit is at least `ORDINARY_SECONDS_AHEAD`.
    ///
    /// # Errors
    /// If it is further ahead. The error names the newest block that is within the limit.
    pub fn check_head_time(&self, now: SystemTime, limit: Duration) -> Result<(), HomeError> {
        let blocks = self.chain.reader()?;
        let (number, _) = blocks.head()?.ok_or_else(|| HomeError::Empty(self.path.clone()))?;
        check_block_time(&blocks, number, self.spec.rules, now, limit)
    }
}

/// Does the same as [`Home::check_head_time`] with the head of an open chain.
pub(super) fn check_block_time(
    blocks: &ChainReader,
    number: u64,
    rules: Rules,
    now: SystemTime,
    limit: Duration,
) -> Result<(), HomeError> {
    let limit = match rules {
        Rules::Native => limit.as_secs(),
        Rules::Ethereum => limit.as_secs().max(ORDINARY_SECONDS_AHEAD),
    };
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let latest = now.saturating_add(limit);
    let (_, header) = stored_header(blocks, number)?;
    if header.timestamp <= latest {
        return Ok(());
    }
    Err(HomeError::FutureHead {
        number,
        ahead: header.timestamp - now,
        limit,
        keep: newest_at(blocks, number, latest)?,
    })
}

/// Returns the newest block below `head` whose timestamp is at most `latest`. Timestamps do not decrease.
fn newest_at(blocks: &ChainReader, head: u64, latest: u64) -> Result<Option<u64>, HomeError> {
    // Invariant: timestamps of blocks below `low` are at most `latest`; those of `high` and above are later.
    let (mut low, mut high) = (0, head);
    while low < high {
        let middle = low + (high - low) / 2;
        if stored_header(blocks, middle)?.1.timestamp <= latest {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.checked_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use chain::Genesis;
    use storage::{BlockRecord, StateChanges};

    #[test]
    fn a_head_is_refused_from_one_second_beyond_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let time = 1_700_000_000;
        let home = Home::init(folder.path(), &Genesis::native_dev(time)).unwrap();
        let limit = Duration::from_secs(30);
        let at = |seconds| home.check_head_time(UNIX_EPOCH + Duration::from_secs(seconds), limit);
        at(time + 1_000_000).unwrap();
        at(time - 29).unwrap();
        at(time - 30).unwrap();
        let error = at(time - 31).unwrap_err();
        assert!(
            matches!(error, HomeError::FutureHead { number: 0, ahead: 31, limit: 30, keep: None }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains("--accept-future-head") && !text.contains("rollback"), "{text}");
        at(0).unwrap_err();
    }

    #[test]
    fn the_error_names_the_block_to_go_back_to() {
        let time = 1_700_000_000;
        let timestamps = [time + 1, time + 2, time + 2, time + 3600, time + 3601];
        let folder = tempfile::tempdir().unwrap();
        let home = Home::init(folder.path(), &Genesis::native_dev(time)).unwrap();
        for (number, timestamp) in (1..).zip(timestamps) {
            let header = Header { number, timestamp, ..Header::default() };
            let record = BlockRecord {
                number,
                hash: header.hash_slow(),
                flags: storage::BlockFlags::NONE,
                header: alloy_rlp::encode(&header).into(),
                body: alloy_primitives::Bytes::new(),
                senders: Vec::new(),
                receipts: Vec::new(),
                changes: StateChanges::default().into(),
                fees: alloy_primitives::Bytes::new(),
                module: alloy_primitives::Bytes::new(),
                governance: Vec::new(),
                certificate: None,
            };
            home.chain.append(&[record]).unwrap();
        }
        let keep_at = |seconds, limit| {
            let now = UNIX_EPOCH + Duration::from_secs(seconds);
            match home.check_head_time(now, Duration::from_secs(limit)) {
                Err(HomeError::FutureHead { number: 5, keep, .. }) => Some(keep),
                Err(error) => panic!("{error}"),
                Ok(()) => None,
            }
        };
        assert_eq!(keep_at(time + 10, 30), Some(Some(3)));
        assert_eq!(keep_at(time + 1, 1), Some(Some(3)));
        assert_eq!(keep_at(time, 1), Some(Some(1)));
        assert_eq!(keep_at(time - 1, 1), Some(Some(0)));
        assert_eq!(keep_at(time - 2, 1), Some(None));
        assert_eq!(keep_at(time + 3599, 1), Some(Some(4)));
        assert_eq!(keep_at(time + 3600, 1), None);
        let now = UNIX_EPOCH + Duration::from_secs(time);
        let error = home.check_head_time(now, Duration::from_secs(30)).unwrap_err().to_string();
        assert!(error.contains("evmd rollback --height 3`"), "{error}");
        assert!(
            error.contains("--accept-future-head") && error.contains("3601 s ahead"),
            "{error}"
        );
    }

    #[test]
    fn full_blocks_of_ethereum_chains_may_be_ahead_as_far_as_the_engine_allows() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"config":{"chainId":1},"gasLimit":"0x989680","difficulty":"0x1","alloc":{},
            "timestamp":"0x6553f100"}"#;
        let home = Home::init(folder.path(), &Genesis::from_json(text).unwrap()).unwrap();
        let at = |seconds| {
            let now = UNIX_EPOCH + Duration::from_secs(0x6553_f100 - seconds);
            home.check_head_time(now, Duration::from_secs(1))
        };
        at(ORDINARY_SECONDS_AHEAD).unwrap();
        at(ORDINARY_SECONDS_AHEAD + 1).unwrap_err();
    }
}
