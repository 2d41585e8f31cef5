//! Tests properties of random blocks of random transactions, and the decoding of damaged transactions.

use super::ledger::{
    CLEAR, Chain, GWEI, INVALID, REVERT, STORE, authorize, call, collected, dev, from, legacy,
    set_code,
};
use alloy_consensus::{Transaction as _, TxEip1559, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, U256};
use feemarket::{LegacyDec, Params, Price, fee};
use proptest::prelude::*;
use serde_json::json;
use std::sync::OnceLock;
use transactions::{DecodedTx, RecoveredTx};

/// The contracts: the byte that fills the address, and the code.
const CONTRACTS: [(u8, &[u8]); 4] = [(0xc0, REVERT), (0xc1, STORE), (0xc2, CLEAR), (0xc3, INVALID)];
/// Number of senders.
const SENDERS: usize = 4;

/// The parameters of one transaction. Its nonce is the sender's next nonce plus `shift`.
#[derive(Clone, Debug)]
struct Seed {
    sender: usize,
    shift: u64,
    kind: u8,
    to: u8,
    gas: u64,
    price: u128,
    priority_fee: u128,
    value: u64,
}

prop_compose! {
    fn seed()(
        sender in 0..SENDERS,
        shift in prop_oneof![6 => Just(0_u64), 1 => 0..2_u64],
        kind in 0..5_u8,
        to in 0..6_u8,
        gas in prop_oneof![Just(21_000_u64), 20_000..200_000_u64],
        price in prop_oneof![Just(100 * GWEI), 0..3 * GWEI, any::<u128>()],
        priority_fee in 0..2 * GWEI,
        value in prop_oneof![Just(0), any::<u64>()],
    ) -> Seed {
        Seed { sender, shift, kind, to, gas, price, priority_fee, value }
    }
}

