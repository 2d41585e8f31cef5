//! Reads stored blocks with their senders and receipts, and decodes them.

use crate::View;
use alloy_consensus::{Header, Transaction as _, Typed2718 as _};
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Decodable;
use chain::{ChainSpec, TokenUnit, block::Block};
use std::sync::{Arc, OnceLock};
use storage::{ChainReader, ReadError, ReceiptOutcome, StoredReceipt};
use transactions::{
    DecodedTx, RecoveredTx, Transaction,
    cosmos::{self, CosmosTx},
    created_contract,
};

/// Why a stored block cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The chain could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The data read is not valid for a block.
    #[error("{0}")]
    Damaged(String),
}

impl StoredError {
    fn damaged(reason: impl std::fmt::Display) -> Self {
        Self::Damaged(reason.to_string())
    }
}

/// A block of a view with its senders.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    /// The block.
    pub block: Block,
    /// The sender of each transaction, in the order of the block.
    pub senders: Vec<Address>,
    /// The unit of the amounts in its Cosmos transactions.
    unit: TokenUnit,
}

/// Returns the error for a block without data that every block has.
fn missing(what: &str, number: u64) -> StoredError {
    StoredError::Damaged(format!("block {number} has no {what}"))
}

/// Returns the hash and the header of a block at or below the view's head.
pub fn header(blocks: &ChainReader, number: u64) -> Result<(B256, Header), StoredError> {
    let (hash, rlp) = blocks.header(number)?.ok_or_else(|| missing("header", number))?;
    Ok((hash, decode_header(&rlp)?))
}

/// Returns the hash and the header of a block of a view, whose head may be the pending block.
pub fn header_of(view: &View, number: u64) -> Result<(B256, Header), StoredError> {
    if number == view.number() {
        return Ok((view.head.hash, Header::clone(&view.head.header)));
    }
    header(&view.blocks()?, number)
}

/// Decodes a stored header.
pub fn decode_header(mut rlp: &[u8]) -> Result<Header, StoredError> {
    Header::decode(&mut rlp).map_err(StoredError::damaged)
}

/// Returns the receipts of a block.
pub fn receipts(blocks: &ChainReader, number: u64) -> Result<Vec<StoredReceipt>, StoredError> {
    blocks.receipts(number)?.ok_or_else(|| missing("receipts", number))
}

/// Returns the outcomes of the transactions of a block.
pub fn outcomes(blocks: &ChainReader, number: u64) -> Result<Vec<ReceiptOutcome>, StoredError> {
    blocks.outcomes(number)?.ok_or_else(|| missing("receipts", number))
}

/// Returns a block at or below the view's head.
pub fn block(blocks: &ChainReader, number: u64) -> Result<Block, StoredError> {
    let (hash, header) = blocks.header(number)?.ok_or_else(|| missing("header", number))?;
    let body = blocks.body(number)?.ok_or_else(|| missing("body", number))?;
    Block::from_parts(hash, &header, &body).map_err(StoredError::damaged)
}

/// Returns the hashes of transactions, which are computed together.
pub fn tx_hashes(raw: &[&[u8]]) -> Vec<B256> {
    let mut hashes = vec![[0; 32]; raw.len()];
    verify::keccak256_batch(raw, &mut hashes);
    hashes.into_iter().map(B256::from).collect()
}

/// Returns the bytes of the transaction at `index` of a block at or below the view's head, if there is one. Decodes no
/// transaction.
pub fn raw_tx(
    blocks: &ChainReader,
    number: u64,
    index: usize,
) -> Result<Option<Bytes>, StoredError> {
    // Only the part of the body up to the transaction is verified, and only the transaction is copied.
    let mut range = None;
    let raw = blocks.body_part(number, |body| {
        let found = range.insert(Block::transaction_range(body, index));
        found.as_ref().ok().cloned().flatten()
    })?;
    range.ok_or_else(|| missing("body", number))?.map_err(StoredError::damaged)?;
    Ok(raw)
}

/// Returns the ommers of a block at or below the view's head.
pub fn ommers(blocks: &ChainReader, number: u64) -> Result<Vec<Header>, StoredError> {
    let body = blocks.body(number)?.ok_or_else(|| missing("body", number))?;
    Block::ommers_of(&body).map_err(StoredError::damaged)
}

impl StoredBlock {
    /// Combines a block with the senders of its transactions.
    pub fn new(spec: &ChainSpec, block: Block, senders: Vec<Address>) -> Self {
        Self { unit: spec.token_unit(block.header.number), block, senders }
    }

    /// Reads a block at or below the view's head.
    pub fn read(spec: &ChainSpec, blocks: &ChainReader, number: u64) -> Result<Self, StoredError> {
        let senders = blocks.senders(number)?.ok_or_else(|| missing("senders", number))?;
        let block = block(blocks, number)?;
        if senders.len() != block.transactions.len() {
            return Err(missing("sender for each transaction", number));
        }
        Ok(Self::new(spec, block, senders))
    }

