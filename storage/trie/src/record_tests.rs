//! Tests that records round-trip, and that damaged bytes are decoded safely.

#[path = "record_checks.rs"]
mod record_checks;

use alloy_primitives::{Bytes, KECCAK256_EMPTY};
use alloy_trie::nodes::RlpNode;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::primitive::DecodeError;
use record_checks::{account, b256, bytes, check, damage, encoded};

fn path(nibbles: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Nibbles> {
    vec(0..16u8, nibbles).prop_map(Nibbles::from_nibbles)
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let plain = account().prop_map(|account| {
        let account = Account { code_hash: KECCAK256_EMPTY, ..account };
        let root = EMPTY_ROOT_HASH;
        Bytes::from(alloy_rlp::encode(alloy_trie::TrieAccount::new(
            account.nonce,
            account.balance,
            root,
            account.code_hash,
        )))
    });
    (path(0..=64), prop_oneof![bytes(1..110), plain]).prop_map(|(suffix, value)| {
        Leaf::embedded(suffix, value.clone()).unwrap_or_else(|| {
            let mut leaf = Leaf { suffix, value, reference: RlpNode::default() };
            let mut rlp = Vec::new();
            leaf.encode_rlp(&mut rlp);
            leaf.reference = RlpNode::from_rlp(&rlp);
            leaf
        })
    })
}

fn node() -> impl Strategy<Value = Node> {
    let reference = prop_oneof![
        b256().prop_map(|hash| RlpNode::word_rlp(&hash)),
        vec(any::<u8>(), 0..32).prop_map(|rlp| RlpNode::from_raw(&rlp).unwrap()),
    ];
    let child = prop_oneof![reference.prop_map(Child::Node), leaf().prop_map(Child::Leaf)];
    let branch = (path(0..=62), any::<u16>(), vec(child, 16)).prop_map(|(prefix, mask, all)| {
        let mask = mask | 0x8001;
        let children = all.into_iter().take(mask.count_ones() as usize).collect();
        Node::Branch(Branch { prefix, mask, children })
    });
    prop_oneof![1 => leaf().prop_map(Node::Leaf), 3 => branch]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nodes_round_trip(value in node(), damage in damage()) {
        let decode = |bytes: &[u8]| decode_node(&Bytes::copy_from_slice(bytes));
        check(&value, encode_node, decode, damage)?;
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_canonical(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(value) = decode_node(&Bytes::copy_from_slice(&bytes)) {
            prop_assert_eq!(&encoded(encode_node, &value), &bytes);
        }
    }

    #[test]
    fn path_keys_are_unique(a in path(0..=64), b in path(0..=64)) {
        let (key_a, key_b) = (encoded(encode_path_key, &a), encoded(encode_path_key, &b));
        prop_assert_eq!(key_a == key_b, a == b);
    }
}

/// Checks the example in `docs/storage-format.md`.
#[test]
fn path_key_is_as_documented() {
    let path = Nibbles::from_nibbles([1, 2, 3]);
    assert_eq!(encoded(encode_path_key, &path), [0x12, 0x30, 3]);
}
