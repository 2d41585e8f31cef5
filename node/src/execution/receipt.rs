//! Receipts, their root and their bloom.

use alloy_consensus::EMPTY_ROOT_HASH;
use alloy_primitives::{B256, Bloom, Log};
use alloy_rlp::{BufMut, Encodable, Header as RlpHeader};
use alloy_trie::root::ordered_trie_root_with_encoder;
use storage::{ReceiptOutcome, StoredReceipt};

/// The bloom filter over the address and topics of `logs`.
pub fn logs_bloom<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue_log(log);
    }
    bloom
}

/// Writes the consensus form of a receipt: type byte unless legacy, then outcome, gas, bloom, logs.
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

/// The receipts root and the block's bloom.
pub fn receipts_root(receipts: &[StoredReceipt]) -> (B256, Bloom) {
    if receipts.is_empty() {
        return (EMPTY_ROOT_HASH, Bloom::ZERO);
    }
    let mut block_bloom = Bloom::ZERO;
    let root = ordered_trie_root_with_encoder(receipts, |receipt, out| {
        let bloom = logs_bloom(&receipt.logs);
        block_bloom.accrue_bloom(&bloom);
        encode_receipt(receipt, &bloom, out);
    });
    (root, block_bloom)
}
