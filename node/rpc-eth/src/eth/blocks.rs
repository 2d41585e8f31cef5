//! Blocks and the receipts in them.

use crate::{
    method::{Answer, Call, put},
    services::Question,
};
use alloy_consensus::Header;
use alloy_primitives::{B256, U64};
use chain::{
    ChainSpec,
    block::{Block, join},
};
use rpc_types::{
    PendingDetail,
    block_id::{BlockId, BlockTag},
    error::Error,
    object::{
        BlockObject, HeaderObject, ReceiptObject, ReceiptPlace, TransactionObject, Transactions,
    },
    text::Json,
};
use state::View;
use state::stored::{self, MinedTx, StoredBlock, StoredError};
use storage::{ChainReader, StoredReceipt};

pub(super) fn block_number(call: &Call) -> Answer {
    call.no_arguments()?;
    put(&U64::from(call.view.number()))
}

/// Bytes of a body that is shaped where the socket is served: a hundred transfers or so, a tenth of
/// a millisecond. Larger ones wait in the line.
const BODY_AT_ONCE: usize = 16 * 1024;

/// What is asked about a whole block.
enum Whole {
    Block { full: bool },
    Receipts,
}

impl Whole {
    fn question(&self, number: u64) -> Question {
        match self {
            Self::Block { full } => Question::Block(number, *full),
            Self::Receipts => Question::Receipts(number),
        }
    }
}

fn read_by_number(call: &Call) -> Result<(BlockId, Whole), Error> {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    Ok((BlockId::Tag(tag), Whole::Block { full: arguments.nullable()? }))
}

fn read_by_hash(call: &Call) -> Result<(BlockId, Whole), Error> {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    Ok((BlockId::Hash(hash), Whole::Block { full: arguments.nullable()? }))
}

fn read_receipts(call: &Call) -> Result<(BlockId, Whole), Error> {
    Ok((call.arguments()?.required()?, Whole::Receipts))
}

pub(super) fn block_by_number_at_once(call: &Call) -> Result<Option<Json>, Error> {
    whole_at_once(call, read_by_number(call)?)
}

pub(super) fn block_by_number(call: &Call) -> Answer {
    whole(call, read_by_number(call)?)
}

pub(super) fn block_by_hash_at_once(call: &Call) -> Result<Option<Json>, Error> {
    whole_at_once(call, read_by_hash(call)?)
}

pub(super) fn block_by_hash(call: &Call) -> Answer {
    whole(call, read_by_hash(call)?)
}

pub(super) fn block_receipts_at_once(call: &Call) -> Result<Option<Json>, Error> {
    whole_at_once(call, read_receipts(call)?)
}

pub(super) fn block_receipts(call: &Call) -> Answer {
    whole(call, read_receipts(call)?)
}

/// The answer about a block, if it is known or the block is small.
fn whole_at_once(call: &Call, (id, what): (BlockId, Whole)) -> Result<Option<Json>, Error> {
    if id.is_pending() {
        // It may be large, and its answers are not cached.
        return call.pending(PendingDetail::Roots).map(|_| None);
    }
    let Some(number) = call.find(id)? else { return null().map(Some) };
    if let Some(answer) = call.services.answers.get(&what.question(number)) {
        return Ok(Some(answer));
    }
    let blocks = call.view.blocks()?;
    let bytes = match what {
        Whole::Block { .. } => blocks.body_bytes(number)?,
        Whole::Receipts => blocks.receipts_bytes(number)?,
    };
    if bytes > BODY_AT_ONCE {
        return Ok(None);
    }
    shape(call, &blocks, number, &what).map(Some)
}

/// The answer about a block.
fn whole(call: &Call, (id, what): (BlockId, Whole)) -> Answer {
    if id.is_pending() {
        return shape_pending(call, &what);
    }
    let Some(number) = call.find(id)? else { return null() };
    shape(call, &call.view.blocks()?, number, &what)
}

fn shape(call: &Call, blocks: &ChainReader, number: u64, what: &Whole) -> Answer {
    let stored = StoredBlock::read(&call.context.spec, blocks, number)?;
    let answer = match what {
        Whole::Block { full } => {
            Json::put(&BlockObject::new(&stored.block, transactions(&stored, *full)?))
        }
        Whole::Receipts => receipts(call, blocks, &stored)?,
    };
    Ok(call.services.answers.keep(what.question(number), answer))
}

/// As [`shape`], for the pending block.
fn shape_pending(call: &Call, what: &Whole) -> Answer {
    let pending = call.pending(PendingDetail::Roots)?;
    let stored = pending.stored();
    match what {
        Whole::Block { full } => {
            put(&BlockObject::new(&stored.block, transactions(stored, *full)?).pending())
        }
        Whole::Receipts => put(&receipt_objects(&call.context.spec, stored, pending.receipts())?),
    }
}

/// The transactions of a block: hashes, or all of each.
fn transactions(stored: &StoredBlock, full: bool) -> Result<Transactions, Error> {
    if !full {
        return Ok(Transactions::Hashes(stored.tx_hashes()));
    }
    let objects = stored.txs().map(|tx| tx.map(|tx| TransactionObject::mined(&tx)));
    Ok(objects.collect::<Result<_, StoredError>>().map(Transactions::Full)?)
}

fn null() -> Answer {
    Ok(Json::fixed("null"))
}

pub(super) fn count_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    transaction_count(call, BlockId::Tag(tag))
}

pub(super) fn count_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    transaction_count(call, BlockId::Hash(hash))
}

fn transaction_count(call: &Call, id: BlockId) -> Answer {
    let Some(number) = call.find(id)? else { return null() };
    let count = match &call.pending {
        Some(pending) => pending.stored().block.transactions.len(),
        None => call.view.blocks()?.tx_count(number)?,
    };
    put(&U64::from(count))
}

