//! Compares execution with predicted slots to execution that reads slots on demand: the same random blocks must have
//! the same results.

use super::ledger::{Ledger, call, dev, from};
use crate::common::both_ways::FastHost;
use alloy_consensus::{Header, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use chain::{ChainSpec, Genesis};
use evm::BlockBuilder;
use modules::Modules;
use proptest::prelude::*;
use std::{cell::Cell, convert::Infallible};
use storage::{Account, StateChanges, StateRead};
use transactions::RecoveredTx;

/// Increments the sender's entry in a mapping, adds the second argument to the entry of the first, increments the entry
/// of the first argument and the sender in a nested mapping, and stores two hashes of other bytes. Reverts if the third
/// argument is not zero.
const CODE: &[u8] = &hex!(
    "33 5f 52 60 03 60 20 52 60 40 5f 20 80 54 60 01 01 90 55"
    "60 04 35 5f 52 60 40 5f 20 80 54 60 24 35 01 90 55"
    "60 05 60 20 52 60 40 5f 20 60 20 52 33 5f 52 60 40 5f 20 80 54 60 01 01 90 55"
    "60 40 60 01 20 60 09 55 60 20 5f 20 60 0a 55"
    "60 44 35 15 60 57 57 5f 5f fd 5b 00"
);
/// Number of slots in a call that are not in mappings.
const OTHERS: usize = 2;

/// A state that counts the slots that are read individually.
struct Counted<'a> {
    ledger: &'a Ledger,
    single: Cell<usize>,
}

impl StateRead for Counted<'_> {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        self.ledger.account(address)
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Infallible> {
        self.single.set(self.single.get() + 1);
        self.ledger.storage(address, slot)
    }

    fn slots(&self, address: Address, slots: &[U256]) -> Result<Vec<U256>, Infallible> {
        self.ledger.slots(address, slots)
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, Infallible> {
        self.ledger.code(code_hash)
    }

    fn has_storage(&self, address: Address) -> Result<bool, Infallible> {
        self.ledger.has_storage(address)
    }
}

/// The development chain, with the contract at several addresses.
struct World {
    spec: ChainSpec,
    ledger: Ledger,
    modules: Modules,
    header: Header,
}

impl World {
    fn with(contracts: &[Address]) -> Self {
        let genesis = Genesis::native_dev(1_700_000_000);
        let mut ledger = Ledger::default();
        ledger.apply(&genesis.state());
        contracts.iter().for_each(|contract| ledger.put(*contract, U256::ZERO, CODE));
        let modules = Modules::genesis(genesis.spec.native().unwrap());
        let before = genesis.header();
        let header = Header {
            number: 1,
            timestamp: before.timestamp + 1,
            parent_hash: before.hash_slow(),
            base_fee_per_gas: Some(1_000_000_000),
            ..before
        };
        Self { spec: genesis.spec, ledger, modules, header }
    }

    /// Executes transactions, with or without prediction. Also returns the number of slots that were read individually.
    fn block(&self, txs: &[RecoveredTx], predict: bool) -> (evm::Executed, usize) {
        let state = Counted { ledger: &self.ledger, single: Cell::new(0) };
        let (hashes, root) = (|_: u64| None, |_: &StateChanges| Ok(B256::ZERO));
        let host = FastHost(&hashes);
        let mut block =
            BlockBuilder::start(&self.spec, &state, &host, Some(&self.modules), &self.header)
                .unwrap();
        let before = state.single.get();
        if predict {
            block.preload(txs).unwrap();
        }
        for (at, tx) in txs.iter().enumerate() {
            if predict {
                block.prepare_next(txs, at);
            }
            block.push(tx, &root).unwrap().unwrap();
        }
        let read = state.single.get() - before;
        (block.finish(&[], Some(&[])).unwrap(), read)
    }
}

/// A call of a contract: sender, contract, first argument, second argument, and whether there is a third argument.
type Seed = (usize, Address, u64, u64, bool);

fn calls(seeds: &[Seed]) -> Vec<RecoveredTx> {
    let mut nonces = [0; 3];
    let tx = |(sender, to, first, second, third): &Seed| {
        let words =
            [*first, *second, u64::from(*third)].map(|word| U256::from(word).to_be_bytes::<32>());
        let words = words.concat();
        let input = [&[1, 2, 3, 4][..], &words[..if *third { 96 } else { 64 }]].concat().into();
        nonces[*sender] += 1;
        from(dev(*sender), TxEip1559 { input, ..call(nonces[*sender] - 1, *to, 400_000) })
    };
    seeds.iter().map(tx).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prediction_does_not_change_results(
        seeds in prop::collection::vec(
            (0..3_usize, (0x71..0x73_u8).prop_map(Address::repeat_byte), 0..5_u64, 0..3_u64, prop::bool::weighted(0.1)),
            8..40,
        ),
    ) {
        let mut world = World::with(&[Address::repeat_byte(0x71), Address::repeat_byte(0x72)]);
        let txs = calls(&seeds);
        let (expected, _) = world.block(&txs, false);
        for _ in 0..2 {
            prop_assert_eq!(&world.block(&txs, true).0, &expected);
        }
        // The block is executed again with slots that are not zero.
        world.ledger.apply(&expected.changes);
        for sender in 0..3 {
            world.ledger.accounts.get_mut(&dev(sender)).unwrap().0.nonce = 0;
        }
        prop_assert_eq!(world.block(&txs, true).0, world.block(&txs, false).0);
    }
}

#[test]
fn mapping_slots_are_read_together_after_a_first_call() {
    let contract = Address::repeat_byte(0x73);
    let world = World::with(&[contract]);
    let seeds: Vec<Seed> = (0..20).map(|n| (n % 3, contract, n as u64 + 10, 1, false)).collect();
    let txs = calls(&seeds);
    let (first, read) = world.block(&txs, true);
    assert_eq!(first, world.block(&txs, false).0);
    // The slots of 3 senders, of 20 first arguments, and of 20 pairs of argument and sender.
    let expected = 3 + 20 + 20 + OTHERS;
    assert_eq!(read, expected, "the contract was not called before");
    assert_eq!(world.block(&txs, true), (first, OTHERS));
}
