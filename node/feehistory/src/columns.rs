//! Holds the rows of recent blocks in memory as columns of JSON text. A response consists of a few slices of them.
//!
//! Rows are added block by block to immutable chunks. A response is written without a lock, from the chunks that exist
//! when it starts. Rewards depend on the percentiles, so their texts are cached by chunk and list of percentiles.

mod chunk;
mod rewards;

use super::{FeeEntry, ResponseWriter};
use arc_swap::ArcSwap;
use chunk::{CHUNK_BLOCKS, Chunk, Column};
use rewards::RewardTexts;
use std::sync::Arc;

/// Number of recent blocks that are served from memory, unless they have too many priority fees. It is four times the
/// default maximum length of a request, so most requests that end before the head are covered too.
pub const RECENT_BLOCKS: usize = 4096;
/// Maximum number of priority fees ([`crate::Tip`]) of all blocks in memory. Each takes 24 bytes: 100 MB in total.
const MAX_TIPS: usize = 4 << 20;

/// The rows of consecutive blocks. The value is immutable: a new block creates a new value, which shares all chunks
/// except the last one.
#[derive(Debug, Default)]
struct Recent {
    /// The branch of the blocks: the number of branches that were undone before it.
    branch: u64,
    chunks: Vec<Arc<Chunk>>,
    /// The id of the next chunk.
    next_id: u64,
    tips: usize,
}

impl Recent {
    /// Returns the number of the first block. The result is meaningless without blocks.
    fn first(&self) -> u64 {
        let stored = self.chunks.first().map_or(0, |chunk| chunk.first);
        stored.max(self.end().saturating_sub(RECENT_BLOCKS as u64))
    }

    /// Returns the number after the last block.
    fn end(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.end())
    }

    fn has(&self, first: u64, last: u64) -> bool {
        !self.chunks.is_empty() && self.first() <= first && first <= last && last < self.end()
    }

    /// Returns these rows with the row of a further block. If that block does not follow the last one, or is of another
    /// branch, the other rows are removed.
    fn with(&self, branch: u64, number: u64, entry: Arc<FeeEntry>) -> Self {
        let (mut chunks, mut tips) = (self.chunks.clone(), self.tips);
        if number != self.end() || branch != self.branch {
            (chunks, tips) = (Vec::new(), 0);
        }
        tips += entry.tips();
        let open = chunks.pop_if(|chunk| chunk.entries.len() < CHUNK_BLOCKS);
        let chunk = match open {
            Some(open) => open.with(self.next_id, entry),
            None => Chunk::new(self.next_id, number).with(self.next_id, entry),
        };
        chunks.push(Arc::new(chunk));
        let surplus = |chunks: &[Arc<Chunk>], tips: usize| {
            chunks.len() > RECENT_BLOCKS.div_ceil(CHUNK_BLOCKS) + 1
                || (tips > MAX_TIPS && chunks.len() > 1)
        };
        while surplus(&chunks, tips) {
            tips -= chunks.remove(0).tips();
        }
        Self { branch, chunks, next_id: self.next_id + 1, tips }
    }

    /// Returns the chunks with the blocks `first` to `last`, each with the position and number of these blocks.
    fn spans(&self, first: u64, last: u64) -> impl Iterator<Item = Span<'_>> {
        let start = self.chunks.partition_point(|chunk| chunk.end() <= first);
        let chunks = self.chunks[start..].iter().take_while(move |chunk| chunk.first <= last);
        chunks.map(move |chunk| {
            let (from, to) = (chunk.first.max(first), chunk.end().min(last + 1));
            Span { chunk, at: (from - chunk.first) as usize, count: (to - from) as usize }
        })
    }
}

/// Consecutive blocks of a chunk.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    chunk: &'a Chunk,
    at: usize,
    count: usize,
}

impl<'a> Span<'a> {
    fn slice(&self, column: impl Fn(&'a Chunk) -> &'a Column) -> &'a [u8] {
        column(self.chunk).slice(self.at, self.count)
    }
}

/// The rows of recent blocks. One thread adds rows, and any number of threads read.
#[derive(Debug, Default)]
pub struct FeeColumns {
    recent: ArcSwap<Recent>,
    rewards: RewardTexts,
}

impl FeeColumns {
    /// Returns the number of the next block to add without a gap, or `None` if no block of this branch is in memory.
    /// `branch` is the number of branches that were undone before it.
    pub fn next(&self, branch: u64) -> Option<u64> {
        let recent = self.recent.load();
        (recent.branch == branch && !recent.chunks.is_empty()).then(|| recent.end())
    }

