//! Checks of the index environment against the chain from which it was built.

use super::Failure;
use crate::{
    ProgressLog,
    audit::{self, StateAudit},
    replay_block, stored_header,
};
use storage::{ChainDb, IndexDb, trie::verify_state_trie};

/// Checks every page, filter and directory of the sorted runs.
pub(super) fn runs(index: &IndexDb) -> Result<((), String), Failure> {
    let verified = index.reader().and_then(|reader| reader.verify_runs());
    let (pages, entries) = verified.map_err(Failure::of_index)?;
    Ok(((), format!("{pages} pages with {entries} entries match their checksums")))
}

/// Checks that every block and every transaction is found by its hash.
pub(super) fn lookups(chain: &ChainDb, index: &IndexDb) -> Result<((), String), Failure> {
    let reader = index.reader().map_err(Failure::of_index)?;
    let blocks = chain.reader().map_err(|error| Failure::of_block(0, error))?;
    let Some(flushed) = reader.flushed().map_err(Failure::of_index)? else {
        return Ok(((), "empty".to_owned()));
    };
    let first = blocks.numbers().map_err(|error| Failure::of_block(0, error))?;
    let first = first.map_or(0, |numbers| *numbers.start());
    let mut progress = ProgressLog::new("verifying lookups");
    let mut transactions = 0;
    for number in first..=flushed {
        progress.at(number, flushed);
        let layer =
            replay_block(&blocks, number).map_err(|error| Failure::of_block(number, error))?;
        let hash = layer.hash().expect("a replayed block is sealed");
        let found = reader.block_number(hash).map_err(Failure::of_index)?;
        if found != Some(number) {
            let detail =
                format!("block_numbers: the lookup of block {number} {hash} returns {found:?}");
            return Err(Failure::of_index(detail));
        }
        for (position, hash) in (0..).zip(layer.tx_hashes()) {
            let found = reader.tx_location(*hash).map_err(Failure::of_index)?;
            if found != Some((number, position)) {
                let detail = format!(
                    "transactions: the lookup of {hash}, block {number}, index {position}, returns {found:?}"
                );
                return Err(Failure::of_index(detail));
            }
            transactions += 1;
        }
    }
    let count = flushed + 1 - first;
    Ok(((), format!("{count} blocks and {transactions} transactions are found by their hashes")))
}

/// Checks that the flat accounts and slots result in the state root of their block, and that every code has its
/// hash.
pub(super) fn state(chain: &ChainDb, index: &IndexDb) -> Result<((), String), Failure> {
    let reader = index.reader().map_err(Failure::of_index)?;
    let blocks = chain.reader().map_err(|error| Failure::of_block(0, error))?;
    let audit = audit::flat_state(&blocks, &reader).map_err(Failure::of_index)?;
    let Some(StateAudit { number, accounts, root, expected, .. }) = audit else {
        return Ok(((), "empty".to_owned()));
    };
    if root != expected {
        let detail = format!(
            "accounts, storage: the state of block {number} has root {root}, but its header has {expected}"
        );
        return Err(Failure::of_index(detail));
    }
    Ok(((), format!("{accounts} accounts have the state root of block {number}")))
}

/// Checks that the records of the state trie result in the state root of their block.
pub(super) fn trie(chain: &ChainDb, index: &IndexDb) -> Result<((), String), Failure> {
    let reader = index.reader().map_err(Failure::of_index)?;
    let blocks = chain.reader().map_err(|error| Failure::of_block(0, error))?;
    let Some((number, root)) = reader.trie_block().map_err(Failure::of_index)? else {
        return Ok(((), "empty".to_owned()));
    };
    let (_, header) =
        stored_header(&blocks, number).map_err(|error| Failure::of_block(number, error))?;
    if root != header.state_root {
        let expected = header.state_root;
        let detail = format!(
            "meta: the trie of block {number} has root {root}, but its header has {expected}"
        );
        return Err(Failure::of_index(detail));
    }
    let verified = verify_state_trie(&reader, root);
    let verified = verified
        .map_err(|error| Failure::of_index(format_args!("account_trie, storage_trie: {error}")))?;
    Ok((
        (),
        format!(
            "{} records with {} accounts and {} slots have the state root of block {number}",
            verified.records, verified.accounts, verified.slots
        ),
    ))
}
