//! Tests the fee market from block to block, and the encoding of its stored data.

use super::{dec, params::any_params};
use alloy_primitives::Bytes;
use feemarket::{
    Event, Genesis, LegacyDec, Market, Params, TokenDecimals,
    store::{self, Record, RowError},
};
use proptest::prelude::*;

const LIMIT: u64 = 10_000_000;

fn market(params: Params) -> Market {
    Market::new(Genesis { params, block_gas: 0 }, TokenDecimals::EVM).unwrap()
}

/// Executes blocks that use this gas; returns the base fee of each, in wei.
fn run(market: &mut Market, first: u64, limit: u64, used: &[u64]) -> Vec<u64> {
    let block = |(height, used): (u64, &u64)| {
        market.begin_block(height, limit);
        let base_fee = market.base_fee_wei();
        market.end_block(*used, *used).unwrap();
        base_fee
    };
    (first..).zip(used).map(block).collect()
}

#[test]
fn block_1_changes_the_base_fee_of_genesis() {
    let fees = run(&mut market(Params::default()), 1, LIMIT, &[0, LIMIT, LIMIT / 2, 0]);
    assert_eq!(fees, [875_000_000, 765_625_000, 861_328_125, 861_328_125]);
}

#[test]
fn base_fee_is_constant_until_the_enable_height() {
    let at = |enable_height| Params { enable_height, ..Params::default() };
    let fees = run(&mut market(at(1)), 1, LIMIT, &[0, 0]);
    assert_eq!(fees, [1_000_000_000, 875_000_000]);
    let mut idle = market(at(3));
    assert_eq!(idle.begin_block(1, LIMIT), None, "no event");
    assert!(!idle.counts_gas(2) && idle.counts_gas(3));
    assert_eq!(idle.base_fee_wei(), 1_000_000_000, "the base fee applies even so");
    assert_eq!(run(&mut idle, 2, LIMIT, &[0, 0, 0]), [1_000_000_000, 1_000_000_000, 875_000_000]);
}

#[test]
fn events_contain_base_fee_and_gas() {
    let mut market = market(Params::default());
    let began = market.begin_block(1, LIMIT).unwrap();
    assert_eq!(began.kind(), "fee_market");
    let fee = "875000000.000000000000000000".to_owned();
    assert_eq!(began.attributes(), [("base_fee", fee)]);
    let evm = market.evm_event();
    assert_eq!(evm.kind(), "evm_fee_market");
    assert_eq!(evm.attributes(), [("base_fee", "875000000".to_owned())]);
    let ended = Event::BlockGas { height: 1, amount: 21_000 };
    assert_eq!(ended.kind(), "block_gas");
    let attributes = [("height", "1".to_owned()), ("amount", "21000".to_owned())];
    assert_eq!(ended.attributes(), attributes);
}

#[test]
fn without_a_base_fee_only_the_gas_is_updated() {
    let mut market = market(Params { no_base_fee: true, ..Params::default() });
    assert_eq!(market.begin_block(5, LIMIT), None);
    assert_eq!((market.base_fee(), market.base_fee_wei()), (None, 0));
    assert!(!market.counts_gas(5));
    assert_eq!(market.end_block(0, 70_000), Ok(70_000));
    assert_eq!(market.block_gas(), 70_000);
    assert_eq!(market.params().base_fee, dec("1000000000"), "kept for later");
    assert_eq!(market.next_base_fee_wei(6, LIMIT), 0);
}

#[test]
fn without_a_gas_limit_the_base_fee_decays() {
    let mut market = market(Params::default());
    for height in 1..=156 {
        market.begin_block(height, u64::MAX);
        assert_eq!(market.params().base_fee < LegacyDec::ONE, height == 156, "block {height}");
    }
    for height in 157..=455 {
        market.begin_block(height, u64::MAX);
    }
    assert_eq!(market.params().base_fee, dec("0.000000000000000007"));
    market.begin_block(456, u64::MAX);
    assert_eq!(market.params().base_fee, dec("0.000000000000000007"));
}

#[test]
fn base_fee_is_never_below_the_floor() {
    let floor = |floor: &str| Params { min_gas_price: dec(floor), ..Params::default() };
    let mut raised = market(floor("2000000000"));
    assert_eq!(raised.base_fee_wei(), 2_000_000_000, "raised in genesis");
    assert_eq!(run(&mut raised, 1, LIMIT, &[0, 0]), [2_000_000_000, 2_000_000_000]);
    raised.update(floor("3000000000")).unwrap();
    assert_eq!(raised.base_fee_wei(), 3_000_000_000, "raised by an update");
    // With a gas target of zero, the formula alone would ignore the floor.
    let params = Params { elasticity_multiplier: u32::MAX, ..floor("5") };
    let mut targetless = market(params);
    targetless.end_block(1, 1).unwrap();
    targetless.begin_block(1, LIMIT);
    assert_eq!(targetless.base_fee_wei(), 5);
}

