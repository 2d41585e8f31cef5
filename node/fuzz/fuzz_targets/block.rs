//! Decodes bytes as a block of an import file, and reads the block in every other way in which stored blocks are read.
//! A decoded block has exactly one encoding.
#![no_main]

use alloy_primitives::{Bytes, keccak256};
use chain::block::{Block, join};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    check_body(&bytes);
    let Ok(block) = Block::decode(&bytes) else { return };
    let header = alloy_rlp::encode(&block.header);
    let body = block.encode_body();
    assert_eq!(join(&header, &body), data, "a block has one encoding");
    assert_eq!(block.hash, keccak256(&header));
    assert_eq!(block.rlp_bytes, data.len());
    let stored = Block::from_parts(block.hash, &header, &body).expect("its parts are a block");
    assert_eq!(stored, block);
    assert_eq!(Block::ommers_of(&body).as_ref(), Ok(&block.ommers));
    let raw = Block::raw_transactions(&body).expect("the body has a list of transactions");
    let raw: Vec<_> = raw.map(|raw| raw.expect("it was decoded")).collect();
    assert_eq!(raw, block.transactions.iter().map(|tx| tx.as_ref()).collect::<Vec<_>>());
    for (index, tx) in block.transactions.iter().enumerate() {
        assert_eq!(Block::transaction_at(&body, index), Ok(Some(tx.clone())));
    }
    assert_eq!(Block::transaction_at(&body, block.transactions.len()), Ok(None));
});

/// Reads bytes that need not be a body.
fn check_body(bytes: &Bytes) {
    let _ = Block::ommers_of(bytes);
    let _ = Block::transaction_range(bytes, 3);
    if let Ok(raw) = Block::raw_transactions(bytes) {
        let total: usize = raw.map_while(Result::ok).map(<[u8]>::len).sum();
        assert!(total <= bytes.len());
    }
}