fn build(seed: &Seed, nonce: u64) -> RecoveredTx {
    let sender = dev(seed.sender);
    let to = match seed.to {
        contract @ 0..=3 => Address::repeat_byte(CONTRACTS[usize::from(contract)].0),
        4 => dev((seed.sender + 1) % SENDERS),
        _ => Address::repeat_byte(0xee),
    };
    let (nonce, value) = (nonce + seed.shift, U256::from(seed.value));
    match seed.kind {
        0 => from(sender, TxLegacy { gas_price: seed.price, value, ..legacy(nonce, to, seed.gas) }),
        1..=3 => from(
            sender,
            TxEip1559 {
                max_fee_per_gas: seed.price,
                max_priority_fee_per_gas: seed.priority_fee,
                value,
                ..call(nonce, to, seed.gas)
            },
        ),
        _ => {
            let authority = SENDERS + seed.sender;
            let list = vec![authorize(authority, to, seed.shift)];
            from(sender, set_code(nonce, to, list))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn supply_nonces_and_gas_are_consistent(
        blocks in proptest::collection::vec(proptest::collection::vec(seed(), 0..12), 1..6),
        multiplier in 0..=4_u64,
        elasticity in 1..4_u32,
        no_base_fee in prop_oneof![4 => Just(false), 1 => Just(true)],
        max_gas in prop_oneof![Just(-1_i64), Just(400_000), Just(5_000_000)],
        pays_proposer in any::<bool>(),
    ) {
        let min_gas_multiplier = LegacyDec::from(multiplier).quo_int(U256::from(4)).unwrap();
        let params = Params {
            min_gas_multiplier,
            elasticity_multiplier: elasticity,
            no_base_fee,
            ..Params::default()
        };
        let recipient =
            if pays_proposer { "FEE_RECIPIENT_PROPOSER" } else { "FEE_RECIPIENT_FEE_COLLECTOR" };
        let mut chain = Chain::from_genesis(|file| {
            // The fee recipient is one of the senders.
            file["coinbase"] = json!(dev(0));
            let section = &mut file["config"]["evmd"];
            section["maxGas"] = json!(max_gas);
            section["feemarket"] = json!({ "params": params });
            section["distribution"] = json!({ "params": { "fee_recipient": recipient } });
        });
        for (byte, code) in CONTRACTS {
            chain.ledger.put(Address::repeat_byte(byte), U256::ZERO, code);
        }
        let supply = chain.ledger.supply();
        for seeds in blocks {
            let before = chain.ledger.clone();
            let mut nonces: Vec<_> =
                (0..SENDERS).map(|index| before.get(dev(index)).nonce).collect();
            let txs: Vec<_> = seeds.iter().map(|seed| {
                let tx = build(seed, nonces[seed.sender]);
                nonces[seed.sender] += u64::from(seed.shift == 0);
                tx
            }).collect();
            let before_fees = collected(&chain);
            let mut other = chain.clone();
            let built = chain.block(&txs);
            // Rejected transactions have no effect: the block is the same as without them.
            let accepted: Vec<_> = txs.iter().zip(&built.verdicts).filter(|(_, v)| v.is_ok())
                .map(|(tx, _)| tx.clone()).collect();
            prop_assert_eq!(&other.block(&accepted).executed, &built.executed);
            prop_assert_eq!((&other.ledger, &other.modules), (&chain.ledger, &chain.modules));
            // The total supply is constant, and the fee collector holds exactly the fees that it keeps.
            prop_assert_eq!(chain.ledger.supply(), supply);
            let base_fee = u128::from(built.header.base_fee_per_gas.unwrap());
            let included: Vec<_> =
                txs.iter().zip(&built.verdicts).filter_map(|(tx, verdict)| {
                    verdict.as_ref().ok().map(|charged| (tx, *charged))
                }).collect();
            let fees: U256 = included.iter().map(|(tx, charged)| {
                fee(*charged, Price::of(&tx.tx).effective(base_fee))
            }).sum();
            let kept = if pays_proposer { U256::ZERO } else { fees };
            prop_assert_eq!(collected(&chain), before_fees + kept);
            // Nonces never decrease, and count the accepted transactions.
            for index in 0..SENDERS {
                let (old, new) = (before.get(dev(index)).nonce, chain.ledger.get(dev(index)).nonce);
                let sent = included.iter().filter(|(tx, _)| tx.sender == dev(index)).count() as u64;
                prop_assert_eq!(new, old + sent);
            }
            // Charges are within their limits, and their sum is the gas used of the block.
            for (tx, charged) in &included {
                let limit = tx.tx.gas_limit();
                prop_assert!(*charged <= limit && *charged >= limit * multiplier / 4);
            }
            let wanted: u64 = included.iter().map(|(tx, _)| tx.tx.gas_limit()).sum();
            let consumed: u64 = included.iter().map(|(_, charged)| charged).sum();
            prop_assert_eq!(built.executed.gas_used, consumed);
            prop_assert!(consumed <= built.header.gas_limit);
            let counted = if no_base_fee { 0 } else { wanted };
            let gas = u128::from(counted) * u128::from(multiplier) / 4;
            let gas = gas.max(consumed.into());
            prop_assert_eq!(u128::from(chain.modules.market.block_gas()), gas);
        }
    }
}

/// A modification of bytes, as a faulty or malicious client could make it.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        at().prop_map(Damage::Cut),
        (at(), proptest::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        at().prop_map(Damage::Remove),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: Damage) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    match damage {
        Damage::Set(at, byte) => bytes[at.index(length)] = byte,
        Damage::Flip(at, bits) => bytes[at.index(length)] ^= bits,
        Damage::Cut(at) => bytes.truncate(at.index(length)),
        Damage::Insert(at, more) => {
            let at = at.index(length);
            bytes.splice(at..at, more);
        }
        Damage::Remove(at) => drop(bytes.remove(at.index(length))),
    }
}

proptest! {
    /// Whatever the bytes of a transaction are, neither decoding nor executing it panics, the decoded transaction has
    /// exactly these bytes, and a transaction that the block refuses has no effect.
    #[test]
    fn damaged_transactions_neither_panic_nor_change_state(
        seed in seed(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        let original = build(&seed, 0);
        let mut bytes = original.tx.encoded_2718();
        for damage in damages {
            apply(&mut bytes, damage);
        }
        let Ok(decoded) = DecodedTx::decode(Bytes::from(bytes.clone())) else { return Ok(()) };
        prop_assert_eq!(decoded.tx.encoded_2718(), bytes);
        let mut chain = Chain::new();
        let before = chain.clone();
        let DecodedTx { raw, tx, hash, cosmos } = decoded;
        let built =
            chain.block(&[RecoveredTx {
                raw,
                tx,
                hash,
                sender: original.sender,
                high_s: false,
                authorities: OnceLock::new(),
                cosmos,
            }]);
        prop_assert_eq!(chain.ledger.supply(), before.ledger.supply());
        if built.verdicts[0].is_err() {
            let mut empty = before;
            prop_assert_eq!(&built.executed, &empty.block(&[]).executed);
            prop_assert_eq!(&chain.ledger, &empty.ledger);
        }
    }

    #[test]
    fn random_bytes_are_refused_or_keep_their_encoding(
        kind in prop_oneof![Just(None), (0..6_u8).prop_map(Some)],
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let bytes = [kind.as_slice(), &bytes].concat();
        if let Ok(decoded) = DecodedTx::decode(Bytes::from(bytes.clone())) {
            prop_assert_eq!(decoded.tx.encoded_2718(), bytes);
        }
    }
}
