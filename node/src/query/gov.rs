//! Proposals, votes and deposits as the module `gov` shows them.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        base::query::v1beta1::PageRequest,
        gov::v1::{
            Deposit, DepositParams, Params, Proposal, ProposalStatus, QueryDepositResponse,
            QueryDepositsResponse, QueryParamsResponse, QueryProposalResponse,
            QueryProposalsRequest, QueryProposalsResponse, QueryTallyResultResponse,
            QueryVoteResponse, QueryVotesResponse, TallyParams, Vote, VotingParams,
        },
    },
};
use crate::{
    account::parse_address,
    chain::Native,
    gov::{Governance, tally},
};

impl Snapshot {
    pub(super) fn native(&self) -> Result<&Native, QueryError> {
        self.spec.native().ok_or_else(|| {
            QueryError::precondition("this chain has no governance: it follows Ethereum's rules")
        })
    }

    /// Governance after this block.
    fn governance(&self) -> Result<Governance, QueryError> {
        self.native()?;
        Ok(self.modules()?.map(|modules| modules.gov.clone()).unwrap_or_default())
    }

    /// One proposal.
    ///
    /// # Errors
    /// If there is none of this id, or it is too old to be kept.
    pub fn gov_proposal(&self, id: u64) -> Result<QueryProposalResponse, QueryError> {
        Ok(QueryProposalResponse { proposal: Some(find(&self.governance()?, id)?.clone()) })
    }

    /// Proposals, the oldest first.
    ///
    /// # Errors
    /// On an address that is none, or a page that makes no sense.
    pub fn gov_proposals(
        &self,
        mut query: QueryProposalsRequest,
    ) -> Result<QueryProposalsResponse, QueryError> {
        let page = query.pagination.take();
        let governance = self.governance()?;
        let state = governance.state();
        let named = |text: &str| match text {
            "" => Ok(None),
            text => Ok::<_, QueryError>(Some(self.bech32(self.address(text)?))),
        };
        let (voter, depositor) = (named(&query.voter)?, named(&query.depositor)?);
        let wanted = |proposal: &&Proposal| {
            let status = query.proposal_status();
            (status == ProposalStatus::Unspecified || status == proposal.status())
                && voter.as_ref().is_none_or(|voter| {
                    state.votes.iter().any(|v| v.proposal_id == proposal.id && v.voter == *voter)
                })
                && depositor.as_ref().is_none_or(|depositor| {
                    let theirs =
                        |d: &Deposit| d.proposal_id == proposal.id && d.depositor == *depositor;
                    state.deposits.iter().any(theirs)
                })
        };
        let found = state.proposals.iter().filter(wanted);
        let (proposals, pagination) = cut(found, page)?;
        Ok(QueryProposalsResponse { proposals, pagination: Some(pagination) })
    }

    /// An account's vote.
    ///
    /// # Errors
    /// If it has none, or the voting is over.
    pub fn gov_vote(&self, id: u64, voter: &str) -> Result<QueryVoteResponse, QueryError> {
        let (governance, voter) = (self.governance()?, self.bech32(self.address(voter)?));
        find(&governance, id)?;
        let mut votes = governance.state().votes.iter();
        let vote = votes.find(|vote| vote.proposal_id == id && vote.voter == voter);
        let vote = vote.cloned().ok_or_else(|| {
            QueryError::invalid(format!("voter: {voter} not found for proposal: {id}"))
        })?;
        Ok(QueryVoteResponse { vote: Some(vote) })
    }

    /// The votes on a proposal.
    ///
    /// # Errors
    /// If there is none of this id, or the page makes no sense.
    pub fn gov_votes(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryVotesResponse, QueryError> {
        let governance = self.governance()?;
        find(&governance, id)?;
        let votes = governance.state().votes.iter().filter(|vote| vote.proposal_id == id);
        let (votes, pagination) = cut(votes, page)?;
        Ok(QueryVotesResponse { votes, pagination: Some(pagination) })
    }

    /// What an account put down for a proposal.
    ///
    /// # Errors
    /// If it put nothing down, or has it back.
    pub fn gov_deposit(
        &self,
        id: u64,
        depositor: &str,
    ) -> Result<QueryDepositResponse, QueryError> {
        let (governance, depositor) = (self.governance()?, self.bech32(self.address(depositor)?));
        find(&governance, id)?;
        let mut deposits = governance.state().deposits.iter();
        let found = deposits.find(|d| d.proposal_id == id && d.depositor == depositor);
        let deposit = found.cloned().ok_or_else(|| {
            QueryError::invalid(format!("depositer: {depositor} not found for proposal: {id}"))
        })?;
        Ok(QueryDepositResponse { deposit: Some(deposit) })
    }

    /// What all put down for a proposal.
    ///
    /// # Errors
    /// As [`Self::gov_votes`].
    pub fn gov_deposits(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryDepositsResponse, QueryError> {
        let governance = self.governance()?;
        find(&governance, id)?;
        let deposits = governance.state().deposits.iter().filter(|d| d.proposal_id == id);
        let (deposits, pagination) = cut(deposits, page)?;
        Ok(QueryDepositsResponse { deposits, pagination: Some(pagination) })
    }

    /// The votes on a proposal added up: so far, or as they were in the end.
    ///
    /// # Errors
    /// If there is none of this id.
    pub fn gov_tally(&self, id: u64) -> Result<QueryTallyResultResponse, QueryError> {
        let governance = self.governance()?;
        let proposal = find(&governance, id)?;
        if proposal.status() != ProposalStatus::VotingPeriod {
            return Ok(QueryTallyResultResponse { tally: proposal.final_tally_result.clone() });
        }
        let votes = governance.state().votes.iter().filter(|vote| vote.proposal_id == id);
        let of = |vote: &Vote| parse_address(&vote.voter, &self.spec.bech32_prefix).ok();
        let known = votes.filter_map(|vote| Some((vote, of(vote)?)));
        let tally = tally(&self.native()?.gov, known).to_proto();
        Ok(QueryTallyResultResponse { tally: Some(tally) })
    }

    /// Periods, deposits and thresholds, as genesis has them; those of one kind once more, unless it is
    /// empty.
    ///
    /// # Errors
    /// On another kind, and on a chain without governance.
    pub fn gov_params(&self, kind: &str) -> Result<QueryParamsResponse, QueryError> {
        let params = self.gov_rules()?;
        let mut answer = QueryParamsResponse::default();
        match kind {
            "" => {}
            "voting" => {
                answer.voting_params = Some(VotingParams { voting_period: params.voting_period });
            }
            "deposit" => {
                answer.deposit_params = Some(DepositParams {
                    min_deposit: params.min_deposit.clone(),
                    max_deposit_period: params.max_deposit_period,
                });
            }
            "tallying" => {
                answer.tally_params = Some(TallyParams {
                    quorum: params.quorum.clone(),
                    threshold: params.threshold.clone(),
                    veto_threshold: params.veto_threshold.clone(),
                });
            }
            other => {
                return Err(QueryError::invalid(format!("{other} is not a valid parameter type")));
            }
        }
        answer.params = Some(params);
        Ok(answer)
    }

    /// All of them.
    pub(super) fn gov_rules(&self) -> Result<Params, QueryError> {
        Ok(self.native()?.gov.to_proto(&self.denom()))
    }
}

fn find(governance: &Governance, id: u64) -> Result<&Proposal, QueryError> {
    let mut proposals = governance.state().proposals.iter();
    let found = proposals.find(|proposal| proposal.id == id);
    found.ok_or_else(|| QueryError::not_found(format!("proposal {id} doesn't exist")))
}
