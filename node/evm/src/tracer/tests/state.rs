//! Tests traces of accounts and slots before and after a transaction, and of instructions.

use super::{CONTRACT, OTHER, Rules, SENDER, call, chain, transaction};
use alloy_primitives::{Address, B256, Bytes, TxKind, hex};
use serde_json::{Value, json};

fn key(address: Address) -> String {
    format!("{address:?}").to_lowercase()
}

fn word(byte: u8) -> String {
    B256::with_last_byte(byte).to_string()
}

#[test]
fn a_diff_shows_the_slots_that_a_destroyed_account_had() {
    // Reads slot 1, writes slot 2, and destroys itself.
    let code =
        [&hex!("6001545060056002556000")[..], &hex!("50"), &[0x73], OTHER.as_slice(), &[0xff]];
    let code: Bytes = code.concat().into();
    let storage = json!({ word(1): word(7), word(2): word(8), word(3): word(9) });
    let accounts = json!({
        CONTRACT.to_string(): { "balance": "0x300", "code": code, "storage": storage },
    });
    let diff = |config| call(Rules::Berlin, accounts.clone(), "prestateTracer", config);
    let shown = diff(json!({ "diffMode": true }));
    assert_eq!(
        shown["pre"][key(CONTRACT)]["storage"],
        json!({ word(1): word(7), word(2): word(8) })
    );
    assert_eq!(shown["post"].get(key(CONTRACT)), None);
    let shown = diff(json!({ "diffMode": true, "disableStorage": true }));
    assert_eq!(shown["pre"][key(CONTRACT)]["balance"], "0x300");
    assert_eq!(shown["pre"][key(CONTRACT)].get("storage"), None);
}

#[test]
fn instruction_omits_fields_that_are_zero_or_empty() {
    // Clears a slot, which is refunded, then writes a word to memory and stops.
    let accounts = json!({
        CONTRACT.to_string(): {
            "balance": "0x0", "code": "0x60006001556007600052 00".replace(' ', ""),
            "storage": { word(1): word(7) },
        },
    });
    let chain = chain(Rules::Prague, accounts);
    let tx = transaction(TxKind::Call(CONTRACT), &[], 100_000);
    let options = json!({ "enableMemory": true, "enableReturnData": true });
    let tracer = super::GethTracer(serde_json::from_value(options).unwrap());
    let trace = chain.trace(&Rules::Prague.header(), &tx, tracer).unwrap();
    let steps = serde_json::to_value(trace).unwrap()["structLogs"].clone();
    let gas = 100_000 - 21_000;
    let first = json!({
        "pc": 0, "op": "PUSH1", "gas": gas, "gasCost": 3, "depth": 1, "stack": [],
    });
    assert_eq!(steps[0], first);
    let store = json!({
        "pc": 4, "op": "SSTORE", "gas": gas - 6, "gasCost": 5_000, "depth": 1,
        "stack": ["0x0", "0x1"], "storage": { word(1): word(0) },
    });
    assert_eq!(steps[2], store);
    let last = json!({
        "pc": 10, "op": "STOP", "gas": gas - 5_018, "gasCost": 0, "depth": 1, "stack": [],
        "refund": 4_800, "memory": [word(7)],
    });
    assert_eq!(steps[6], last);
    assert_eq!(steps.as_array().map(Vec::len), Some(7));
}

#[test]
fn the_prestate_has_the_sender_and_the_contract() {
    let accounts = json!({ CONTRACT.to_string(): { "balance": "0x1", "code": "0x00" } });
    let shown = call(Rules::Prague, accounts, "prestateTracer", Value::Null);
    let addresses: Vec<_> = shown.as_object().unwrap().keys().cloned().collect();
    assert_eq!(addresses, [key(SENDER), key(CONTRACT)]);
}
