//! Measures how far a node that follows others is behind its source.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Maximum age of the last report of a source. After that, two reports are missing, and this node may lack a block.
const MAX_REPORT_AGE: Duration = Duration::from_secs(5);

/// The data of a follower about its source. The follower writes it, and servers read it.
#[derive(Debug)]
pub struct Following {
    /// The head when the node started to follow.
    started_at: u64,
    /// The maximum lag of a node that does not count as behind.
    max_lag: Duration,
    figures: Mutex<Figures>,
}

#[derive(Debug)]
struct Figures {
    source: Option<String>,
    source_head: u64,
    /// The time at which the source last reported its head.
    reported: Option<Instant>,
    /// The time since which this node lacks the newest block, or does not know which it is.
    lacking_since: Option<Instant>,
    /// Whether this node has had the newest block of a source since its start.
    was_at_the_head: bool,
    refused: Vec<(String, String)>,
}

/// The figures at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowingReading {
    /// The head when the node started to follow.
    pub started_at: u64,
    /// The source of blocks; `None` while there is none.
    pub source: Option<String>,
    /// The newest block that the source has reported; zero before its first report.
    pub source_head: u64,
    /// Blocks by which this node is behind.
    pub lag_blocks: u64,
    /// Time for which this node has been behind, or without a source or its reports.
    pub lag: Duration,
    /// Whether the lag exceeds the setting `replication.max-lag-ms`, or the node has not had the newest block of a
    /// source since its start.
    pub is_behind: bool,
    /// The sources that sent invalid data, with the reason.
    pub refused: Vec<(String, String)>,
}

impl Following {
    /// Creates the data of a node whose head is block `head`.
    pub fn new(head: u64, max_lag: Duration) -> Self {
        let (source, refused) = (None, Vec::new());
        let figures = Figures {
            source,
            source_head: 0,
            reported: None,
            lacking_since: Some(Instant::now()),
            was_at_the_head: false,
            refused,
        };
        Self { started_at: head, max_lag, figures: Mutex::new(figures) }
    }

    /// Returns the figures of a node whose head is block `head`.
    pub fn read(&self, head: u64) -> FollowingReading {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let lag_blocks = figures.source_head.saturating_sub(head);
        let silent_since = figures.reported.filter(|reported| reported.elapsed() > MAX_REPORT_AGE);
        let lag = figures.lacking_since.or(silent_since).map_or(Duration::ZERO, |at| at.elapsed());
        let is_behind = !figures.was_at_the_head || lag > self.max_lag;
        FollowingReading {
            started_at: self.started_at,
            source: figures.source.clone(),
            source_head: figures.source_head,
            lag_blocks,
            lag,
            is_behind,
            refused: figures.refused.clone(),
        }
    }

    /// Records that the follower receives blocks of this source.
    pub fn connected(&self, source: &str) {
        self.change(|figures| figures.source = Some(source.to_owned()));
    }

    /// Records that the follower has no source.
    pub fn disconnected(&self) {
        self.change(|figures| {
            (figures.source, figures.reported) = (None, None);
            figures.lacking_since.get_or_insert_with(Instant::now);
        });
    }

    /// Records that the head of the source is block `source_head`, and the head of this node block `head`.
    pub fn source_reported(&self, source_head: u64, head: u64) {
        self.change(|figures| {
            (figures.source_head, figures.reported) = (source_head, Some(Instant::now()));
            figures.compare(head);
        });
    }

    /// Records that the head of this node is block `head`.
    pub fn head_reached(&self, head: u64) {
        self.change(|figures| figures.compare(head));
    }

    /// Records that a source sent invalid data.
    pub fn refused(&self, source: &str, reason: &str) {
        self.change(|figures| figures.refused.push((source.to_owned(), reason.to_owned())));
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Figures {
    /// Compares the head of this node with that of its source.
    fn compare(&mut self, head: u64) {
        if self.reported.is_none() || head < self.source_head {
            self.lacking_since.get_or_insert_with(Instant::now);
        } else {
            (self.lacking_since, self.was_at_the_head) = (None, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_is_behind_before_the_first_report_and_above_the_maximum_lag() {
        let following = Following::new(7, Duration::from_secs(3_600));
        assert!(following.read(7).is_behind, "there is no source");
        following.connected("http://a");
        assert!(following.read(7).is_behind, "the head of the source is not known");
        following.source_reported(7, 7);
        following.disconnected();
        assert_eq!((following.read(7).started_at, following.read(7).is_behind), (7, false));
        let following = Following::new(7, Duration::ZERO);
        assert!(following.read(7).is_behind, "there is no source");
        following.connected("http://a");
        following.source_reported(7, 7);
        let reading = following.read(7);
        assert_eq!(
            (reading.lag_blocks, reading.lag, reading.is_behind),
            (0, Duration::ZERO, false)
        );
        following.source_reported(9, 7);
        let reading = following.read(7);
        assert!(reading.is_behind && reading.lag_blocks == 2 && reading.lag > Duration::ZERO);
        following.head_reached(9);
        assert!(!following.read(9).is_behind);
        following.disconnected();
        assert!(following.read(9).is_behind, "there may be newer blocks");
    }
}
