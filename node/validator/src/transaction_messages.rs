//! Encodes and decodes messages with transactions between validators: RLP lists of raw transactions.

use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable};
use consensus::validators::MAX_TRANSACTION_MESSAGE_BYTES;
use futures_util::future::join_all;
use pipeline::{Arrival, MAX_TX_BYTES, PoolClient, Submitter};
use std::{sync::Arc, time::Duration};
use tokio::sync::{
    Mutex,
    broadcast::{self, error::RecvError},
};
use transactions::RecoveredTx;

/// Time for which transactions are gathered, so that a message has many of them. It is a small part of the time between
/// blocks.
const GATHERING: Duration = Duration::from_millis(5);
/// Maximum number of transactions in a message: a quarter of those that may wait for the pool, so that one validator
/// does not block clients. A message of maximum size with transfers only has 2,400.
const MAX_MESSAGE_TXS: usize = 4096;
/// Bytes of an RLP header of a list or string of the size of a message.
const RLP_HEADER_BYTES: usize = 4;
/// Maximum bytes of the transactions in a message.
const MAX_CONTENT_BYTES: usize = MAX_TRANSACTION_MESSAGE_BYTES - RLP_HEADER_BYTES;
// A single transaction of maximum size fits into a message.
const _: () = assert!(MAX_TX_BYTES + RLP_HEADER_BYTES <= MAX_CONTENT_BYTES);

/// The transactions that clients have sent to this node and that the other validators have not received yet.
#[derive(Debug)]
pub(super) struct OwnTransactions(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    arrivals: broadcast::Receiver<Arrival>,
    /// The first transaction of the next message.
    next: Option<Arc<RecoveredTx>>,
}

impl OwnTransactions {
    /// Collects the transactions that the pool accepts from now on.
    pub(super) fn new(pool: &PoolClient) -> Self {
        Self(Mutex::new(Waiting { arrivals: pool.arrivals(), next: None }))
    }

    /// Waits for transactions, and returns them as a message.
    pub(super) async fn next_message(&self) -> Bytes {
        let mut waiting = self.0.lock().await;
        let first = waiting.first().await;
        tokio::time::sleep(GATHERING).await;
        let mut bytes = first.raw.length();
        let mut txs = vec![first];
        while let Some(tx) = waiting.more() {
            bytes += tx.raw.length();
            if bytes > MAX_CONTENT_BYTES || txs.len() == MAX_MESSAGE_TXS {
                waiting.next = Some(tx);
                break;
            }
            txs.push(tx);
        }
        drop(waiting);
        encode(&txs)
    }
}

impl Waiting {
    async fn first(&mut self) -> Arc<RecoveredTx> {
        if let Some(next) = self.next.take() {
            return next;
        }
        loop {
            match self.arrivals.recv().await {
                Ok(arrival) => {
                    if let Some(tx) = own(&arrival) {
                        return tx;
                    }
                }
                // The other validators do not receive the lost transactions, but this node proposes them itself.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }

    /// Returns the next transaction, if one has already arrived.
    fn more(&mut self) -> Option<Arc<RecoveredTx>> {
        use broadcast::error::TryRecvError;
        loop {
            match self.arrivals.try_recv() {
                Ok(arrival) => {
                    if let Some(tx) = own(&arrival) {
                        return Some(tx);
                    }
                }
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }
}

/// Returns the transaction if a client of this node sent it. Another validator sends those of its clients itself.
fn own(arrival: &Arrival) -> Option<Arc<RecoveredTx>> {
    if arrival.submitter == Submitter::Client { arrival.tx() } else { None }
}

fn encode(txs: &[Arc<RecoveredTx>]) -> Bytes {
    let payload_length = txs.iter().map(|tx| tx.raw.length()).sum();
    let mut bytes = Vec::with_capacity(payload_length + RLP_HEADER_BYTES);
    alloy_rlp::Header { list: true, payload_length }.encode(&mut bytes);
    txs.iter().for_each(|tx| tx.raw.encode(&mut bytes));
    bytes.into()
}

/// Decodes a message into raw transactions.
pub(super) fn decode(message: &Bytes) -> alloy_rlp::Result<Vec<Bytes>> {
    let mut rest = message.as_ref();
    let mut content = alloy_rlp::Header::decode_bytes(&mut rest, true)?;
    if !rest.is_empty() {
        return Err(alloy_rlp::Error::UnexpectedLength);
    }
    let mut txs = Vec::new();
    while !content.is_empty() {
        if txs.len() == MAX_MESSAGE_TXS {
            return Err(alloy_rlp::Error::Custom("a message has too many transactions"));
        }
        txs.push(Bytes::decode(&mut content)?);
    }
    Ok(txs)
}

/// Submits transactions of another validator, and waits until each is accepted or rejected.
pub(super) async fn submit(pool: &PoolClient, txs: Vec<Bytes>) {
    let submitted = txs.into_iter().map(|tx| pool.submit_of_validator(tx));
    for refused in join_all(submitted).await.into_iter().filter_map(Result::err) {
        tracing::debug!(%refused, "did not take a transaction of another validator");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_strings_is_a_message() {
        let txs = vec![Bytes::from_static(&[2, 1]), Bytes::from(vec![7; 300])];
        let bytes = Bytes::from(alloy_rlp::encode(&txs));
        assert_eq!(decode(&bytes), Ok(txs));
        assert_eq!(decode(&Bytes::from_static(&[0xc0])), Ok(Vec::new()));
        let longer = [&bytes[..], &[0]].concat();
        for wrong in [&bytes[..bytes.len() - 1], &longer, &[], &[0x80], &[0xc1, 0xc0]] {
            assert!(decode(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
        for (count, is_read) in [(MAX_MESSAGE_TXS, true), (MAX_MESSAGE_TXS + 1, false)] {
            let empty = Bytes::from(alloy_rlp::encode(vec![Bytes::new(); count]));
            assert_eq!(decode(&empty).is_ok(), is_read, "{count}");
        }
    }
}
