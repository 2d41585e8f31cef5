//! Who makes blocks, in the shape Cosmos tools expect. One node makes them all, and signs none: a set of
//! validators is the proposer that the header names, without a key. Those whom genesis calls validators
//! vote on parameters and make no blocks.

use super::{
    QueryError, Snapshot,
    node::signed,
    page::cut_counted,
    proto::cosmos::base::{
        query::v1beta1::{PageRequest, PageResponse},
        tendermint::v1beta1::{
            GetLatestValidatorSetResponse, GetValidatorSetByHeightResponse, Validator,
        },
    },
};
use alloy_primitives::Address;
use keys::Bech32Kind;

/// The power of one that has no other beside it.
pub const ALL_POWER: i64 = 1;

impl Snapshot {
    /// The maker of this snapshot's block.
    ///
    /// # Errors
    /// If the block cannot be read, or the page makes no sense.
    pub fn latest_validators(
        &self,
        page: Option<PageRequest>,
    ) -> Result<GetLatestValidatorSetResponse, QueryError> {
        let (validators, pagination) = self.validators(self.number, page)?;
        let (block_height, pagination) = (signed(self.number), Some(pagination));
        Ok(GetLatestValidatorSetResponse { block_height, validators, pagination })
    }

    /// The maker of a block.
    ///
    /// # Errors
    /// If there is no block of that number, or the page makes no sense.
    pub fn validators_by_height(
        &self,
        height: i64,
        page: Option<PageRequest>,
    ) -> Result<GetValidatorSetByHeightResponse, QueryError> {
        let number = self.existing_block(height)?;
        let (validators, pagination) = self.validators(number, page)?;
        let (block_height, pagination) = (height, Some(pagination));
        Ok(GetValidatorSetByHeightResponse { block_height, validators, pagination })
    }

    fn validators(
        &self,
        number: u64,
        page: Option<PageRequest>,
    ) -> Result<(Vec<Validator>, PageResponse), QueryError> {
        let (_, header) = self.header(number)?;
        let validator = Validator {
            address: self.consensus_address(header.beneficiary),
            voting_power: ALL_POWER,
            ..Validator::default()
        };
        let (chosen, page) = cut_counted(std::slice::from_ref(&validator), page)?;
        Ok((chosen.into_iter().cloned().collect(), page))
    }

    /// A proposer as Cosmos tools name it.
    pub(super) fn consensus_address(&self, proposer: Address) -> String {
        Bech32Kind::Consensus.address(&self.spec.bech32_prefix, proposer)
    }
}