pub(super) fn uncle_count_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    uncle_count(call, BlockId::Tag(tag))
}

pub(super) fn uncle_count_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    uncle_count(call, BlockId::Hash(hash))
}

/// The ommers of a block.
fn ommers(call: &Call, number: u64) -> Result<Vec<Header>, Error> {
    match &call.pending {
        Some(pending) => Ok(pending.stored().block.ommers.clone()),
        None => Ok(stored::ommers(&call.view.blocks()?, number)?),
    }
}

fn uncle_count(call: &Call, id: BlockId) -> Answer {
    let Some(number) = call.find(id)? else { return null() };
    put(&U64::from(ommers(call, number)?.len()))
}

fn receipts(call: &Call, blocks: &ChainReader, stored: &StoredBlock) -> Answer {
    let receipts = receipts_of(blocks, stored)?;
    put(&receipt_objects(&call.context.spec, stored, &receipts)?)
}

/// What is done with the receipts of one block as `eth_getBlockReceipts` has them.
pub fn with_receipts<T>(
    view: &View,
    spec: &ChainSpec,
    number: u64,
    with: impl FnOnce(&[ReceiptObject<'_>]) -> T,
) -> Result<T, Error> {
    let blocks = view.blocks()?;
    let stored = StoredBlock::read(spec, &blocks, number)?;
    let receipts = receipts_of(&blocks, &stored)?;
    Ok(with(&receipt_objects(spec, &stored, &receipts)?))
}

/// Shapes the receipts of a block.
fn receipt_objects<'a>(
    spec: &ChainSpec,
    stored: &StoredBlock,
    receipts: &'a [StoredReceipt],
) -> Result<Vec<ReceiptObject<'a>>, Error> {
    let mut places = ReceiptPlaces::new(spec, &stored.block);
    let shaped = stored.txs().zip(receipts).map(|(tx, receipt)| {
        let place = places.next(receipt);
        Ok(ReceiptObject::new(&tx?, receipt, place))
    });
    shaped.collect()
}

/// The receipts of a stored block, one a transaction.
pub fn receipts_of(
    blocks: &ChainReader,
    stored: &StoredBlock,
) -> Result<Vec<StoredReceipt>, Error> {
    let number = stored.block.header.number;
    let receipts = stored::receipts(blocks, number)?;
    if receipts.len() == stored.block.transactions.len() {
        Ok(receipts)
    } else {
        Err(Error::internal(format_args!("block {number} lacks receipts")))
    }
}

/// The places of a block's receipts, one after another.
#[derive(Debug)]
pub struct ReceiptPlaces(ReceiptPlace);

impl ReceiptPlaces {
    /// From the first receipt of a block on.
    pub fn of(call: &Call, block: &Block) -> Self {
        Self::new(&call.context.spec, block)
    }

    fn new(spec: &ChainSpec, block: &Block) -> Self {
        let header = &block.header;
        let params = spec.blob_params(header.timestamp);
        let blob_gas_price = params.zip(header.excess_blob_gas);
        let blob_gas_price = blob_gas_price.map(|(params, excess)| params.calc_blob_fee(excess));
        Self(ReceiptPlace { blob_gas_price, ..ReceiptPlace::default() })
    }

    /// The place of the next receipt.
    pub const fn next(&mut self, receipt: &StoredReceipt) -> ReceiptPlace {
        let place = self.0;
        self.0.gas_before = receipt.cumulative_gas_used;
        self.0.logs_before += receipt.logs.len();
        place
    }
}

/// The receipt of one transaction.
pub(super) fn receipt_of(call: &Call, blocks: &ChainReader, tx: &MinedTx<'_>) -> Answer {
    let number = tx.block.header.number;
    let receipts = stored::receipts(blocks, number)?;
    let receipt = receipts.get(tx.index);
    let receipt =
        receipt.ok_or_else(|| Error::internal(format_args!("block {number} lacks receipts")))?;
    let mut places = ReceiptPlaces::of(call, tx.block);
    for earlier in &receipts[..tx.index] {
        places.next(earlier);
    }
    put(&ReceiptObject::new(tx, receipt, places.next(receipt)))
}

pub(super) fn uncle_by_number(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    uncle(call, BlockId::Tag(tag), arguments.required()?)
}

pub(super) fn uncle_by_hash(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    uncle(call, BlockId::Hash(hash), arguments.required()?)
}

fn uncle(call: &Call, id: BlockId, index: u64) -> Answer {
    let Some(number) = call.find(id)? else { return null() };
    let ommers = ommers(call, number)?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let Some(ommer) = ommers.get(index) else { return null() };
    let body = Block::default().encode_body();
    let block = Block {
        hash: ommer.hash_slow(),
        rlp_bytes: join(&alloy_rlp::encode(ommer), &body).len(),
        header: ommer.clone(),
        ..Block::default()
    };
    put(&BlockObject::new(&block, Transactions::Hashes(Vec::new())))
}

pub(super) fn header_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    header(call, BlockId::Tag(tag))
}

pub(super) fn header_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    header(call, BlockId::Hash(hash))
}

/// The header of a block.
pub fn header(call: &Call, id: BlockId) -> Answer {
    if id.is_pending() {
        let block = &call.pending(PendingDetail::Roots)?.stored().block;
        return put(&HeaderObject::new(block.hash, &block.header).pending());
    }
    let Some(number) = call.find(id)? else { return null() };
    let (hash, header) = stored::header(&call.view.blocks()?, number)?;
    put(&HeaderObject::new(hash, &header))
}
