//! Answers the queries for proposals, votes and deposits, as the module `gov` does.

use super::{
    QueryError, Snapshot,
    page::cut,
    proto::cosmos::{
        base::query::v1beta1::PageRequest,
        gov::v1::{
            DepositParams, Params, ProposalStatus, QueryDepositResponse, QueryDepositsResponse,
            QueryParamsResponse, QueryProposalResponse, QueryProposalsRequest,
            QueryProposalsResponse, QueryTallyResultResponse, QueryVoteResponse,
            QueryVotesResponse, TallyParams, VotingParams,
        },
    },
};
use chain::Native;
use modules::gov::{Entry, Governance, tally};

impl Snapshot {
    pub(super) fn native(&self) -> Result<&Native, QueryError> {
        self.spec.native().ok_or_else(|| {
            QueryError::precondition("this chain has no governance: it follows Ethereum's rules")
        })
    }

    /// Returns the governance state after this block.
    fn governance(&self) -> Result<Governance, QueryError> {
        self.native()?;
        Ok(self.modules()?.map(|modules| modules.gov.clone()).unwrap_or_default())
    }

    /// Returns one proposal.
    ///
    /// # Errors
    /// If there is no such proposal, or it has been pruned.
    pub fn gov_proposal(&self, id: u64) -> Result<QueryProposalResponse, QueryError> {
        let governance = self.governance()?;
        Ok(QueryProposalResponse { proposal: Some(find(&governance, id)?.proposal()) })
    }

    /// Returns the proposals that match a query, oldest first.
    ///
    /// # Errors
    /// If an address or the page is invalid.
    pub fn gov_proposals(
        &self,
        mut query: QueryProposalsRequest,
    ) -> Result<QueryProposalsResponse, QueryError> {
        let page = query.pagination.take();
        let governance = self.governance()?;
        let optional = |text: &str| match text {
            "" => Ok(None),
            text => self.address(text).map(Some),
        };
        let (voter, depositor) = (optional(&query.voter)?, optional(&query.depositor)?);
        let status = query.proposal_status();
        let wanted = |entry: &&Entry| {
            (status == ProposalStatus::Unspecified || status == entry.status())
                && voter.is_none_or(|voter| entry.vote(voter).is_some())
                && depositor.is_none_or(|depositor| entry.deposit(depositor).is_some())
        };
        let found = governance.state().entries().filter(wanted);
        let keyed = found.map(|entry| (entry.id().to_be_bytes(), entry));
        let (chosen, pagination) = cut(keyed, page)?;
        let proposals = chosen.into_iter().map(Entry::proposal).collect();
        Ok(QueryProposalsResponse { proposals, pagination: Some(pagination) })
    }

    /// Returns the vote of an account.
    ///
    /// # Errors
    /// If there is no such proposal, the account has not voted, or the voting period is over.
    pub fn gov_vote(&self, id: u64, voter: &str) -> Result<QueryVoteResponse, QueryError> {
        let (governance, voter) = (self.governance()?, self.address(voter)?);
        let vote = find(&governance, id)?.vote(voter).cloned().ok_or_else(|| {
            let voter = self.bech32(voter);
            QueryError::invalid(format!("voter: {voter} not found for proposal: {id}"))
        })?;
        Ok(QueryVoteResponse { vote: Some(vote) })
    }

    /// Returns the votes on a proposal, in the order of the voters' addresses.
    ///
    /// # Errors
    /// If there is no such proposal, or the page is invalid.
    pub fn gov_votes(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryVotesResponse, QueryError> {
        let governance = self.governance()?;
        let votes =
            find(&governance, id)?.votes().map(|(address, vote)| (address.into_array(), vote));
        let (votes, pagination) = cut(votes, page)?;
        let votes = votes.into_iter().cloned().collect();
        Ok(QueryVotesResponse { votes, pagination: Some(pagination) })
    }

    /// Returns the deposit of an account on a proposal.
    ///
    /// # Errors
    /// If there is no such proposal or deposit, or the deposit has been returned or burned.
    pub fn gov_deposit(
        &self,
        id: u64,
        depositor: &str,
    ) -> Result<QueryDepositResponse, QueryError> {
        let (governance, depositor) = (self.governance()?, self.address(depositor)?);
        let deposit = find(&governance, id)?.deposit(depositor).cloned().ok_or_else(|| {
            let depositor = self.bech32(depositor);
            QueryError::invalid(format!("depositer: {depositor} not found for proposal: {id}"))
        })?;
        Ok(QueryDepositResponse { deposit: Some(deposit) })
    }

    /// Returns all deposits on a proposal, in the order of the depositors' addresses.
    ///
    /// # Errors
    /// Same as [`Self::gov_votes`].
    pub fn gov_deposits(
        &self,
        id: u64,
        page: Option<PageRequest>,
    ) -> Result<QueryDepositsResponse, QueryError> {
        let governance = self.governance()?;
        let deposits = find(&governance, id)?.deposits();
        let keyed = deposits.map(|(address, deposit)| (address.into_array(), deposit));
        let (deposits, pagination) = cut(keyed, page)?;
        let deposits = deposits.into_iter().cloned().collect();
        Ok(QueryDepositsResponse { deposits, pagination: Some(pagination) })
    }

    /// Returns the current tally of a proposal in its voting period, or the final tally.
    ///
    /// # Errors
    /// If there is no such proposal.
    pub fn gov_tally(&self, id: u64) -> Result<QueryTallyResultResponse, QueryError> {
        let governance = self.governance()?;
        let entry = find(&governance, id)?;
        if entry.status() != ProposalStatus::VotingPeriod {
            return Ok(QueryTallyResultResponse { tally: entry.final_tally() });
        }
        let votes = entry.votes().map(|(address, vote)| (vote, *address));
        let tally = tally(&self.native()?.gov, votes).to_proto();
        Ok(QueryTallyResultResponse { tally: Some(tally) })
    }

    /// Returns the periods, deposits and thresholds from genesis. If `kind` is not empty, the parameters of that kind
    /// are also set in their own field.
    ///
    /// # Errors
    /// If there is no such kind, or the chain has no governance.
    pub fn gov_params(&self, kind: &str) -> Result<QueryParamsResponse, QueryError> {
        let params = self.all_gov_params()?;
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

    /// Returns all parameters.
    pub(super) fn all_gov_params(&self) -> Result<Params, QueryError> {
        Ok(self.native()?.gov.to_proto(&self.denom()))
    }
}

fn find(governance: &Governance, id: u64) -> Result<&Entry, QueryError> {
    let found = governance.state().entry(id);
    found.ok_or_else(|| QueryError::not_found(format!("proposal {id} doesn't exist")))
}
