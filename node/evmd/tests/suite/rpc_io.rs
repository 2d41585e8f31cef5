//! Replays recorded conversations: always those of a small chain of this project and, if the fixtures are installed,
//! those of the execution-apis project with their chain.

use crate::client::{Node, config};
use crate::common::{fixtures, import, producing};
use chain::Genesis;
use home::Home;
use serde_json::{Number, Value};
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Marks a recording in which only the schema matters: the kinds of the responses are compared instead of their values.
const SCHEMA_ONLY: &str = "speconly:";

/// The JSON-RPC namespaces that the recordings use.
const API: [&str; 7] = ["eth", "net", "web3", "txpool", "debug", "testing", "evmd"];
/// Fields that may be missing from a response of which only the kind is compared. This node never deletes data, so it
/// has no deletion strategy.
const OPTIONAL_FIELDS: [&str; 1] = ["deleteStrategy"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn recorded_conversations_have_equal_responses() {
    let folder = fixtures("execution-apis");
    let node = imported(&folder).await;
    let (equal, differences) = replay_all(&node, &folder.join("tests")).await;
    assert!(differences.is_empty(), "{equal} equal, others:\n{}", differences.join("\n"));
    assert!(equal > 0, "no conversation was found in {}", folder.display());

    // In a second replay, only the responses to submissions differ because the transactions are already known.
    let (again, differing) = replay_all(&node, &folder.join("tests")).await;
    for difference in &differing {
        assert!(difference.contains("already known"), "second replay: {difference}");
    }
    assert_eq!(again + differing.len(), equal);
    node.stop().await;
}

/// Replays every conversation below a folder, and prints a table by method. Returns the number of conversations with
/// equal responses, and the differences in the others, each with the name of the file.
async fn replay_all(node: &Node, folder: &Path) -> (usize, Vec<String>) {
    let (mut table, mut differences) = (String::new(), Vec::new());
    let mut equal = 0;
    for method in sorted(folder).iter().filter(|path| path.is_dir()) {
        let name = method.file_name().unwrap().to_string_lossy().into_owned();
        let (mut passed, mut failed) = (0, 0);
        for file in sorted(method) {
            match replay(node, &file).await {
                Ok(()) => passed += 1,
                Err(difference) => {
                    failed += 1;
                    differences.push(format!("{}\n{difference}\n", file.display()));
                }
            }
        }
        equal += passed;
        writeln!(table, "{name:44} {passed:3} passed {failed:3} failed").unwrap();
    }
    println!("{table}{equal} passed, {} failed", differences.len());
    (equal, differences)
}

/// The chain of this project's conversations, in the repository.
const CHAIN: &str = "tests/fixtures/samples/every_fork";
/// This project's conversations. `EVMD_WRITE_CONVERSATIONS=1` writes the responses.
const CONVERSATIONS: &str = "tests/rpc_io";

/// The chain of these conversations has every fork.
#[tokio::test(flavor = "multi_thread")]
async fn conversations_of_this_project_have_the_recorded_responses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let chain = root.join(CHAIN);
    let node = imported_from(&chain.join("genesis.json"), chain.join("chain.rlp")).await;
    let mut differences = String::new();
    let files = sorted(&root.join(CONVERSATIONS));
    assert!(!files.is_empty());
    for file in files {
        if std::env::var_os("EVMD_WRITE_CONVERSATIONS").is_some() {
            record(&node, &file).await;
        }
        if let Err(difference) = replay(&node, &file).await {
            write!(differences, "{}\n{difference}\n", file.display()).unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
    node.stop().await;
}

/// Sends the requests in a file again, and writes the new responses to the file.
async fn record(node: &Node, file: &Path) {
    let mut out = String::new();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        if line.starts_with("<< ") {
            continue;
        }
        writeln!(out, "{line}").unwrap();
        if let Some(call) = line.strip_prefix(">> ") {
            writeln!(out, "<< {}", node.post(call).await).unwrap();
        }
    }
    std::fs::write(file, out).unwrap();
}

/// Returns the entries of a folder, sorted by name.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Starts a node with the namespaces of the recordings.
async fn serve(folder: tempfile::TempDir, mut home: Home) -> Node {
    // Some conversations submit transactions, and this node does not produce blocks.
    home.config.mempool.accept_without_production = true;
    let mut config = config();
    config.json_rpc.api = API.map(str::to_owned).into();
    Node::start_with(folder, home, producing(None), config).await
}

/// Starts a node with the chain of the recordings.
pub(crate) async fn imported(folder: &Path) -> Node {
    imported_from(&folder.join("tests/genesis.json"), folder.join("tests/chain.rlp")).await
}

/// Starts a node with a chain that is imported from files.
async fn imported_from(genesis: &Path, chain: PathBuf) -> Node {
    let genesis = std::fs::read_to_string(genesis).unwrap();
    let home_folder = tempfile::tempdir().unwrap();
    let home = Home::init(home_folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![chain]).unwrap();
    serve(home_folder, home).await
}

/// Replays one conversation. Returns an error with the first difference if there is one.
async fn replay(node: &Node, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).unwrap();
    let schema_only = text.lines().any(|line| line.contains(SCHEMA_ONLY));
    let mut response = Value::Null;
    for line in text.lines() {
        if let Some(call) = line.strip_prefix(">> ") {
            response = node.post(call).await;
        } else if let Some(recorded) = line.strip_prefix("<< ") {
            let recorded: Value = serde_json::from_str(recorded).unwrap();
            let same = if schema_only {
                same_kind(&recorded, &response)
            } else {
                same_value(&recorded, &response)
            };
            if !same {
                return Err(difference("", &recorded, &response));
            }
        }
    }
    Ok(())
}

