//! geth's recorded traces of the blocks of two chains: 34 blocks with each of its tracers, and blocks of
//! `execution-apis` with its struct logger.

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

/// Folders of the requests, with one file per block.
const FOLDERS: [&str; 4] = [
    "4byte-tracer",
    "call-tracer",
    "prestate-tracer/diff-mode-false",
    "prestate-tracer/diff-mode-true",
];

/// Number of requests in [`FOLDERS`].
const REQUESTS: usize = 140;

/// Requests whose responses differ from geth's, with the reason.
const DIFFERENT: [(&str, &str); 0] = [];

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
    println!("{} of {run} answers differ", different.len());
    node.stop().await;
    assert_eq!(run, REQUESTS);
    let expected = DIFFERENT.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(different, expected);
}

/// A node with the recorded chain.
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
    let answer = node.post(&recorded["request"].to_string()).await;
    let expected = &recorded["response"];
    if answer == *expected {
        return Ok(());
    }
    Err(format!("\n  answer   {answer}\n  recorded {expected}"))
}

/// Folders of conversations about struct logs.
const STRUCT_LOGS: [&str; 3] =
    ["debug_traceBlockByHash", "debug_traceBlockByNumber", "debug_traceTransaction"];

/// Every field is compared here, even if a recording only requires the schema.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn struct_logs_equal_those_of_geth() {
    let root = fixtures("execution-apis");
    let node = imported(&root).await;
    let (mut run, mut different) = (0, Vec::new());
    for file in STRUCT_LOGS.iter().flat_map(|name| files(&root.join("tests").join(name))) {
        let mut answer = Value::Null;
        for line in fs::read_to_string(&file).unwrap().lines() {
            if let Some(request) = line.strip_prefix(">> ") {
                answer = node.post(request).await;
            } else if let Some(recorded) = line.strip_prefix("<< ") {
                run += 1;
                if let Some(difference) = difference(recorded, &answer) {
                    different.push(format!("{}: {difference}", file.display()));
                }
            }
        }
    }
    node.stop().await;
    assert!(run > 0);
    assert!(different.is_empty(), "{} of {run} differ:\n{}", different.len(), different.join("\n"));
}

/// The first instruction that differs, or the whole responses.
fn difference(recorded: &str, answer: &Value) -> Option<String> {
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let steps = |answer: &Value| {
        let results = answer["result"].as_array().cloned().unwrap_or_default();
        let steps =
            results.iter().filter_map(|row| row["result"]["structLogs"].as_array().cloned());
        steps.flatten().collect::<Vec<_>>()
    };
    let (expected, found) = (steps(&recorded), steps(answer));
    let step = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    match step {
        _ if recorded == *answer => None,
        Some((expected, found)) => Some(format!("{found}, expected {expected}")),
        None => Some(format!("{answer}, expected {recorded}")),
    }
}
