//! Tests blocks that are executed before the hash of their parent is known. [`Chain::block`] asserts for every block
//! that the result is the same.

use super::ledger::{Chain, call, dev, from};
use alloy_consensus::Header;
use alloy_eips::eip2935::HISTORY_STORAGE_ADDRESS;
use alloy_primitives::{Address, U256, hex};
use evm::{ExecutionError, ParentUnknown};
use transactions::RecoveredTx;

/// Stores the hash of the parent block in slot 0: NUMBER - 1, BLOCKHASH, SSTORE.
const PARENT_HASH: &[u8] = &hex!("600143034060005500");
/// The same, but with the hash of the parent's parent.
const GRANDPARENT_HASH: &[u8] = &hex!("600243034060005500");
/// Queries the history contract for the hash of an older block and stores the result. [`history`] writes the distance
/// to the byte at index 1.
const HISTORY: &[u8] =
    &hex!("600043035f5260205f60205f5f730000f90827f1c53a10cb7a02335b1753200029355af1505f515f5500");
const ADDRESS: Address = Address::repeat_byte(0xc5);

/// Returns a chain of three blocks with a contract, and a call of the contract.
fn chain(code: &[u8]) -> (Chain, RecoveredTx) {
    let mut chain = Chain::new();
    chain.ledger.put(ADDRESS, U256::ZERO, code);
    for _ in 0..3 {
        chain.block(&[]);
    }
    (chain, from(dev(0), call(0, ADDRESS, 200_000)))
}

fn history(back: u8) -> Vec<u8> {
    let mut code = HISTORY.to_vec();
    code[1] = back;
    code
}

/// Returns whether the block with one call could be executed before the parent's hash was known, and the value that the
/// contract stored.
fn outcome(code: &[u8]) -> (bool, U256) {
    let (mut chain, tx) = chain(code);
    let parent = chain.clone();
    let built = chain.block(std::slice::from_ref(&tx));
    assert!(built.succeeded(0), "the contract runs");
    let executed = match execute_before_parent(&parent, &built.header, &[tx]) {
        Ok(()) => true,
        Err(error) => {
            assert!(ParentUnknown::is_reason(&error), "{error}");
            false
        }
    };
    let (_, slots) = &chain.ledger.accounts[&ADDRESS];
    (executed, slots.get(&U256::ZERO).copied().unwrap_or_default())
}

fn execute_before_parent(
    parent: &Chain,
    header: &Header,
    txs: &[RecoveredTx],
) -> Result<(), ExecutionError> {
    let mut modules = parent.modules.clone();
    modules.market.begin_block(header.number, parent.spec.native().unwrap().max_gas);
    parent.block_before_parent(&modules, header, txs).map(drop)
}

#[test]
fn empty_block_does_not_need_the_parent_hash() {
    let (mut chain, _) = chain(PARENT_HASH);
    let parent = chain.clone();
    let built = chain.block(&[]);
    execute_before_parent(&parent, &built.header, &[]).unwrap();
    let (_, slots) = &chain.ledger.accounts[&HISTORY_STORAGE_ADDRESS];
    assert_eq!(slots[&U256::from(3)], U256::from_be_bytes(built.header.parent_hash.0));
}

#[test]
fn only_blockhash_of_the_parent_needs_the_parent_hash() {
    assert!(!outcome(PARENT_HASH).0);
    assert!(outcome(GRANDPARENT_HASH).0);
}

#[test]
fn history_contract_defers_only_the_parent_hash() {
    let (executed, stored) = outcome(&history(1));
    assert!(!executed && !stored.is_zero(), "{stored}");
    let (executed, stored) = outcome(&history(2));
    assert!(executed && !stored.is_zero(), "{stored}");
}

#[test]
fn other_contract_at_the_history_address_defers_execution() {
    let (mut chain, _) = chain(PARENT_HASH);
    chain.ledger.put(HISTORY_STORAGE_ADDRESS, U256::ZERO, &hex!("5f355f5500"));
    let parent = chain.clone();
    let built = chain.block(&[]);
    let error = execute_before_parent(&parent, &built.header, &[]).unwrap_err();
    assert!(ParentUnknown::is_reason(&error));
}
