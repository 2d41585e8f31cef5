//! Computes the index from the chain.

use super::{HomeError, ProgressLog, Replayed, stored_header};
use alloy_primitives::B256;
use chain::block::Block;
use state::{Layer, StateTrie, StateView, called, write_layers};
use std::{sync::Arc, time::Instant};
use storage::{ChainDb, ChainReader, IndexDb, PostingKey, StateChanges};
use transactions::{DecodedTx, cosmos, participants};

/// Maximum number of blocks replayed into the index in one transaction.
const REPLAY_BLOCKS: usize = 128;

/// Adds the blocks up to `newest` that the index lacks: first their state changes, then the trie, whose memory is
/// limited to `trie_bytes`. Checks the state root of every block whose trie records are missing. Takes about as long
/// as importing the blocks without signature recovery and execution.
///
/// # Errors
/// If something cannot be read or written, or a state root differs.
pub fn replay(
    chain: &ChainDb,
    index: &IndexDb,
    newest: u64,
    trie_bytes: u64,
) -> Result<Replayed, HomeError> {
    let begun = Instant::now();
    let blocks = chain.reader()?;
    let first = index.reader()?.flushed()?.map_or(0, |flushed| flushed + 1);
    if first < newest {
        tracing::info!(first, newest, "replaying blocks into the index");
    }
    let mut layers = Vec::new();
    let mut progress = ProgressLog::new("building the index");
    for number in first..=newest {
        progress.at(number, newest);
        layers.push(replay_block(&blocks, number)?);
        if layers.len() == REPLAY_BLOCKS || number == newest {
            write_layers(index, &layers)?;
            layers.clear();
        }
    }
    // The genesis block of a new chain does not count as replayed.
    let first = first.min(replay_trie(&blocks, index, newest, trie_bytes)?).max(1);
    let mut transactions = 0;
    for number in first..=newest {
        transactions += blocks.tx_count(number)? as u64;
    }
    let blocks = (newest + 1).saturating_sub(first);
    Ok(Replayed { blocks, transactions, elapsed: begun.elapsed() })
}

/// Brings the trie records up to block `newest`. Returns the first block that it replayed.
fn replay_trie(
    blocks: &ChainReader,
    index: &IndexDb,
    newest: u64,
    trie_bytes: u64,
) -> Result<u64, HomeError> {
    let mut trie = StateTrie::open(index, trie_bytes)?;
    let first = trie.next();
    let mut progress = ProgressLog::new("building the state trie");
    for number in first..=newest {
        progress.at(number, newest);
        let damaged = |reason: String| HomeError::Damaged { number, reason };
        let missing = || damaged("a row of it is missing".to_owned());
        let changes = blocks.changes(number)?.ok_or_else(missing)?;
        let root = trie.update(&changes).map_err(|error| damaged(error.to_string()))?;
        let (_, header) = stored_header(blocks, number)?;
        if root != header.state_root {
            return Err(damaged(format!("state root {root}, header {}", header.state_root)));
        }
        if (number == newest || trie.is_checkpoint_due())
            && let Some(checkpoint) = trie.checkpoint()
        {
            index.write_trie(&checkpoint)?;
            trie.written(number);
        }
    }
    Ok(first)
}

/// Extends a state with the layers of the stored blocks up to `number`.
///
/// # Errors
/// If a row of a block is missing or damaged.
pub fn state_at(
    blocks: &ChainReader,
    mut state: StateView,
    number: u64,
) -> Result<StateView, HomeError> {
    for number in state.next()..=number {
        let new = |changes, tx_hashes| state.next_layer(changes, tx_hashes);
        let layer = stored_layer(blocks, number, new)?;
        state = state.with_layer(layer, 0);
    }
    Ok(state)
}

/// Returns the sealed layer of a stored block, to be flushed again.
pub fn replay_block(blocks: &ChainReader, number: u64) -> Result<Arc<Layer>, HomeError> {
    let new = |changes, tx_hashes| Layer::detached(number, changes, tx_hashes);
    stored_layer(blocks, number, new)
}

/// Does the same as [`replay_block`] with a layer that `new` makes of the changes and transaction hashes.
fn stored_layer(
    blocks: &ChainReader,
    number: u64,
    new: impl FnOnce(StateChanges, Vec<B256>) -> Layer,
) -> Result<Arc<Layer>, HomeError> {
    let damaged = |reason: String| HomeError::Damaged { number, reason };
    let missing = || damaged("a row of it is missing".to_owned());
    let (hash, header) = stored_header(blocks, number)?;
    let changes = blocks.changes(number)?.ok_or_else(missing)?;
    let body = blocks.body(number)?.ok_or_else(missing)?;
    let block = Block::from_parts(hash, &alloy_rlp::encode(&header), &body)
        .map_err(|error| damaged(error.to_string()))?;
    let further = cosmos::further_hashes(&block.transactions);
    let txs = block.transactions.iter().cloned().map(DecodedTx::decode);
    let txs = txs.collect::<Result<Vec<_>, _>>().map_err(|error| damaged(error.to_string()))?;
    let tx_hashes = txs.iter().map(|tx| tx.hash).chain(further).collect();
    let layer = new(changes, tx_hashes);
    let receipts = blocks.receipts(number)?.ok_or_else(missing)?;
    let senders = blocks.senders(number)?.ok_or_else(missing)?;
    let senders = txs.iter().zip(senders);
    let parties =
        senders.flat_map(|(tx, sender)| participants(&tx.tx, sender, tx.cosmos.as_deref()));
    let called = called(parties, layer.changes());
    layer.seal(hash, PostingKey::of_block(&receipts, called));
    Ok(Arc::new(layer))
}
