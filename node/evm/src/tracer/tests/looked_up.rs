//! Tests the prestate of accounts that a transaction names and the interpreter does not load.

use super::{CHAIN_ID, CONTRACT, Rules, call, chain, transaction};
use alloy_consensus::{SignableTransaction as _, TxEip7702};
use alloy_eips::eip7702::{Authorization, SignedAuthorization};
use alloy_primitives::{Address, B256, Signature, TxKind, U256};
use serde_json::{Value, json};
use transactions::{RecoveredTx, Transaction};

fn authorization(key: u8, chain_id: u64, nonce: u64) -> (Address, SignedAuthorization) {
    let inner = Authorization { chain_id: U256::from(chain_id), address: Address::ZERO, nonce };
    let key = secp256k1::SecretKey::from_secret_bytes([key; 32]).unwrap();
    let message = secp256k1::Message::from_digest(inner.signature_hash().0);
    let signed = secp256k1::ecdsa::RecoverableSignature::sign_ecdsa_recoverable(message, &key);
    let (parity, bytes) = signed.serialize_compact();
    let signed = inner.into_signed(Signature::from_bytes_and_parity(&bytes, parity.to_u8() == 1));
    (signed.recover_authority().unwrap(), signed)
}

fn delegating(authorization_list: Vec<SignedAuthorization>) -> RecoveredTx {
    let tx = TxEip7702 {
        chain_id: CHAIN_ID,
        gas_limit: 500_000,
        max_fee_per_gas: 10,
        to: CONTRACT,
        authorization_list,
        ..TxEip7702::default()
    };
    let tx = Transaction::from(tx.into_signed(Signature::test_signature()));
    RecoveredTx { tx, ..transaction(TxKind::Call(CONTRACT), &[], 0) }
}

fn key(address: Address) -> String {
    format!("{address:?}").to_lowercase()
}

#[test]
fn signer_of_an_ignored_authorization_is_shown() {
    // Only the first is valid. The others have the ID of another chain, the maximum nonce, a wrong nonce, and the ID of
    // another chain and a signer without an account.
    let signed = [
        authorization(1, CHAIN_ID, 0),
        authorization(2, CHAIN_ID + 1, 0),
        authorization(3, CHAIN_ID, u64::MAX),
        authorization(4, 0, 9),
        authorization(5, CHAIN_ID + 1, 0),
    ];
    let [applied, other_chain, max_nonce, wrong_nonce, missing] =
        [0, 1, 2, 3, 4].map(|at: usize| signed[at].0);
    let mut accounts = json!({ CONTRACT.to_string(): { "balance": "0x0", "code": "0x00" } });
    for address in [applied, other_chain, max_nonce, wrong_nonce] {
        accounts[address.to_string()] = json!({ "balance": "0x7" });
    }
    accounts[other_chain.to_string()]["code"] = json!("0x6001");
    let chain = chain(Rules::Prague, accounts);
    let tx = delegating(signed.iter().map(|(_, signed)| signed.clone()).collect());
    let show = |config: Value| {
        chain.geth_trace(&Rules::Prague.header(), &tx, "prestateTracer", &config).unwrap()
    };
    let shown = show(Value::Null);
    for address in [applied, max_nonce, wrong_nonce] {
        assert_eq!(shown[key(address)]["balance"], "0x7", "{shown}");
    }
    assert_eq!(shown[key(other_chain)]["code"], "0x6001");
    assert!(shown[key(other_chain)]["codeHash"].is_string());
    assert_eq!(shown.get(key(missing)), None);
    let shown = show(json!({ "includeEmpty": true, "disableCode": true }));
    assert_eq!(shown[key(missing)], json!({ "balance": "0x0" }));
    assert_eq!(shown[key(other_chain)].get("code"), None);
    // Only the account with the valid authorization changes.
    let shown = show(json!({ "diffMode": true }));
    assert_eq!(shown["post"][key(applied)]["nonce"], 1, "{shown}");
    for address in [other_chain, max_nonce, wrong_nonce, missing] {
        for side in ["pre", "post"] {
            assert_eq!(shown[side].get(key(address)), None, "{side}: {shown}");
        }
    }
}

#[test]
fn target_of_a_creation_that_fails_before_it_begins_is_shown() {
    // CREATE2 with a value of one wei, which the contract does not have.
    let accounts = |target: Address| {
        json!({
            CONTRACT.to_string(): { "balance": "0x0", "code": "0x6000600060006001f500" },
            target.to_string(): { "balance": "0x5" },
        })
    };
    let target = CONTRACT.create2_from_code(B256::ZERO, []);
    let shown = call(Rules::Prague, accounts(target), "prestateTracer", Value::Null);
    assert_eq!(shown[key(target)], json!({ "balance": "0x5" }), "{shown}");
    let shown =
        call(Rules::Prague, accounts(target), "prestateTracer", json!({ "diffMode": true }));
    assert_eq!(shown["pre"].get(key(target)), None, "{shown}");
}
