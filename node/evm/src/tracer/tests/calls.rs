//! Tests calls, creations and self-destructs in the frames of the tracers.

use super::{CONTRACT, OTHER, Rules, SENDER, call, chain, parity_call, transaction};
use alloy_primitives::{Address, Bytes, TxKind, hex};
use alloy_rpc_types_trace::parity::TraceType;
use serde_json::{Value, json};

/// Returns code that destroys its account, with `target` as beneficiary.
fn destroying_for(target: Address) -> Bytes {
    [&[0x73], target.as_slice(), &[0xff]].concat().into()
}

/// Returns code that calls `target` with `opcode`, without value and with `input` bytes of zeros, and reserves 32 bytes
/// of memory for the output.
fn calling(opcode: u8, target: u8, input: u8) -> Bytes {
    let value: &[u8] = if matches!(opcode, 0xf1 | 0xf2) { &[0x60, 0] } else { &[] };
    let call: &[u8] = &[0x60, target, 0x61, 0xff, 0xff, opcode, 0x50];
    [&[0x60, 32, 0x60, 0, 0x60, input, 0x60, 0], value, call].concat().into()
}

fn account(code: &Bytes) -> Value {
    json!({ "balance": "0x300", "code": code })
}

#[test]
fn a_self_destruct_is_shown_with_its_addresses_and_its_balance() {
    for rules in [Rules::Berlin, Rules::Prague] {
        for target in [CONTRACT, OTHER] {
            let accounts = json!({ CONTRACT.to_string(): account(&destroying_for(target)) });
            let frame = call(rules, accounts.clone(), "callTracer", Value::Null);
            let destruction = json!({
                "type": "SELFDESTRUCT", "from": CONTRACT, "to": target, "value": "0x300",
                "gas": "0x0", "gasUsed": "0x0", "input": "0x",
            });
            assert_eq!(frame["calls"], json!([destruction]));
            let action =
                json!({ "address": CONTRACT, "refundAddress": target, "balance": "0x300" });
            let flat = call(rules, accounts.clone(), "flatCallTracer", Value::Null);
            let parity = parity_call(rules, accounts, TraceType::Trace);
            for frames in [&flat, &parity["trace"]] {
                assert_eq!(frames[1]["action"], action);
                assert_eq!(frames[1]["type"], "suicide");
                assert_eq!(frames[0]["subtraces"], 1);
            }
        }
    }
}

#[test]
fn the_balance_of_a_self_destruct_in_a_delegate_call_is_that_of_the_context() {
    let delegating = [&hex!("600060006000600073")[..], OTHER.as_slice(), &hex!("5af4")].concat();
    // The calling contract is its own beneficiary: the delegate's code is ADDRESS, SELFDESTRUCT.
    let accounts = json!({
        CONTRACT.to_string(): account(&delegating.into()),
        OTHER.to_string(): { "balance": "0x1", "code": "0x30ff" },
    });
    let frame = call(Rules::Prague, accounts, "callTracer", Value::Null);
    let destruction = &frame["calls"][0]["calls"][0];
    assert_eq!(destruction["from"], json!(CONTRACT));
    assert_eq!(destruction["to"], json!(CONTRACT));
    assert_eq!(destruction["value"], "0x300");
}

#[test]
fn the_flat_tracer_hides_plain_calls_of_precompiles_only() {
    // Calls identity (4) with CALL, CALLCODE, DELEGATECALL and STATICCALL, then calls a contract.
    let calls = [0xf1, 0xf2, 0xf4, 0xfa].map(|opcode| calling(opcode, 4, 8));
    let last = calling(0xf1, 0x99, 0);
    let code: Bytes = calls.iter().chain([&last]).flat_map(|code| code.to_vec()).collect();
    let accounts = json!({
        CONTRACT.to_string(): account(&code),
        Address::with_last_byte(0x99).to_string(): account(&hex!("00").into()),
    });
    let shown = |config: Value| {
        let frames = call(Rules::Prague, accounts.clone(), "flatCallTracer", config);
        let kinds = frames
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| (frame["action"]["callType"].clone(), frame["traceAddress"].clone()));
        (frames[0]["subtraces"].clone(), kinds.skip(1).collect::<Vec<_>>())
    };
    let row = |kind: &str, index: u64| (json!(kind), json!([index]));
    let visible = vec![row("callcode", 0), row("delegatecall", 1), row("call", 2)];
    assert_eq!(shown(Value::Null), (json!(3), visible));
    let (count, all) = shown(json!({ "includePrecompiles": true }));
    assert_eq!((count, all.len()), (json!(5), 5));
    // Inside a mux, precompiles are hidden by default as well, although the inspector records them.
    let config = json!({ "flatCallTracer": {}, "callTracer": {} });
    let mux = call(Rules::Prague, accounts, "muxTracer", config);
    assert_eq!(mux["flatCallTracer"].as_array().unwrap().len(), 4);
    assert_eq!(mux["callTracer"]["calls"].as_array().unwrap().len(), 5);
}

