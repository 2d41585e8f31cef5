//! What followers are told of a new block, as text: in the order in which it happened, each in CometBFT's
//! type for it.

use super::{
    error::Error,
    shape::{self, long},
};
use crate::query::{Attributes, OfBlock, ShownTx, Snapshot, Watch};
use serde_json::{Value, json};

/// Bytes of messages made at once; the rest of a block is read when these are sent. A block itself is one
/// message however large.
const PIECE_BYTES: usize = 1024 * 1024;

/// A query and under which id it was asked.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) id: Value,
    /// As it was written.
    pub(super) query: String,
    pub(super) watch: Watch,
}

/// Some of the messages about a block, and with which of its transactions to go on.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) messages: Vec<String>,
    pub(super) next: Option<usize>,
}

/// What subscribers are told of block `number`, from a transaction on; from none on, of the block first.
pub(super) fn piece(
    at: &Snapshot,
    number: u64,
    from: Option<usize>,
    subscriptions: &[Subscription],
) -> Result<Piece, Error> {
    let watches: Vec<_> = subscriptions.iter().map(|one| one.watch.clone()).collect();
    let mut messages = Vec::new();
    if from.is_none() {
        block(at, number, subscriptions, &watches, &mut messages)?;
    }
    let mut bytes = 0;
    let next =
        at.watched_txs(number, from.unwrap_or_default(), &watches, |tx, which, attributes| {
            let before = messages.len();
            let data =
                json!({ "type": "tendermint/event/Tx", "value": { "TxResult": tx_value(tx) } });
            tell(subscriptions, &which, &data, &attributes, &mut messages);
            bytes += messages[before..].iter().map(String::len).sum::<usize>();
            bytes < PIECE_BYTES
        })?;
    Ok(Piece { messages, next })
}

fn block(
    at: &Snapshot,
    number: u64,
    subscriptions: &[Subscription],
    watches: &[Watch],
    messages: &mut Vec<String>,
) -> Result<(), Error> {
    let events = at.block_events(number)?;
    for part in OfBlock::ALL {
        let Some((which, attributes)) = at.watched_block(part, &events, watches) else { continue };
        let value = match part {
            OfBlock::Whole => {
                let (id, block) = at.carried_block(number)?;
                let mut value = shape::block(&id, &block);
                // The results of transactions are told with these, and by block_results.
                value["result_finalize_block"] = json!({ "events": shape::events(&events) });
                value
            }
            OfBlock::Header => json!({ "header": shape::header(&at.block_header(number)?.1) }),
            OfBlock::Events => json!({
                "height": long(number),
                "events": shape::events(&events),
                "num_txs": long(at.txs_of(number)?),
            }),
        };
        let data = json!({ "type": format!("tendermint/event/{}", part.kind()), "value": value });
        tell(subscriptions, &which, &data, &attributes, messages);
    }
    Ok(())
}

/// A mined transaction; what is zero is left out, as CometBFT has it here.
fn tx_value(tx: &ShownTx) -> Value {
    let mut value = json!({
        "height": long(tx.response.height),
        "tx": shape::base64(&tx.carried()),
        "result": shape::tx_result(&tx.response),
    });
    if tx.index > 0 {
        value["index"] = json!(tx.index);
    }
    value
}

fn tell(
    subscriptions: &[Subscription],
    which: &[usize],
    data: &Value,
    attributes: &Attributes,
    messages: &mut Vec<String>,
) {
    for Subscription { id, query, .. } in which.iter().map(|index| &subscriptions[*index]) {
        let result = json!({ "query": query, "data": data, "events": attributes });
        messages.push(super::rpc::reply(id, &result.to_string()));
    }
}