    /// Adds the row of a block. If the block does not follow the last one, or is of another branch, removes the others.
    pub fn push(&self, branch: u64, number: u64, entry: FeeEntry) {
        let entry = Arc::new(entry);
        self.recent.rcu(|recent| recent.with(branch, number, Arc::clone(&entry)));
    }

    /// Returns whether the rows of all blocks of a branch from `first` to `last` are in memory.
    pub fn has(&self, branch: u64, first: u64, last: u64) -> bool {
        let recent = self.recent.load();
        recent.branch == branch && recent.has(first, last)
    }

    /// Returns the response of `eth_feeHistory` for the blocks `first` to `last` of a branch as JSON text, or `None`
    /// unless all of them are in memory.
    pub fn answer(
        &self,
        branch: u64,
        first: u64,
        last: u64,
        percentiles: &[f64],
    ) -> Option<Vec<u8>> {
        let recent = self.recent.load_full();
        if recent.branch != branch || !recent.has(first, last) {
            return None;
        }
        let spans: Vec<_> = recent.spans(first, last).collect();
        let newest =
            spans.last().and_then(|span| span.chunk.entries.get(span.at + span.count - 1))?;
        let rewards = self.rewards(&spans, percentiles);
        let rewards: Vec<_> = rewards.iter().map(RewardSlice::text).collect();
        let column = |column: fn(&Chunk) -> &Column| -> Vec<&[u8]> {
            spans.iter().map(|span| span.slice(column)).collect()
        };
        let writer = ResponseWriter {
            reward: &rewards,
            base_fee: &column(|chunk| &chunk.base_fee),
            next_base_fee: &newest.next_base_fee,
            ratio: &column(|chunk| &chunk.ratio),
            blob_fee: &column(|chunk| &chunk.blob_fee),
            next_blob_fee: &newest.next_blob_base_fee,
            blob_ratio: &column(|chunk| &chunk.blob_ratio),
        };
        Some(writer.write(first, !percentiles.is_empty()))
    }

    /// Returns the rewards of the blocks of each span.
    fn rewards(&self, spans: &[Span<'_>], percentiles: &[f64]) -> Vec<RewardSlice> {
        if percentiles.is_empty() {
            return Vec::new();
        }
        let of_span = |span: &Span<'_>| match self.rewards.of_chunk(span.chunk, percentiles) {
            Some(column) => RewardSlice { column, at: span.at, count: span.count },
            None => {
                let column = span.chunk.rewards(span.at, span.count, percentiles);
                RewardSlice { column: Arc::new(column), at: 0, count: span.count }
            }
        };
        spans.iter().map(of_span).collect()
    }
}

/// The rewards of some consecutive blocks.
struct RewardSlice {
    column: Arc<Column>,
    at: usize,
    count: usize,
}

