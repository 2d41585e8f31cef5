//! Checks of the chain environment.

use super::{Failure, MAX_FAILURES};
use crate::{ProgressLog, authority::authority, stored_genesis, stored_modules};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_rlp::Decodable;
use certificates::{BlockId, Certificate};
use chain::{
    ChainSpec, Genesis, Native,
    block::Block,
    module_row::{SENDERS_KEY, content_pairs},
    validate_body,
};
use evm::receipts_root;
use feehistory::FeeRow;
use feemarket::store::{self, Record};
use modules::gov;
use std::path::Path;
use storage::{ChainDb, ChainReader};

/// Checks that the stored genesis results in the first block of the chain.
pub(super) fn genesis(chain: &ChainDb) -> Result<((), String), Failure> {
    let remedy = "restore a snapshot";
    let failed = |error: &dyn std::fmt::Display| Failure::new(error, remedy);
    let text = stored_genesis(chain).map_err(|error| failed(&error))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let genesis = Genesis::from_json(&text).map_err(|error| failed(&error))?;
    let first = chain.reader().and_then(|blocks| blocks.first()).map_err(|error| failed(&error))?;
    let hash = genesis.header().hash_slow();
    match first {
        Some((_, first)) if first == hash => Ok(((), format!("block 0 is {hash}"))),
        _ => Err(failed(&format!(
            "block 0 of the stored genesis is {hash}, but the chain has a different block 0"
        ))),
    }
}

/// Checks every row of every block against the checksums in the row.
pub(super) fn rows(chain: &ChainDb) -> Result<((), String), Failure> {
    let mut rows = 0;
    let blocks = each_block(chain, "verifying rows", |blocks, number| {
        rows += blocks.verify_block(number).map_err(|error| error.to_string())?;
        Ok(())
    })?;
    let governance = chain.reader().and_then(|blocks| blocks.verify_governance());
    rows += governance.map_err(|error| Failure::new(&error, "restore a snapshot"))?;
    Ok(((), format!("{rows} rows of {blocks} blocks match their checksums")))
}

/// Checks that every block decodes, follows its parent, and has the body, the receipts and the module record
/// that its header commits to.
pub(super) fn blocks(chain: &ChainDb, spec: &ChainSpec) -> Result<((), String), Failure> {
    let mut parent: Option<B256> = None;
    let mut transactions = 0;
    let count = each_block(chain, "verifying blocks", |blocks, number| {
        let checked = block(blocks, spec, number, parent);
        // The parent hash of the next block is compared even if this block is damaged.
        parent = blocks.hash(number).ok().flatten();
        transactions += checked?;
        Ok(())
    })?;
    if let Some(native) = spec.native() {
        governance(chain, native)?;
    }
    let detail =
        format!("{count} blocks with {transactions} transactions agree with their headers");
    Ok(((), detail))
}

/// Checks the governance rows of the head against its header. Those of other blocks are checked against their
/// headers when they are read.
fn governance(chain: &ChainDb, native: &Native) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(error, "restore a snapshot");
    let blocks = chain.reader().map_err(|error| failed(&error))?;
    let head = blocks.head_number().map_err(|error| failed(&error))?;
    let Some(head) = head else { return Ok(()) };
    gov::store::load(&blocks, native, head).map(|_| ()).map_err(|error| failed(&error))
}

/// Checks one block. Returns the number of its transactions.
fn block(
    blocks: &ChainReader,
    spec: &ChainSpec,
    number: u64,
    parent: Option<B256>,
) -> Result<usize, String> {
    let missing = || "a row is missing".to_owned();
    let (hash, rlp) = blocks.header(number).map_err(text)?.ok_or_else(missing)?;
    same("headers: hash", keccak256(&rlp), hash)?;
    let header = Header::decode(&mut rlp.as_ref()).map_err(|error| format!("headers: {error}"))?;
    same("headers: number", header.number, number)?;
    if let Some(parent) = parent {
        same("headers: parent hash", header.parent_hash, parent)?;
    }
    let body = blocks.body(number).map_err(text)?.ok_or_else(missing)?;
    let block = Block::from_parts(hash, &rlp, &body).map_err(|error| format!("bodies: {error}"))?;
    let senders = blocks.senders(number).map_err(text)?.ok_or_else(missing)?;
    same("senders: count", senders.len(), block.transactions.len())?;
    let receipts = blocks.receipts(number).map_err(text)?.ok_or_else(missing)?;
    same("receipts: count", receipts.len(), block.transactions.len())?;
    // Block 0 is covered by the check of the genesis.
    if number > 0 {
        validate_body(spec, &header, &block.body()).map_err(|error| format!("bodies: {error}"))?;
        same("receipts: root", receipts_root(&receipts).0, header.receipts_root)?;
    }
    blocks.changes(number).map_err(text)?.ok_or_else(missing)?;
    let fees = blocks.fees(number).map_err(text)?.ok_or_else(missing)?;
    FeeRow::read(&fees).map_err(|error| format!("fees: {error}"))?;
    let module = blocks.module(number).map_err(text)?.ok_or_else(missing)?;
    if let Some(native) = spec.native() {
        stored_modules(native, &header, &module).map_err(|error| format!("module: {error}"))?;
        check_content(native, number, &senders, &module)?;
    }
    Ok(block.transactions.len())
}