#[test]
fn rejected_update_changes_nothing() {
    let mut market = market(Params::default());
    let before = market.clone();
    let zero = Params { elasticity_multiplier: 0, ..Params::default() };
    assert!(market.update(zero).is_err());
    let too_large = Params { base_fee: dec("99999999999999999999"), ..Params::default() };
    assert!(market.update(too_large).is_err());
    assert!(market.end_block(u64::MAX, 0).is_err() && market.end_block(0, u64::MAX).is_err());
    assert_eq!(market, before);
    let slower = Params { base_fee_change_denominator: 16, ..Params::default() };
    market.update(slower).unwrap();
    assert_eq!(market.next_base_fee_wei(1, LIMIT), 937_500_000);
}

#[test]
fn base_fee_always_fits_into_a_header() {
    let base_fee = dec("18446744073709551000");
    let params = Params { base_fee, base_fee_change_denominator: 1, ..Params::default() };
    let mut market = market(params);
    market.end_block(100, 100).unwrap();
    assert_eq!(run(&mut market, 1, 100, &[100, 100, 100, 50])[2..], [u64::MAX, u64::MAX]);
}

#[test]
fn genesis_keys_equal_those_of_the_specification() {
    let mut market = market(Params::default());
    market.end_block(0, 0x0102).unwrap();
    let pairs = store::pairs(&market);
    let keys: Vec<&[u8]> = pairs.keys().map(|key| key.as_ref()).collect();
    assert_eq!(keys, [b"feemarket/\x00", b"feemarket/\x01"]);
    assert_eq!(pairs[&store::key(1)].as_ref(), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(pairs[&store::key(0)].as_ref(), Params::default().to_proto());
}

#[test]
fn damaged_rows_are_rejected() {
    let decode = |pairs: &store::Pairs| store::market(pairs, TokenDecimals::EVM);
    assert_eq!(decode(&store::Pairs::new()), Ok(market(Params::default())), "no rows: defaults");
    let row_of = |key: Bytes, value: &'static [u8]| store::Pairs::from([(key, value.into())]);
    let too_short = decode(&row_of(store::key(1), b"\0"));
    assert_eq!(too_short, Err(RowError::BlockGas(1)));
    assert!(matches!(decode(&row_of(store::key(2), b"")), Err(RowError::UnknownKey(_))));
    assert!(matches!(decode(&row_of(store::key(0), b"\xff")), Err(RowError::Market(_))));
    assert!(matches!(decode(&row_of(store::key(0), b"")), Err(RowError::Market(_))), "zeros");
    assert!(decode(&row_of(Bytes::from("gov/\0"), b"anything")).is_ok(), "another module's");
    let row = store::encode(&store::pairs(&market(Params::default())));
    assert!(store::decode(&row).is_ok());
    assert!(store::decode(&row[..row.len() - 1]).is_err());
    assert!(store::decode(&[&row[..], &[0]].concat()).is_err());
    let unsorted = rlp_list(&[(&b"b"[..], &b"1"[..]), (b"a", b"2")]);
    assert!(matches!(store::decode(&unsorted), Err(RowError::Order(_))));
}

/// An RLP list of pairs of short strings.
fn rlp_list(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let string = |bytes: &[u8]| match bytes {
        [byte] if *byte < 0x80 => vec![*byte],
        short => [&[0x80 + u8::try_from(short.len()).unwrap()], short].concat(),
    };
    let list =
        |payload: Vec<u8>| [vec![0xc0 + u8::try_from(payload.len()).unwrap()], payload].concat();
    list(pairs.iter().flat_map(|(k, v)| list([string(k), string(v)].concat())).collect())
}

proptest! {
    /// All parameters are either rejected or result in a market that never halts and satisfies its guarantees.
    #[test]
    fn valid_parameters_never_halt_a_chain(
        params in any_params(),
        decimals in 1..=18_u8,
        limit in prop_oneof![0..100_u64, any::<u64>()],
        blocks in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..20),
    ) {
        let token = TokenDecimals::new(decimals).unwrap();
        let Ok(mut market) = Market::new(Genesis { params, block_gas: 0 }, token) else {
            return Ok(());
        };
        for (height, (wanted, consumed)) in (1..).zip(blocks) {
            let predicted = market.next_base_fee_wei(height, limit);
            market.begin_block(height, limit);
            prop_assert_eq!(market.base_fee_wei(), predicted);
            prop_assert!(market.params().base_fee >= market.params().min_gas_price);
            prop_assert!(market.end_block(wanted >> 1, consumed >> 1).is_ok());
            let events = vec![market.evm_event().into()];
            let record = Record { row: store::encode(&store::pairs(&market)), events, gov: None };
            let again = Record::from_bytes(&record.to_bytes()).unwrap();
            prop_assert_eq!(again.root(), record.root());
            let pairs = store::decode(&again.row).unwrap();
            prop_assert_eq!(store::market(&pairs, token).unwrap(), market.clone());
            prop_assert_eq!(&again, &record);
        }
    }

    #[test]
    fn arbitrary_records_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        drop(Record::from_bytes(&bytes));
        drop(store::decode(&bytes));
    }

    #[test]
    fn damaged_records_do_not_panic(at in 0..200_usize, byte: u8) {
        let row = store::encode(&store::pairs(&market(Params::default())));
        let record = Record { row, events: Vec::new(), gov: None };
        let mut bytes = record.to_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(read) = Record::from_bytes(&bytes) {
            drop(store::decode(&read.row).map(|pairs| store::market(&pairs, TokenDecimals::EVM)));
        }
    }
}
