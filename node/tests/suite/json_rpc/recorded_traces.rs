//! A chain of 34 blocks and what geth answered when each was traced by each of its tracers.

use crate::{
    client::{Node, config},
    common::{fixtures, import, producing},
};
use node::{chain::Genesis, home::Home};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folders of the requests, which have one file for each block.
const FOLDERS: [&str; 4] = [
    "4byte-tracer",
    "call-tracer",
    "prestate-tracer/diff-mode-false",
    "prestate-tracer/diff-mode-true",
];

/// Requests in [`FOLDERS`].
const REQUESTS: usize = 140;

/// Requests whose answers differ from geth's, with the reason.
const DIFFERENT: [(&str, &str); 0] = [];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
async fn traces_are_those_that_geth_recorded() {
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
