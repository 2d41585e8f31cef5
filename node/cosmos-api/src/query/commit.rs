//! Returns commits, which are the signatures that prove a block, in CometBFT's format. The validators sign the
//! consensus engine's proposal and not a CometBFT vote, so CometBFT's light clients cannot verify the signatures.

use super::{
    QueryError, Snapshot,
    node::{block_id, signed, time},
    proto::tendermint::types::{BlockIdFlag, Commit, CommitSig},
};
use alloy_primitives::Address;
use certificates::{Certificate, Finalization};

impl Snapshot {
    /// Returns the commit of a block, which must not be above the block of this snapshot. A commit has no signatures if
    /// one node produces all blocks, or if the certificate of a later block covers this one.
    ///
    /// # Errors
    /// If the block or its certificate cannot be read.
    pub fn commit(&self, number: u64) -> Result<Commit, QueryError> {
        let (hash, header) = self.header(number)?;
        let (height, block_id) = (signed(number), Some(block_id(hash)));
        let unsigned = Commit { height, block_id, ..Commit::default() };
        let Some(certificate) = self.view.blocks()?.certificate(number)? else {
            return Ok(unsigned);
        };
        let certificate = Certificate::decode(&certificate).map_err(QueryError::internal)?;
        let Certificate::Validators(finalization) = certificate else { return Ok(unsigned) };
        let set = self.validator_set(number)?;
        let validators = set.into_iter().map(|(address, _)| address);
        let signatures = signatures(&finalization, validators, header.timestamp);
        let round = i32::try_from(finalization.view).unwrap_or(i32::MAX);
        Ok(Commit { round, signatures, ..unsigned })
    }
}

/// Returns one entry for each validator, in the order of the set.
fn signatures(
    finalization: &Finalization,
    validators: impl Iterator<Item = Address>,
    timestamp: u64,
) -> Vec<CommitSig> {
    let mut given = finalization.signatures.iter();
    let entry = |(at, address): (u32, Address)| {
        let signature = given.by_ref().take(usize::from(finalization.signers >> at & 1 == 1));
        match signature.last() {
            Some(signature) => CommitSig {
                block_id_flag: BlockIdFlag::Commit.into(),
                validator_address: address.to_vec(),
                timestamp: Some(time(timestamp)),
                signature: signature.to_vec(),
            },
            None => CommitSig { block_id_flag: BlockIdFlag::Absent.into(), ..CommitSig::default() },
        }
    };
    (0..).zip(validators).map(entry).collect()
}
