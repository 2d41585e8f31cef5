//! Tests fees that move to the proposer at the end of a block (rules version 2, module `distribution`).

use super::ledger::{Chain, GWEI, call, collected, dev, from, legacy};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256};
use chain::FEE_COLLECTOR;
use evm::Executed;
use serde_json::{Value, json};

/// A proposer that sends no transactions.
const PROPOSER: Address = Address::repeat_byte(0xbe);

fn chain(recipient: &Value, beneficiary: Address) -> Chain {
    let params = json!({ "params": { "fee_recipient": recipient } });
    let mut chain = Chain::from_genesis(|file| {
        file["coinbase"] = json!(PROPOSER);
        file["config"]["evmd"]["distribution"] = params;
    });
    chain.header.beneficiary = beneficiary;
    chain
}

/// Creates a chain that pays the fees to the proposer.
fn paying(beneficiary: Address) -> Chain {
    chain(&json!("FEE_RECIPIENT_PROPOSER"), beneficiary)
}

/// Returns the amounts in the events of the payments.
fn rewards(executed: &Executed) -> Vec<(String, String)> {
    let events = executed.events.iter().filter(|event| event.kind == "proposer_reward");
    let value = |event: &feemarket::store::StoredEvent, key: &str| {
        event.attributes.iter().find(|found| found.key == key).unwrap().value.clone()
    };
    events.map(|event| (value(event, "amount"), value(event, "proposer"))).collect()
}

/// Returns the fee of a transfer with this gas price.
fn fee(price: u128) -> U256 {
    U256::from(21_000 * price)
}

#[test]
fn fees_of_the_block_move_to_the_proposer() {
    let mut chain = paying(PROPOSER);
    // These earlier fees stay in the collector.
    chain.ledger.put(FEE_COLLECTOR, U256::from(7), &[]);
    let supply = chain.ledger.supply();
    let txs = [0, 1].map(|nonce| from(dev(0), legacy(nonce, dev(1), 21_000)));
    let built = chain.block(&txs);
    assert_eq!(collected(&chain), U256::from(7));
    let paid = fee(2 * GWEI) * U256::from(2);
    assert_eq!(chain.ledger.get(PROPOSER).balance, paid);
    assert_eq!(chain.ledger.supply(), supply);
    let proposer = keys::bech32("cosmos", PROPOSER);
    assert_eq!(rewards(&built.executed), [(format!("{paid}atest"), proposer)]);
    // A block without fees pays nothing.
    let built = chain.block(&[]);
    assert_eq!(rewards(&built.executed), []);
    assert_eq!(chain.ledger.get(PROPOSER).balance, paid);
}

#[test]
fn collector_without_a_balance_is_deleted() {
    let mut chain = paying(PROPOSER);
    chain.block(&[from(dev(0), legacy(0, dev(1), 21_000))]);
    assert!(!chain.ledger.accounts.contains_key(&FEE_COLLECTOR), "EIP-161");
}

/// The proposer may also be the sender or the recipient of a transaction in its block.
#[test]
fn proposer_uses_its_account_in_its_own_block() {
    let mut chain = paying(dev(0));
    let before = chain.ledger.get(dev(0)).balance;
    let txs = [from(dev(0), legacy(0, dev(1), 21_000)), from(dev(1), call(0, dev(0), 21_000))];
    let built = chain.block(&txs);
    assert!(built.verdicts.iter().all(Result::is_ok), "{:?}", built.verdicts);
    let base_fee = u128::from(built.header.base_fee_per_gas.unwrap());
    // The proposer gets its own fee back, and receives the fee of the other sender.
    let sent = txs[0].tx.value();
    let received = txs[1].tx.value();
    let expected = before - sent + received + fee(base_fee + GWEI / 10);
    assert_eq!(chain.ledger.get(dev(0)).balance, expected);
}

#[test]
fn fees_stay_without_a_proposer_or_without_the_parameter() {
    let collector = json!("FEE_RECIPIENT_FEE_COLLECTOR");
    let chains =
        [paying(Address::ZERO), paying(FEE_COLLECTOR), chain(&collector, PROPOSER), Chain::new()];
    for mut chain in chains {
        chain.block(&[from(dev(0), legacy(0, dev(1), 21_000))]);
        assert_eq!(collected(&chain), fee(2 * GWEI));
        assert_eq!(chain.ledger.get(PROPOSER).balance, U256::ZERO);
        assert_eq!(chain.ledger.get(Address::ZERO).balance, U256::ZERO);
    }
}
