//! Compares traces with responses that were recorded from geth. The tracers in [`FOLDERS`] run on one recorded chain,
//! and the struct logger runs on the chain of `execution-apis`.

use crate::{
    client::{Node, config},
    common::{fixtures, import, producing},
    rpc_io::imported,
};
use chain::Genesis;
use home::Home;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folders of the recordings, with one request per file.
const FOLDERS: [&str; 4] = [
    "4byte-tracer",
    "call-tracer",
    "prestate-tracer/diff-mode-false",
    "prestate-tracer/diff-mode-true",
];

/// Number of requests in [`FOLDERS`].
const REQUESTS: usize = 140;

/// Requests whose responses differ from geth's, each with the reason.
const KNOWN_DIFFERENCES: [(&str, &str); 0] = [];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn traces_equal_those_of_geth() {
    let root = fixtures("besu-debug-geth-34");
    let node = serve(&root.join("chain-data")).await;
    let (mut run, mut different) = (0, BTreeSet::new());
    for folder in FOLDERS {
        for file in files(&root.join("specs").join(folder)) {
            run += 1;
            let name = format!("{folder}/{}", file.file_stem().unwrap().display());
            if let Err(difference) = compare(&node, &file).await {
                println!("{name}: {difference}");
                different.insert(name);
            }
        }
    }
    println!("{} of {run} responses differ", different.len());
    node.stop().await;
    assert_eq!(run, REQUESTS);
    let expected = KNOWN_DIFFERENCES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(different, expected);
}

/// Starts a node with the recorded chain.
async fn serve(chain: &Path) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let genesis = fs::read_to_string(chain.join("genesis.json")).unwrap();
    let home = Home::init(folder.path(), &Genesis::from_json(&genesis).unwrap()).unwrap();
    import(&home, vec![chain.join("blocks.bin")]).unwrap();
    let mut config = config();
    config.json_rpc.api.push("debug".to_owned());
    Node::start_with(folder, home, producing(None), config).await
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

async fn compare(node: &Node, file: &Path) -> Result<(), String> {
    let recorded: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let response = node.post(&recorded["request"].to_string()).await;
    let expected = &recorded["response"];
    if response == *expected {
        return Ok(());
    }
    Err(format!("\n  response {response}\n  recorded {expected}"))
}

/// Folders of recorded conversations with struct logs.
const STRUCT_LOGS: [&str; 3] =
    ["debug_traceBlockByHash", "debug_traceBlockByNumber", "debug_traceTransaction"];

/// This test compares every field, even if a recording only requires the response to conform to the schema.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn struct_logs_equal_those_of_geth() {
    let root = fixtures("execution-apis");
    let node = imported(&root).await;
    let (mut run, mut different) = (0, Vec::new());
    for file in STRUCT_LOGS.iter().flat_map(|name| files(&root.join("tests").join(name))) {
        let mut response = Value::Null;
        for line in fs::read_to_string(&file).unwrap().lines() {
            if let Some(request) = line.strip_prefix(">> ") {
                response = node.post(request).await;
            } else if let Some(recorded) = line.strip_prefix("<< ") {
                run += 1;
                if let Some(difference) = difference(recorded, &response) {
                    different.push(format!("{}: {difference}", file.display()));
                }
            }
        }
    }
    node.stop().await;
    assert!(run > 0);
    assert!(different.is_empty(), "{} of {run} differ:\n{}", different.len(), different.join("\n"));
}

/// Describes the first step that differs, or the whole responses if no step does; `None` if they are equal.
fn difference(recorded: &str, response: &Value) -> Option<String> {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let steps = |response: &Value| {
        let results = response["result"].as_array().cloned().unwrap_or_default();
        let steps =
            results.iter().filter_map(|row| row["result"]["structLogs"].as_array().cloned());
        steps.flatten().collect::<Vec<_>>()
    };
    let (expected, found) = (steps(&recorded), steps(response));
    let step = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    match step {
        _ if recorded == *response => None,
        Some((expected, found)) => Some(format!("{found}, expected {expected}")),
        None => Some(format!("{response}, expected {recorded}")),
    }
}
