//! Implements the gRPC services, one method per query. The cost of a query determines how it runs (see
//! `docs/costs.md`): on the thread that serves the socket if it reads a few rows, on a blocking thread if it reads
//! rows of a block, and with a concurrency limit if it reads a whole block, the governance state or a list.

use super::HEIGHT_HEADER;
use crate::query::{
    Queries, QueryError, Snapshot,
    proto::cosmos::{
        auth::{v1beta1 as auth, v1beta1::query_server::Query as AuthQuery},
        gov::{v1 as gov, v1::query_server::Query as GovQuery},
        tx::{v1beta1 as tx, v1beta1::service_server::Service as TxService},
    },
    tx_bytes, tx_encode,
};
use server::{
    concurrency_limit::ConcurrencyPermit,
    interrupt::{Caller, Interrupt},
};
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

/// Implements all services.
#[derive(Clone, Debug)]
pub(super) struct Service(pub(super) Queries);

pub(super) type Answer<M> = Result<Response<M>, Status>;

impl From<QueryError> for Status {
    fn from(error: QueryError) -> Self {
        Self::new(Code::from(error.code as i32), error.message)
    }
}

impl Service {
    /// Returns the chain at the block that the metadata selects.
    pub(super) fn at(&self, metadata: &MetadataMap) -> Result<Snapshot, Status> {
        let height = match metadata.get(HEIGHT_HEADER) {
            None => 0,
            Some(value) => {
                let number = value.to_str().ok().and_then(|text| text.parse().ok());
                let reason = || format!("{HEIGHT_HEADER} is not a block number");
                number.ok_or_else(|| Status::invalid_argument(reason()))?
            }
        };
        Ok(self.0.at(height)?)
    }

    /// Answers a query that reads a few rows of bounded size.
    pub(super) fn answer<Q, M>(
        &self,
        request: Request<Q>,
        query: impl FnOnce(&Snapshot, Q) -> Result<M, QueryError>,
    ) -> Answer<M> {
        let snapshot = self.at(request.metadata())?;
        let answer = query(&snapshot, request.into_inner())?;
        Ok(with_height_header(answer, &snapshot))
    }

    /// Answers a query on a blocking thread, because its work grows with a block, the genesis or the request.
    pub(super) async fn answer_blocking<Q: Send + 'static, M: Send + 'static>(
        &self,
        request: Request<Q>,
        query: impl FnOnce(&Snapshot, Q) -> Result<M, QueryError> + Send + 'static,
    ) -> Answer<M> {
        let snapshot = self.at(request.metadata())?;
        let work = move || {
            let answer = query(&snapshot, request.into_inner())?;
            Ok(with_height_header(answer, &snapshot))
        };
        let answer = tokio::task::spawn_blocking(work).await;
        answer.unwrap_or_else(|_| Err(Status::internal("internal error")))
    }

    /// Answers a query that reads a whole block or the governance state, with a concurrency limit.
    pub(super) async fn answer_read<Q: Send + 'static, M: Send + 'static>(
        &self,
        request: Request<Q>,
        query: impl FnOnce(&Snapshot, Q) -> Result<M, QueryError> + Send + 'static,
    ) -> Answer<M> {
        let permit = self.0.read_permit().await?;
        let work = move |at: &Snapshot, message: Q| {
            let _permit = permit;
            query(at, message)
        };
        self.answer_blocking(request, work).await
    }

    /// Answers a query that may run for seconds, with a concurrency limit. The query is interrupted if the client
    /// disconnects.
    pub(super) async fn answer_limited<Q: Send + 'static, M: Send + 'static>(
        &self,
        permit: ConcurrencyPermit,
        request: Request<Q>,
        query: impl FnOnce(&Snapshot, Q, &Interrupt) -> Result<M, QueryError> + Send + 'static,
    ) -> Answer<M> {
        let (_caller, interrupt) = Caller::waiting();
        let work = move |at: &Snapshot, message: Q| {
            let _permit = permit;
            query(at, message, &interrupt)
        };
        self.answer_blocking(request, work).await
    }
}