    /// Returns the transaction at `index`, if there is one.
    pub fn tx(&self, index: usize) -> Result<Option<MinedTx<'_>>, StoredError> {
        let Some(raw) = self.block.transactions.get(index) else { return Ok(None) };
        self.mined(index, verify::keccak256(raw).into()).map(Some)
    }

    /// Returns all transactions.
    pub fn txs(&self) -> impl Iterator<Item = Result<MinedTx<'_>, StoredError>> {
        self.tx_hashes().into_iter().enumerate().map(|(index, hash)| self.mined(index, hash))
    }

    /// Returns the hashes of all transactions.
    pub fn tx_hashes(&self) -> Vec<B256> {
        let raw: Vec<&[u8]> = self.block.transactions.iter().map(AsRef::as_ref).collect();
        tx_hashes(&raw)
    }

    /// Returns the transaction at `index`, which must exist and have this hash.
    fn mined(&self, index: usize, hash: B256) -> Result<MinedTx<'_>, StoredError> {
        let (raw, sender) = (self.block.transactions[index].clone(), self.senders[index]);
        let decoded = DecodedTx::decode_hashed(raw, hash).map_err(StoredError::damaged)?;
        let decoded = decoded.in_unit(self.unit);
        let DecodedTx { raw, tx, hash, cosmos } = decoded;
        Ok(MinedTx { block: &self.block, index, raw, tx, hash, sender, cosmos })
    }
}

/// One transaction, read without the others of its block.
#[derive(Debug)]
pub struct OneTx {
    block: Block,
    decoded: DecodedTx,
    sender: Address,
    index: usize,
}

impl OneTx {
    /// Reads the transaction at a position that [`View::tx_location`] returned.
    pub fn read(
        spec: &ChainSpec,
        blocks: &ChainReader,
        number: u64,
        index: u32,
    ) -> Result<Self, StoredError> {
        let (index, raw) = match raw_tx(blocks, number, index as usize)? {
            Some(raw) => (index, raw),
            // A position after the last transaction stands for a Cosmos transaction that was found by its additional
            // hash.
            None => Self::aliased(blocks, number, index)?,
        };
        Self::of_raw(spec, blocks, number, index, raw)
    }

    /// Reads the transaction at `index` of a block, if there is one.
    pub fn at(
        spec: &ChainSpec,
        blocks: &ChainReader,
        number: u64,
        index: u64,
    ) -> Result<Option<Self>, StoredError> {
        let Ok(index) = u32::try_from(index) else { return Ok(None) };
        let raw = raw_tx(blocks, number, index as usize)?;
        raw.map(|raw| Self::of_raw(spec, blocks, number, index, raw)).transpose()
    }

    fn of_raw(
        spec: &ChainSpec,
        blocks: &ChainReader,
        number: u64,
        index: u32,
        raw: Bytes,
    ) -> Result<Self, StoredError> {
        let (hash, header) = header(blocks, number)?;
        let sender = blocks.sender(number, index)?;
        let sender = sender.ok_or_else(|| missing("sender for each transaction", number))?;
        let decoded = DecodedTx::decode(raw).map_err(StoredError::damaged)?;
        let decoded = decoded.in_unit(spec.token_unit(number));
        let block = Block { header, hash, ..Block::default() };
        Ok(Self { block, decoded, sender, index: index as usize })
    }

    fn aliased(blocks: &ChainReader, number: u64, index: u32) -> Result<(u32, Bytes), StoredError> {
        let mut txs = block(blocks, number)?.transactions;
        let index = cosmos::position(&txs, index as usize)
            .ok_or_else(|| missing("transaction at an indexed position", number))?;
        Ok((u32::try_from(index).map_err(StoredError::damaged)?, txs.swap_remove(index)))
    }

    /// Returns the transaction with its block, of which only the header and the hash are set.
    pub fn mined(&self) -> MinedTx<'_> {
        let Self { block, decoded, sender, index } = self;
        let DecodedTx { raw, tx, hash, cosmos } = decoded.clone();
        MinedTx { block, index: *index, raw, tx, hash, sender: *sender, cosmos }
    }
}

/// A transaction with its block.
#[derive(Debug)]
pub struct MinedTx<'a> {
    /// The block.
    pub block: &'a Block,
    /// Its index in the block.
    pub index: usize,
    /// Its EIP-2718 bytes; empty if it is only simulated.
    pub raw: Bytes,
    /// The transaction.
    pub tx: Transaction,
    /// Its hash.
    pub hash: B256,
    /// Its sender.
    pub sender: Address,
    /// Its messages, if it is a Cosmos transaction.
    pub cosmos: Option<Arc<CosmosTx>>,
}

impl MinedTx<'_> {
    /// Returns the recipient; `None` for a contract creation.
    pub fn to(&self) -> Option<Address> {
        self.tx.to()
    }

    /// Returns the address of the contract that the transaction creates if it succeeds.
    pub fn created(&self) -> Option<Address> {
        created_contract(&self.tx, self.sender)
    }

    /// Returns the transaction without its block.
    pub fn recovered(self) -> RecoveredTx {
        let Self { raw, tx, hash, sender, cosmos, .. } = self;
        RecoveredTx { raw, tx, hash, sender, high_s: false, authorities: OnceLock::new(), cosmos }
    }

    /// Returns the EIP-2718 type of the transaction.
    pub fn ty(&self) -> u8 {
        if self.cosmos.is_some() { cosmos::TX_TYPE } else { self.tx.ty() }
    }
}

/// Returns the block of a mined transaction, and the index of the transaction in it.
pub fn locate(
    spec: &ChainSpec,
    view: &View,
    hash: B256,
) -> Result<Option<(StoredBlock, usize)>, StoredError> {
    let Some((number, index)) = view.tx_location(hash)? else { return Ok(None) };
    let stored = StoredBlock::read(spec, &view.blocks()?, number)?;
    let index = cosmos::position(&stored.block.transactions, index as usize);
    Ok(index.map(|index| (stored, index)))
}