#[test]
fn failed_call_has_the_error_text_of_geth() {
    for (code, geth, parity) in [
        (&hex!("01")[..], "stack underflow (0 <=> 2)", "Stack underflow"),
        (&hex!("1f"), "invalid opcode: opcode 0x1f not defined", "Bad instruction"),
        (&hex!("fe"), "invalid opcode: INVALID", "Bad instruction"),
        (&hex!("5b600056"), "out of gas", "Out of gas"),
        (&hex!("600356"), "invalid jump destination", "Bad jump destination"),
        (&hex!("6001600060003e"), "return data out of bounds", "Out of bounds"),
        (&hex!("60006000fd"), "execution reverted", "Reverted"),
        (&hex!("5b60016000600056"), "stack limit reached 1024 (1023)", "Out of stack"),
    ] {
        let code = Bytes::copy_from_slice(code);
        let accounts = json!({ CONTRACT.to_string(): account(&code) });
        let trace = |tracer, config| call(Rules::Prague, accounts.clone(), tracer, config);
        assert_eq!(trace("callTracer", Value::Null)["error"], geth, "{code}");
        assert_eq!(trace("flatCallTracer", Value::Null)[0]["error"], geth, "{code}");
        let converted = trace("flatCallTracer", json!({ "convertParityErrors": true }));
        assert_eq!(converted[0]["error"], parity, "{code}");
    }
}

#[test]
fn error_of_a_precompile_states_what_is_wrong_with_the_input() {
    for (target, input, text) in [
        (8, 1, "bad elliptic curve pairing size"),
        (9, 0, "invalid input length"),
        (9, 213, ""),
        (10, 1, "invalid input length"),
        (0x10, 0, "invalid input length"),
    ] {
        let accounts = json!({ CONTRACT.to_string(): account(&calling(0xfa, target, input)) });
        let frame = call(Rules::Prague, accounts, "callTracer", Value::Null);
        let error = &frame["calls"][0]["error"];
        // 213 zeros are a valid input of BLAKE2.
        let expected = if text.is_empty() { Value::Null } else { text.into() };
        assert_eq!(*error, expected, "{target}");
    }
}

/// Returns init code that returns `bytes` bytes of zeros.
fn returning(bytes: u16) -> Vec<u8> {
    let [high, low] = bytes.to_be_bytes();
    vec![0x61, high, low, 0x60, 0, 0xf3]
}

#[test]
fn code_too_expensive_to_store_is_an_error_and_before_homestead_only_shown() {
    let create = |rules: Rules| {
        let gas_limit = 90_000;
        let tx = transaction(TxKind::Create, &returning(1_000), gas_limit);
        let chain = chain(rules, json!({}));
        chain.geth_trace(&rules.header(), &tx, "callTracer", &Value::Null).unwrap()
    };
    let failed = create(Rules::Berlin);
    assert_eq!(failed["error"], "contract creation code storage out of gas");
    assert_eq!(failed.get("to"), None);
    let created = create(Rules::Frontier);
    assert_eq!(created.get("error"), None);
    assert_eq!(created["to"], json!(SENDER.create(0)));
    assert_eq!(created["output"], json!(Bytes::from(vec![0; 1_000])));
}

#[test]
fn tracer_of_erc_7562_is_refused_like_an_unknown_tracer() {
    let tx = transaction(TxKind::Call(CONTRACT), &[], 21_000);
    let chain = chain(Rules::Prague, json!({}));
    let error = |tracer: &str| {
        let trace = chain.geth_trace(&Rules::Prague.header(), &tx, tracer, &Value::Null);
        trace.unwrap_err().to_string()
    };
    let other = error("anyTracer");
    assert_eq!(error("erc7562Tracer"), other.replace("anyTracer", "erc7562Tracer"));
}

#[test]
fn vm_trace_shows_the_memory_area_for_the_output_of_a_call() {
    // The callee returns a word with 7: MSTORE, RETURN.
    let callee = hex!("600760005260206000f3");
    for opcode in [0xf1, 0xf2, 0xf4, 0xfa] {
        for (code, word) in [(&callee[..], 7), (&hex!("00")[..], 0)] {
            let accounts = json!({
                CONTRACT.to_string(): account(&calling(opcode, 0x99, 0)),
                Address::with_last_byte(0x99).to_string(): account(&Bytes::copy_from_slice(code)),
            });
            let trace = parity_call(Rules::Prague, accounts, TraceType::VmTrace);
            let ops = trace["vmTrace"]["ops"].as_array().unwrap();
            let call = ops.iter().find(|op| !op["sub"].is_null()).unwrap();
            let data = alloy_primitives::B256::with_last_byte(word);
            assert_eq!(call["ex"]["mem"], json!({ "off": 0, "data": data }), "{opcode:#x} {word}");
        }
    }
}
