//! Stored blocks as the methods need them: decoded, with senders and receipts beside.

use super::error::Error;
use crate::{
    block::Block,
    chain::ChainSpec,
    cosmos::{self, CosmosTx, TokenUnit},
    execution::{DecodedTx, RecoveredTx, Transaction, created, recover_senders},
    view::View,
};
use alloy_consensus::{Header, Transaction as _, Typed2718 as _};
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Decodable;
use std::sync::{Arc, OnceLock};
use storage::{ChainReader, StoredReceipt};
use verify::{Backend, Recoverer};

/// A block of a view.
#[derive(Clone, Debug)]
pub(crate) struct StoredBlock {
    pub(crate) block: Block,
    pub(crate) senders: Vec<Address>,
    /// The unit in which its Cosmos transactions count.
    unit: TokenUnit,
}

/// What every block of the chain has: its absence is damage, not an answer.
fn missing(what: &str, number: u64) -> Error {
    Error::internal(format_args!("block {number} has no {what}"))
}

/// Hash and header of a block at or below the view's head.
pub(super) fn header(blocks: &ChainReader, number: u64) -> Result<(B256, Header), Error> {
    let (hash, rlp) = blocks.header(number)?.ok_or_else(|| missing("header", number))?;
    Ok((hash, decode_header(&rlp)?))
}

/// Hash and header of a block of a view, whose head may be the pending block.
pub(super) fn header_of(view: &View, number: u64) -> Result<(B256, Header), Error> {
    if number == view.number() {
        return Ok((view.head.hash, Header::clone(&view.head.header)));
    }
    header(&view.blocks()?, number)
}

/// Decodes a stored header.
pub(super) fn decode_header(mut rlp: &[u8]) -> Result<Header, Error> {
    Header::decode(&mut rlp).map_err(Error::internal)
}

/// The receipts of a block.
pub(crate) fn receipts(blocks: &ChainReader, number: u64) -> Result<Vec<StoredReceipt>, Error> {
    blocks.receipts(number)?.ok_or_else(|| missing("receipts", number))
}

/// A block at or below the view's head.
pub(super) fn block(blocks: &ChainReader, number: u64) -> Result<Block, Error> {
    let (hash, header) = blocks.header(number)?.ok_or_else(|| missing("header", number))?;
    let body = blocks.body(number)?.ok_or_else(|| missing("body", number))?;
    Block::from_parts(hash, &header, &body).map_err(Error::internal)
}

/// Hashes of transactions, all at once.
pub(super) fn tx_hashes(raw: &[&[u8]]) -> Vec<B256> {
    let mut hashes = vec![[0; 32]; raw.len()];
    verify::keccak256_batch(raw, &mut hashes);
    hashes.into_iter().map(B256::from).collect()
}

/// Transactions that are in no block, with their senders. Knows no chain, so none of them is a Cosmos transaction.
pub(super) fn recover(raw: &[Bytes]) -> Result<Vec<RecoveredTx>, Error> {
    let backend = Backend::detect().map_err(Error::internal)?;
    let recovered = recover_senders(&mut Recoverer::new(backend), raw).into_iter();
    recovered.collect::<Result<_, _>>().map_err(|error| Error::server(error.to_string()))
}

/// The bytes of the transaction at `index` of a block at or below the view's head, if the block has one there.
/// Decodes no transaction.
pub(super) fn raw_tx(
    blocks: &ChainReader,
    number: u64,
    index: usize,
) -> Result<Option<Bytes>, Error> {
    // Only the part of the body up to the transaction is verified and only the transaction is copied.
    let mut place = None;
    let raw = blocks.body_part(number, |body| {
        let found = place.insert(Block::transaction_place(body, index));
        found.as_ref().ok().cloned().flatten()
    })?;
    place.ok_or_else(|| missing("body", number))?.map_err(Error::internal)?;
    Ok(raw)
}

/// The ommers of a block at or below the view's head.
pub(super) fn ommers(blocks: &ChainReader, number: u64) -> Result<Vec<Header>, Error> {
    let body = blocks.body(number)?.ok_or_else(|| missing("body", number))?;
    Block::ommers_of(&body).map_err(Error::internal)
}

impl StoredBlock {
    /// A block with the senders of its transactions.
    pub(super) fn new(spec: &ChainSpec, block: Block, senders: Vec<Address>) -> Self {
        Self { unit: spec.token_unit(block.header.number), block, senders }
    }

    /// Reads a block at or below the view's head.
    pub(crate) fn read(spec: &ChainSpec, blocks: &ChainReader, number: u64) -> Result<Self, Error> {
        let senders = blocks.senders(number)?.ok_or_else(|| missing("senders", number))?;
        let block = block(blocks, number)?;
        if senders.len() != block.transactions.len() {
            return Err(missing("sender for each transaction", number));
        }
        Ok(Self::new(spec, block, senders))
    }