fn is_error(response: &Value) -> bool {
    response.get("error").is_some()
}

/// Returns whether both are results with the same fields and types, or both are errors with the same code.
fn same_kind(recorded: &Value, response: &Value) -> bool {
    match (recorded, response) {
        _ if is_error(recorded) => recorded["error"]["code"] == response["error"]["code"],
        (Value::Object(recorded), Value::Object(response)) => {
            let optional = |key: &String| OPTIONAL_FIELDS.contains(&key.as_str());
            response.keys().all(|key| recorded.contains_key(key))
                && recorded.iter().all(|(key, value)| match response.get(key) {
                    Some(other) => same_kind(value, other),
                    None => optional(key),
                })
        }
        (Value::Array(_), Value::Array(_)) | (Value::Number(_), Value::Number(_)) => true,
        (Value::String(_), Value::String(_)) => true,
        (recorded, response) => recorded == response,
    }
}

/// Returns whether both are equal except for error texts, which differ between clients, and the notation of numbers.
fn same_value(recorded: &Value, response: &Value) -> bool {
    match (recorded, response) {
        _ if is_error(recorded) => {
            let (recorded, response) = (&recorded["error"], &response["error"]);
            recorded["code"] == response["code"] && recorded.get("data") == response.get("data")
        }
        (Value::Object(recorded), Value::Object(response)) => {
            recorded.len() == response.len()
                && recorded.iter().all(|(key, value)| {
                    response.get(key).is_some_and(|other| same_value(value, other))
                })
        }
        (Value::Array(recorded), Value::Array(response)) => {
            recorded.len() == response.len()
                && recorded.iter().zip(response).all(|(value, other)| same_value(value, other))
        }
        (Value::Number(recorded), Value::Number(response)) => number(recorded) == number(response),
        (recorded, response) => recorded == response,
    }
}

fn number(number: &Number) -> Option<f64> {
    number.as_f64()
}

/// Describes the differences between the fields of two responses.
fn difference(path: &str, recorded: &Value, response: &Value) -> String {
    match (recorded, response) {
        (Value::Object(recorded), Value::Object(response)) if !recorded.contains_key("error") => {
            let mut found = String::new();
            let keys: std::collections::BTreeSet<_> =
                recorded.keys().chain(response.keys()).collect();
            for key in keys {
                let (left, right) = (&recorded.get(key), &response.get(key));
                let null = Value::Null;
                let (left, right) = (left.unwrap_or(&null), right.unwrap_or(&null));
                if !same_value(left, right) {
                    found += &difference(&format!("{path}/{key}"), left, right);
                }
            }
            found
        }
        (Value::Array(recorded), Value::Array(response)) if recorded.len() == response.len() => {
            let pairs = recorded.iter().zip(response).enumerate();
            let differing = pairs.filter(|(_, (left, right))| !same_value(left, right));
            differing
                .map(|(i, (left, right))| difference(&format!("{path}/{i}"), left, right))
                .collect()
        }
        (recorded, response) => {
            let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            format!("  {path}: recorded {}, received {}\n", short(recorded), short(response))
        }
    }
}