/// Checks the senders and events of a block against the hashes in its module row, from rules version 2 on.
fn check_content(
    native: &Native,
    number: u64,
    senders: &[Address],
    module: &[u8],
) -> Result<(), String> {
    let wrong = |error: &dyn std::fmt::Display| format!("module: {error}");
    let record = Record::from_bytes(module).map_err(|error| wrong(&error))?;
    let pairs = store::decode(&record.row).map_err(|error| wrong(&error))?;
    let senders = senders.iter().copied();
    for (key, value) in content_pairs(native, number, senders, &record.events) {
        if pairs.get(&key) != Some(&value) {
            let found = pairs.get(&key).map_or_else(|| "no hash".to_owned(), Bytes::to_string);
            let what = if key.ends_with(&[SENDERS_KEY]) { "senders" } else { "events" };
            return Err(format!("module: the {what} have the hash {value}, the row has {found}"));
        }
    }
    Ok(())
}

/// Checks every certificate against the keys of the chain. Returns how many blocks are signed.
pub(super) fn certificates(
    chain: &ChainDb,
    spec: &ChainSpec,
    home: &Path,
) -> Result<((), String), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::new(error, "restore a snapshot");
    let authority = authority(chain, spec, home).map_err(|error| failed(&error))?;
    let blocks = chain.reader().map_err(|error| failed(&error))?;
    let Some(authority) = authority else {
        return match blocks.is_signed_from(0).map_err(|error| failed(&error))? {
            true => Err(failed(&"blocks are signed, but the key of the producer is missing")),
            false => Ok(((), "no block is signed".to_owned())),
        };
    };
    let mut progress = ProgressLog::new("verifying certificates");
    let head = blocks.head_number().map_err(|error| failed(&error))?.unwrap_or_default();
    let (mut next, mut signed) = (0, 0_u64);
    while let Some((number, bytes)) =
        blocks.certificate_from(next).map_err(|error| Failure::of_block(next, error))?
    {
        progress.at(number, head);
        let hash = blocks.hash(number).map_err(|error| Failure::of_block(number, error))?;
        let hash = hash.ok_or_else(|| failed(&format!("block {number} is signed and missing")))?;
        Certificate::decode(&bytes)
            .and_then(|certificate| authority.verify(BlockId { number, hash }, &certificate))
            .map_err(|error| Failure::of_block(number, error))?;
        signed += 1;
        next = number + 1;
    }
    let by = match authority.newest_producer() {
        Some(producer) => format!("producer {producer} (term {})", authority.newest_term()),
        None => format!("{} validators", authority.validators().len()),
    };
    Ok(((), format!("{signed} certificates of {by} are valid")))
}

fn text(error: storage::ReadError) -> String {
    error.to_string()
}

fn same<T: PartialEq + std::fmt::Display>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what} is {found}, expected {expected}")) }
}

/// Calls `check` for every block and returns the number of blocks. Continues until [`MAX_FAILURES`] blocks have failed,
/// so that the report shows the extent of the damage. The remedy is that of the first failure.
fn each_block(
    chain: &ChainDb,
    what: &'static str,
    mut check: impl FnMut(&ChainReader, u64) -> Result<(), String>,
) -> Result<u64, Failure> {
    let blocks = chain.reader().map_err(|error| Failure::of_block(0, error))?;
    let numbers = blocks.numbers().map_err(|error| Failure::of_block(0, error))?;
    let Some(numbers) = numbers else { return Ok(0) };
    let (mut progress, head) = (ProgressLog::new(what), *numbers.end());
    let mut failures: Vec<Failure> = Vec::new();
    let mut count = 0;
    for number in numbers {
        progress.at(number, head);
        count += 1;
        if let Err(detail) = check(&blocks, number) {
            failures.push(Failure::of_block(number, detail));
            if failures.len() == MAX_FAILURES {
                break;
            }
        }
    }
    let details: Vec<&str> = failures.iter().map(|failure| failure.detail.as_str()).collect();
    match failures.first() {
        None => Ok(count),
        Some(first) => Err(Failure::new(details.join("; "), first.remedy.clone())),
    }
}
