//! The methods that return blocks, headers, ommers and receipts.

use crate::{
    method::{Answer, Call, write_json},
    services::{ResponseKey, ResponseSubject},
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
        BlockObject, HeaderObject, ReceiptContext, ReceiptObject, TransactionObject, Transactions,
    },
    text::Json,
};
use state::View;
use state::stored::{self, MinedTx, StoredBlock, StoredError};
use storage::{ChainReader, StoredReceipt};

pub(super) fn block_number(call: &Call) -> Answer {
    call.no_arguments()?;
    write_json(&U64::from(call.view.number()))
}

/// Maximum bytes of a body, or of receipts, that are converted inline: about 100 transfers, which take about 0.1 ms.
/// Calls for larger blocks are queued.
const MAX_INLINE_BODY_BYTES: usize = 16 * 1024;

/// A request for a whole block.
enum BlockRequest {
    Block { full: bool },
    Receipts,
}

impl BlockRequest {
    fn key(&self, view: &View, number: u64) -> ResponseKey {
        let subject = match self {
            Self::Block { full } => ResponseSubject::Block(number, *full),
            Self::Receipts => ResponseSubject::Receipts(number),
        };
        ResponseKey::new(view, subject)
    }
}

fn read_by_number(call: &Call) -> Result<(BlockId, BlockRequest), Error> {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    Ok((BlockId::Tag(tag), BlockRequest::Block { full: arguments.nullable()? }))
}

fn read_by_hash(call: &Call) -> Result<(BlockId, BlockRequest), Error> {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    Ok((BlockId::Hash(hash), BlockRequest::Block { full: arguments.nullable()? }))
}

fn read_receipts(call: &Call) -> Result<(BlockId, BlockRequest), Error> {
    Ok((call.arguments()?.required()?, BlockRequest::Receipts))
}

pub(super) fn block_by_number_inline(call: &Call) -> Result<Option<Json>, Error> {
    whole_block_inline(call, read_by_number(call)?)
}

pub(super) fn block_by_number(call: &Call) -> Answer {
    whole_block(call, read_by_number(call)?)
}

pub(super) fn block_by_hash_inline(call: &Call) -> Result<Option<Json>, Error> {
    whole_block_inline(call, read_by_hash(call)?)
}

pub(super) fn block_by_hash(call: &Call) -> Answer {
    whole_block(call, read_by_hash(call)?)
}

pub(super) fn block_receipts_inline(call: &Call) -> Result<Option<Json>, Error> {
    whole_block_inline(call, read_receipts(call)?)
}

pub(super) fn block_receipts(call: &Call) -> Answer {
    whole_block(call, read_receipts(call)?)
}

/// Returns the response if it is cached or the block is small.
fn whole_block_inline(
    call: &Call,
    (id, what): (BlockId, BlockRequest),
) -> Result<Option<Json>, Error> {
    if id.is_pending() {
        // The block may be large, and responses about the pending block are not cached.
        return call.pending(PendingDetail::Roots).map(|_| None);
    }
    let Some(number) = call.find(id)? else { return null().map(Some) };
    if let Some(answer) = call.services.responses.get(&what.key(&call.view, number)) {
        return Ok(Some(answer));
    }
    let blocks = call.view.blocks()?;
    let bytes = match what {
        BlockRequest::Block { .. } => blocks.body_bytes(number)?,
        BlockRequest::Receipts => blocks.receipts_bytes(number)?,
    };
    if bytes > MAX_INLINE_BODY_BYTES {
        return Ok(None);
    }
    serialise(call, &blocks, number, &what).map(Some)
}

/// Returns the response to a request for a whole block.
fn whole_block(call: &Call, (id, what): (BlockId, BlockRequest)) -> Answer {
    if id.is_pending() {
        return serialise_pending(call, &what);
    }
    let Some(number) = call.find(id)? else { return null() };
    serialise(call, &call.view.blocks()?, number, &what)
}

fn serialise(call: &Call, blocks: &ChainReader, number: u64, what: &BlockRequest) -> Answer {
    let stored = StoredBlock::read(&call.context.spec, blocks, number)?;
    let answer = match what {
        BlockRequest::Block { full } => {
            Json::write(&BlockObject::new(&stored.block, transactions(&stored, *full)?))
        }
        BlockRequest::Receipts => receipts(call, blocks, &stored)?,
    };
    Ok(call.services.responses.insert(what.key(&call.view, number), answer))
}

/// Like [`serialise`], but for the pending block.
fn serialise_pending(call: &Call, what: &BlockRequest) -> Answer {
    let pending = call.pending(PendingDetail::Roots)?;
    let stored = pending.stored();
    match what {
        BlockRequest::Block { full } => {
            write_json(&BlockObject::new(&stored.block, transactions(stored, *full)?).pending())
        }
        BlockRequest::Receipts => {
            write_json(&receipt_objects(&call.context.spec, stored, pending.receipts())?)
        }
    }
}

