//! Tallies votes.

use alloy_primitives::{Address, U256};
use chain::GovParams;
use feemarket::LegacyDec;
use proto::cosmos::gov::v1::{TallyResult, Vote, VoteOption};

/// Voting power by option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Power that voted yes.
    pub yes: u64,
    /// Power that abstained. It counts only for the quorum.
    pub abstain: u64,
    /// Power that voted no.
    pub no: u64,
    /// Power that voted no with veto, which may burn the deposits.
    pub veto: u64,
}

/// The result of a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the proposal is executed.
    pub passes: bool,
    /// Whether its deposits are burned.
    pub burns: bool,
}

impl Tally {
    /// Converts the tally to the form of the queries.
    pub fn to_proto(self) -> TallyResult {
        TallyResult {
            yes_count: self.yes.to_string(),
            abstain_count: self.abstain.to_string(),
            no_count: self.no.to_string(),
            no_with_veto_count: self.veto.to_string(),
        }
    }

    const fn voted(self) -> u64 {
        self.yes + self.abstain + self.no + self.veto
    }

    /// Evaluates the tally as the SDK does: quorum, then abstentions, then vetoes, then the threshold.
    pub fn verdict(self, params: &GovParams, expedited: bool) -> Verdict {
        let all = params.validators.iter().map(|validator| validator.power).sum();
        let threshold = if expedited { params.expedited_threshold } else { params.threshold };
        let voted = self.voted();
        let rejects = |burns| Verdict { passes: false, burns };
        if all == 0 || share(voted, all) < params.quorum {
            return rejects(params.burn_vote_quorum);
        }
        if voted == self.abstain {
            return rejects(false);
        }
        if share(self.veto, voted) > params.veto_threshold {
            return rejects(params.burn_vote_veto);
        }
        Verdict { passes: share(self.yes, voted - self.abstain) > threshold, burns: false }
    }
}

/// Returns `part / whole`, truncated to 18 decimal places; zero if `whole` is zero.
fn share(part: u64, whole: u64) -> LegacyDec {
    LegacyDec::from(part).quo_int(U256::from(whole)).unwrap_or_default()
}

/// Tallies the votes of the genesis validators.
pub fn tally<'a>(params: &GovParams, votes: impl Iterator<Item = (&'a Vote, Address)>) -> Tally {
    let mut tally = Tally::default();
    for (vote, voter) in votes {
        let power = params.power(voter).unwrap_or_default();
        let option = vote.options.first().map_or(0, |option| option.option);
        match VoteOption::try_from(option) {
            Ok(VoteOption::Yes) => tally.yes += power,
            Ok(VoteOption::Abstain) => tally.abstain += power,
            Ok(VoteOption::No) => tally.no += power,
            Ok(VoteOption::NoWithVeto) => tally.veto += power,
            Ok(VoteOption::Unspecified) | Err(_) => {}
        }
    }
    tally
}
