//! Tests chains whose genesis lacks contracts that blocks call.

use super::{Endpoints, Running, call, evmd, run};
use chain::{Genesis, SYSTEM_CONTRACTS, SystemContract};
use serde_json::Value;
use std::{fs, path::Path, process::Stdio};

/// Writes a native development genesis without the contracts for which `lacks` returns true.
fn genesis_without(file: &Path, lacks: impl Fn(&SystemContract) -> bool) {
    let mut genesis: Value = serde_json::from_str(&Genesis::native_dev(1).to_json()).unwrap();
    let missing: Vec<_> = SYSTEM_CONTRACTS.iter().filter(|contract| lacks(contract)).collect();
    let alloc = genesis["alloc"].as_object_mut().unwrap();
    let before = alloc.len();
    alloc.retain(|address, _| {
        let address: alloy_primitives::Address = address.parse().unwrap();
        missing.iter().all(|contract| contract.address != address)
    });
    assert_eq!(alloc.len(), before - missing.len());
    fs::write(file, genesis.to_string()).unwrap();
}

/// The warnings of `evmd init` about system contracts. Other warnings are about balances of development accounts.
fn of_contracts(warnings: &str) -> impl Iterator<Item = &str> {
    warnings.lines().filter(|line| line.contains("the system contract"))
}

#[test]
fn missing_required_contracts_are_reported_before_a_block_is_produced() {
    let _forking = super::forking();
    let folder = tempfile::tempdir().unwrap();
    let (home, file) = (folder.path().join("home"), folder.path().join("genesis.json"));
    genesis_without(&file, |contract| contract.is_required);
    let from = ["--genesis", file.to_str().unwrap()];
    let (code, out, err) = run(&home, &[&["init"], &from[..]].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("genesis"), "{out}");
    let required: Vec<_> =
        SYSTEM_CONTRACTS.iter().filter(|contract| contract.is_required).collect();
    let warnings: Vec<_> = of_contracts(&err).collect();
    assert_eq!(warnings.len(), required.len(), "{err}");
    for (line, contract) in warnings.into_iter().zip(&required) {
        let names = [contract.address.to_string(), format!("EIP-{}", contract.eip)];
        assert!(
            line.starts_with("warning: ") && names.iter().all(|name| line.contains(name)),
            "{line}"
        );
        assert!(line.contains("add an account with the code"), "{line}");
    }
    let endpoints = Endpoints::unused();
    let start = |more: &[&str]| {
        let flags = endpoints.options();
        let flags: Vec<_> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
        run(&home, &[&["start", "--quiet"], &flags[..]].concat())
    };
    let (code, out, err) = start(&[]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let last = err.lines().last().unwrap();
    assert!(last.starts_with("error: cannot produce block 1: "), "{err}");
    assert!(last.contains(&required[0].address.to_string()), "{err}");

    // The existing blocks can still be served.
    let log = folder.path().join("log");
    let mut command = evmd();
    command
        .args(["start", "--quiet", "--no-produce", "--home"])
        .arg(&home)
        .args(endpoints.options());
    let stderr = Stdio::from(fs::File::create(&log).unwrap());
    let mut node = Running::start(command.stdout(Stdio::null()).stderr(stderr));
    node.wait_for(&endpoints);
    assert_eq!(
        call(endpoints.json_rpc, "eth_blockNumber", &Value::Array(Vec::new()))["result"],
        "0x0"
    );
    assert!(node.terminate().success());
    let log = fs::read_to_string(&log).unwrap();
    for contract in required {
        assert!(log.contains(&contract.address.to_string()), "{log}");
    }
}

#[test]
fn blocks_are_produced_without_optional_contracts() {
    let _forking = super::forking();
    let folder = tempfile::tempdir().unwrap();
    let (home, file) = (folder.path().join("home"), folder.path().join("genesis.json"));
    genesis_without(&file, |contract| !contract.is_required);
    let (code, _, err) = run(&home, &["init", "--genesis", file.to_str().unwrap()]);
    assert_eq!((code, of_contracts(&err).count()), (0, 2), "{err}");
    assert!(of_contracts(&err).all(|line| line.contains("blocks are valid without it")), "{err}");
    let endpoints = Endpoints::unused();
    let mut command = evmd();
    command.args(["start", "--quiet", "--block-time", "50ms", "--home"]).arg(&home);
    command.args(endpoints.options()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut node = Running::start(&mut command);
    node.wait_for(&endpoints);
    crate::common::wait_until("block 2 is produced", || {
        let number = call(endpoints.json_rpc, "eth_blockNumber", &Value::Array(Vec::new()));
        !["0x0", "0x1"].contains(&number["result"].as_str().unwrap())
    });
    assert!(node.terminate().success());
}