/// Returns the transactions of a block as hashes or objects.
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
    write_json(&U64::from(count))
}

pub(super) fn uncle_count_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    uncle_count(call, BlockId::Tag(tag))
}

pub(super) fn uncle_count_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    uncle_count(call, BlockId::Hash(hash))
}

/// Decodes the ommers of a block.
fn ommers(call: &Call, number: u64) -> Result<Vec<Header>, Error> {
    match &call.pending {
        Some(pending) => Ok(pending.stored().block.ommers.clone()),
        None => Ok(stored::ommers(&call.view.blocks()?, number)?),
    }
}

fn uncle_count(call: &Call, id: BlockId) -> Answer {
    let Some(number) = call.find(id)? else { return null() };
    write_json(&U64::from(ommers(call, number)?.len()))
}

fn receipts(call: &Call, blocks: &ChainReader, stored: &StoredBlock) -> Answer {
    let receipts = receipts_of(blocks, stored)?;
    write_json(&receipt_objects(&call.context.spec, stored, &receipts)?)
}

/// Calls a function with the receipts of a block in the format of `eth_getBlockReceipts`.
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

/// Converts the receipts of a block to their JSON objects.
fn receipt_objects<'a>(
    spec: &ChainSpec,
    stored: &StoredBlock,
    receipts: &'a [StoredReceipt],
) -> Result<Vec<ReceiptObject<'a>>, Error> {
    let mut contexts = ReceiptContexts::new(spec, &stored.block);
    let objects = stored.txs().zip(receipts).map(|(tx, receipt)| {
        let context = contexts.next(receipt);
        Ok(ReceiptObject::new(&tx?, receipt, context))
    });
    objects.collect()
}

/// Returns the receipts of a stored block, one for each transaction.
pub fn receipts_of(
    blocks: &ChainReader,
    stored: &StoredBlock,
) -> Result<Vec<StoredReceipt>, Error> {
    let number = stored.block.header.number;
    let receipts = stored::receipts(blocks, number)?;
    if receipts.len() == stored.block.transactions.len() {
        Ok(receipts)
    } else {
        Err(Error::internal(format_args!("the receipts of block {number} are incomplete")))
    }
}

/// Iterates over the contexts of the receipts of a block, in order.
#[derive(Debug)]
pub struct ReceiptContexts(ReceiptContext);

impl ReceiptContexts {
    /// Creates the iterator at the first receipt of a block.
    pub fn of(call: &Call, block: &Block) -> Self {
        Self::new(&call.context.spec, block)
    }

    fn new(spec: &ChainSpec, block: &Block) -> Self {
        let header = &block.header;
        let params = spec.blob_params(header.timestamp);
        let blob_gas_price = params.zip(header.excess_blob_gas);
        let blob_gas_price = blob_gas_price.map(|(params, excess)| params.calc_blob_fee(excess));
        Self(ReceiptContext { blob_gas_price, ..ReceiptContext::default() })
    }

    /// Returns the context of the next receipt.
    pub const fn next(&mut self, receipt: &StoredReceipt) -> ReceiptContext {
        let context = self.0;
        self.0.gas_before = receipt.cumulative_gas_used;
        self.0.logs_before += receipt.logs.len();
        context
    }
}

/// Returns the receipt of one transaction.
pub(super) fn receipt_of(call: &Call, blocks: &ChainReader, tx: &MinedTx<'_>) -> Answer {
    let number = tx.block.header.number;
    let receipts = stored::receipts(blocks, number)?;
    let receipt = receipts.get(tx.index);
    let receipt = receipt.ok_or_else(|| {
        Error::internal(format_args!("the receipts of block {number} are incomplete"))
    })?;
    let mut contexts = ReceiptContexts::of(call, tx.block);
    for earlier in &receipts[..tx.index] {
        contexts.next(earlier);
    }
    write_json(&ReceiptObject::new(tx, receipt, contexts.next(receipt)))
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
    write_json(&BlockObject::new(&block, Transactions::Hashes(Vec::new())))
}

pub(super) fn header_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    header(call, BlockId::Tag(tag))
}

pub(super) fn header_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    header(call, BlockId::Hash(hash))
}

/// Returns the header of a block.
pub fn header(call: &Call, id: BlockId) -> Answer {
    if id.is_pending() {
        let block = &call.pending(PendingDetail::Roots)?.stored().block;
        return write_json(&HeaderObject::new(block.hash, &block.header).pending());
    }
    let Some(number) = call.find(id)? else { return null() };
    let (hash, header) = stored::header(&call.view.blocks()?, number)?;
    write_json(&HeaderObject::new(hash, &header))
}
