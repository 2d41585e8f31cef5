//! Returns the blocks and transactions that Otterscan's pages show.

use super::{Block, page_size};
use alloy_consensus::Transaction as _;
use alloy_primitives::{B256, U256};
use evm::rewards;
use feemarket::{LegacyDec, store::Record};
use rpc_eth::{
    eth::{ReceiptContexts, receipts_of},
    method::{Answer, Call, json},
};
use rpc_types::{
    block_id::BlockId,
    error::Error,
    object::{BlockObject, ReceiptObject, TransactionObject, Transactions},
    params::Number,
};
use serde_json::{Value, json as value};
use state::stored::StoredBlock;
use storage::StoredReceipt;
use transactions::cosmos::stored_base_fee;

/// Number of characters of an input in the result: `0x` and a selector.
const SELECTOR_CHARS: usize = 10;

pub(super) fn details_by_number(call: &Call) -> Answer {
    let Block(tag) = call.arguments()?.required()?;
    details(call, BlockId::Tag(tag))
}

pub(super) fn details_by_hash(call: &Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    details(call, BlockId::Hash(hash))
}

fn details(call: &Call, id: BlockId) -> Answer {
    let Some(number) = call.find_canonical(id)? else { return json(&()) };
    let blocks = call.view.blocks()?;
    let stored = StoredBlock::read(&call.context.spec, &blocks, number)?;
    let receipts = receipts_of(&blocks, &stored)?;
    let mut block = block_object(&stored, Transactions::Hashes(Vec::new()))?;
    block.remove("transactions");
    block.insert("logsBloom".to_owned(), Value::Null);
    let header = &stored.block.header;
    let rewards = rewards(call.context.spec.fork_of(header), header.number, &stored.block.ommers);
    let ommers: u128 = rewards.ommers.iter().sum();
    json(&value!({
        "block": block,
        "issuance": {
            "blockReward": U256::from(rewards.beneficiary),
            "uncleReward": U256::from(ommers),
            "issuance": U256::from(rewards.beneficiary + ommers),
        },
        "totalFees": fees(call, &stored, &receipts)?,
    }))
}

/// Returns a block in the format of `eth_getBlockByNumber`, with the number of its transactions.
fn block_object(
    stored: &StoredBlock,
    transactions: Transactions,
) -> Result<serde_json::Map<String, Value>, Error> {
    let block = BlockObject::new(&stored.block, transactions);
    let Value::Object(mut fields) = serde_json::to_value(block).map_err(Error::internal)? else {
        return Err(Error::internal("a block is not a JSON object"));
    };
    let count = stored.block.transactions.len();
    fields.insert("transactionCount".to_owned(), count.into());
    Ok(fields)
}

/// Returns the fees that the senders of a block paid, in wei.
fn fees(call: &Call, stored: &StoredBlock, receipts: &[StoredReceipt]) -> Result<U256, Error> {
    let base_fee = stored.block.header.base_fee_per_gas;
    let spec = &call.context.spec;
    let exact = || -> Result<LegacyDec, Error> {
        let (number, whole) = (stored.block.header.number, base_fee.unwrap_or_default());
        let row = call.view.blocks()?.module(number)?.unwrap_or_default();
        if row.is_empty() {
            return Ok(LegacyDec::from(whole));
        }
        let events = Record::from_bytes(&row).map_err(Error::internal)?.events;
        Ok(stored_base_fee(spec, number, whole, &events))
    };
    let exact = exact()?;
    let (mut fees, mut gas_before) = (U256::ZERO, 0);
    for (mined, receipt) in stored.txs().zip(receipts) {
        let mined = mined?;
        let gas_used = receipt.cumulative_gas_used - gas_before;
        gas_before = receipt.cumulative_gas_used;
        let fee = match &mined.cosmos {
            // A Cosmos transaction pays for its whole gas limit.
            Some(tx) => tx.charge(exact, "").map_err(Error::internal)?.fee,
            None => U256::from(mined.tx.effective_gas_price(base_fee)) * U256::from(gas_used),
        };
        fees = fees.saturating_add(fee);
    }
    Ok(fees)
}

pub(super) fn transactions(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let Block(tag) = arguments.required()?;
    let Number(page) = arguments.required()?;
    let size = page_size(arguments.required()?)?;
    let Some(number) = call.find_canonical(BlockId::Tag(tag))? else { return json(&()) };
    let blocks = call.view.blocks()?;
    let stored = StoredBlock::read(&call.context.spec, &blocks, number)?;
    let receipts = receipts_of(&blocks, &stored)?;
    // Pages are numbered from the end of the block.
    let before = usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(size);
    let end = receipts.len().saturating_sub(before);
    let page = end.saturating_sub(size)..end;
    let (mut full, mut receipts_without_logs) = (Vec::new(), Vec::new());
    let mut contexts = ReceiptContexts::of(call, &stored.block);
    for (index, receipt) in receipts.iter().enumerate().take(page.end) {
        let context = contexts.next(receipt);
        if let Some(mined) = stored.tx(index)?.filter(|_| page.contains(&index)) {
            full.push(TransactionObject::mined(&mined));
            let object = ReceiptObject::new(&mined, receipt, context);
            let mut object = serde_json::to_value(object).map_err(Error::internal)?;
            object["logs"] = Value::Null;
            object["logsBloom"] = Value::Null;
            receipts_without_logs.push(object);
        }
    }
    let mut block = block_object(&stored, Transactions::Full(full))?;
    let listed = block.get_mut("transactions").and_then(Value::as_array_mut);
    for transaction in listed.into_iter().flatten() {
        if let Some(Value::String(input)) = transaction.get_mut("input") {
            input.truncate(SELECTOR_CHARS);
        }
    }
    json(&value!({ "fullblock": block, "receipts": receipts_without_logs }))
}
