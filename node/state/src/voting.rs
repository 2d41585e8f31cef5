//! What a validator has seen of the agreement on blocks.

use alloy_primitives::B256;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Age of the last vote of a validator from which it counts as absent.
const MAX_VOTE_AGE: Duration = Duration::from_secs(10);
/// Number of newest blocks whose times to finality are kept.
const KEPT_TIMES: usize = 1024;

/// What the consensus engine reports. It writes, and servers read.
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
    /// When each validator last sent a vote.
    votes: Vec<Option<Instant>>,
    /// The newest times from a proposal to its finality.
    times: VecDeque<Duration>,
}

/// The figures at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VotingReading {
    /// The newest view that has ended.
    pub view: u64,
    /// Each validator, and whether it has voted recently.
    pub validators: Vec<(B256, bool)>,
    /// Views without a block since the start, because their leader did not propose one in time.
    pub skipped_views: u64,
    /// Pairs of votes of one validator that contradict each other, since the start.
    pub contradictions: u64,
    /// The median and the 95th percentile of the time from a proposal, as this node saw it, until the block was final here, over the newest
    /// blocks.
    pub finality: Option<[Duration; 2]>,
}

impl VotingReading {
    /// The number of validators that have voted recently.
    pub fn present(&self) -> usize {
        self.validators.iter().filter(|(_, votes)| *votes).count()
    }
}

impl Voting {
    /// Of a chain with these validators.
    pub fn new(mut validators: Vec<B256>) -> Self {
        validators.sort_unstable();
        let votes = vec![None; validators.len()];
        let (view, skipped_views, contradictions) = (0, 0, 0);
        let figures =
            Figures { view, skipped_views, contradictions, votes, times: VecDeque::new() };
        Self { validators, figures: Mutex::new(figures) }
    }

    /// The validator at this position in the order of the keys has voted.
    pub fn voted(&self, position: usize) {
        self.change(|figures| {
            if let Some(vote) = figures.votes.get_mut(position) {
                *vote = Some(Instant::now());
            }
        });
    }

    /// A view has ended, with a block or without one.
    pub fn view_ended(&self, view: u64, is_skipped: bool) {
        self.change(|figures| {
            figures.view = figures.view.max(view);
            figures.skipped_views += u64::from(is_skipped);
        });
    }

    /// A validator has sent two votes that contradict each other.
    pub fn contradicted(&self) {
        self.change(|figures| figures.contradictions += 1);
    }

    /// A block is final, this long after it was proposed.
    pub fn finalized(&self, after: Duration) {
        self.change(|figures| {
            if figures.times.len() == KEPT_TIMES {
                figures.times.pop_front();
            }
            figures.times.push_back(after);
        });
    }

    /// The current figures.
    pub fn read(&self) -> VotingReading {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent =
            |vote: &Option<Instant>| vote.is_some_and(|at| at.elapsed() <= MAX_VOTE_AGE);
        let votes = figures.votes.iter().map(is_recent);
        let mut times: Vec<_> = figures.times.iter().copied().collect();
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied();
        let finality = at(50).zip(at(95)).map(|(median, late)| [median, late]);
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
    fn figures_are_those_of_the_newest_blocks() {
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
        let [median, late] = reading.finality.unwrap();
        assert_eq!((median.as_millis(), late.as_millis()), (100 + 512, 100 + 972));
        assert_eq!((reading.view, reading.skipped_views, reading.contradictions), (7, 1, 1));
        assert_eq!(reading.validators[0], (B256::repeat_byte(1), true));
        assert_eq!(reading.present(), 1);
    }
}
