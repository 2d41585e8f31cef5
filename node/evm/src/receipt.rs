//! Encodes receipts, and computes their root and their bloom filters.

use alloy_primitives::{B256, Bloom, Log};
use alloy_rlp::{BufMut, Encodable, Header as RlpHeader};
use storage::{ReceiptOutcome, StoredReceipt, trie::ordered_root_with};

/// Maximum number of words of a log that are added to blooms: its address and four topics.
const MAX_LOG_WORDS: usize = 5;

/// Returns the bloom filter over the address and topics of `logs`.
pub fn logs_bloom<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_log(log);
    }
    bloom
}

/// Encodes the consensus form of a receipt: type byte unless legacy, then outcome, gas, bloom, logs.
pub fn encode_receipt(receipt: &StoredReceipt, bloom: &Bloom, out: &mut dyn BufMut) {
    if receipt.tx_type != 0 {
        out.put_u8(receipt.tx_type);
    }
    let outcome: &dyn Encodable = match &receipt.outcome {
        ReceiptOutcome::Status(status) => status,
        ReceiptOutcome::PostState(root) => root,
    };
    let payload_length = outcome.length()
        + receipt.cumulative_gas_used.length()
        + bloom.length()
        + receipt.logs.length();
    RlpHeader { list: true, payload_length }.encode(out);
    outcome.encode(out);
    receipt.cumulative_gas_used.encode(out);
    bloom.encode(out);
    receipt.logs.encode(out);
}

/// Returns the receipts root and the block's bloom. Hashes are computed in batches.
pub fn receipts_root(receipts: &[StoredReceipt]) -> (B256, Bloom) {
    let blooms = blooms(receipts);
    let mut block_bloom = Bloom::ZERO;
    for bloom in &blooms {
        block_bloom.accrue_bloom(bloom);
    }
    let root = ordered_root_with(receipts.len(), |index, out| {
        let bloom = blooms.get(index).unwrap_or(&Bloom::ZERO);
        encode_receipt(&receipts[index], bloom, out);
    });
    (root, block_bloom)
}

/// Returns the bloom of each receipt; the result is empty for a block without logs.
fn blooms(receipts: &[StoredReceipt]) -> Vec<Bloom> {
    let logs = || receipts.iter().flat_map(|receipt| &receipt.logs);
    if logs().next().is_none() {
        return Vec::new();
    }
    // Logs of one contract often have the same first topic. A word is not hashed again if it equals the last
    // word at the same position.
    let (mut items, mut positions) = (Vec::new(), Vec::new());
    let mut last = [(&[][..], 0); MAX_LOG_WORDS];
    for log in logs() {
        for (word, last) in words(log).zip(&mut last) {
            if last.0 != word {
                *last = (word, items.len());
                items.push(word);
            }
            positions.push(last.1);
        }
    }
    let mut hashes = vec![[0; 32]; items.len()];
    verify::keccak256_batch(&items, &mut hashes);
    let mut positions = positions.iter();
    let bloom = |receipt: &StoredReceipt| {
        let count = receipt.logs.iter().map(|log| words(log).count()).sum();
        let mut bloom = Bloom::ZERO;
        let hashes = positions.by_ref().take(count).map(|position| hashes[*position]);
        hashes.for_each(|hash| bloom.m3_2048_hashed((&hash).into()));
        bloom
    };
    receipts.iter().map(bloom).collect()
}

/// Returns the words of a log that are added to blooms.
fn words(log: &Log) -> impl Iterator<Item = &[u8]> {
    let topics = log.data.topics().iter().map(B256::as_slice);
    std::iter::once(log.address.as_slice()).chain(topics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes};
    use alloy_trie::root::ordered_trie_root_with_encoder;

    #[test]
    fn root_and_bloom_match_receipts_that_are_hashed_one_by_one() {
        let log = |i: u64| {
            let topics = (0..i % 5).map(|topic| B256::with_last_byte((i + topic) as u8)).collect();
            Log::new_unchecked(Address::with_last_byte(i as u8), topics, Bytes::from(vec![7; 40]))
        };
        for (count, with_logs) in [(0, true), (1, true), (5, false), (300, false), (300, true)] {
            let receipts: Vec<StoredReceipt> = (0..count)
                .map(|i| StoredReceipt {
                    tx_type: (i % 4) as u8,
                    outcome: ReceiptOutcome::Status(i % 3 > 0),
                    cumulative_gas_used: i * 30_000,
                    logs: (0..if with_logs { i % 4 } else { 0 }).map(|j| log(i + j)).collect(),
                })
                .collect();
            let mut expected = Bloom::ZERO;
            let root = ordered_trie_root_with_encoder(&receipts, |receipt, out| {
                let bloom = logs_bloom(&receipt.logs);
                expected.accrue_bloom(&bloom);
                encode_receipt(receipt, &bloom, out);
            });
            assert_eq!(receipts_root(&receipts), (root, expected), "{count}, {with_logs}");
        }
    }

    /// Tests logs whose address or topics differ from the previous log's in one byte, for every position of the byte.
    #[test]
    fn bloom_distinguishes_words_that_differ_in_one_byte() {
        let topic = B256::repeat_byte(0x11);
        for byte in 0..B256::len_bytes() {
            let (mut near_topic, mut near_address) = (topic, Address::repeat_byte(0x22));
            let address = near_address;
            near_topic[byte] ^= 1;
            near_address[byte % Address::len_bytes()] ^= 1;
            let logs = [(address, topic), (address, near_topic), (near_address, near_topic)];
            let logs = logs
                .map(|(address, topic)| Log::new_unchecked(address, vec![topic; 4], Bytes::new()));
            assert_blooms(&logs);
        }
    }

    #[test]
    fn bloom_of_random_words_matches_a_bloom_of_each_log() {
        let mut word = B256::repeat_byte(7);
        let mut next = || {
            word = alloy_primitives::keccak256(word);
            word
        };
        for _ in 0..50 {
            // About half of the topics are one of a few words that repeat.
            let logs: Vec<Log> = (0..6)
                .map(|_| {
                    let choice = next()[0];
                    let topics = (0..choice % 5).map(|bit| match choice >> bit & 8 {
                        0 => next(),
                        _ => B256::with_last_byte(bit),
                    });
                    let topics = topics.collect();
                    Log::new_unchecked(Address::from_word(next()), topics, Bytes::new())
                })
                .collect();
            assert_blooms(&logs);
        }
    }

    /// Compares the bloom of a block, and of each receipt in it, with alloy's.
    fn assert_blooms(logs: &[Log]) {
        let receipts: Vec<StoredReceipt> = logs
            .chunks(2)
            .map(|logs| StoredReceipt {
                tx_type: 2,
                outcome: ReceiptOutcome::Status(true),
                cumulative_gas_used: 30_000,
                logs: logs.to_vec(),
            })
            .collect();
        let expected: Vec<Bloom> = logs.chunks(2).map(logs_bloom).collect();
        assert_eq!(blooms(&receipts), expected);
        assert_eq!(receipts_root(&receipts).1, logs_bloom(logs));
    }
}
