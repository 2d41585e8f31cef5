//! Opens the pages in Chromium.

use super::site::Site;
use crate::{common::transfer, development::PROGRAM, tool_suites::run_script};
use chain::DEV_ACCOUNTS;
use serde_json::json;
use std::{path::Path, process::Command};

/// Submits a proposal whose title and summary would run scripts if they were not escaped.
fn propose(home: &Path, rest: &str) {
    let evmd = |arguments: &[&str]| {
        let output = Command::new(Path::new(PROGRAM))
            .args(arguments)
            .arg("--home")
            .arg(home)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let key = DEV_ACCOUNTS[0].private_key.to_string();
    let key = key.trim_start_matches("0x");
    evmd(&["keys", "unsafe-import-eth-key", "val", key, "--keyring-backend", "test"]);
    let draft = evmd(&["tx", "gov", "draft-proposal"]);
    let mut proposal: serde_json::Value = serde_json::from_str(&draft).unwrap();
    proposal["title"] = json!("<script>alert(1)</script>");
    proposal["summary"] = json!("\u{202e}<img src=x onerror=alert(2)>");
    let file = home.join("proposal.json");
    std::fs::write(&file, proposal.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let submit = ["tx", "gov", "submit-proposal", file, "--from", "val", "-y"];
    evmd(&[&submit[..], &["--keyring-backend", "test", "--node", rest]].concat());
}

#[tokio::test]
#[ignore = "needs Chromium, playwright-core and axe-core: run .ci/clients"]
async fn every_page_works_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    let (site, [created, called, sent]) = Site::filled(folder.path()).await;
    let endpoints = site.endpoints();
    let next = format!("{:#x}", site.head().await + 1);
    propose(&folder.path().join("client"), &format!("http://{}", endpoints.rest));
    endpoints.wait_for("eth_getBlockByNumber", json!([next, false])).await;
    let account = DEV_ACCOUNTS[0].address;
    let paths = json!([
        "/",
        "/blocks",
        "/block/1",
        "/fees",
        "/fees?cap=1&blocks=1000",
        "/governance",
        "/governance/1",
        format!("/tx/{created}"),
        format!("/tx/{called}"),
        format!("/tx/{sent}"),
        format!("/tx/{sent}/execution"),
        format!("/address/{account}"),
        format!("/address/{account}?logs=1"),
    ]);
    // Each transfer causes a block.
    let transfers: Vec<_> = (0..8).map(|nonce| transfer(1, nonce, account)).collect();
    let arguments = [
        format!("http://{}", endpoints.pages),
        format!("http://{}", endpoints.json_rpc),
        paths.to_string(),
        json!(transfers).to_string(),
    ];
    run_script("node", "pages.cjs", &arguments).await;
}