    /// The transaction at `index`, if the block has as many.
    pub(crate) fn tx(&self, index: usize) -> Result<Option<MinedTx<'_>>, Error> {
        let Some(raw) = self.block.transactions.get(index) else { return Ok(None) };
        self.mined(index, verify::keccak256(raw).into()).map(Some)
    }

    /// All transactions.
    pub(super) fn txs(&self) -> impl Iterator<Item = Result<MinedTx<'_>, Error>> {
        self.tx_hashes().into_iter().enumerate().map(|(index, hash)| self.mined(index, hash))
    }

    /// Hashes of all transactions.
    pub(super) fn tx_hashes(&self) -> Vec<B256> {
        let raw: Vec<&[u8]> = self.block.transactions.iter().map(AsRef::as_ref).collect();
        tx_hashes(&raw)
    }

    /// The transaction at `index`, which is there, and has this hash.
    fn mined(&self, index: usize, hash: B256) -> Result<MinedTx<'_>, Error> {
        let (raw, sender) = (self.block.transactions[index].clone(), self.senders[index]);
        let decoded = DecodedTx::decode_hashed(raw, hash).map_err(Error::internal)?;
        let decoded = decoded.in_unit(self.unit);
        let DecodedTx { raw, tx, hash, cosmos } = decoded;
        Ok(MinedTx { block: &self.block, index, raw, tx, hash, sender, cosmos })
    }
}

/// One transaction, read without the others of its block.
#[derive(Debug)]
pub(crate) struct OneTx {
    block: Block,
    decoded: DecodedTx,
    sender: Address,
    index: usize,
}

impl OneTx {
    /// Reads the transaction at a place that the index names.
    pub(super) fn read(
        spec: &ChainSpec,
        blocks: &ChainReader,
        number: u64,
        index: u32,
    ) -> Result<Self, Error> {
        let (index, raw) = match raw_tx(blocks, number, index as usize)? {
            Some(raw) => (index, raw),
            // Beyond the last is a Cosmos transaction under its further hash.
            None => Self::further(blocks, number, index)?,
        };
        Self::of_raw(spec, blocks, number, index, raw)
    }

    /// Reads the transaction at `index` of a block, if the block has one there.
    pub(super) fn at(
        spec: &ChainSpec,
        blocks: &ChainReader,
        number: u64,
        index: u64,
    ) -> Result<Option<Self>, Error> {
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
    ) -> Result<Self, Error> {
        let (hash, header) = header(blocks, number)?;
        let sender = blocks.sender(number, index)?;
        let sender = sender.ok_or_else(|| missing("sender for each transaction", number))?;
        let decoded = DecodedTx::decode(raw).map_err(Error::internal)?;
        let decoded = decoded.in_unit(spec.token_unit(number));
        let block = Block { header, hash, ..Block::default() };
        Ok(Self { block, decoded, sender, index: index as usize })
    }

    fn further(blocks: &ChainReader, number: u64, index: u32) -> Result<(u32, Bytes), Error> {
        let mut txs = block(blocks, number)?.transactions;
        let index = cosmos::position(&txs, index as usize)
            .ok_or_else(|| missing("transaction at an indexed place", number))?;
        Ok((u32::try_from(index).map_err(Error::internal)?, txs.swap_remove(index)))
    }

    /// It in its block, of which only header and hash are there.
    pub(super) fn mined(&self) -> MinedTx<'_> {
        let Self { block, decoded, sender, index } = self;
        let DecodedTx { raw, tx, hash, cosmos } = decoded.clone();
        MinedTx { block, index: *index, raw, tx, hash, sender: *sender, cosmos }
    }
}

/// A transaction in its block.
#[derive(Debug)]
pub(crate) struct MinedTx<'a> {
    pub(crate) block: &'a Block,
    pub(crate) index: usize,
    /// Its EIP-2718 bytes; empty if it is only simulated.
    pub(crate) raw: Bytes,
    pub(crate) tx: Transaction,
    pub(crate) hash: B256,
    pub(crate) sender: Address,
    pub(crate) cosmos: Option<Arc<CosmosTx>>,
}

impl MinedTx<'_> {
    /// Who it is sent to; `None` if it creates a contract.
    pub(crate) fn to(&self) -> Option<Address> {
        self.tx.to()
    }

    /// The contract it creates, if it does not fail.
    pub(crate) fn created(&self) -> Option<Address> {
        created(&self.tx, self.sender)
    }

    /// The same apart from its block.
    pub(crate) fn recovered(self) -> RecoveredTx {
        let Self { raw, tx, hash, sender, cosmos, .. } = self;
        RecoveredTx { raw, tx, hash, sender, high_s: false, authorities: OnceLock::new(), cosmos }
    }

    /// Its EIP-2718 type.
    pub(crate) fn ty(&self) -> u8 {
        if self.cosmos.is_some() { cosmos::TX_TYPE } else { self.tx.ty() }
    }
}

/// Where a mined transaction is, and its block.
pub(crate) fn locate(
    spec: &ChainSpec,
    view: &View,
    hash: B256,
) -> Result<Option<(StoredBlock, usize)>, Error> {
    let Some((number, index)) = view.tx_location(hash)? else { return Ok(None) };
    let stored = StoredBlock::read(spec, &view.blocks()?, number)?;
    let index = cosmos::position(&stored.block.transactions, index as usize);
    Ok(index.map(|index| (stored, index)))
}
