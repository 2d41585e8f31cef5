//! Tests the exact output, exit codes and errors of `evmd keys` and `evmd debug`, and exchanges keys with other wallet
//! libraries.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

const WORDS: &str = "test test test test test test test test test test test junk";
const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const HEX: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const ACC: &str = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
const VAL: &str = "cosmosvaloper17w0adeg64ky0daxwd2ugyuneellmjgnxxf088n";
const CONS: &str = "cosmosvalcons17w0adeg64ky0daxwd2ugyuneellmjgnxj6umtj";
const ACC_PUB: &str = "cosmospub1qwp3s56m2sg96jn64esvpr7yt7tgwxqmfl0uvfdarf6nlfee0lkh2hse2hz";
const VAL_PUB: &str =
    "cosmosvaloperpub1qwp3s56m2sg96jn64esvpr7yt7tgwxqmfl0uvfdarf6nlfee0lkh2lfzuzy";
const CONS_PUB: &str =
    "cosmosvalconspub1qwp3s56m2sg96jn64esvpr7yt7tgwxqmfl0uvfdarf6nlfee0lkh2w88t5r";
const PUBLIC_HEX: &str = "038318535b54105d4a7aae60c08fc45f9687181b4fdfc625bd1a753fa7397fed75";
const PUBLIC_JSON: &str = r#"{"@type":"/cosmos.evm.crypto.v1.ethsecp256k1.PubKey","key":"A4MYU1tUEF1Keq5gwI/EX5aHGBtP38YlvRp1P6c5f+11"}"#;
const PASSPHRASE: &str = "correct horse";

/// A separate home folder, in which commands run.
struct Keys {
    home: tempfile::TempDir,
    backend: &'static str,
}

struct Finished {
    code: i32,
    out: String,
    err: String,
}

impl Keys {
    fn new(backend: &'static str) -> Self {
        Self { home: tempfile::tempdir().unwrap(), backend }
    }

    /// Runs `evmd keys` with these lines on standard input.
    fn run(&self, args: &[&str], input: &[&str]) -> Finished {
        let mut all = vec!["keys"];
        all.extend_from_slice(args);
        all.extend([
            "--keyring-backend",
            self.backend,
            "--home",
            self.home.path().to_str().unwrap(),
        ]);
        evmd(&all, input)
    }

    /// Runs a command, which must succeed; returns its standard output.
    fn ok(&self, args: &[&str], input: &[&str]) -> String {
        let done = self.run(args, input);
        assert_eq!(done.code, 0, "{args:?}: {}", done.err);
        done.out
    }

    /// Runs a command, which must fail with exit code 1; returns the last line of its standard error.
    fn err(&self, args: &[&str], input: &[&str]) -> String {
        let done = self.run(args, input);
        assert_eq!(done.code, 1, "{args:?}: {}{}", done.out, done.err);
        assert!(done.out.is_empty(), "{args:?}: {}", done.out);
        done.err.lines().last().unwrap().strip_prefix("error: ").unwrap().to_owned()
    }

    fn with_alice(backend: &'static str, input: &[&str]) -> Self {
        let keys = Self::new(backend);
        let mut all = vec![WORDS];
        all.extend_from_slice(input);
        keys.ok(&["add", "alice", "--recover"], &all);
        keys
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }
}

