//! Tests `evmd config` and `evmd genesis`, and the errors of other commands about settings and files.

use std::{fs, path::Path, process::Command};

/// Runs `evmd`. Returns the exit code, standard output and standard error.
fn evmd(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    let output = command.args(args).env_remove("EVMD_HOME").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn succeed(args: &[&str]) -> String {
    let (code, out, err) = evmd(args);
    assert_eq!(code, 0, "{args:?}: {err}");
    out
}

/// Runs a command, which must fail with exit code 1. Returns its error without the prefix `error: `.
fn fail(args: &[&str]) -> String {
    let (code, out, err) = evmd(args);
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
    err.strip_prefix("error: ").unwrap().trim_end().to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_invalid_log_filter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    for command in ["start", "doctor", "rollback"] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_evmd"));
        run.args([command, "--home", home]).env("RUST_LOG", "rpc=loud");
        let output = run.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.starts_with("error: RUST_LOG=\"rpc=loud\": "), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// This test runs only as root, because only root can give a folder to another user.
#[test]
fn root_changes_no_settings_and_keys_of_another_user() {
    const OTHER: u32 = 12_345;
    let folder = tempfile::tempdir().unwrap();
    if std::os::unix::fs::chown(folder.path(), Some(OTHER), None).is_err() {
        return;
    }
    let home = text(folder.path());
    for args in [
        &["config", "set", "engine.produce", "false"][..],
        &["keys", "add", "alice", "--keyring-backend", "test"],
    ] {
        let error = fail(&[args, &["--home", home]].concat());
        assert!(error.contains("belongs to user 12345"), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_genesis_with_balances_of_public_keys_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    let (code, _, error) = evmd(&["init", "--home", home]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("development accounts have a balance (10, "), "{error}");
    let path = folder.path().join("genesis.json");
    let mut genesis: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let alloc = genesis["alloc"].as_object_mut().unwrap();
    let mut remaining = chain::DEV_ACCOUNTS.iter();
    let first = remaining.next().unwrap().address;
    for account in remaining {
        let key = alloc.keys().find(|key| key.parse() == Ok(account.address)).unwrap().clone();
        alloc.remove(&key);
    }
    fs::write(&path, genesis.to_string()).unwrap();
    let (_, _, error) = evmd(&["genesis", "validate", text(&path)]);
    assert!(error.contains(&format!("(1, the first is {first})")));
    let development = folder.path().join("development");
    let (code, _, error) = evmd(&["init", "--dev", "--home", text(&development)]);
    assert_eq!((code, error.as_str()), (0, ""));
}

#[test]
fn settings_are_shown_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    let get = |key: &str| succeed(&["config", "get", key, "--home", home]);
    let set = |key: &str, value: &str| evmd(&["config", "set", key, value, "--home", home]);
    assert_eq!(get("rest.address"), "127.0.0.1:1317\n");
    assert_eq!(get("engine.produce"), "true\n");
    assert!(
        succeed(&["config", "show", "--home", home])
            .contains("[grpc]\naddress = \"127.0.0.1:9090\"")
    );
    let json = succeed(&["config", "show", "--home", home, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["json-rpc"]["max-batch"], 1000);
    let (code, printed, _) = set("rest.address", "127.0.0.1:1");
    assert_eq!((code, printed.as_str()), (0, "rest.address = \"127.0.0.1:1\"\n"));
    assert_eq!(set("engine.block-time-ms", "250").0, 0);
    assert_eq!(get("rest.address"), "127.0.0.1:1\n");
    assert!(get("engine").starts_with("block-time-ms = 250\n"), "{}", get("engine"));
    // The file contains the changed settings, and no defaults.
    let file = fs::read_to_string(folder.path().join("config.toml")).unwrap();
    assert_eq!(file, "[rest]\naddress = \"127.0.0.1:1\"\n\n[engine]\nblock-time-ms = 250\n");
    let differences = "engine.block-time-ms = 250  # default: 1000\n\
                       rest.address = \"127.0.0.1:1\"  # default: \"127.0.0.1:1317\"\n";
    assert_eq!(succeed(&["config", "diff", "--home", home]), differences);
    let json = succeed(&["config", "diff", "--home", home, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["key"], "engine.block-time-ms");
    assert_eq!((&json[0]["value"], &json[0]["default"]), (&250.into(), &1000.into()));
    for (key, value) in [
        ("rest.address", "nowhere"),
        ("rest.max-connections", "1.5"),
        ("rest.max-connections", "many"),
        ("rest.adress", "127.0.0.1:1"),
        ("rest", "x"),
        ("nothing", "x"),
        ("engine.produce", "7"),
        ("storage.chain-map-bytes", "1"),
        ("storage.index-map-bytes", "131071"),
        ("mempool.minimum-gas-prices", "1"),
        ("mempool.minimum-gas-prices", "atest"),
        ("mempool.minimum-gas-prices", "0.5atest,1stake"),
    ] {
        let reason = fail(&["config", "set", key, value, "--home", home]);
        assert_eq!(reason.lines().count(), 1, "{reason}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("config.toml")).unwrap(), file);
    let small = fail(&["config", "set", "storage.chain-map-bytes", "1", "--home", home]);
    assert!(small.starts_with("storage.chain-map-bytes must be at least 131072, "), "{small}");
    // Environments of the minimum size can be opened.
    for name in ["chain", "index"] {
        assert_eq!(set(&format!("storage.{name}-map-bytes"), "131072").0, 0);
    }
    succeed(&["init", "--home", home]);
    let several = fail(&["config", "set", "mempool.minimum-gas-prices", "1a,2b", "--home", home]);
    let reason =
        "\"1a,2b\" has 2 prices, but a chain has one token: set one price, such as 0.5atest";
    assert!(
        several.contains("mempool.minimum-gas-prices") && several.ends_with(reason),
        "{several}"
    );
    assert_eq!(set("mempool.minimum-gas-prices", ".50atest").0, 0);
    assert_eq!(get("mempool.minimum-gas-prices"), "0.5atest\n");
}

#[test]
fn new_file_has_comments_and_no_defaults_and_keeps_the_moniker() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    succeed(&["init", "validator one", "--home", home]);
    let read = || fs::read_to_string(folder.path().join("config.toml")).unwrap();
    let file = read();
    assert!(file.contains("# time between blocks"), "{file}");
    assert!(file.contains("\n# block-time-ms = 1000\n"), "{file}");
    let is_set = |line: &&str| !line.starts_with(['#', '[']) && !line.is_empty();
    let set: Vec<_> = file.lines().filter(is_set).collect();
    assert_eq!(set, ["moniker = \"validator one\""]);
    succeed(&["config", "set", "engine.block-time-ms", "250", "--home", home]);
    let default = "# block-time-ms = 1000\n";
    assert_eq!(read(), file.replace(default, &format!("{default}block-time-ms = 250\n")));
    let differences = "engine.block-time-ms = 250  # default: 1000\n\
                       node.moniker = \"validator one\"  # default: \"evmd\"\n";
    assert_eq!(succeed(&["config", "diff", "--home", home]), differences);
}

#[test]
fn refused_settings_are_named_with_the_expected_form() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    let set = |key: &str, value: &str| fail(&["config", "set", key, value, "--home", home]);
    for (key, value, error) in [
        (
            "engine.block-time-ms",
            "abc",
            "engine.block-time-ms must be a whole number, such as 1000, got \"abc\"",
        ),
        ("engine.produce", "7", "engine.produce must be true or false, got \"7\""),
        (
            "rest.address",
            "on",
            "rest.address must be an IP address and a port, such as 127.0.0.1:8545, or off, got \"on\"",
        ),
    ] {
        assert_eq!(set(key, value), error);
    }
    for key in ["json-rpc.api", "json-rpc.ws-api"] {
        let error = set(key, "eth,foo");
        let start = format!("{key}: unknown JSON-RPC namespace \"foo\": the namespaces are ");
        assert!(error.starts_with(&start), "{error}");
    }
    assert!(!folder.path().join("config.toml").exists());
    let get = |key: &str| fail(&["config", "get", key, "--home", home]);
    for (key, suggestion) in [
        ("engine.block-time", " (did you mean engine.block-time-ms?)"),
        ("rest.adress", " (did you mean rest.address?)"),
        ("gas-cap", " (did you mean json-rpc.gas-cap?)"),
        ("nothing", ""),
    ] {
        let error = format!("unknown setting \"{key}\"{suggestion}: see `evmd config show`");
        assert_eq!(get(key), error);
    }
}

#[test]
fn settings_of_a_missing_home_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let error = fail(&["config", "set", "engine.produce", "false", "--home", text(&home)]);
    let reason = format!(
        "the home folder {0} does not exist: create it with `evmd init --home {0}`, or name another one with --home",
        home.display()
    );
    assert_eq!(error, reason);
    assert!(!home.exists());
}

#[test]
fn folder_that_is_not_a_snapshot_is_refused_without_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (from, home) = (folder.path().join("nothing"), folder.path().join("home"));
    let error = fail(&["snapshot", "restore", text(&from), "--home", text(&home)]);
    let reason = format!("{} is not a snapshot: it holds no chain; ", from.display());
    assert!(error.starts_with(&reason) && error.contains("evmd snapshot create"), "{error}");
    assert!(!home.exists());
}

#[test]
fn import_of_a_missing_file_prints_no_summary() {
    let folder = tempfile::tempdir().unwrap();
    let home = text(folder.path());
    succeed(&["init", "--home", home]);
    let file = folder.path().join("chain.rlp");
    let import = || fail(&["import", text(&file), "--home", home]);
    let reason = format!("cannot read {}: No such file or directory (os error 2)", file.display());
    assert_eq!(import(), reason);
    fs::write(&file, "no RLP").unwrap();
    assert!(import().contains("expected an RLP list"), "{}", import());
}

#[test]
fn genesis_files_are_created_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("genesis.json");
    let file = text(&path);
    let address = "cosmos1zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3c7wvpv";
    let add = |address: &str, amount: &str| {
        evmd(&["genesis", "add-account", address, amount, "--file", file])
    };
    let hex = "0x1111111111111111111111111111111111111111";
    let (code, out, err) = add(hex, "7atest");
    assert_eq!((code, out), (0, format!("{hex} has 7 in {file}\n")), "{err}");
    // All of these are refused. The first two are the same account in different formats.
    for (address, amount) in [
        (&hex[2..], "1"),
        (address, "1"),
        ("0x2222222222222222222222222222222222222222", "1other"),
        ("0x2222222222222222222222222222222222222222", "1.5"),
        ("0x2222222222222222222222222222222222222222", "atest"),
        ("0x22", "1"),
    ] {
        let (code, _, err) = add(address, amount);
        assert_eq!((code, err.lines().count()), (1, 1), "{address} {amount}: {err}");
    }
    let valid = succeed(&["genesis", "validate", file]);
    assert!(
        valid.starts_with(&format!(
            "{file} is a valid genesis: chain 262144, native rules, 18 accounts, hash 0x"
        )),
        "{valid}"
    );
    let home = folder.path().join("home");
    let created = succeed(&["init", "--home", text(&home), "--genesis", file, "-o", "json"]);
    let created: serde_json::Value = serde_json::from_str(&created).unwrap();
    assert!(valid.trim_end().ends_with(created["genesisHash"].as_str().unwrap()));
    assert!(succeed(&["genesis", "validate", "--home", text(&home)]).contains("18 accounts"));
    fs::write(&path, "{\"config\":{}}").unwrap();
    assert_eq!(fail(&["genesis", "validate", file]).lines().count(), 1);
    assert!(
        fail(&["genesis", "validate", text(&folder.path().join("none"))])
            .starts_with("cannot read")
    );
}
