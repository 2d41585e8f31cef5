//! Records what a validator observed of the consensus: views, votes, and times to finality.

use alloy_primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Maximum age of the last vote of a validator that counts as present.
const MAX_VOTE_AGE: Duration = Duration::from_secs(10);
/// Maximum number of the newest blocks whose times to finality are kept.
const KEPT_TIMES: usize = 1024;

/// The reports of the consensus engine, which servers read.
#[derive(Debug)]
pub struct Voting {
    /// The public keys of all validators, in ascending order.
    validators: Vec<B256>,
    figures: Mutex<Figures>,
}

#[derive(Debug)]
struct Figures {
    view: u64,
    skipped_views: u64,
    contradictions: u64,
    /// The time of the last vote of each validator.
    votes: Vec<Option<Instant>>,
    /// The times from a proposal to its finality, for the newest blocks.
    times: VecDeque<Duration>,
}

/// The figures at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VotingReading {
    /// The newest view that has ended.
    pub view: u64,
    /// The public key of each validator, and whether it has voted recently.
    pub validators: Vec<(B256, bool)>,
    /// Number of views since the start that ended without a block, because it was not proposed or voted for in time.
    pub skipped_views: u64,
    /// Number of pairs of contradicting votes of one validator, since the start.
    pub contradictions: u64,
    /// The median and the 95th percentile, over the newest blocks, of the time from the proposal to its finality, both
    /// as observed by this node.
    pub finality: Option<[Duration; 2]>,
}

impl VotingReading {
    /// Returns the number of validators that have voted recently.
    pub fn present(&self) -> usize {
        self.validators.iter().filter(|(_, votes)| *votes).count()
    }
}

impl Voting {
    /// Creates the figures of a chain with these validators.
    pub fn new(mut validators: Vec<B256>) -> Self {
        validators.sort_unstable();
        let votes = vec![None; validators.len()];
        let (view, skipped_views, contradictions) = (0, 0, 0);
        let figures =
            Figures { view, skipped_views, contradictions, votes, times: VecDeque::new() };
        Self { validators, figures: Mutex::new(figures) }
    }

    /// Records a vote of the validator at this position in the order of the keys.
    pub fn voted(&self, position: usize) {
        self.change(|figures| {
            if let Some(vote) = figures.votes.get_mut(position) {
                *vote = Some(Instant::now());
            }
        });
    }

    /// Records that a view has ended, without a block if `is_skipped`.
    pub fn view_ended(&self, view: u64, is_skipped: bool) {
        self.change(|figures| {
            figures.view = figures.view.max(view);
            figures.skipped_views += u64::from(is_skipped);
        });
    }

    /// Records that a validator sent two votes that contradict each other.
    pub fn contradicted(&self) {
        self.change(|figures| figures.contradictions += 1);
    }

    /// Records that a block became final this long after its proposal.
    pub fn finalized(&self, after: Duration) {
        self.change(|figures| {
            if figures.times.len() == KEPT_TIMES {
                figures.times.pop_front();
            }
            figures.times.push_back(after);
        });
    }

    /// Returns the current figures.
    pub fn read(&self) -> VotingReading {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent =
            |vote: &Option<Instant>| vote.is_some_and(|at| at.elapsed() <= MAX_VOTE_AGE);
        let votes = figures.votes.iter().map(is_recent);
        let mut times: Vec<_> = figures.times.iter().copied().collect();
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied();
        let finality = at(50).zip(at(95)).map(|(median, p95)| [median, p95]);
        VotingReading {
            view: figures.view,
            validators: self.validators.iter().copied().zip(votes).collect(),
            skipped_views: figures.skipped_views,
            contradictions: figures.contradictions,
            finality,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finality_is_measured_over_the_newest_blocks() {
        let voting = Voting::new([3, 1, 2].map(B256::repeat_byte).to_vec());
        assert_eq!(voting.read().finality, None);
        for ms in 0..KEPT_TIMES as u64 + 100 {
            voting.finalized(Duration::from_millis(ms));
        }
        voting.voted(0);
        voting.voted(3);
        voting.view_ended(7, false);
        voting.view_ended(6, true);
        voting.contradicted();
        let reading = voting.read();
        let [median, p95] = reading.finality.unwrap();
        assert_eq!((median.as_millis(), p95.as_millis()), (100 + 512, 100 + 972));
        assert_eq!((reading.view, reading.skipped_views, reading.contradictions), (7, 1, 1));
        assert_eq!(reading.validators[0], (B256::repeat_byte(1), true));
        assert_eq!(reading.present(), 1);
    }
}
