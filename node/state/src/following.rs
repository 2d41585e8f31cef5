//! How far a node that follows others is behind them.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Age of the last report of a source from which this node may lack a block: two reports are missing.
const MAX_REPORT_AGE: Duration = Duration::from_secs(5);

/// What a follower knows about its source. The follower writes it, and servers read it.
#[derive(Debug)]
pub struct Following {
    /// The head when the node started to follow.
    started_at: u64,
    /// The lag from which the node is behind.
    max_lag: Duration,
    figures: Mutex<Figures>,
}

#[derive(Debug)]
struct Figures {
    source: Option<String>,
    source_head: u64,
    /// When the source last reported its head.
    reported: Option<Instant>,
    /// Since when this node lacks the newest block, or does not know which it is.
    lacking_since: Option<Instant>,
    /// This node has had the newest block since the start.
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
    /// The newest block of the source, as far as it has said.
    pub source_head: u64,
    /// Blocks by which this node is behind.
    pub lag_blocks: u64,
    /// How long this node has been behind, or without a source.
    pub lag: Duration,
    /// The lag is more than the setting `replication.max-lag-ms`, or the node has never had the newest block of a source
    /// since its start.
    pub is_behind: bool,
    /// The sources that sent something wrong, with the reason.
    pub refused: Vec<(String, String)>,
}

impl Following {
    /// Of a node whose head is block `head`.
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

    /// The figures when the head is block `head`.
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

    /// The follower receives blocks of this source.
    pub fn connected(&self, source: &str) {
        self.change(|figures| figures.source = Some(source.to_owned()));
    }

    /// It has no source.
    pub fn disconnected(&self) {
        self.change(|figures| {
            (figures.source, figures.reported) = (None, None);
            figures.lacking_since.get_or_insert_with(Instant::now);
        });
    }

    /// The source has said that its head is block `source_head`; that of this node is `head`.
    pub fn source_reported(&self, source_head: u64, head: u64) {
        self.change(|figures| {
            (figures.source_head, figures.reported) = (source_head, Some(Instant::now()));
            figures.compare(head);
        });
    }

    /// The head of this node is block `head`.
    pub fn head_reached(&self, head: u64) {
        self.change(|figures| figures.compare(head));
    }

    /// A source sent something wrong.
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
    fn a_node_is_behind_after_the_longest_lag() {
        let following = Following::new(7, Duration::from_secs(3_600));
        assert!(following.read(7).is_behind, "it knows no source yet");
        following.connected("http://a");
        assert!(following.read(7).is_behind, "it does not know the head of its source");
        following.source_reported(7, 7);
        following.disconnected();
        assert_eq!((following.read(7).started_at, following.read(7).is_behind), (7, false));
        let following = Following::new(7, Duration::ZERO);
        assert!(following.read(7).is_behind, "it has no source");
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
        assert!(following.read(9).is_behind, "the source may have more");
    }
}
