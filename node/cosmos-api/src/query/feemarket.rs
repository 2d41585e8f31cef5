//! Queries of the fee market. The module computes the values, and they are converted to messages here.

use super::{
    QueryError, Snapshot,
    proto::cosmos::evm::feemarket::v1::{
        QueryBaseFeeResponse, QueryBlockGasResponse, QueryParamsResponse,
    },
};
use feemarket::{
    Market,
    query::{BaseFeeResponse, BlockGasResponse, ParamsResponse},
};
use prost::Message;

impl Snapshot {
    /// The fee market after this block.
    pub(super) fn market(&self) -> Result<Market, QueryError> {
        let modules = self.parameters()?.ok_or_else(|| {
            QueryError::precondition("this chain has no fee market: it follows Ethereum's rules")
        })?;
        Ok(modules.market.clone())
    }

    /// The parameters, which include the current base fee.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn feemarket_params(&self) -> Result<QueryParamsResponse, QueryError> {
        message(&ParamsResponse::of(&self.market()?).to_proto())
    }

    /// The current base fee with all its decimals.
    ///
    /// # Errors
    /// If the chain has no fee market.
    pub fn feemarket_base_fee(&self) -> Result<QueryBaseFeeResponse, QueryError> {
        message(&BaseFeeResponse::of(&self.market()?).to_proto())
    }

    /// The gas of the block that the fee market uses.
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
