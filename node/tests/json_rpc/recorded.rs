//! The recorded conversations of the execution-apis project: every method that is served must
//! answer as recorded.

use crate::{
    client::Node,
    common::{fixtures, import, producing},
};
use node::{chain::Genesis, home::Home, rpc};
use serde_json::{Number, Value};
use std::{collections::BTreeMap, path::Path};

/// Conversations whose recorded answer is not ours, and why.
const EXCEPTIONS: &[(&str, &str)] =
    &[("eth_sendRawTransaction/send-blob-tx", "the pool takes no blob transactions")];
/// Recorded error texts are one client's; codes are everybody's. Where the recording says that
/// only the schema counts, the kind of answer is compared.
const SCHEMA_ONLY: &str = "speconly:";

#[tokio::test(flavor = "multi_thread")]
async fn recorded_conversations() {
    let Some(folder) = fixtures().map(|folder| folder.join("execution-apis")) else { return };
    let node = imported(&folder).await;
    let served: Vec<_> = rpc::methods().map(|method| method.name).collect();
    let mut wrong = BTreeMap::new();
    let mut right = 0;
    for method in std::fs::read_dir(folder.join("tests")).unwrap() {
        let method = method.unwrap().path();
        let name = method.file_name().unwrap().to_string_lossy().into_owned();
        if !served.contains(&name.as_str()) {
            continue;
        }
        for file in std::fs::read_dir(&method).unwrap() {
            let file = file.unwrap().path();
            let case = format!("{name}/{}", file.file_stem().unwrap().to_string_lossy());
            match replay(&node, &file).await {
                Ok(()) => right += 1,
                Err(difference) => drop(wrong.insert(case, difference)),
            }
        }
    }
    let expected: Vec<_> = EXCEPTIONS.iter().map(|(case, _)| (*case).to_owned()).collect();
    let found: Vec<_> = wrong.keys().cloned().collect();
    assert_eq!(found, expected, "{right} as recorded, others: {wrong:#?}");
    assert!(right > 0, "no conversation was found in {}", folder.display());
    node.stop().await;
}

/// The chain of the recordings, served.
async fn imported(folder: &Path) -> Node {
    let genesis = std::fs::read_to_string(folder.join("tests/genesis.json")).unwrap();
    let home_folder = tempfile::tempdir().unwrap();
    let home = Home::init(home_folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![folder.join("tests/chain.rlp")]).unwrap();
    Node::start(home_folder, home, producing(None)).await
}

/// Says the lines of one conversation; the first difference, if there is one.
async fn replay(node: &Node, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let schema_only = text.lines().any(|line| line.contains(SCHEMA_ONLY));
    let mut answer = Value::Null;
    for line in text.lines() {
        if let Some(call) = line.strip_prefix(">> ") {
            answer = node.post(call).await;
        } else if let Some(recorded) = line.strip_prefix("<< ") {
            let recorded: Value = serde_json::from_str(recorded).unwrap();
            let same = if schema_only {
                same_kind(&recorded, &answer)
            } else {
                same_value(&recorded, &answer)
            };
            if !same {
                return Err(format!("recorded {recorded}\nanswered {answer}"));
            }
        }
    }
    Ok(())
}

fn is_error(answer: &Value) -> bool {
    answer.get("error").is_some()
}

/// Both succeed with the same fields, or both fail with the same code.
fn same_kind(recorded: &Value, answer: &Value) -> bool {
    match (recorded, answer) {
        _ if is_error(recorded) => recorded["error"]["code"] == answer["error"]["code"],
        (Value::Object(recorded), Value::Object(answer)) => {
            recorded.len() == answer.len()
                && recorded.iter().all(|(key, value)| {
                    answer.get(key).is_some_and(|other| same_kind(value, other))
                })
        }
        (Value::Array(_), Value::Array(_)) | (Value::Number(_), Value::Number(_)) => true,
        (Value::String(_), Value::String(_)) => true,
        (recorded, answer) => recorded == answer,
    }
}

/// Equal but for the texts of errors, and for how numbers are written.
fn same_value(recorded: &Value, answer: &Value) -> bool {
    match (recorded, answer) {
        _ if is_error(recorded) => {
            let (recorded, answer) = (&recorded["error"], &answer["error"]);
            recorded["code"] == answer["code"] && recorded.get("data") == answer.get("data")
        }
        (Value::Object(recorded), Value::Object(answer)) => {
            recorded.len() == answer.len()
                && recorded.iter().all(|(key, value)| {
                    answer.get(key).is_some_and(|other| same_value(value, other))
                })
        }
        (Value::Array(recorded), Value::Array(answer)) => {
            recorded.len() == answer.len()
                && recorded.iter().zip(answer).all(|(value, other)| same_value(value, other))
        }
        (Value::Number(recorded), Value::Number(answer)) => number(recorded) == number(answer),
        (recorded, answer) => recorded == answer,
    }
}

fn number(number: &Number) -> Option<f64> {
    number.as_f64()
}
