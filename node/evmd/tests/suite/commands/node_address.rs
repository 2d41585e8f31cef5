//! Tests that commands find the node by any of its HTTP addresses, or by the home folder on which it runs.

use serde_json::Value;
use std::{path::Path, process::Command};
use testkit::{Endpoints, NodeProcess};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_evmd"))
}

/// Runs `evmd` with arguments that are separated by spaces. Returns the exit code, standard output and standard error.
fn evmd(line: &str, variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(program());
    command.args(line.split(' ')).env_remove("EVMD_HOME").env_remove("EVMD_NODE");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Runs a command that must succeed, and returns its standard output.
fn succeed(line: &str) -> String {
    let (code, out, err) = evmd(line, &[]);
    assert_eq!(code, 0, "{line}: {err}");
    out
}

/// Runs a command that must fail, and returns its standard error.
fn fail(line: &str) -> String {
    let (code, out, err) = evmd(line, &[]);
    assert_eq!((code, out.as_str()), (1, ""), "{line}: {err}");
    err
}

/// Starts a node on a new chain with this ID.
fn node(home: &Path, chain_id: &str, endpoints: Endpoints) -> NodeProcess {
    let path = home.display();
    succeed(&format!("init --home {path} --chain-id {chain_id}"));
    NodeProcess::start_at(program(), home, &[], endpoints)
}

const DEV_KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const SEND: &str = "tx bank send val 0x00000000000000000000000000000000000000aa 7atest --dry-run \
                    --keyring-backend test";

#[test]
fn any_http_address_of_the_node_serves_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let node = node(&home, "4321", Endpoints::unused());
    let keys = folder.path().join("keys");
    let keys = keys.display();
    succeed(&format!(
        "keys unsafe-import-eth-key val {DEV_KEY} --keyring-backend test --home {keys}"
    ));
    let Endpoints { rest, json_rpc, comet, metrics, .. } = node.endpoints();
    for address in [rest, json_rpc, comet, metrics] {
        let at = format!("--node http://{address}");
        assert!(succeed(&format!("q evm config {at}")).contains("chain_id: \"4321\""), "{address}");
        assert!(
            succeed(&format!("status {at}")).contains("chain          4321, native rules"),
            "{address}"
        );
        assert_eq!(succeed(&format!("rpc eth_chainId {at}")), "\"0x10e1\"\n", "{address}");
        let (code, _, err) = evmd(&format!("{SEND} --home {keys} {at}"), &[]);
        assert_eq!(code, 0, "{err}");
        assert!(err.starts_with("gas estimate: "), "{err}");
    }
    // Without a server there is no response. The gRPC address does not serve HTTP/1.1.
    let other = testkit::own_address();
    let error = fail(&format!("{SEND} --home {keys} --node {other}"));
    assert!(error.starts_with(&format!("error: no node responds at {other} (--node)")), "{error}");
    let grpc = node.endpoints().grpc;
    for command in [SEND, "status", "q block", "rpc eth_chainId"] {
        let error = fail(&format!("{command} --node http://{grpc}"));
        let reason = format!(
            "error: --node http://{grpc} is not the address of an HTTP server of a node: use the address of REST (1317), \
             JSON-RPC (8545), the CometBFT RPC (26657), metrics (26660), such as --node http://127.0.0.1:1317"
        );
        assert!(error.starts_with(&reason), "{error}");
    }
}

#[test]
fn node_of_a_home_folder_is_found_by_its_recorded_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let homes = ["first", "second"].map(|name| folder.path().join(name));
    let [first_path, second_path] = homes.each_ref().map(|home| home.display().to_string());
    let mut first = node(&homes[0], "1001", Endpoints::unused());
    let mut second = node(&homes[1], "1002", Endpoints::unused());
    let chain = |line: &str, variables: &[(&str, &str)]| {
        let (code, out, err) = evmd(&format!("status -o json{line}"), variables);
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["chainId"].as_u64().unwrap()
    };
    assert_eq!(chain(&format!(" --home {first_path}"), &[]), 1001);
    assert_eq!(chain(&format!(" --home {second_path}"), &[]), 1002);
    assert_eq!(succeed(&format!("rpc eth_chainId --home {second_path}")), "\"0x3ea\"\n");
    assert!(succeed(&format!("q evm config --home {first_path}")).contains("chain_id: \"1001\""));
    succeed(&format!(
        "keys unsafe-import-eth-key val {DEV_KEY} --keyring-backend test --home {first_path}"
    ));
    let (code, _, err) = evmd(&format!("{SEND} --home {first_path}"), &[]);
    assert!(code == 0 && err.starts_with("gas estimate: "), "{err}");

    // An option takes precedence over the environment, and an address over a home folder.
    let url = format!("http://{}", second.endpoints().rest);
    let environment = [("EVMD_NODE", url.as_str()), ("EVMD_HOME", first_path.as_str())];
    assert_eq!(chain("", &environment), 1002);
    assert_eq!(chain("", &environment[1..]), 1001);
    assert_eq!(chain(&format!(" --home {first_path}"), &environment), 1001);
    assert_eq!(chain(&format!(" --home {first_path} --node {url}"), &[]), 1002);

    let error = fail("q evm config --home no-such-folder");
    assert_eq!(error, "error: the home folder no-such-folder does not exist\n");
    // After a kill, the file with the addresses remains, and another node may use them.
    first.kill();
    assert!(homes[0].join("endpoints.json").exists());
    let error = format!(
        "error: no running node uses the home folder {first_path}: start it with `evmd start --home {first_path}`, or name another \
         node with --node\n"
    );
    assert_eq!(fail(&format!("status --home {first_path}")), error);
    second.stop();
    assert!(!homes[1].join("endpoints.json").exists());
    let _second = NodeProcess::start_at(program(), &homes[1], &[], first.endpoints());
    assert_eq!(fail(&format!("status --home {first_path}")), error);
    assert_eq!(chain(&format!(" --home {second_path}"), &[]), 1002);
}

#[test]
fn rpc_sends_arguments_without_json_and_prints_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let node = node(&home, "4321", Endpoints::unused());
    let at = format!("--node http://{}", node.endpoints().json_rpc);
    let zero = format!("0x{}", "00".repeat(20));
    assert_eq!(succeed(&format!("rpc eth_getBalance {zero} latest {at}")), "\"0x0\"\n");
    let block: Value =
        serde_json::from_str(&succeed(&format!("rpc eth_getBlockByNumber 0x0 false {at}")))
            .unwrap();
    assert_eq!(block["number"], "0x0");
    let call = format!("rpc eth_call {{\"to\":\"{zero}\"}} latest {at}");
    assert_eq!(succeed(&call), "\"0x\"\n");
    assert_eq!(
        succeed(&format!("rpc --raw eth_getBalance [\"{zero}\",\"latest\"] {at}")),
        "\"0x0\"\n"
    );
    assert_eq!(
        succeed(&format!("rpc eth_getTransactionReceipt 0x{} {at}", "11".repeat(32))),
        "null\n"
    );
    let error = fail(&format!("rpc eth_nothing {at}"));
    let reason = "error: -32601: the method eth_nothing does not exist/is not available\n";
    assert_eq!(error, reason);
    // The init code is PUSH0 PUSH0 REVERT.
    let error = fail(&format!("rpc eth_call {{\"data\":\"0x5f5ffd\"}} latest {at}"));
    assert!(error.starts_with("error: 3: execution reverted (data: \"0x\")"), "{error}");
    let error = fail(&format!("rpc --raw eth_chainId 12 {at}"));
    assert_eq!(error, "error: the parameters must be an array or an object\n");
}