fn evmd(args: &[&str], input: &[&str]) -> Finished {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(args)
        .env_remove("EVMD_HOME")
        .env_remove("EVMD_KEYRING_BACKEND")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text: String = input.iter().map(|line| format!("{line}\n")).collect();
    // A command that reads no input may have ended before the input is written.
    drop(child.stdin.take().unwrap().write_all(text.as_bytes()));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    Finished {
        code: status.code().unwrap(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

fn alice_text(address: &str) -> String {
    format!("- address: {address}\n  name: alice\n  pubkey: '{PUBLIC_JSON}'\n  type: local\n")
}

fn alice_json(address: &str) -> String {
    let quoted = PUBLIC_JSON.replace('"', "\\\"");
    format!(
        "{{\"name\":\"alice\",\"type\":\"local\",\"address\":\"{address}\",\"pubkey\":\"{quoted}\"}}"
    )
}

#[test]
fn show_and_list_have_the_documented_output() {
    let keys = Keys::new("test");
    assert_eq!(keys.ok(&["list"], &[]), "No records were found in keyring\n");
    assert_eq!(keys.ok(&["list", "-o", "json"], &[]), "[]\n");
    assert_eq!(keys.ok(&["add", "alice", "--recover"], &[WORDS]), alice_text(ACC));
    assert_eq!(keys.ok(&["list"], &[]), alice_text(ACC));
    assert_eq!(keys.ok(&["list", "-o", "json"], &[]), format!("[{}]\n", alice_json(ACC)));
    assert_eq!(keys.ok(&["list", "-n"], &[]), "alice\n");
    assert_eq!(keys.ok(&["list", "-n", "-o", "json"], &[]), "[\"alice\"]\n");
    for name in ["alice", HEX, &HEX[2..], ACC, VAL, CONS] {
        assert_eq!(keys.ok(&["show", name], &[]), alice_text(ACC), "{name}");
    }
    let json = keys.ok(&["show", "alice", "-o", "json"], &[]);
    assert_eq!(json, alice_json(ACC) + "\n");
    let forms = [("acc", ACC, ACC_PUB), ("val", VAL, VAL_PUB), ("cons", CONS, CONS_PUB)];
    for (kind, address, public) in forms {
        let show = |flags: &[&str]| {
            keys.ok(&[&["show", "alice", "--bech", kind][..], flags].concat(), &[])
        };
        assert_eq!(show(&[]), alice_text(address));
        assert_eq!(show(&["-o", "json"]), alice_json(address) + "\n");
        assert_eq!(show(&["-a"]), format!("{address}\n"));
        assert_eq!(show(&["-p"]), format!("{public}\n"));
    }
    assert_eq!(keys.ok(&["show", "alice", "-p"], &[]), format!("{PUBLIC_JSON}\n"));
    assert_eq!(keys.ok(&["show", "alice", "-a"], &[]), format!("{ACC}\n"));
    assert_eq!(keys.ok(&["show", "alice", "alice"], &[]), alice_text(ACC) + &alice_text(ACC));
}

#[test]
fn add_creates_recovers_and_stores_keys() {
    let keys = Keys::new("test");
    let done = keys.run(&["add", "fresh"], &[]);
    assert!(done.err.starts_with("\n**Important** write this mnemonic phrase in a safe place.\n"));
    let words = done.err.lines().last().unwrap();
    assert_eq!(words.split(' ').count(), 24);
    let address = keys.ok(&["show", "fresh", "-a"], &[]);
    // The displayed mnemonic recovers the stored key.
    let again = keys.ok(&["add", "x", "--recover", "--dry-run"], &[words]);
    assert!(again.contains(address.trim()), "{again}");

    let json = keys.ok(&["add", "j", "-o", "json", "--words", "12"], &[]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["mnemonic"].as_str().unwrap().split(' ').count(), 12);
    let quiet = keys.run(&["add", "q", "--no-backup"], &[]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));

    let dry = |flags: &[&str], input: &[&str]| {
        let flags = [&["add", "d", "--recover", "--dry-run"][..], flags].concat();
        let out = keys.ok(&flags, input);
        out.lines().next().unwrap().to_owned()
    };
    let second = "- address: cosmos1wzvhjux9rqfdcwspp37srdgwp5tac7wgtkldlx";
    assert_eq!(dry(&["--index", "1"], &[WORDS]), second);
    assert_eq!(
        dry(&["--hd-path", "m/44'/60'/0'/0/1", "--algo", "eth_secp265k1"], &[WORDS]),
        second
    );
    let bitcoin = dry(&["--coin-type", "118"], &[WORDS]);
    assert_ne!(bitcoin, format!("- address: {ACC}"));
    assert_ne!(dry(&["-i"], &[WORDS, "TREZOR"]), format!("- address: {ACC}"));
    assert_eq!(dry(&["-i"], &[WORDS, ""]), format!("- address: {ACC}"));
    let file = keys.file("words");
    fs::write(&file, WORDS).unwrap();
    assert_eq!(dry(&["--source", file.to_str().unwrap()], &[]), format!("- address: {ACC}"));

    let watch = keys.ok(&["add", "watch", "--pubkey", PUBLIC_JSON], &[]);
    assert_eq!(watch, alice_text(ACC).replace("alice", "watch").replace("local", "offline"));
    assert_eq!(
        keys.err(&["unsafe-export-eth-key", "watch"], &[]),
        "\"watch\" holds a public key only"
    );
}

#[test]
fn rename_and_delete_need_confirmation() {
    let keys = Keys::with_alice("test", &[]);
    assert_eq!(keys.err(&["add", "alice"], &["n"]), "aborted");
    assert_eq!(keys.err(&["rename", "alice", "bob"], &["n"]), "aborted");
    assert_eq!(keys.err(&["delete", "alice"], &["n"]), "aborted");
    let renamed = keys.run(&["rename", "alice", "bob", "-y"], &[]);
    assert_eq!(renamed.err, "Key was successfully renamed from alice to bob\n");
    keys.ok(&["add", "bob", "--no-backup"], &["y"]);
    assert_ne!(keys.ok(&["show", "bob", "-a"], &[]), format!("{ACC}\n"));
    let deleted = keys.run(&["delete", "bob", "-y"], &[]);
    assert_eq!(deleted.err, "Key deleted forever (uh oh!)\n");
    assert_eq!(keys.ok(&["list", "-o", "json"], &[]), "[]\n");
}

#[test]
fn private_keys_are_exported_and_imported() {
    let keys = Keys::with_alice("test", &[]);
    let upper = KEY.to_uppercase();
    assert_eq!(keys.ok(&["unsafe-export-eth-key", "alice"], &[]), format!("{upper}\n"));
    let json = keys.ok(&["unsafe-export-eth-key", "alice", "-o", "json"], &[]);
    assert_eq!(json, format!("{{\"key\":\"{upper}\"}}\n"));
    let hex = keys.ok(&["export", "alice", "--unarmored-hex", "--unsafe", "-y"], &[]);
    assert_eq!(hex, format!("{KEY}\n"));
    let other = Keys::new("test");
    let import = |name: &str, text: &str, flags: &[&str], input: &[&str]| {
        let file = other.file(name);
        fs::write(&file, text).unwrap();
        let flags = [&["import", name, file.to_str().unwrap()][..], flags].concat();
        other.ok(&flags, input);
        assert_eq!(other.ok(&["show", name, "-a"], &[]), format!("{ACC}\n"));
        other.ok(&["delete", name, "-y"], &[]);
    };
    import("hex", &hex, &["--unsafe"], &[]);
    let armored = keys.ok(&["export", "alice"], &[PASSPHRASE]);
    assert!(armored.starts_with("-----BEGIN TENDERMINT PRIVATE KEY-----\nkdf: argon2\nsalt: "));
    import("armored", &armored, &[], &[PASSPHRASE]);
    let keystore = keys.ok(&["export", "alice", "--keystore", "--kdf", "pbkdf2"], &[PASSPHRASE]);
    import("keystore", &keystore, &[], &[PASSPHRASE]);
    other.ok(&["unsafe-import-eth-key", "plain", KEY], &[]);
    other.ok(&["delete", "plain", "-y"], &[]);
    other.ok(&["unsafe-import-eth-key", "prompted", "--algo", "eth_secp256k1"], &[KEY]);
    assert_eq!(other.ok(&["show", "prompted", "-a"], &[]), format!("{ACC}\n"));

    let file = keys.file("out.json");
    keys.ok(&["export", "alice", "--to", file.to_str().unwrap()], &[PASSPHRASE]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_file_backend_keeps_its_secrets() {
    let keys = Keys::with_alice("file", &[PASSPHRASE]);
    let file = keys.file("keyring-file/keyring.json");
    let before = fs::read(&file).unwrap();
    assert_eq!(keys.ok(&["show", "alice", "-a"], &[PASSPHRASE]), format!("{ACC}\n"));
    let wrong = "incorrect keyring passphrase, or the keyring was altered";
    for args in [&["show", "alice"][..], &["show", "missing"], &["list"], &["migrate"]] {
        assert_eq!(keys.err(args, &["wrong horse"]), wrong);
    }
    assert_eq!(keys.err(&["delete", "alice", "-y"], &["wrong horse"]), wrong);
    assert!(keys.err(&["list"], &[]).starts_with("standard input ended before"));
    assert_eq!(fs::read(&file).unwrap(), before);
    assert_eq!(
        keys.ok(&["migrate"], &[PASSPHRASE]),
        "Keys migration has been successfully executed: 1 keys.\n"
    );
    assert_ne!(fs::read(&file).unwrap(), before);
    assert_eq!(keys.ok(&["list", "-n"], &[PASSPHRASE]), "alice\n");
    let left: Vec<_> = fs::read_dir(keys.file("keyring-file"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "only the keyring and its lock remain: {left:?}");
}

#[test]
fn memory_backend_writes_no_files() {
    let keys = Keys::with_alice("memory", &[]);
    assert_eq!(keys.ok(&["list"], &[]), "No records were found in keyring\n");
    assert_eq!(keys.ok(&["migrate", "-o", "json"], &[]), "{\"migrated\":0}\n");
    assert_eq!(keys.ok(&["list-key-types"], &[]), "eth_secp256k1\n");
    assert_eq!(keys.ok(&["list-key-types", "-o", "json"], &[]), "[\"eth_secp256k1\"]\n");
    assert_eq!(keys.ok(&["mnemonic"], &[]).split(' ').count(), 24);
    let json = keys.ok(&["mnemonic", "--words", "12", "--language", "czech", "-o", "json"], &[]);
    assert!(json.starts_with("{\"mnemonic\":\""));
    let entropy = "x".repeat(43);
    let first = keys.ok(&["mnemonic", "--unsafe-entropy"], &[&entropy]);
    assert_eq!(first, keys.ok(&["mnemonic", "--unsafe-entropy"], &[&entropy]));
    assert!(fs::read_dir(keys.home.path()).unwrap().next().is_none());
}

#[test]
fn parse_converts_both_ways() {
    let keys = Keys::new("memory");
    let addresses = format!("formats:\n- {ACC}\n- {VAL}\n- {CONS}\n");
    assert_eq!(keys.ok(&["parse", HEX], &[]), addresses);
    assert_eq!(keys.ok(&["parse", &HEX[2..]], &[]), addresses);
    let publics = format!("formats:\n- {ACC_PUB}\n- {VAL_PUB}\n- {CONS_PUB}\n");
    assert_eq!(keys.ok(&["parse", PUBLIC_HEX], &[]), publics);
    assert_eq!(
        keys.ok(&["parse", HEX, "-o", "json"], &[]),
        format!("{{\"formats\":[\"{ACC}\",\"{VAL}\",\"{CONS}\"]}}\n")
    );
    let bytes = HEX[2..].to_uppercase();
    assert_eq!(keys.ok(&["parse", VAL], &[]), format!("bytes: {bytes}\nhuman: cosmosvaloper\n"));
    assert_eq!(
        keys.ok(&["parse", ACC, "-o", "json"], &[]),
        format!("{{\"human\":\"cosmos\",\"bytes\":\"{bytes}\"}}\n")
    );
    assert_eq!(
        keys.err(&["parse", &ACC.replace("jtq", "jtp")], &[]),
        format!("{} is neither hex nor Bech32: wrong checksum", ACC.replace("jtq", "jtp"))
    );
    assert_eq!(
        keys.err(&["parse", "1234"], &[]),
        "neither an address (20 bytes) nor a public key (33 bytes): 2 bytes"
    );
}

#[test]
fn invalid_input_has_an_error_and_an_exit_code() {
    let keys = Keys::with_alice("test", &[]);
    let unknown = |text: &str| keys.err(&["show", text], &[]);
    assert!(unknown("missing").starts_with("missing is not a valid name or address: "));
    assert!(unknown(&ACC.replace("jtq", "jtp")).ends_with("wrong checksum"));
    assert!(unknown(&ACC.replace("cosmos", "Cosmos")).ends_with("mixed upper and lower case"));
    assert!(unknown(&HEX.replace('F', "f")).contains("wrong EIP-55 checksum"));
    assert!(unknown(&HEX[..40]).contains("length 38, want 40"));
    assert!(unknown(&format!("{HEX}00")).contains("length 42, want 40"));
    assert!(unknown("0x70997970C51812dc3A010C7d01b50e0d17dc79C8").ends_with("key not found"));

    let add = |flags: &[&str], input: &[&str]| {
        keys.err(&[&["add", "x", "--recover"][..], flags].concat(), input)
    };
    assert_eq!(
        add(&[], &[&WORDS.replace("junk", "junc")]),
        "invalid mnemonic: word 12, \"junc\", is not in the word list"
    );
    assert_eq!(add(&[], &[&WORDS.replace("junk", "test")]), "invalid mnemonic: wrong checksum");
    assert_eq!(add(&[], &["test"]), "invalid mnemonic: 1 words, want 12, 15, 18, 21 or 24");
    assert_eq!(
        add(&["--hd-path", "m/44'/60/0'/0/0"], &[]),
        "path coin type must be hardened: write 60'"
    );
    assert_eq!(
        add(&["--hd-path", "m/44'/60'/0'/0/0'"], &[]),
        "path index must not be hardened: write 0"
    );
    assert_eq!(
        add(&["--algo", "sr25519"], &[]),
        "unknown key algorithm \"sr25519\": this chain has eth_secp256k1"
    );
    assert_eq!(add(&[], &[WORDS]), "the keyring has this key already, as \"alice\"");
    assert!(keys.err(&["unsafe-import-eth-key", "x", "12"], &[]).contains("32 bytes, got 1"));
    for (args, code) in [
        (&["show", "alice", "-a", "-p"][..], 2),
        (&["show", "alice", "-a", "-o", "json"], 2),
        (&["show", "alice", "--bech", "osmo"], 2),
        (&["export", "alice", "--unarmored-hex"], 2),
        (&["list", "--nonsense"], 2),
        (&["show"], 2),
        (&["rename", "missing", "x", "-y"], 1),
        (&["delete", "missing", "-y"], 1),
    ] {
        assert_eq!(keys.run(args, &[]).code, code, "{args:?}");
    }
    for backend in ["kwallet", "pass"] {
        assert!(Keys::new(backend).err(&["list"], &[]).contains("is not supported: use file, "));
    }
    #[cfg(not(feature = "os-keyring"))]
    for args in [&["list"][..], &["show", "alice"], &["add", "alice"]] {
        let error = Keys::new("os").err(args, &[]);
        assert!(error.contains("is not available") && error.ends_with("use file, test or memory"));
    }
    assert_eq!(Keys::new("cloud").run(&["list"], &[]).code, 2);
}

#[test]
fn invalid_key_files_have_an_error() {
    let keys = Keys::with_alice("test", &[]);
    let armored = keys.ok(&["export", "alice"], &[PASSPHRASE]);
    let import = |text: &str, input: &[&str]| {
        let file = keys.file("key");
        fs::write(&file, text).unwrap();
        keys.err(&["import", "x", file.to_str().unwrap()], input)
    };
    assert_eq!(
        import(&armored, &["wrong horse"]),
        "wrong passphrase, or the armored key was altered"
    );
    assert_eq!(
        import(&armored[..armored.len() - 20], &[PASSPHRASE]),
        "not an armored private key: its end is missing"
    );
    assert!(import("{", &[PASSPHRASE]).starts_with("not a keystore file: EOF"));
    assert!(import(KEY, &[]).ends_with("plain hex needs --unsafe"));
    assert_eq!(
        keys.err(&["export", "alice"], &["short"]),
        "password must be at least 8 characters"
    );
}

#[test]
fn debug_shows_formats_of_addresses_and_keys() {
    let empty = tempfile::tempdir().unwrap();
    let home = empty.path().to_str().unwrap();
    let debug = |args: &[&str]| {
        let with_home = [&["debug"][..], args, &["--home", home]].concat();
        let done = evmd(&with_home, &[]);
        (done.code, done.out, done.err)
    };
    let lines = format!(
        "Address: [243 159 214 229 26 173 136 246 244 206 106 184 130 114 121 207 255 185 34 102]\n\
         Address (hex): F39FD6E51AAD88F6F4CE6AB8827279CFFFB92266\n\
         Bech32 Acc: {ACC}\nBech32 Val: {VAL}\n"
    );
    for form in [HEX, &HEX[2..], &HEX.to_lowercase(), ACC, VAL, CONS] {
        assert_eq!(debug(&["addr", form]), (0, lines.clone(), String::new()), "{form}");
    }
    let (code, _, err) = debug(&["addr", &ACC.replace("cosmos", "osmo")]);
    assert_eq!((code, err.lines().count()), (1, 1), "{err}");
    let prefixes = "Bech32 Acc: cosmos\nBech32 Val: cosmosvaloper\nBech32 Con: cosmosvalcons\n";
    assert_eq!(debug(&["prefixes"]).1, prefixes);
    let public = format!("Address: {}\nPubKey Hex: {PUBLIC_HEX}\n", HEX[2..].to_uppercase());
    let base64 = "A4MYU1tUEF1Keq5gwI/EX5aHGBtP38YlvRp1P6c5f+11";
    for form in [PUBLIC_JSON, PUBLIC_HEX, base64, ACC_PUB, VAL_PUB, CONS_PUB] {
        assert_eq!(debug(&["pubkey", form]).1, public, "{form}");
    }
    let raw = |text: &str| evmd(&["debug", "raw-bytes", text], &[]);
    assert_eq!(raw("[10 21 13 255]").out, "0A150DFF\n");
    assert_eq!(raw("10,21").out, "0A15\n");
    assert_eq!(
        raw("256").err,
        "error: \"256\" is not a number from 0 to 255: number too large to fit in target type\n"
    );
}

/// Returns a function that runs code in an interpreter. The interpreter must be able to run `probe`, which loads a
/// wallet library.
fn interpreter(program: &'static str, flag: &'static str, probe: &str) -> impl Run {
    let run = move |code: &str, args: &[&Path]| {
        let output = Command::new(program).arg(flag).arg(code).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).unwrap();
        output.status.success().then(|| text.trim().to_owned())
    };
    assert!(run(probe, &[]).is_some(), "`{program} {flag} {probe}` fails: run .ci/clients");
    run
}

/// Runs code with paths as arguments. Returns its standard output, or `None` if it fails.
trait Run: Fn(&str, &[&Path]) -> Option<String> {}
impl<F: Fn(&str, &[&Path]) -> Option<String>> Run for F {}

/// Exchanges keystores with another wallet in both directions. `read` prints the key in a file; `write` writes a file
/// with a keystore of the key that consists of 32 bytes 0x11.
fn exchange(run: impl Run, read: &str, write: &str) {
    let keys = Keys::with_alice("test", &[]);
    for kdf in ["scrypt", "pbkdf2"] {
        let file = keys.file(kdf);
        let path = file.to_str().unwrap();
        keys.ok(&["export", "alice", "--keystore", "--kdf", kdf, "--to", path], &[PASSPHRASE]);
        let key = run(read, &[&file]).unwrap();
        assert_eq!(key.trim_start_matches("0x"), KEY, "{kdf}");
        run(&write.replace("KDF", kdf), &[&file]).unwrap();
        keys.ok(&["import", kdf, path], &[PASSPHRASE]);
        let key = keys.ok(&["unsafe-export-eth-key", kdf], &[]);
        assert_eq!(key.trim(), "11".repeat(32));
        keys.ok(&["delete", kdf, "-y"], &[]);
    }
}

/// Exchanges mnemonics with another wallet in both directions. `key` prints the private key of the mnemonic in a file;
/// `phrase` writes a new mnemonic to a file.
fn exchange_phrases(run: &impl Run, key: &str, phrase: &str) {
    let keys = Keys::new("test");
    let file = keys.file("phrase");
    for words in [12, 24] {
        fs::write(&file, keys.ok(&["mnemonic", "--words", &words.to_string()], &[])).unwrap();
        assert_same_key(&keys, run, key, &file);
    }
    run(phrase, &[&file]).unwrap();
    assert_same_key(&keys, run, key, &file);
}

fn assert_same_key(keys: &Keys, run: &impl Run, key: &str, phrase: &Path) {
    keys.ok(&["add", "x", "--recover", "--source", phrase.to_str().unwrap()], &[]);
    let ours = keys.ok(&["unsafe-export-eth-key", "x"], &[]);
    let theirs = run(key, &[phrase]).unwrap();
    assert_eq!(theirs.trim_start_matches("0x"), ours.trim().to_lowercase());
    keys.ok(&["delete", "x", "-y"], &[]);
}

#[test]
#[ignore = "needs eth-account: run .ci/clients"]
fn keystores_are_compatible_with_eth_account() {
    let python = interpreter("python3", "-c", "import eth_account");
    let start = "import json,sys\nfrom eth_account import Account\nfile=sys.argv[1]\n";
    let hd = format!("{start}Account.enable_unaudited_hdwallet_features()\n");
    let key = "print(Account.from_mnemonic(open(file).read().strip()).key.hex())";
    let phrase = "open(file,'w').write(Account.create_with_mnemonic()[1])";
    exchange_phrases(&python, &format!("{hd}{key}"), &format!("{hd}{phrase}"));
    let read = "print(Account.decrypt(json.load(open(file)),'correct horse').hex())";
    let write = "json.dump(Account.encrypt('0x'+'11'*32,'correct horse',kdf='KDF'),open(file,'w'))";
    exchange(python, &format!("{start}{read}"), &format!("{start}{write}"));
}

#[test]
#[ignore = "needs ethers: run .ci/clients"]
fn keystores_are_compatible_with_ethers() {
    let node = interpreter("node", "-e", "require('ethers')");
    let start = "const {HDNodeWallet,Wallet}=require('ethers'),fs=require('fs'),\
                 file=process.argv[1];";
    let key =
        "console.log(HDNodeWallet.fromPhrase(fs.readFileSync(file,'utf8').trim()).privateKey)";
    let phrase = "fs.writeFileSync(file,Wallet.createRandom().mnemonic.phrase)";
    exchange_phrases(&node, &format!("{start}{key}"), &format!("{start}{phrase}"));
    let read = "const text=fs.readFileSync(file,'utf8');\
                console.log(Wallet.fromEncryptedJsonSync(text,'correct horse').privateKey)";
    // ethers only writes keystores with scrypt.
    let write =
        "fs.writeFileSync(file,new Wallet('0x'+'11'.repeat(32)).encryptSync('correct horse'))";
    exchange(node, &format!("{start}{read}"), &format!("{start}{write}"));
}
