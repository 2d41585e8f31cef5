//! Headers, senders and receipts of a block.

use alloy_primitives::{Address, B256, Bytes, Log};

use crate::flags::BlockFlags;
use crate::receipt::{ReceiptOutcome, StoredReceipt};
use trie::primitive::{DecodeError, Input, put_count, put_counted_bytes, put_varint};

/// Outcome tag: the transaction reverted or halted.
const FAILED: u8 = 0;
/// Outcome tag: the transaction succeeded.
const SUCCEEDED: u8 = 1;
/// Outcome tag: a state root follows (blocks before Byzantium).
const POST_STATE: u8 = 2;

/// Minimum size of a receipt in bytes: type, outcome tag, gas, number of logs.
const MIN_RECEIPT_BYTES: usize = 4;
/// Minimum size of a log in bytes: address, number of topics, length of the data.
const MIN_LOG_BYTES: usize = 22;
/// Size of a topic in bytes.
const TOPIC_BYTES: usize = 32;

/// Size of the block hash at the start of a header row, in bytes.
const HASH_BYTES: usize = 32;

pub(crate) fn encode_header(out: &mut Vec<u8>, hash: &B256, flags: BlockFlags, header: &[u8]) {
    out.extend_from_slice(hash.as_slice());
    put_varint(out, flags.bits());
    out.extend_from_slice(header);
}

pub(crate) fn decode_header(bytes: Bytes) -> Result<(B256, BlockFlags, Bytes), DecodeError> {
    let mut input = Input::shared(&bytes);
    let hash = input.b256()?;
    let flags = BlockFlags::from_bits(input.varint()?);
    let flags = flags.ok_or_else(|| {
        input.error("block has flags that only a newer version of this program knows")
    })?;
    let count = input.remaining();
    Ok((hash, flags, input.bytes(count)?))
}

/// Converts a header row of format 3, which had no flags.
pub(crate) fn header_of_format_3(row: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let error = DecodeError { what: "block hash is truncated", at: row.len() };
    let (hash, header) = row.split_first_chunk::<HASH_BYTES>().ok_or(error)?;
    let mut out = Vec::with_capacity(row.len() + 1);
    encode_header(&mut out, &B256::from(hash), BlockFlags::NONE, header);
    Ok(out)
}

pub(crate) fn encode_senders(out: &mut Vec<u8>, senders: &[Address]) {
    for sender in senders {
        out.extend_from_slice(sender.as_slice());
    }
}

pub(crate) fn decode_senders(bytes: &[u8]) -> Result<Vec<Address>, DecodeError> {
    let (senders, rest) = bytes.as_chunks::<20>();
    if !rest.is_empty() {
        return Err(DecodeError { what: "sender is truncated", at: bytes.len() });
    }
    Ok(senders.iter().map(Address::from).collect())
}

pub(crate) fn encode_receipts(out: &mut Vec<u8>, receipts: &[StoredReceipt]) {
    put_count(out, receipts.len());
    for receipt in receipts {
        out.push(receipt.tx_type);
        match &receipt.outcome {
            ReceiptOutcome::Status(false) => out.push(FAILED),
            ReceiptOutcome::Status(true) => out.push(SUCCEEDED),
            ReceiptOutcome::PostState(root) => {
                out.push(POST_STATE);
                out.extend_from_slice(root.as_slice());
            }
        }
        put_varint(out, receipt.cumulative_gas_used);
        put_count(out, receipt.logs.len());
        for log in &receipt.logs {
            encode_log(out, log);
        }
    }
}

fn encode_log(out: &mut Vec<u8>, log: &Log) {
    out.extend_from_slice(log.address.as_slice());
    put_count(out, log.topics().len());
    for topic in log.topics() {
        out.extend_from_slice(topic.as_slice());
    }
    put_counted_bytes(out, &log.data.data);
}

fn take_log(input: &mut Input<'_>) -> Result<Log, DecodeError> {
    let address = input.address()?;
    let count = input.count(TOPIC_BYTES)?;
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        topics.push(input.b256()?);
    }
    let data = input.counted_bytes()?;
    Ok(Log::new_unchecked(address, topics, data))
}

fn skip_log(input: &mut Input<'_>) -> Result<(), DecodeError> {
    input.address()?;
    for _ in 0..input.count(TOPIC_BYTES)? {
        input.b256()?;
    }
    input.counted_bytes().map(drop)
}

fn take_outcome(input: &mut Input<'_>) -> Result<ReceiptOutcome, DecodeError> {
    match input.byte()? {
        FAILED => Ok(ReceiptOutcome::Status(false)),
        SUCCEEDED => Ok(ReceiptOutcome::Status(true)),
        POST_STATE => Ok(ReceiptOutcome::PostState(input.b256()?)),
        _ => Err(input.error("unknown receipt outcome")),
    }
}

fn take_receipt(input: &mut Input<'_>) -> Result<StoredReceipt, DecodeError> {
    let tx_type = input.byte()?;
    let outcome = take_outcome(input)?;
    let cumulative_gas_used = input.varint()?;
    let count = input.count(MIN_LOG_BYTES)?;
    let mut logs = Vec::with_capacity(count);
    for _ in 0..count {
        logs.push(take_log(input)?);
    }
    Ok(StoredReceipt { tx_type, outcome, cumulative_gas_used, logs })
}

/// Decodes the stored form of the receipts of a block. Logs are slices of `bytes`.
///
/// # Errors
/// If the bytes are not a valid encoding.
pub fn decode_receipts(bytes: Bytes) -> Result<Vec<StoredReceipt>, DecodeError> {
    decode_receipts_checked(bytes, None)
}

/// Does the same as [`decode_receipts`], and compares the number of receipts with the number of transactions, if given.
///
/// # Errors
/// If these numbers differ, or if the bytes are not a valid encoding.
pub fn decode_receipts_checked(
    bytes: Bytes,
    transactions: Option<usize>,
) -> Result<Vec<StoredReceipt>, DecodeError> {
    let mut input = Input::shared(&bytes);
    let count = input.count(MIN_RECEIPT_BYTES)?;
    if transactions.is_some_and(|transactions| transactions != count) {
        return Err(input.error("the number of receipts is not that of the transactions"));
    }
    let mut receipts = Vec::with_capacity(count);
    for _ in 0..count {
        receipts.push(take_receipt(&mut input)?);
    }
    input.finish()?;
    Ok(receipts)
}

/// Decodes the outcomes of receipts and skips their logs.
pub(crate) fn decode_outcomes(bytes: &Bytes) -> Result<Vec<ReceiptOutcome>, DecodeError> {
    let mut input = Input::shared(bytes);
    let count = input.count(MIN_RECEIPT_BYTES)?;
    let mut outcomes = Vec::with_capacity(count);
    for _ in 0..count {
        input.byte()?;
        outcomes.push(take_outcome(&mut input)?);
        input.varint()?;
        for _ in 0..input.count(MIN_LOG_BYTES)? {
            skip_log(&mut input)?;
        }
    }
    input.finish()?;
    Ok(outcomes)
}
