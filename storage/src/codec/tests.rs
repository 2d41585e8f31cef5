//! Tests that values round-trip, and that damaged bytes are decoded safely.

#[path = "../../trie/src/record_checks.rs"]
mod record_checks;

use alloy_primitives::{Address, B256, Bytes, Log, U256};
use proptest::collection::vec;
use proptest::prelude::*;

use super::state::encode_account;
use super::*;
use crate::flags::BlockFlags;
use crate::receipt::{ReceiptOutcome, StoredReceipt};
use crate::{Account, AccountChange, StateChanges};
use record_checks::{account, b256, bytes, check, damage, encoded, varint, word};
use trie::primitive::{DecodeError, put_varint};

fn address() -> impl Strategy<Value = Address> {
    any::<[u8; 20]>().prop_map(Address::new)
}

fn changes() -> impl Strategy<Value = StateChanges> {
    let change =
        (address(), prop::option::of(account()), any::<bool>(), vec((word(), word()), 0..5));
    let change = change.prop_map(|(address, account, wiped, slots)| AccountChange {
        address,
        account,
        wiped,
        slots,
    });
    (vec(change, 0..5), vec((b256(), bytes(0..80)), 0..3))
        .prop_map(|(accounts, codes)| StateChanges { accounts, codes })
}

fn receipts() -> impl Strategy<Value = Vec<StoredReceipt>> {
    let outcome = prop_oneof![
        any::<bool>().prop_map(ReceiptOutcome::Status),
        b256().prop_map(ReceiptOutcome::PostState),
    ];
    let log = (address(), vec(b256(), 0..5), bytes(0..80))
        .prop_map(|(address, topics, data)| Log::new_unchecked(address, topics, data));
    let receipt = (any::<u8>(), outcome, varint(), vec(log, 0..4)).prop_map(
        |(tx_type, outcome, cumulative_gas_used, logs)| StoredReceipt {
            tx_type,
            outcome,
            cumulative_gas_used,
            logs,
        },
    );
    vec(receipt, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn accounts_round_trip(value in account(), damage in damage()) {
        check(&value, encode_account, decode_account, damage)?;
    }

    #[test]
    fn changes_round_trip(value in changes(), damage in damage()) {
        let decode = |bytes: &[u8]| decode_changes(Bytes::copy_from_slice(bytes));
        check(&value, encode_changes, decode, damage)?;
    }

    #[test]
    fn receipts_round_trip(value in receipts(), damage in damage()) {
        let encode = |out: &mut Vec<u8>, value: &Vec<_>| encode_receipts(out, value);
        let decode = |bytes: &[u8]| decode_receipts(Bytes::copy_from_slice(bytes));
        check(&value, encode, decode, damage)?;
        let outcomes: Vec<_> = value.iter().map(|receipt| receipt.outcome).collect();
        prop_assert_eq!(decode_outcomes(&encoded(encode_receipts, &value[..]).into()), Ok(outcomes));
    }

    #[test]
    fn words_round_trip(value in word()) {
        let bytes = encoded(|out, word| encode_word(out, *word), &value);
        prop_assert_eq!(decode_word(&bytes), Ok(value));
        prop_assert!(decode_word(&[&[0], bytes.as_slice()].concat()).is_err());
    }

    #[test]
    fn senders_and_headers_round_trip(
        senders in vec(address(), 0..5), hash in b256(), header in bytes(0..80), bits in 0..8u64,
    ) {
        let mut bytes = encoded(encode_senders, &senders[..]);
        prop_assert_eq!(decode_senders(&bytes), Ok(senders));
        bytes.push(0);
        prop_assert!(decode_senders(&bytes).is_err());
        let mut bytes = Vec::new();
        let flags = BlockFlags::from_bits(bits).unwrap();
        encode_header(&mut bytes, &hash, flags, &header);
        prop_assert_eq!(decode_header(bytes.into()), Ok((hash, flags, header)));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_canonical(bytes in vec(any::<u8>(), 0..200)) {
        let shared = Bytes::copy_from_slice(&bytes);
        let _ = decode_header(shared.clone());
        let _ = decode_account_entry(&bytes);
        let _ = decode_senders(&bytes);
        if let Ok(value) = decode_changes(shared.clone()) {
            prop_assert_eq!(&encoded(encode_changes, &value), &bytes);
        }
        let outcomes = decode_outcomes(&shared);
        let receipts = decode_receipts(shared);
        prop_assert_eq!(outcomes.is_ok(), receipts.is_ok());
        if let Ok(value) = receipts {
            prop_assert_eq!(&encoded(encode_receipts, &value[..]), &bytes);
        }
    }

}

/// Memory must not be reserved for a count that exceeds the input.
#[test]
fn count_above_the_size_of_the_value_is_refused() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::MAX);
    assert!(decode_changes(bytes.clone().into()).is_err());
    assert!(decode_receipts(bytes.clone().into()).is_err());
    assert!(decode_outcomes(&bytes.into()).is_err());
}

/// Checks the layouts in `docs/storage-format.md`, byte by byte.
#[test]
fn layouts_are_as_documented() {
    let account = Account { nonce: 300, balance: U256::from(0x1234), ..Account::default() };
    assert_eq!(encoded(encode_account, &account), [0x02, 0xac, 0x02, 0x12, 0x34]);
    let coded = Account { code_hash: B256::repeat_byte(7), ..Account::default() };
    let expected = [&[0x40, 0x00][..], &[7; 32]].concat();
    assert_eq!(encoded(encode_account, &coded), expected);
    let changes = StateChanges {
        accounts: vec![AccountChange {
            address: Address::repeat_byte(1),
            account: None,
            wiped: true,
            slots: vec![(U256::from(5), U256::ZERO)],
        }],
        codes: vec![(B256::repeat_byte(2), Bytes::from_static(&[0xfe]))],
    };
    let expected = [&[1][..], &[1; 20], &[0x02, 1, 1, 5, 0], &[1], &[2; 32], &[1, 0xfe]].concat();
    assert_eq!(encoded(encode_changes, &changes), expected);
    let receipt = StoredReceipt {
        tx_type: 2,
        outcome: ReceiptOutcome::Status(true),
        cumulative_gas_used: 21000,
        logs: Vec::new(),
    };
    assert_eq!(encoded(encode_receipts, &[receipt][..]), [1, 2, 1, 0x88, 0xa4, 0x01, 0]);
}
