//! Answers the queries of the older version v1beta1 of `gov`: converts the responses of [`super::gov`].

use super::{
    QueryError, Snapshot,
    proto::cosmos::{
        base::query::v1beta1::PageRequest,
        gov::{
            v1,
            v1beta1::{
                Deposit, DepositParams, Proposal, QueryDepositResponse, QueryDepositsResponse,
                QueryParamsResponse, QueryProposalResponse, QueryProposalsRequest,
                QueryProposalsResponse, QueryTallyResultResponse, QueryVoteResponse,
                QueryVotesResponse, TallyParams, TallyResult, Vote, VotingParams,
                WeightedVoteOption,
            },
        },
    },
};
use feemarket::LegacyDec;
use prost_types::Duration;

impl Snapshot {
    /// See [`Self::gov_proposal`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_proposal(&self, id: u64) -> Result<QueryProposalResponse, QueryError> {
        Ok(QueryProposalResponse { proposal: self.gov_proposal(id)?.proposal.map(proposal) })
    }

    /// See [`Self::gov_proposals`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_proposals(
        &self,
        query: QueryProposalsRequest,
    ) -> Result<QueryProposalsResponse, QueryError> {
        let found = self.gov_proposals(v1::QueryProposalsRequest {
            proposal_status: query.proposal_status,
            voter: query.voter,
            depositor: query.depositor,
            pagination: query.pagination,
        })?;
        let proposals = found.proposals.into_iter().map(proposal).collect();
        Ok(QueryProposalsResponse { proposals, pagination: found.pagination })
    }

    /// See [`Self::gov_vote`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_vote(&self, id: u64, voter: &str) -> Result<QueryVoteResponse, QueryError> {
        Ok(QueryVoteResponse { vote: self.gov_vote(id, voter)?.vote.map(vote) })
    }

    /// See [`Self::gov_votes`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_votes(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryVotesResponse, QueryError> {
        let found = self.gov_votes(id, page)?;
        let votes = found.votes.into_iter().map(vote).collect();
        Ok(QueryVotesResponse { votes, pagination: found.pagination })
    }

    /// See [`Self::gov_deposit`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_deposit(
        &self,
        id: u64,
        depositor: &str,
    ) -> Result<QueryDepositResponse, QueryError> {
        Ok(QueryDepositResponse { deposit: self.gov_deposit(id, depositor)?.deposit.map(deposit) })
    }

    /// See [`Self::gov_deposits`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_deposits(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryDepositsResponse, QueryError> {
        let found = self.gov_deposits(id, page)?;
        let deposits = found.deposits.into_iter().map(deposit).collect();
        Ok(QueryDepositsResponse { deposits, pagination: found.pagination })
    }

    /// See [`Self::gov_tally`].
    ///
    /// # Errors
    /// Same as that method.
    pub fn old_tally(&self, id: u64) -> Result<QueryTallyResultResponse, QueryError> {
        Ok(QueryTallyResultResponse { tally: self.gov_tally(id)?.tally.map(tally) })
    }

    /// Returns the parameters of one kind; those of the other kinds are zero.
    ///
    /// # Errors
    /// If there is no such kind, or the chain has no governance.
    pub fn old_gov_params(&self, kind: &str) -> Result<QueryParamsResponse, QueryError> {
        let all = self.all_gov_params()?;
        let gov = &self.native()?.gov;
        let bytes = |share: LegacyDec| share.to_scaled().into_bytes();
        let mut answer = zero_params();
        match kind {
            "voting" => {
                answer.voting_params = Some(VotingParams { voting_period: all.voting_period });
            }
            "deposit" => {
                answer.deposit_params = Some(DepositParams {
                    min_deposit: all.min_deposit,
                    max_deposit_period: all.max_deposit_period,
                });
            }
            "tallying" => {
                answer.tally_params = Some(TallyParams {
                    quorum: bytes(gov.quorum),
                    threshold: bytes(gov.threshold),
                    veto_threshold: bytes(gov.veto_threshold),
                });
            }
            other => {
                return Err(QueryError::invalid(format!(
                    "unknown params type {other:?}: must be deposit, voting or tallying"
                )));
            }
        }
        Ok(answer)
    }
}

/// Returns all parameters set to zero. The SDK returns this for the kinds that were not requested.
fn zero_params() -> QueryParamsResponse {
    let (period, zero) = (Some(Duration::default()), b"0".to_vec());
    QueryParamsResponse {
        voting_params: Some(VotingParams { voting_period: period }),
        deposit_params: Some(DepositParams { min_deposit: Vec::new(), max_deposit_period: period }),
        tally_params: Some(TallyParams {
            quorum: zero.clone(),
            threshold: zero.clone(),
            veto_threshold: zero,
        }),
    }
}

fn proposal(new: v1::Proposal) -> Proposal {
    Proposal {
        proposal_id: new.id,
        content: None,
        status: new.status,
        final_tally_result: new.final_tally_result.map(tally),
        submit_time: new.submit_time,
        deposit_end_time: new.deposit_end_time,
        total_deposit: new.total_deposit,
        voting_start_time: new.voting_start_time,
        voting_end_time: new.voting_end_time,
    }
}

fn tally(new: v1::TallyResult) -> TallyResult {
    TallyResult {
        yes: new.yes_count,
        abstain: new.abstain_count,
        no: new.no_count,
        no_with_veto: new.no_with_veto_count,
    }
}

/// Each vote has a single option, whose weight is 1.
fn vote(new: v1::Vote) -> Vote {
    let option = new.options.first().map_or(0, |option| option.option);
    let one = WeightedVoteOption { option, weight: LegacyDec::ONE.to_scaled() };
    Vote { proposal_id: new.proposal_id, voter: new.voter, option, options: vec![one] }
}

fn deposit(new: v1::Deposit) -> Deposit {
    Deposit { proposal_id: new.proposal_id, depositor: new.depositor, amount: new.amount }
}