impl RewardSlice {
    fn text(&self) -> &[u8] {
        self.column.slice(self.at, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::{chunk::CHUNK_BLOCKS, *};
    use crate::{FeeRow, RowReader, Tip};
    use std::collections::VecDeque;

    fn entry(base_fee: u64, tips: usize) -> FeeEntry {
        let gas_used = 21_000 * tips as u64;
        let tips = (0..tips as u128).map(|tip| Tip { tip, gas: 21_000 }).collect();
        let row = FeeRow { base_fee, gas_used, gas_limit: 1 << 30, tips, ..FeeRow::default() };
        FeeEntry::new(&RowReader::new(&row.to_bytes()).expect("a row")).expect("a row")
    }

    fn rewards(columns: &FeeColumns, first: u64, last: u64, list: &[f64]) -> serde_json::Value {
        let text = columns.answer(0, first, last, list).expect("stored");
        let mut answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        answer["reward"].take()
    }

    #[test]
    fn oldest_blocks_are_removed() {
        let columns = FeeColumns::default();
        assert_eq!(columns.next(0), None);
        for number in 7..7 + 2 * RECENT_BLOCKS as u64 {
            columns.push(0, number, entry(number, 1));
        }
        let last = 6 + 2 * RECENT_BLOCKS as u64;
        let first = last + 1 - RECENT_BLOCKS as u64;
        assert_eq!(columns.next(0), Some(last + 1));
        assert!(columns.has(0, first, last));
        assert!(!columns.has(0, first - 1, last) && !columns.has(0, first, last + 1));
        let text = columns.answer(0, first, last, &[]).expect("stored");
        let answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let fees = answer["baseFeePerGas"].as_array().expect("a list");
        assert_eq!(fees.len(), RECENT_BLOCKS + 1);
        assert_eq!(fees[0], format!("{first:#x}"));
        assert_eq!(fees[RECENT_BLOCKS - 1], format!("{last:#x}"));
    }

    #[test]
    fn a_gap_removes_all_blocks() {
        let columns = FeeColumns::default();
        columns.push(0, 10, entry(1, 3));
        assert_eq!(rewards(&columns, 10, 10, &[100.0]), serde_json::json!([["0x2"]]));
        columns.push(0, 3, entry(3, 2));
        assert!(!columns.has(0, 10, 10));
        assert_eq!(rewards(&columns, 3, 3, &[100.0]), serde_json::json!([["0x1"]]));
    }

    #[test]
    fn rows_of_an_undone_branch_are_neither_served_nor_extended() {
        let columns = FeeColumns::default();
        (1..=5).for_each(|number| columns.push(0, number, entry(number, 1)));
        assert_eq!((columns.next(0), columns.next(1)), (Some(6), None));
        assert!(columns.answer(1, 2, 3, &[]).is_none());
        // Block 6 of the new branch does not follow block 5 of the old one.
        columns.push(1, 6, entry(6, 1));
        assert_eq!((columns.next(0), columns.next(1)), (None, Some(7)));
        assert!(!columns.has(1, 5, 5) && !columns.has(0, 6, 6) && columns.has(1, 6, 6));
    }

    #[test]
    fn cached_rewards_equal_computed_ones() {
        let columns = FeeColumns::default();
        let mut lists: Vec<Vec<f64>> = (0..40).map(|list| vec![f64::from(list), 77.5]).collect();
        lists.push((0..17_u32).map(f64::from).collect());
        let mut held = VecDeque::new();
        for number in 0..RECENT_BLOCKS as u64 + 500 {
            let row = entry(number, (number % 7) as usize);
            columns.push(0, number, row.clone());
            held.push_back((number, row));
            if held.len() > RECENT_BLOCKS {
                held.pop_front();
            }
            if number % 97 != 5 {
                continue;
            }
            // The ranges are random, and the list of percentiles is cached, evicted or new.
            let list = &lists[(number % 41) as usize];
            let from = (number.wrapping_mul(0x9e37_79b9) % held.len() as u64) as usize;
            let to = from + (number.wrapping_mul(31) as usize % (held.len() - from));
            let expected: Vec<Vec<String>> = held
                .range(from..=to)
                .map(|(_, row)| list.iter().map(|p| format!("{:#x}", row.reward(*p))).collect())
                .collect();
            let found = rewards(&columns, held[from].0, held[to].0, list);
            assert_eq!(found, serde_json::json!(expected), "{from} to {to} at {number}");
        }
        assert!(columns.rewards.bytes() <= RewardTexts::MAX_BYTES);
    }

    /// Responses begin and end at, before and after the boundaries of chunks.
    #[test]
    fn responses_join_chunks() {
        let columns = FeeColumns::default();
        let size = CHUNK_BLOCKS as u64;
        (0..3 * size).for_each(|number| columns.push(0, number, entry(number, 1)));
        let limits = [0, 1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 3 * size - 1];
        for (first, last) in limits.iter().flat_map(|first| limits.map(|last| (*first, last))) {
            let text = columns.answer(0, first, last, &[50.0]);
            assert_eq!(text.is_some(), first <= last, "{first} to {last}");
            let Some(text) = text else { continue };
            let answer: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            let fees: Vec<_> = (first..=last).map(|number| format!("{number:#x}")).collect();
            let found = answer["baseFeePerGas"].as_array().expect("a list");
            assert_eq!(found[..found.len() - 1], fees, "{first} to {last}");
            assert_eq!(answer["reward"].as_array().expect("a list").len(), fees.len());
        }
    }

    #[test]
    fn readers_keep_their_blocks_while_others_are_added() {
        let columns = FeeColumns::default();
        columns.push(0, 5, entry(5, 1));
        let before = columns.recent.load_full();
        (6..6 + 2 * RECENT_BLOCKS as u64)
            .for_each(|number| columns.push(0, number, entry(number, 1)));
        assert!(before.has(5, 5) && !columns.has(0, 5, 5));
    }

    /// The number of priority fees is limited too, but the newest chunk stays.
    #[test]
    fn blocks_with_many_priority_fees_are_removed_sooner() {
        let columns = FeeColumns::default();
        let tips = MAX_TIPS / CHUNK_BLOCKS / 2 + 1;
        (0..3 * CHUNK_BLOCKS as u64)
            .for_each(|number| columns.push(0, number, entry(number, tips)));
        let recent = columns.recent.load();
        let stored: usize = recent.chunks.iter().map(|chunk| chunk.tips()).sum();
        assert!(stored <= MAX_TIPS);
        assert_eq!(recent.first(), 2 * CHUNK_BLOCKS as u64);
    }
}
