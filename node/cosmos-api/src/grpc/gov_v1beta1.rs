//! Implements the gRPC service of the module `gov`, version v1beta1.

use super::services::{Answer, Service};
use crate::query::{
    Snapshot,
    proto::cosmos::gov::{v1beta1 as gov, v1beta1::query_server::Query},
};
use tonic::Request;

#[tonic::async_trait]
impl Query for Service {
    async fn proposal(
        &self,
        request: Request<gov::QueryProposalRequest>,
    ) -> Answer<gov::QueryProposalResponse> {
        self.answer_read(request, |at, query| at.old_proposal(query.proposal_id)).await
    }

    async fn proposals(
        &self,
        request: Request<gov::QueryProposalsRequest>,
    ) -> Answer<gov::QueryProposalsResponse> {
        self.answer_read(request, Snapshot::old_proposals).await
    }

    async fn vote(
        &self,
        request: Request<gov::QueryVoteRequest>,
    ) -> Answer<gov::QueryVoteResponse> {
        self.answer_read(request, |at, query| at.old_vote(query.proposal_id, &query.voter)).await
    }

    async fn votes(
        &self,
        request: Request<gov::QueryVotesRequest>,
    ) -> Answer<gov::QueryVotesResponse> {
        let answer = |at: &Snapshot, query: gov::QueryVotesRequest| {
            at.old_votes(query.proposal_id, query.pagination)
        };
        self.answer_read(request, answer).await
    }

    async fn params(
        &self,
        request: Request<gov::QueryParamsRequest>,
    ) -> Answer<gov::QueryParamsResponse> {
        self.answer(request, |at, query| at.old_gov_params(&query.params_type))
    }

    async fn deposit(
        &self,
        request: Request<gov::QueryDepositRequest>,
    ) -> Answer<gov::QueryDepositResponse> {
        let answer = |at: &Snapshot, query: gov::QueryDepositRequest| {
            at.old_deposit(query.proposal_id, &query.depositor)
        };
        self.answer_read(request, answer).await
    }

    async fn deposits(
        &self,
        request: Request<gov::QueryDepositsRequest>,
    ) -> Answer<gov::QueryDepositsResponse> {
        let answer = |at: &Snapshot, query: gov::QueryDepositsRequest| {
            at.old_deposits(query.proposal_id, query.pagination)
        };
        self.answer_read(request, answer).await
    }

    async fn tally_result(
        &self,
        request: Request<gov::QueryTallyResultRequest>,
    ) -> Answer<gov::QueryTallyResultResponse> {
        self.answer_read(request, |at, query| at.old_tally(query.proposal_id)).await
    }
}
