//! Tests EIP-7702 on the native chain: delegations, authorizations that survive a revert, and charges.

use super::ledger::{Chain, REVERT, STORE, authorize, call, dev, from, set_code};
use alloy_primitives::{Address, KECCAK256_EMPTY, U256, keccak256};
use modules::decorator::is_delegation;

const TARGET: Address = Address::repeat_byte(0xcc);

fn chain_with(code: &[u8]) -> Chain {
    let mut chain = Chain::new();
    chain.ledger.put(TARGET, U256::ZERO, code);
    chain
}

fn designator(target: Address) -> Vec<u8> {
    [&[0xef, 0x01, 0x00], target.as_slice()].concat()
}

#[test]
fn account_runs_the_code_it_delegates_to() {
    let mut chain = chain_with(STORE);
    let built = chain.block(&[from(dev(0), set_code(0, dev(1), vec![authorize(1, TARGET, 0)]))]);
    assert!(built.succeeded(0));
    let account = chain.ledger.get(dev(1));
    assert_eq!(account.nonce, 1, "the authority's nonce is used");
    assert_eq!(account.code_hash, keccak256(designator(TARGET)), "SetCodeHash");
    let code = chain.ledger.code_at(dev(1));
    assert_eq!(code, designator(TARGET));
    assert!(is_delegation(&code));
    let slots = &chain.ledger.accounts[&dev(1)].1;
    assert_eq!(slots[&U256::ZERO], U256::from(1), "the code ran on the authority's own storage");
    // A delegated account can still send transactions.
    let built = chain.block(&[from(dev(1), call(1, dev(2), 21_000))]);
    assert_eq!(built.verdicts, [Ok(21_000)]);
    // An authorization for the zero address removes the delegation.
    let clear = authorize(1, Address::ZERO, 2);
    let built = chain.block(&[from(dev(0), set_code(1, dev(2), vec![clear]))]);
    assert!(built.succeeded(0));
    assert_eq!(chain.ledger.get(dev(1)).code_hash, KECCAK256_EMPTY);
}

#[test]
fn authorizations_survive_a_revert() {
    let mut chain = chain_with(REVERT);
    let built = chain.block(&[from(dev(0), set_code(0, TARGET, vec![authorize(1, TARGET, 0)]))]);
    assert!(!built.succeeded(0), "the call reverts");
    let account = chain.ledger.get(dev(1));
    assert_eq!((account.nonce, account.code_hash), (1, keccak256(designator(TARGET))));
}

#[test]
fn self_sponsored_authorization_needs_the_nonce_after_its_transaction() {
    let mut chain = chain_with(STORE);
    for (nonce, valid) in [(0, false), (1, true)] {
        let mut chain = chain_with(STORE);
        let list = vec![authorize(0, TARGET, nonce)];
        let built = chain.block(&[from(dev(0), set_code(0, dev(2), list))]);
        assert!(built.succeeded(0));
        let account = chain.ledger.get(dev(0));
        assert_eq!(account.code_hash != KECCAK256_EMPTY, valid, "stated nonce {nonce}");
        assert_eq!(account.nonce, if valid { 2 } else { 1 });
    }
    // Invalid authorizations are skipped, and the others take effect.
    let mut wrong_chain = authorize(2, TARGET, 0);
    wrong_chain = {
        let mut inner = wrong_chain.inner().clone();
        inner.chain_id = U256::from(1);
        inner.into_signed(wrong_chain.signature().unwrap())
    };
    let list = vec![wrong_chain, authorize(3, TARGET, 9), authorize(4, TARGET, 0)];
    chain.block(&[from(dev(0), set_code(0, dev(5), list))]);
    let delegates = |index| chain.ledger.get(dev(index)).code_hash != KECCAK256_EMPTY;
    assert_eq!([2, 3, 4].map(delegates), [false, false, true]);
}

#[test]
fn set_code_transaction_pays_its_gas_or_half_of_its_limit() {
    // The intrinsic gas is 46,000. The refund of 12,500 for an existing authority is limited to a fifth (9,200).
    // Half of the limit of 80,000 is more than the rest.
    let mut chain = chain_with(&[]);
    let tx = alloy_consensus::TxEip7702 {
        gas_limit: 80_000,
        ..set_code(0, dev(2), vec![authorize(1, TARGET, 0)])
    };
    let built = chain.block(&[from(dev(0), tx)]);
    assert_eq!(built.verdicts, [Ok(40_000)]);
    let mut chain = chain_with(&[]);
    let tx = alloy_consensus::TxEip7702 {
        gas_limit: 50_000,
        ..set_code(0, dev(2), vec![authorize(1, TARGET, 0)])
    };
    let built = chain.block(&[from(dev(0), tx)]);
    assert_eq!(built.verdicts, [Ok(36_800)]);
}
