//! The receipts of blocks as subscribers receive them, made once for all of them.
//!
//! Takes: a block's number, and of which transactions receipts are wanted. Gives: the text to be pushed.
//! State: the last block shaped. Bound: one block kept, one in the making. When full: waits.

use alloy_primitives::{B256, map::HashSet};
use chain::ChainSpec;
use rpc_eth::eth::with_receipts;
use rpc_types::{
    error::Error,
    text::{Json, Put},
};
use state::View;
use std::{ops::Range, sync::Arc};
use tokio::sync::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct PushedReceipts {
    spec: Arc<ChainSpec>,
    last: Arc<Mutex<Option<Shaped>>>,
}

/// The receipts of a block.
#[derive(Debug)]
struct Shaped {
    number: u64,
    /// As `eth_getBlockReceipts` has them.
    all: Json,
    /// Where in that text each is, by the hash of its transaction.
    places: Vec<(B256, Range<usize>)>,
}

impl PushedReceipts {
    pub(crate) fn new(spec: &Arc<ChainSpec>) -> Self {
        Self { spec: Arc::clone(spec), last: Arc::default() }
    }

    /// The receipts of these transactions in a block, of all where none is named; nothing if there are none.
    /// A block is taken apart, thousands of transactions, on a thread that may block.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub(crate) async fn wanted(
        &self,
        view: Arc<View>,
        number: u64,
        hashes: &HashSet<B256>,
    ) -> Result<Vec<Json>, Error> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if last.as_ref().is_none_or(|shaped| shaped.number != number) {
            let spec = Arc::clone(&self.spec);
            // The turn goes with the work, so that subscribers who leave do not begin more of it.
            let shaping = tokio::task::spawn_blocking(move || {
                *last = Some(Shaped::read(&view, &spec, number)?);
                Ok::<_, Error>(last)
            });
            // It is stopped only with the runtime.
            last = shaping.await.map_err(Error::internal)??;
        }
        Ok(last.as_ref().and_then(|shaped| shaped.wanted(hashes)).into_iter().collect())
    }
}

impl Shaped {
    fn read(view: &View, spec: &ChainSpec, number: u64) -> Result<Self, Error> {
        with_receipts(view, spec, number, |receipts| {
            let items = receipts.iter().map(|receipt| (receipt.transaction_hash, receipt));
            Self::new(number, receipts.size_hint(), items)
        })
    }

    /// Of a block's receipts with their hashes, with their approximate size in bytes.
    fn new(number: u64, bytes: usize, items: impl Iterator<Item = (B256, impl Put)>) -> Self {
        let mut text = Vec::with_capacity(bytes);
        text.push(b'[');
        let mut places = Vec::new();
        for (hash, item) in items {
            if !places.is_empty() {
                text.push(b',');
            }
            let start = text.len();
            item.put(&mut text);
            places.push((hash, start..text.len()));
        }
        text.push(b']');
        Self { number, all: Json::from_text(text), places }
    }

    fn wanted(&self, hashes: &HashSet<B256>) -> Option<Json> {
        if hashes.is_empty() {
            return (!self.places.is_empty()).then(|| self.all.clone());
        }
        let wanted = self.places.iter().filter(|(hash, _)| hashes.contains(hash));
        let wanted: Vec<_> = wanted.map(|(_, place)| &self.all.bytes()[place.clone()]).collect();
        (!wanted.is_empty())
            .then(|| Json::from_text([b"[", &*wanted.join(&b","[..]), b"]"].concat()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U64;

    #[test]
    fn those_wanted_are_taken_out_of_all() {
        let hash = B256::with_last_byte;
        let items = (1..=3).map(|n: u8| (hash(n), U64::from(n)));
        let shaped = Shaped::new(7, 0, items);
        let wanted = |hashes: &[u8]| {
            let hashes = hashes.iter().map(|n| hash(*n)).collect();
            shaped.wanted(&hashes).map(|json| String::from_utf8(json.bytes().to_vec()).unwrap())
        };
        assert_eq!(wanted(&[]).unwrap(), r#"["0x1","0x2","0x3"]"#);
        assert_eq!(wanted(&[2]).unwrap(), r#"["0x2"]"#);
        assert_eq!(wanted(&[3, 9, 1]).unwrap(), r#"["0x1","0x3"]"#);
        assert_eq!(wanted(&[9]), None);
        let none = Shaped::new(7, 0, std::iter::empty::<(B256, U64)>());
        assert_eq!(none.wanted(&HashSet::default()), None);
    }
}
