//! Returns the validators in the format that Cosmos tools expect. If the genesis names consensus keys, they are the
//! validator set, with one vote each. Otherwise one node produces all blocks, and the validator set consists of the
//! proposer in the header, without a key.

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
use alloy_primitives::{Address, B256};
use keys::{Bech32Kind, validator_address};
use prost_types::Any;

/// The voting power of each validator.
pub const VOTING_POWER: i64 = 1;

/// The address of a validator, and its public key if blocks are signed by validators.
pub type ConsensusValidator = (Address, Option<B256>);

/// Encodes a key as the SDK does, as a message with a single bytes field.
fn ed25519_key(key: B256) -> Any {
    let value = [&[0x0a, 32], key.as_slice()].concat();
    Any { type_url: "/cosmos.crypto.ed25519.PubKey".to_owned(), value }
}

impl Snapshot {
    /// Returns the validators at this snapshot's block.
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

    /// Returns the validators at a block.
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
        let validators = self.validator_set(number)?.into_iter().map(|(address, key)| Validator {
            address: self.consensus_address(address),
            pub_key: key.map(ed25519_key),
            voting_power: VOTING_POWER,
            ..Validator::default()
        });
        let validators: Vec<_> = validators.collect();
        let (chosen, page) = cut_counted(&validators, page)?;
        Ok((chosen.into_iter().cloned().collect(), page))
    }

    /// Returns the validators of a block in ascending order of their keys. If one node produces all blocks, the only
    /// validator is the proposer in the header, without a key.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn validator_set(&self, number: u64) -> Result<Vec<ConsensusValidator>, QueryError> {
        let keys = self.spec.native().map(|native| native.gov.consensus_keys());
        let keys = keys.unwrap_or_default().into_iter().map(|key| key.bytes());
        let set: Vec<_> = keys.map(|key| (validator_address(&key.0), Some(key))).collect();
        if set.is_empty() { Ok(vec![(self.header(number)?.1.beneficiary, None)]) } else { Ok(set) }
    }

    /// Returns the consensus address of the validator with this account. Without a validator set, they are equal.
    pub(super) fn proposer(&self, account: Address) -> Address {
        let gov = self.spec.native().map(|native| &native.gov);
        gov.and_then(|gov| gov.consensus_address(account)).unwrap_or(account)
    }

    /// Returns the account of the validator with this consensus address.
    pub(super) fn operator(&self, proposer: Address) -> Address {
        let gov = self.spec.native().map(|native| &native.gov);
        gov.and_then(|gov| gov.operator(proposer)).unwrap_or(proposer)
    }

    /// Returns the consensus address of a proposer in Bech32.
    pub(super) fn consensus_address(&self, proposer: Address) -> String {
        Bech32Kind::Consensus.address(&self.spec.bech32_prefix, proposer)
    }
}