/// Returns a response with the metadata that names the queried block.
pub(super) fn with_height_header<M>(answer: M, snapshot: &Snapshot) -> Response<M> {
    let mut response = Response::new(answer);
    response.metadata_mut().insert(HEIGHT_HEADER, snapshot.number().into());
    response
}

/// Returns the bytes of the transaction to simulate. Older clients send the decoded transaction instead, which is used
/// if there are no bytes.
#[allow(deprecated, reason = "cosmpy only sets this field")]
fn simulated_bytes(query: tx::SimulateRequest) -> Vec<u8> {
    match query.tx {
        Some(tx) if query.tx_bytes.is_empty() => tx_bytes(tx),
        _ => query.tx_bytes,
    }
}

#[tonic::async_trait]
impl AuthQuery for Service {
    async fn accounts(
        &self,
        request: Request<auth::QueryAccountsRequest>,
    ) -> Answer<auth::QueryAccountsResponse> {
        let permit = self.0.search_permit().await?;
        let list = |at: &Snapshot, query: auth::QueryAccountsRequest, stop: &Interrupt| {
            at.auth_accounts(query.pagination, stop)
        };
        self.answer_limited(permit, request, list).await
    }

    async fn account(
        &self,
        request: Request<auth::QueryAccountRequest>,
    ) -> Answer<auth::QueryAccountResponse> {
        self.answer_blocking(request, |at, query| at.auth_account(&query.address)).await
    }

    async fn params(
        &self,
        request: Request<auth::QueryParamsRequest>,
    ) -> Answer<auth::QueryParamsResponse> {
        self.answer(request, |at, _| Ok(at.auth_params()))
    }

    async fn module_accounts(
        &self,
        request: Request<auth::QueryModuleAccountsRequest>,
    ) -> Answer<auth::QueryModuleAccountsResponse> {
        self.answer(request, |at, _| at.module_accounts())
    }

    async fn module_account_by_name(
        &self,
        request: Request<auth::QueryModuleAccountByNameRequest>,
    ) -> Answer<auth::QueryModuleAccountByNameResponse> {
        self.answer(request, |at, query| at.module_account_by_name(&query.name))
    }

    async fn bech32_prefix(
        &self,
        request: Request<auth::Bech32PrefixRequest>,
    ) -> Answer<auth::Bech32PrefixResponse> {
        self.answer(request, |at, _| Ok(at.bech32_prefix()))
    }

    async fn address_bytes_to_string(
        &self,
        request: Request<auth::AddressBytesToStringRequest>,
    ) -> Answer<auth::AddressBytesToStringResponse> {
        self.answer(request, |at, query| at.address_string(&query.address_bytes))
    }

    async fn address_string_to_bytes(
        &self,
        request: Request<auth::AddressStringToBytesRequest>,
    ) -> Answer<auth::AddressStringToBytesResponse> {
        self.answer(request, |at, query| at.address_bytes(&query.address_string))
    }

    async fn account_info(
        &self,
        request: Request<auth::QueryAccountInfoRequest>,
    ) -> Answer<auth::QueryAccountInfoResponse> {
        self.answer_blocking(request, |at, query| at.auth_account_info(&query.address)).await
    }
}

#[tonic::async_trait]
impl GovQuery for Service {
    async fn proposal(
        &self,
        request: Request<gov::QueryProposalRequest>,
    ) -> Answer<gov::QueryProposalResponse> {
        self.answer_read(request, |at, query| at.gov_proposal(query.proposal_id)).await
    }

    async fn proposals(
        &self,
        request: Request<gov::QueryProposalsRequest>,
    ) -> Answer<gov::QueryProposalsResponse> {
        self.answer_read(request, |at, query| at.gov_proposals(query)).await
    }

