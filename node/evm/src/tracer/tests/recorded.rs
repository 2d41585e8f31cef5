//! Runs geth's own tests of its tracers. Each consists of a genesis, a block, a transaction and the expected trace.

use super::TestChain;
use alloy_consensus::Header;
use alloy_primitives::{Address, Bytes, U256};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use transactions::{RecoveredTx, recover_senders};
use verify::{Backend, Recoverer};

/// The folders of the tests and their tracers.
const FOLDERS: [(&str, &str); 5] = [
    ("call_tracer", "callTracer"),
    ("call_tracer_flat", "flatCallTracer"),
    ("call_tracer_withLog", "callTracer"),
    ("prestate_tracer", "prestateTracer"),
    ("prestate_tracer_with_diff_mode", "prestateTracer"),
];

/// Folders of tests that are not run, with the reason.
const EXCLUDED: [(&str, &str); 3] = [
    ("call_tracer_legacy", "it tests a JavaScript tracer, which is not supported"),
    ("prestate_tracer_legacy", "it tests a JavaScript tracer, which is not supported"),
    ("erc7562_tracer", "erc7562Tracer is refused"),
];

/// Number of tests in [`FOLDERS`].
const TESTS: usize = 81;

/// Tests whose traces differ from geth's, with the reason.
const DIFFERENT: [(&str, &str); 0] = [];

/// Fields of traces that geth's tests do not compare. JavaScript tracers wrote the time, and flat frames contain the
/// position of their transaction.
const NOT_COMPARED: [&str; 5] =
    ["time", "blockHash", "blockNumber", "transactionHash", "transactionPosition"];

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn traces_are_those_that_the_tests_of_geth_expect() {
    let fixtures = std::env::var_os("EVMD_FIXTURES").expect("EVMD_FIXTURES is set");
    let root = Path::new(&fixtures).join("geth-tracetest");
    check_folders(&root);
    let (mut run, mut different) = (0, BTreeSet::new());
    for (folder, tracer) in FOLDERS {
        for file in files(&root.join(folder)) {
            run += 1;
            let name = format!("{folder}/{}", file.file_stem().unwrap().display());
            if let Err(difference) = compare(&file, tracer) {
                println!("{name}: {difference}");
                different.insert(name);
            }
        }
    }
    println!("{} of {run} traces differ", different.len());
    assert_eq!(run, TESTS);
    let expected = DIFFERENT.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(different, expected);
}

/// Asserts that the tests of every folder are either run or excluded.
fn check_folders(root: &Path) {
    let found: BTreeSet<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let known = FOLDERS.iter().chain(&EXCLUDED).map(|(folder, _)| (*folder).into());
    assert_eq!(found, known.collect());
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    files
}

fn compare(file: &Path, tracer: &str) -> Result<(), String> {
    let mut test: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut expected = test["result"].take();
    let header = header(&test);
    // geth's tests use the state of any block as genesis. This node's genesis is block 0.
    test["genesis"].as_object_mut().unwrap().remove("number");
    adapt_config(test["genesis"]["config"].as_object_mut().unwrap());
    let chain = TestChain::new(&test["genesis"]);
    let tx = transaction(&test["input"]);
    let found = chain.geth_trace(&header, &tx, tracer, &test["tracerConfig"]);
    let mut found = found.map_err(|error| format!("no trace: {error}"))?;
    let is_flat = tracer == "flatCallTracer";
    normalize(&mut expected, is_flat);
    normalize(&mut found, is_flat);
    match first_difference("", &expected, &found) {
        Some(difference) => Err(difference),
        None => Ok(()),
    }
}

/// Changes the rules of a test to rules that a node accepts. No trace depends on the difference.
fn adapt_config(config: &mut Map<String, Value>) {
    // Proof of authority is refused.
    config.remove("clique");
    // Go compares names case-insensitively.
    if let Some(block) = config.remove("IstanbulBlock") {
        config.insert("istanbulBlock".to_owned(), block);
    }
    // Forks out of order are refused too. The block of each test is after these forks, or before Byzantium.
    let mut later = u64::MAX;
    for name in ["byzantiumBlock", "eip158Block", "eip150Block", "homesteadBlock"] {
        let Some(block) = config.get(name).and_then(Value::as_u64) else { continue };
        later = later.min(block);
        config.insert(name.to_owned(), later.into());
    }
}

fn transaction(input: &Value) -> RecoveredTx {
    let raw: Bytes = serde_json::from_value(input.clone()).unwrap();
    let mut recoverer = Recoverer::new(Backend::Scalar);
    recover_senders(&mut recoverer, &[raw]).remove(0).unwrap()
}

/// Parses a number from decimal or hexadecimal text, or from a JSON number.
fn number(value: &Value) -> Option<U256> {
    match value {
        Value::String(text) => Some(text.parse().unwrap()),
        Value::Number(number) => Some(U256::from(number.as_u64().unwrap())),
        _ => None,
    }
}

/// Returns the header of the transaction's block. As in geth's tests, mix hash and excess blob gas are the genesis's.
fn header(test: &Value) -> Header {
    let (context, genesis) = (&test["context"], &test["genesis"]);
    let is_merged = genesis["config"]["terminalTotalDifficulty"] == 0;
    let small = |value: &Value| number(value).map(|number| number.to::<u64>());
    let miner: Address = serde_json::from_value(context["miner"].clone()).unwrap();
    Header {
        beneficiary: miner,
        number: small(&context["number"]).unwrap(),
        timestamp: small(&context["timestamp"]).unwrap(),
        gas_limit: small(&context["gasLimit"]).unwrap(),
        difficulty: number(&context["difficulty"]).filter(|_| !is_merged).unwrap_or_default(),
        mix_hash: serde_json::from_value(genesis["mixHash"].clone()).unwrap(),
        base_fee_per_gas: small(&context["baseFeePerGas"]),
        excess_blob_gas: small(&genesis["excessBlobGas"]),
        ..Header::default()
    }
}

/// Removes the fields that geth's tests do not compare. They parse flat frames and the index of a log into types that
/// do not distinguish absent values from zero or empty ones.
fn normalize(trace: &mut Value, is_flat: bool) {
    match trace {
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(item, is_flat)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| normalize(value, is_flat));
            fields.retain(|name, value| {
                let is_absent = (is_flat || name == "index") && is_zero(value);
                !NOT_COMPARED.contains(&name.as_str()) && !is_absent
            });
        }
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            text.strip_prefix("0x").is_some_and(|text| text.trim_matches('0').is_empty())
        }
        Value::Object(fields) => fields.is_empty(),
        value => value.is_null(),
    }
}

/// Returns the first difference between two traces.
fn first_difference(path: &str, expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            let field = |fields: &Map<String, Value>, name| fields.get(name).cloned();
            names.into_iter().find_map(|name| {
                let path = format!("{path}.{name}");
                match (field(expected, name), field(found, name)) {
                    (Some(expected), Some(found)) => first_difference(&path, &expected, &found),
                    (expected, found) => Some(different(&path, expected.as_ref(), found.as_ref())),
                }
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(index, (expected, found))| {
                first_difference(&format!("{path}[{index}]"), expected, found)
            })
        }
        _ if expected == found => None,
        _ => Some(different(path, Some(expected), Some(found))),
    }
}

fn different(path: &str, expected: Option<&Value>, found: Option<&Value>) -> String {
    let text = |value: Option<&Value>| {
        value.map_or_else(
            || "nothing".to_owned(),
            |value| value.to_string().chars().take(200).collect(),
        )
    };
    format!("{path} is {}, expected {}", text(found), text(expected))
}
