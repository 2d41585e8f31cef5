//! Returns blocks as CometBFT stores them, with all transactions in the SDK's encoding (Ethereum transactions in
//! their envelope), and the results of blocks. Block numbers must not be above the block of the snapshot.

use super::{
    QueryError, Snapshot, envelope,
    events::{self, Outcomes},
    node::without_type_byte,
    proto::{
        cosmos::{base::abci::v1beta1::TxResponse, tx::v1beta1::Tx},
        tendermint::{
            abci::Event,
            types::{Block, BlockId, Commit, Data, EvidenceList, Header},
        },
    },
    tx_codec::tx_bytes,
};
use alloy_primitives::{B256, Bytes};
use state::stored::StoredBlock;
use transactions::{RecoveredTx, cosmos};

/// The results of a block.
#[derive(Debug)]
pub struct BlockResults {
    /// The results of the transactions, in order.
    pub txs: Vec<TxResponse>,
    /// The events of the block itself: those of the fee market and of governance, and the bloom.
    pub events: Vec<Event>,
}

/// Encodes a transaction as the SDK does. `envelope` returns the envelope of an Ethereum transaction.
pub(super) fn sdk_bytes(raw: &Bytes, envelope: impl FnOnce() -> Tx) -> Vec<u8> {
    if cosmos::is_cosmos(raw) { without_type_byte(raw) } else { tx_bytes(envelope()) }
}

impl Snapshot {
    /// Returns the block with this number, with each transaction in the SDK's encoding.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn comet_block(&self, number: u64) -> Result<(BlockId, Block), QueryError> {
        let stored = StoredBlock::read(&self.spec, &self.view.blocks()?, number)?;
        let (id, header) = self.block_header(number)?;
        let mined = (0..stored.block.transactions.len()).filter_map(|i| stored.tx(i).transpose());
        let bytes = mined.map(|mined| {
            let mined = mined?;
            Ok(sdk_bytes(&mined.raw, || self.sdk_tx(&mined)))
        });
        let txs = bytes.collect::<Result<_, QueryError>>()?;
        let last_commit = Some(self.last_commit(number, &header)?);
        let (evidence, data) = (Some(EvidenceList::default()), Some(Data { txs }));
        Ok((id, Block { header: Some(header), data, evidence, last_commit }))
    }

    fn last_commit(&self, number: u64, header: &Header) -> Result<Commit, QueryError> {
        match number.checked_sub(1) {
            Some(last) => self.commit(last),
            None => Ok(Commit { block_id: header.last_block_id.clone(), ..Commit::default() }),
        }
    }

    /// Returns a pooled transaction in the SDK's encoding.
    pub fn sdk_tx_bytes(&self, tx: &RecoveredTx) -> Vec<u8> {
        let denom = self.extended_denom(self.number.saturating_add(1));
        sdk_bytes(&tx.raw, || envelope::close(&tx.tx, &tx.raw, tx.sender, &denom))
    }

    /// Returns the results of the block with this number.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn block_results(&self, number: u64) -> Result<BlockResults, QueryError> {
        let blocks = self.view.blocks()?;
        let stored = StoredBlock::read(&self.spec, &blocks, number)?;
        let outcomes = Outcomes::read(&blocks, number)?;
        let mined = (0..stored.block.transactions.len()).filter_map(|i| stored.tx(i).transpose());
        let txs = mined.map(|mined| Ok(self.mined(&mined?, &outcomes)?.response));
        let txs = txs.collect::<Result<_, QueryError>>()?;
        Ok(BlockResults { txs, events: outcomes.block_events(&stored.block.header) })
    }

    /// Returns the events of the block with this number that do not belong to a transaction.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn block_events(&self, number: u64) -> Result<Vec<Event>, QueryError> {
        let (_, header) = self.header(number)?;
        events::block_events(&self.view.blocks()?, &header)
    }

    /// Returns the number of transactions in the block with this number.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn txs_of(&self, number: u64) -> Result<usize, QueryError> {
        Ok(self.view.blocks()?.tx_count(number)?)
    }

    /// Returns the number of the block with this hash, or `None` if it is unknown or above the snapshot's block.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn number_of(&self, hash: B256) -> Result<Option<u64>, QueryError> {
        let number = self.view.block_number(hash)?;
        Ok(number.filter(|number| *number <= self.number))
    }
}