    async fn vote(
        &self,
        request: Request<gov::QueryVoteRequest>,
    ) -> Answer<gov::QueryVoteResponse> {
        self.answer_read(request, |at, query| at.gov_vote(query.proposal_id, &query.voter)).await
    }

    async fn votes(
        &self,
        request: Request<gov::QueryVotesRequest>,
    ) -> Answer<gov::QueryVotesResponse> {
        let answer = |at: &Snapshot, query: gov::QueryVotesRequest| {
            at.gov_votes(query.proposal_id, query.pagination)
        };
        self.answer_read(request, answer).await
    }

    async fn params(
        &self,
        request: Request<gov::QueryParamsRequest>,
    ) -> Answer<gov::QueryParamsResponse> {
        self.answer(request, |at, query| at.gov_params(&query.params_type))
    }

    async fn deposit(
        &self,
        request: Request<gov::QueryDepositRequest>,
    ) -> Answer<gov::QueryDepositResponse> {
        let answer = |at: &Snapshot, query: gov::QueryDepositRequest| {
            at.gov_deposit(query.proposal_id, &query.depositor)
        };
        self.answer_read(request, answer).await
    }

    async fn deposits(
        &self,
        request: Request<gov::QueryDepositsRequest>,
    ) -> Answer<gov::QueryDepositsResponse> {
        let answer = |at: &Snapshot, query: gov::QueryDepositsRequest| {
            at.gov_deposits(query.proposal_id, query.pagination)
        };
        self.answer_read(request, answer).await
    }

    async fn tally_result(
        &self,
        request: Request<gov::QueryTallyResultRequest>,
    ) -> Answer<gov::QueryTallyResultResponse> {
        self.answer_read(request, |at, query| at.gov_tally(query.proposal_id)).await
    }
}

#[tonic::async_trait]
impl TxService for Service {
    async fn get_tx(&self, request: Request<tx::GetTxRequest>) -> Answer<tx::GetTxResponse> {
        self.answer_read(request, |at, query| at.tx(&query.hash)).await
    }

    async fn get_txs_event(
        &self,
        request: Request<tx::GetTxsEventRequest>,
    ) -> Answer<tx::GetTxsEventResponse> {
        let permit = self.0.search_permit().await?;
        let answer =
            |at: &Snapshot, query, stop: &Interrupt| at.txs_by_events(query, stop).map(Into::into);
        self.answer_limited(permit, request, answer).await
    }

    async fn simulate(
        &self,
        request: Request<tx::SimulateRequest>,
    ) -> Answer<tx::SimulateResponse> {
        self.answer_read(request, |at, query| at.simulate(&simulated_bytes(query))).await
    }

    async fn broadcast_tx(
        &self,
        request: Request<tx::BroadcastTxRequest>,
    ) -> Answer<tx::BroadcastTxResponse> {
        let snapshot = self.at(request.metadata())?;
        let tx::BroadcastTxRequest { tx_bytes, mode } = request.into_inner();
        let answer = self.0.broadcast_tx_in_mode(tx_bytes, mode).await?;
        Ok(with_height_header(answer, &snapshot))
    }

    async fn get_block_with_txs(
        &self,
        request: Request<tx::GetBlockWithTxsRequest>,
    ) -> Answer<tx::GetBlockWithTxsResponse> {
        let answer = |at: &Snapshot, query: tx::GetBlockWithTxsRequest| {
            at.block_with_txs(query.height, query.pagination)
        };
        self.answer_read(request, answer).await
    }

    async fn tx_decode(
        &self,
        request: Request<tx::TxDecodeRequest>,
    ) -> Answer<tx::TxDecodeResponse> {
        self.answer_blocking(request, |at, query| at.tx_decode(query.tx_bytes)).await
    }

    async fn tx_encode(
        &self,
        request: Request<tx::TxEncodeRequest>,
    ) -> Answer<tx::TxEncodeResponse> {
        self.answer_blocking(request, |_, query| tx_encode(query.tx)).await
    }
}
