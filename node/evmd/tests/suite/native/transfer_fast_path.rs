//! Compares the fast path of plain transfers with the interpreter: the same random blocks must have the same results.

use super::ledger::{GWEI, Ledger, STORE, call, dev, from, legacy};
use crate::common::both_ways::FastHost;
use alloy_consensus::{Header, TxEip1559, TxEip2930, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, TxKind, U256, hex};
use chain::{ChainSpec, FEE_COLLECTOR, Genesis};
use evm::BlockBuilder;
use modules::Modules;
use proptest::prelude::*;
use storage::{Account, StateChanges};
use transactions::RecoveredTx;

/// The fee recipient of the block.
const COINBASE: Address = Address::repeat_byte(0xcb);
/// An account with code.
const CONTRACT: Address = Address::repeat_byte(0xc1);
/// An account that delegates to [`CONTRACT`] (EIP-7702).
const DELEGATED: Address = Address::repeat_byte(0xde);
/// An account that can pay for a transfer, but not for much more.
const POOR: Address = Address::repeat_byte(0x00);
/// An empty account that exists, as was possible before EIP-161.
const EMPTY: Address = Address::repeat_byte(0xe0);
/// An account with the maximum balance.
const FULL: Address = Address::repeat_byte(0xff);
/// An account whose nonce is close to the maximum.
const OLD: Address = Address::repeat_byte(0x0d);

/// Returns the sender or recipient with this index.
fn account(index: u8) -> Address {
    let others = [
        COINBASE,
        FEE_COLLECTOR,
        CONTRACT,
        DELEGATED,
        POOR,
        EMPTY,
        FULL,
        OLD,
        Address::with_last_byte(4),
        Address::left_padding_from(&[1, 0]),
        Address::left_padding_from(&[0x70, 0, 1]),
    ];
    match usize::from(index) {
        index @ 0..=4 => dev(index),
        index if index < 5 + others.len() => others[index - 5],
        // An address without an account.
        index => Address::repeat_byte(0x80 + index as u8),
    }
}

/// Number of senders and recipients, including some that do not exist yet.
const ACCOUNTS: u8 = 20;

#[derive(Clone, Debug)]
struct Seed {
    from: u8,
    to: u8,
    kind: u8,
    shift: u64,
    gas: u64,
    price: u128,
    tip: u128,
    value: U256,
    data: bool,
    access: bool,
    chain_id: u64,
}

prop_compose! {
    fn seed()(
        from in prop_oneof![6 => 0..5_u8, 4 => 5..ACCOUNTS],
        to in 0..ACCOUNTS,
        kind in 0..4_u8,
        shift in prop_oneof![10 => Just(0_u64), 1 => 1..3_u64],
        gas in prop_oneof![4 => Just(21_000_u64), 1 => Just(20_999), 2 => 21_000..200_000_u64],
        price in prop_oneof![6 => Just(100 * GWEI), 1 => 0..3 * GWEI, 1 => any::<u128>()],
        tip in prop_oneof![3 => Just(0), 3 => Just(GWEI), 1 => any::<u128>()],
        value in prop_oneof![
            4 => (1..1_000_u64).prop_map(U256::from),
            1 => Just(U256::ZERO),
            1 => any::<u64>().prop_map(U256::from),
            1 => Just(U256::from(10).pow(U256::from(22))),
            1 => Just(U256::MAX),
        ],
        data in prop_oneof![6 => Just(false), 1 => Just(true)],
        access in prop_oneof![6 => Just(false), 1 => Just(true)],
        chain_id in prop_oneof![20 => Just(262_144_u64), 1 => Just(1)],
    ) -> Seed {
        Seed { from, to, kind, shift, gas, price, tip, value, data, access, chain_id }
    }
}

fn build(seed: &Seed, nonce: u64) -> RecoveredTx {
    let (sender, to) = (account(seed.from), account(seed.to));
    let nonce = nonce.saturating_add(seed.shift);
    let (value, gas_price) = (seed.value, seed.price);
    let input = if seed.data { vec![0, 1].into() } else { Default::default() };
    let access_list = AccessList(if seed.access {
        vec![AccessListItem { address: to, storage_keys: vec![B256::ZERO] }]
    } else {
        Vec::new()
    });
    match seed.kind {
        0 => {
            let chain_id = (!seed.access).then_some(seed.chain_id);
            let base = legacy(nonce, to, seed.gas);
            from(sender, TxLegacy { chain_id, gas_price, value, input, ..base })
        }
        1 => {
            let (chain_id, gas_limit, to) = (seed.chain_id, seed.gas, TxKind::Call(to));
            from(
                sender,
                TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list, input },
            )
        }
        _ => from(
            sender,
            TxEip1559 {
                chain_id: seed.chain_id,
                max_fee_per_gas: seed.price,
                max_priority_fee_per_gas: seed.tip,
                value,
                input,
                access_list,
                ..call(nonce, to, seed.gas)
            },
        ),
    }
}

