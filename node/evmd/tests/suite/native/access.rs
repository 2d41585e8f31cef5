//! Tests access control inside the EVM, where contracts are also callers.

use super::ledger::{Chain, STORE, call, dev, from};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use evm::TxError;
use modules::decorator::Reject;
use serde_json::{Value, json};

const CALLER: Address = Address::repeat_byte(0xca);
const TARGET: Address = Address::repeat_byte(0xcc);

fn chain(create: &Value, call: &Value) -> Chain {
    let control = json!({ "create": create, "call": call });
    let mut chain = Chain::with(json!({ "evm": { "params": { "access_control": control } } }));
    chain.ledger.put(TARGET, U256::ZERO, STORE);
    // Calls the target with all remaining gas, and stores the result of CALL plus 10 in slot 0.
    let forward =
        [&hex!("5f5f5f5f5f73")[..], TARGET.as_slice(), &hex!("5af1600a015f5500")].concat();
    chain.ledger.put(CALLER, U256::ZERO, &forward);
    chain
}

fn slot(chain: &Chain, address: Address) -> u64 {
    let slots = &chain.ledger.accounts[&address].1;
    slots.get(&U256::ZERO).copied().unwrap_or_default().to()
}

fn rule(access_type: &str, list: &[Address]) -> Value {
    json!({ "access_type": format!("ACCESS_TYPE_{access_type}"), "access_control_list": list })
}

fn create(nonce: u64) -> TxEip1559 {
    let input = Bytes::from_static(&hex!("00"));
    TxEip1559 { to: TxKind::Create, input, ..call(nonce, Address::ZERO, 100_000) }
}

#[test]
fn blocked_accounts_fail_and_pay() {
    let open = rule("PERMISSIONLESS", &[]);
    let mut chain = chain(&open, &rule("PERMISSIONLESS", &[dev(0)]));
    let built = chain.block(&[
        from(dev(0), call(0, TARGET, 100_000)),
        from(dev(1), call(0, TARGET, 100_000)),
        from(dev(0), create(1)),
    ]);
    assert_eq!(built.verdicts[0], Ok(50_000), "all gas is returned except for the minimum charge");
    assert_eq!([0, 1, 2].map(|index| built.succeeded(index)), [false, true, true]);
    assert_eq!(chain.ledger.get(dev(0)).nonce, 2);
    assert_eq!(slot(&chain, TARGET), 1);
}

#[test]
fn blocked_contract_cannot_call() {
    let open = rule("PERMISSIONLESS", &[]);
    let mut free = chain(&open, &open);
    free.block(&[from(dev(0), call(0, CALLER, 200_000))]);
    assert_eq!((slot(&free, CALLER), slot(&free, TARGET)), (11, 1));
    let mut blocked = chain(&open, &rule("PERMISSIONLESS", &[CALLER]));
    let built = blocked.block(&[from(dev(0), call(0, CALLER, 200_000))]);
    assert!(built.succeeded(0));
    assert_eq!((slot(&blocked, CALLER), slot(&blocked, TARGET)), (10, 0), "CALL returned 0");
}

#[test]
fn only_permitted_accounts_create_contracts() {
    let mut chain = chain(&rule("PERMISSIONED", &[dev(1)]), &rule("PERMISSIONLESS", &[]));
    let built =
        chain.block(&[from(dev(0), create(0)), from(dev(1), create(0)), from(dev(0), create(1))]);
    assert_eq!([0, 1, 2].map(|index| built.succeeded(index)), [false, true, false]);
    assert_eq!(chain.ledger.get(dev(0)).nonce, 2, "a refused creation uses its nonce");
    assert_eq!(chain.ledger.get(dev(0).create(0)).nonce, 0);
    assert_eq!(chain.ledger.get(dev(1).create(0)).nonce, 1);
}

#[test]
fn restricted_call_is_refused_before_it_runs() {
    let mut chain = chain(&rule("RESTRICTED", &[]), &rule("RESTRICTED", &[]));
    let built = chain.block(&[from(dev(0), create(0)), from(dev(0), call(0, TARGET, 100_000))]);
    let rejected = |reject| Err(TxError::Rejected(reject));
    assert_eq!(built.verdicts, [rejected(Reject::CreateDisabled), rejected(Reject::CallDisabled)]);
    assert_eq!(chain.ledger.get(dev(0)).nonce, 0);
}
