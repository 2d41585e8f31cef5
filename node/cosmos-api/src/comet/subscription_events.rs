//! Creates the messages to subscribers about a new block, one for each event and matching query: first for the
//! events of the block itself, then for those of its transactions in order.

use super::{
    error::Error,
    shape::{self, long},
};
use crate::query::{Attributes, BlockEventKind, MinedTxResponse, Snapshot, Watch};
use serde_json::{Value, json};

/// Messages about transactions are created in chunks of about this many bytes. The rest of a block is read after the
/// chunk has been sent. The messages about the block itself are in the first chunk and may have any size.
const CHUNK_BYTES: usize = 1024 * 1024;

/// A query, and the id of the call that subscribed to it.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) id: Value,
    /// The text of the query.
    pub(super) query: String,
    pub(super) watch: Watch,
}

/// A chunk of the messages about a block, and the index of the next transaction if there are more.
#[derive(Debug, Default)]
pub(super) struct EventMessages {
    pub(super) messages: Vec<String>,
    pub(super) next: Option<usize>,
}

/// Creates a chunk of messages about block `number`, starting at the transaction at `from`. Without `from`, the
/// messages about the block itself come first.
pub(super) fn events_of(
    at: &Snapshot,
    number: u64,
    from: Option<usize>,
    subscriptions: &[Subscription],
) -> Result<EventMessages, Error> {
    let watches: Vec<_> = subscriptions.iter().map(|known| known.watch.clone()).collect();
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
            push_messages(subscriptions, &which, &data, &attributes, &mut messages);
            bytes += messages[before..].iter().map(String::len).sum::<usize>();
            bytes < CHUNK_BYTES
        })?;
    Ok(EventMessages { messages, next })
}

fn block(
    at: &Snapshot,
    number: u64,
    subscriptions: &[Subscription],
    watches: &[Watch],
    messages: &mut Vec<String>,
) -> Result<(), Error> {
    let events = at.block_events(number)?;
    for part in BlockEventKind::ALL {
        let Some((which, attributes)) = at.watched_block(part, &events, watches) else { continue };
        let value = match part {
            BlockEventKind::Whole => {
                let (id, block) = at.comet_block(number)?;
                let mut value = shape::block(&id, &block);
                // The transaction results are in other events and in `block_results`.
                value["result_finalize_block"] = json!({ "events": shape::events(&events) });
                value
            }
            BlockEventKind::Header => {
                json!({ "header": shape::header(&at.block_header(number)?.1) })
            }
            BlockEventKind::Events => json!({
                "height": long(number),
                "events": shape::events(&events),
                "num_txs": long(at.txs_of(number)?),
            }),
        };
        let data = json!({ "type": format!("tendermint/event/{}", part.kind()), "value": value });
        push_messages(subscriptions, &which, &data, &attributes, messages);
    }
    Ok(())
}

/// Converts a mined transaction. As in CometBFT, an index of zero is omitted.
fn tx_value(tx: &MinedTxResponse) -> Value {
    let mut value = json!({
        "height": long(tx.response.height),
        "tx": shape::base64(&tx.sdk_bytes()),
        "result": shape::tx_result(&tx.response),
    });
    if tx.index > 0 {
        value["index"] = json!(tx.index);
    }
    value
}

fn push_messages(
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
