//! Creates the notifications of subscriptions to receipts. The receipts of a block are serialised once for all
//! subscribers.
//!
//! Input: the number of a block, and the transactions whose receipts are requested. Output: the JSON text of a
//! notification. State: the receipts of the last block that was read. Subscribers wait while another block is read.

use alloy_primitives::{B256, map::HashSet};
use chain::ChainSpec;
use rpc_eth::eth::with_receipts;
use rpc_types::{
    error::Error,
    text::{Json, WriteJson},
};
use state::View;
use std::{ops::Range, sync::Arc};
use tokio::sync::Mutex;

/// The receipts of the last block that was read.
#[derive(Debug)]
pub(crate) struct BlockReceipts {
    spec: Arc<ChainSpec>,
    last: Arc<Mutex<Option<SerialisedReceipts>>>,
}

#[derive(Debug)]
struct SerialisedReceipts {
    /// [`View::undone`] and the number of the block.
    block: (u64, u64),
    /// The result of `eth_getBlockReceipts`.
    all: Json,
    /// The range of each receipt in that text, by the hash of its transaction.
    ranges: Vec<(B256, Range<usize>)>,
}

impl BlockReceipts {
    pub(crate) fn new(spec: &Arc<ChainSpec>) -> Self {
        Self { spec: Arc::clone(spec), last: Arc::default() }
    }

    /// Returns a list of the receipts of these transactions in a block, or of all transactions in the block if `hashes`
    /// is empty. Returns nothing if no receipt matches. The block may be large, so a blocking thread reads it.
    ///
    /// # Errors
    /// Returns an error if the block cannot be read.
    pub(crate) async fn requested(
        &self,
        view: Arc<View>,
        number: u64,
        hashes: &HashSet<B256>,
    ) -> Result<Vec<Json>, Error> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if last.as_ref().is_none_or(|receipts| receipts.block != (view.undone, number)) {
            let spec = Arc::clone(&self.spec);
            // The task holds the lock. If this subscriber disconnects, the next one does not start a second task.
            let task = tokio::task::spawn_blocking(move || {
                *last = Some(SerialisedReceipts::read(&view, &spec, number)?);
                Ok::<_, Error>(last)
            });
            // The task fails only if the runtime stops.
            last = task.await.map_err(Error::internal)??;
        }
        Ok(last.as_ref().and_then(|receipts| receipts.requested(hashes)).into_iter().collect())
    }
}

impl SerialisedReceipts {
    fn read(view: &View, spec: &ChainSpec, number: u64) -> Result<Self, Error> {
        with_receipts(view, spec, number, |receipts| {
            let items = receipts.iter().map(|receipt| (receipt.transaction_hash, receipt));
            Self::new((view.undone, number), receipts.size_hint(), items)
        })
    }

    /// Serialises the receipts of a block. `items` contains each receipt with the hash of its transaction, and `bytes`
    /// is the approximate length of the text.
    fn new(
        block: (u64, u64),
        bytes: usize,
        items: impl Iterator<Item = (B256, impl WriteJson)>,
    ) -> Self {
        let mut text = Vec::with_capacity(bytes);
        text.push(b'[');
        let mut ranges = Vec::new();
        for (hash, item) in items {
            if !ranges.is_empty() {
                text.push(b',');
            }
            let start = text.len();
            item.write_json(&mut text);
            ranges.push((hash, start..text.len()));
        }
        text.push(b']');
        Self { block, all: Json::from_text(text), ranges }
    }

    fn requested(&self, hashes: &HashSet<B256>) -> Option<Json> {
        if hashes.is_empty() {
            return (!self.ranges.is_empty()).then(|| self.all.clone());
        }
        let requested = self.ranges.iter().filter(|(hash, _)| hashes.contains(hash));
        let requested: Vec<_> =
            requested.map(|(_, range)| &self.all.bytes()[range.clone()]).collect();
        (!requested.is_empty())
            .then(|| Json::from_text([b"[", &*requested.join(&b","[..]), b"]"].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U64;

    #[test]
    fn only_requested_receipts_are_returned() {
        let hash = B256::with_last_byte;
        let items = (1..=3).map(|n: u8| (hash(n), U64::from(n)));
        let receipts = SerialisedReceipts::new((0, 7), 0, items);
        let requested = |hashes: &[u8]| {
            let hashes = hashes.iter().map(|n| hash(*n)).collect();
            receipts
                .requested(&hashes)
                .map(|json| String::from_utf8(json.bytes().to_vec()).unwrap())
        };
        assert_eq!(requested(&[]).unwrap(), r#"["0x1","0x2","0x3"]"#);
        assert_eq!(requested(&[2]).unwrap(), r#"["0x2"]"#);
        assert_eq!(requested(&[3, 9, 1]).unwrap(), r#"["0x1","0x3"]"#);
        assert_eq!(requested(&[9]), None);
        let none = SerialisedReceipts::new((0, 7), 0, std::iter::empty::<(B256, U64)>());
        assert_eq!(none.requested(&HashSet::default()), None);
    }
}
