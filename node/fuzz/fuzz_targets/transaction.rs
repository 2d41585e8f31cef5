//! Decodes bytes as an Ethereum or Cosmos transaction, and recovers its sender.
//!
//! A decoded Ethereum transaction has exactly one encoding, the sender does not depend on the batch, and the
//! normal form of a Cosmos transaction is its own normal form.
#![no_main]

use alloy_consensus::transaction::SignerRecoverable;
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Bytes, keccak256};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use transactions::{DecodedTx, Senders, cosmos, is_blob_tx, split};
use verify::{Backend, Recoverer};

const CHAIN_ID: u64 = 262_144;
/// Blob transactions of this many bytes or more are not split: checking their proofs takes too long for one execution.
const MIN_SKIPPED_BYTES: usize = 100_000;

thread_local! {
    static SENDERS: RefCell<Senders> = {
        let backend = Backend::detect().expect("EVMD_VERIFY_BACKEND is not set");
        RefCell::new(Senders::of_chain(Recoverer::new(backend), CHAIN_ID))
    };
}

fuzz_target!(|data: &[u8]| {
    let raw = Bytes::copy_from_slice(data);
    let recovered: Vec<_> = SENDERS.with_borrow_mut(|senders| {
        senders.recover(&[raw.clone(), raw.clone()]).map(Result::ok).collect()
    });
    let decoded = DecodedTx::decode(raw.clone());
    if let Ok(tx) = &decoded {
        assert_eq!((&tx.raw, tx.hash), (&raw, keccak256(data)));
        match &tx.cosmos {
            Some(cosmos) => check_cosmos(data, cosmos),
            None => assert_eq!(tx.tx.encoded_2718(), data, "a transaction has one encoding"),
        }
    }
    match recovered.as_slice() {
        [Some(first), Some(second)] => {
            let decoded = decoded.expect("a recovered transaction decodes");
            assert_eq!((first.hash, first.sender), (second.hash, second.sender));
            assert_eq!(first.hash, decoded.hash);
            if first.cosmos.is_none() {
                let sender = first.tx.recover_signer_unchecked().expect("it is signed");
                assert_eq!(first.sender, sender);
            }
            first.authorities(CHAIN_ID);
        }
        [None, None] => {}
        _ => panic!("the result depends on the position in the batch"),
    }
    if is_blob_tx(data) && data.len() < MIN_SKIPPED_BYTES {
        let _ = split(data);
    }
    let normal = cosmos::normalised(data.to_vec());
    assert_eq!(cosmos::normalised(normal.clone()), normal);
});

fn check_cosmos(data: &[u8], tx: &cosmos::CosmosTx) {
    assert!(tx.size <= data.len());
    assert!(tx.recipients().count() <= data.len());
    assert!(tx.body_bytes.len() + tx.auth_info_bytes.len() <= data.len());
    // A document that a wallet signs is longer than the transaction because of escapes and field names.
    assert!(tx.sign_bytes(CHAIN_ID).len() <= 64 * (data.len() + 64));
}
