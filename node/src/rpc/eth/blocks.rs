//! Blocks and the receipts in them.

use crate::{
    block::{Block, join},
    rpc::{
        block_id::{BlockId, BlockTag},
        error::Error,
        method::{Answer, Call, json},
        object::{
            BlockObject, HeaderObject, ReceiptObject, ReceiptPlace, TransactionObject, Transactions,
        },
        stored::{self, MinedTx, StoredBlock},
    },
};
use alloy_primitives::{B256, U64, keccak256};
use storage::{ChainReader, StoredReceipt};

pub(super) fn block_number(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&U64::from(call.view.number()))
}

pub(super) fn block_by_number(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let tag: BlockTag = arguments.required()?;
    let full: bool = arguments.required()?;
    block(call, BlockId::Tag(tag), full)
}

pub(super) fn block_by_hash(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let hash: B256 = arguments.required()?;
    let full: bool = arguments.required()?;
    block(call, BlockId::Hash(hash), full)
}

fn block(call: &Call, id: BlockId, full: bool) -> Answer {
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let stored = StoredBlock::read(&call.view.blocks()?, number)?;
    let transactions = if full {
        let objects = stored.txs().map(|tx| tx.map(|tx| TransactionObject::mined(&tx)));
        Transactions::Full(objects.collect::<Result<_, Error>>()?)
    } else {
        Transactions::Hashes(stored.block.transactions.iter().map(keccak256).collect())
    };
    json(&BlockObject::new(&stored.block, transactions))
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
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let stored = StoredBlock::read(&call.view.blocks()?, number)?;
    json(&U64::from(stored.block.transactions.len()))
}

pub(super) fn uncle_count_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    uncle_count(call, BlockId::Tag(tag))
}

pub(super) fn uncle_count_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    uncle_count(call, BlockId::Hash(hash))
}

fn uncle_count(call: &Call, id: BlockId) -> Answer {
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let stored = StoredBlock::read(&call.view.blocks()?, number)?;
    json(&U64::from(stored.block.ommers.len()))
}

pub(super) fn block_receipts(call: &Call) -> Answer {
    let id: BlockId = call.arguments()?.required()?;
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let blocks = call.view.blocks()?;
    let stored = StoredBlock::read(&blocks, number)?;
    let receipts = block_receipts_of(&blocks, &stored)?;
    let mut place = first_place(call, &stored);
    let mut objects = Vec::with_capacity(receipts.len());
    for (tx, receipt) in stored.txs().zip(&receipts) {
        objects.push(ReceiptObject::new(&tx?, receipt, place));
        advance(&mut place, receipt);
    }
    json(&objects)
}

/// The receipts of a stored block, one a transaction.
fn block_receipts_of(
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

/// The place of a block's first receipt.
fn first_place(call: &Call, stored: &StoredBlock) -> ReceiptPlace {
    let header = &stored.block.header;
    let params = call.context.spec.blob_params(header.timestamp);
    let blob_gas_price = params.zip(header.excess_blob_gas);
    let blob_gas_price = blob_gas_price.map(|(params, excess)| params.calc_blob_fee(excess));
    ReceiptPlace { blob_gas_price, ..ReceiptPlace::default() }
}

const fn advance(place: &mut ReceiptPlace, receipt: &StoredReceipt) {
    place.gas_before = receipt.cumulative_gas_used;
    place.logs_before += receipt.logs.len();
}

/// The receipt of one transaction of a block.
pub(super) fn receipt_of(call: &Call, stored: &StoredBlock, tx: &MinedTx<'_>) -> Answer {
    let receipts = block_receipts_of(&call.view.blocks()?, stored)?;
    let mut place = first_place(call, stored);
    for earlier in &receipts[..tx.index] {
        advance(&mut place, earlier);
    }
    json(&ReceiptObject::new(tx, &receipts[tx.index], place))
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
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let stored = StoredBlock::read(&call.view.blocks()?, number)?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let Some(ommer) = stored.block.ommers.get(index) else { return json(&()) };
    let body = Block::default().encode_body();
    let block = Block {
        hash: ommer.hash_slow(),
        rlp_bytes: join(&alloy_rlp::encode(ommer), &body).len(),
        header: ommer.clone(),
        ..Block::default()
    };
    json(&BlockObject::new(&block, Transactions::Hashes(Vec::new())))
}

pub(super) fn header_by_number(call: &Call) -> Answer {
    let tag: BlockTag = call.arguments()?.required()?;
    header(call, BlockId::Tag(tag))
}

pub(super) fn header_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    header(call, BlockId::Hash(hash))
}

fn header(call: &Call, id: BlockId) -> Answer {
    let Some(number) = id.find(&call.view)? else { return json(&()) };
    let (hash, header) = stored::header(&call.view.blocks()?, number)?;
    json(&HeaderObject::new(hash, &header))
}