/// Returns the rules and the state before a block, the modules of a native chain, and the header of the block.
fn world(native: bool, multiplier: u64) -> (ChainSpec, Ledger, Option<Modules>, Header) {
    let mut file: serde_json::Value =
        serde_json::from_str(&Genesis::native_dev(1_700_000_000).to_json()).unwrap();
    if native {
        file["config"]["evmd"]["feemarket"]["params"]["min_gas_multiplier"] =
            format!("0.{multiplier}").into();
    } else {
        file["config"].as_object_mut().unwrap().remove("evmd");
    }
    let genesis = Genesis::from_json(&file.to_string()).unwrap();
    let mut ledger = Ledger::default();
    ledger.apply(&genesis.state());
    ledger.put(CONTRACT, U256::ZERO, STORE);
    let designator = [&hex!("ef0100")[..], CONTRACT.as_slice()].concat();
    ledger.put(DELEGATED, U256::from(10).pow(U256::from(20)), &designator);
    ledger.put(POOR, U256::from(21_000 * 100 * GWEI + 500), &[]);
    ledger.put(EMPTY, U256::ZERO, &[]);
    ledger.put(FULL, U256::MAX, &[]);
    let old = Account { nonce: u64::MAX - 2, ..ledger.get(dev(0)) };
    ledger.accounts.insert(OLD, (old, Default::default()));
    let modules = genesis.spec.native().map(Modules::genesis);
    let genesis_header = genesis.header();
    let header = Header {
        number: 1,
        timestamp: genesis_header.timestamp + 1,
        parent_hash: genesis_header.hash_slow(),
        beneficiary: COINBASE,
        base_fee_per_gas: Some(1_000_000_000),
        ..genesis_header
    };
    (genesis.spec, ledger, modules, header)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn transfer_fast_path_equals_the_interpreter(
        seeds in proptest::collection::vec(seed(), 1..30),
        native in any::<bool>(),
        multiplier in 0..=9_u64,
        gas_limit in prop_oneof![3 => Just(30_000_000_u64), 1 => 60_000..400_000_u64],
    ) {
        let (spec, ledger, modules, header) = world(native, multiplier);
        let header = Header { gas_limit, ..header };
        let hashes = |_: u64| None;
        let root = |_: &StateChanges| Ok(B256::ZERO);
        let fast_host = FastHost(&hashes);
        let start = |host| BlockBuilder::start(&spec, &ledger, host, modules.as_ref(), &header);
        let (mut fast, mut plain) = (start(&fast_host).unwrap(), start(&hashes).unwrap());
        let mut nonces = std::collections::BTreeMap::new();
        for seed in &seeds {
            let sender = account(seed.from);
            let nonce = nonces.entry(sender).or_insert_with(|| ledger.get(sender).nonce);
            let tx = build(seed, *nonce);
            let verdict = fast.push(&tx, &root).unwrap();
            let expected = plain.push(&tx, &root).unwrap();
            prop_assert_eq!(format!("{verdict:?}"), format!("{expected:?}"), "{:?}", seed);
            *nonce += u64::from(verdict.is_ok());
        }
        let fast = fast.finish(&[], Some(&[])).unwrap();
        prop_assert_eq!(fast, plain.finish(&[], Some(&[])).unwrap());
    }
}

/// If the fast path did not accept transfers to a new account, the comparison above would mean nothing.
#[test]
fn transfers_of_the_fast_path_succeed() {
    let (spec, ledger, modules, header) = world(true, 5);
    let hashes = |_: u64| None;
    let root = |_: &StateChanges| Ok(B256::ZERO);
    let host = FastHost(&hashes);
    let mut block = BlockBuilder::start(&spec, &ledger, &host, modules.as_ref(), &header).unwrap();
    for nonce in 0..3 {
        let value = U256::from(5);
        let tx = from(dev(0), TxEip1559 { value, ..call(nonce, account(ACCOUNTS), 100_000) });
        // At least half of the limit is charged.
        assert_eq!(block.push(&tx, &root).unwrap().unwrap(), 50_000);
    }
    let executed = block.finish(&[], Some(&[])).unwrap();
    let change = executed.changes.accounts.iter().find(|c| c.address == account(ACCOUNTS)).unwrap();
    assert_eq!(change.account.unwrap().balance, U256::from(15));
}
