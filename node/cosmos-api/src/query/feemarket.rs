//! Answers the queries of the fee market: converts the values of [`feemarket::query`] to messages.

use super::{
    QueryError, Snapshot,
    proto::{
        cosmos::evm::feemarket::v1::{
            QueryBaseFeeResponse, QueryBlockGasResponse, QueryParamsResponse,
        },
        evmd::distribution::v1 as distribution,
    },
};
use feemarket::{
    Market,
    query::{BaseFeeResponse, BlockGasResponse, ParamsResponse},
};
use modules::Modules;
use prost::Message;
use std::sync::Arc;

impl Snapshot {
    /// Returns the fee market after this block.
    pub(super) fn market(&self) -> Result<Market, QueryError> {
        Ok(self.native_modules()?.market.clone())
    }

    fn native_modules(&self) -> Result<Arc<Modules>, QueryError> {
        self.parameters()?.ok_or_else(|| {
            QueryError::precondition("this chain has no fee market: it follows Ethereum's rules")
        })
    }

    /// Returns the parameters, which include the current base fee.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn feemarket_params(&self) -> Result<QueryParamsResponse, QueryError> {
        message(&ParamsResponse::of(&self.market()?).to_proto())
    }

    /// Returns the recipients of the fees of a block.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn distribution_params(&self) -> Result<distribution::QueryParamsResponse, QueryError> {
        let params = self.native_modules()?.distribution.unwrap_or_default();
        Ok(distribution::QueryParamsResponse { params: Some(params.into()) })
    }

    /// Returns the current base fee with all its decimals.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn feemarket_base_fee(&self) -> Result<QueryBaseFeeResponse, QueryError> {
        message(&BaseFeeResponse::of(&self.market()?).to_proto())
    }

    /// Returns the gas that this block reported to the fee market.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn feemarket_block_gas(&self) -> Result<QueryBlockGasResponse, QueryError> {
        message(&BlockGasResponse::of(&self.market()?).to_proto())
    }
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, QueryError> {
    M::decode(bytes).map_err(QueryError::internal)
}
