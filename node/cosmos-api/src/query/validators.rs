//! The validators, in the format that Cosmos tools expect. One node produces all blocks and does not sign them,
//! so the validator set consists of the proposer in the header, without a key. The validators in genesis vote
//! on parameters but do not produce blocks.

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

/// The voting power of the only validator.
pub const ALL_POWER: i64 = 1;

impl Snapshot {
    /// The proposer of this snapshot's block.
    ///
    /// # Errors
    /// If the block cannot be read, or the page is invalid.
    pub fn latest_validators(
        &self,
        page: Option<PageRequest>,
    ) -> Result<GetLatestValidatorSetResponse, QueryError> {
        let (validators, pagination) = self.validators(self.number, page)?;
        let (block_height, pagination) = (signed(self.number), Some(pagination));
        Ok(GetLatestValidatorSetResponse { block_height, validators, pagination })
    }

    /// The proposer of a block.
    ///
    /// # Errors
    /// If there is no block with that number, or the page is invalid.
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

    /// The consensus address of a proposer.
    pub(super) fn consensus_address(&self, proposer: Address) -> String {
        Bech32Kind::Consensus.address(&self.spec.bech32_prefix, proposer)
    }
}
