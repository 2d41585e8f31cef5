//! Tests `evmd start` and other commands when something is missing or wrong: the chain of a home folder, the clock,
//! file descriptors, and disk space for output.

mod addresses;
mod home_files;
mod system_contracts;

use crate::common::{GENESIS_TIME, exported_chain, wait_until};
use chain::Genesis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use testkit::Endpoints;

/// A test that starts processes holds this lock. Between fork and exec, a child process holds a descriptor of the lock
/// file of any home folder that another test has open.
static FORKING: Mutex<()> = Mutex::new(());

fn forking() -> std::sync::MutexGuard<'static, ()> {
    FORKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn evmd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evmd"));
    command.env_remove("EVMD_HOME").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// Runs a command on a home folder. Returns the exit code, standard output and standard error.
pub(crate) fn run(home: &Path, args: &[&str]) -> (i32, String, String) {
    let output = evmd().args(args).arg("--home").arg(home).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn full_disk() -> Stdio {
    Stdio::from(File::options().write(true).open("/dev/full").unwrap())
}

/// Returns the response to a JSON-RPC call, without asynchronous code.
fn call(json_rpc: SocketAddr, method: &str, params: &Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(json_rpc).unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// A running node. Dropping this value kills it.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits until the node serves JSON-RPC.
    fn wait_for(&mut self, endpoints: &Endpoints) {
        wait_until("the node serves JSON-RPC", || {
            let ended = self.0.try_wait().unwrap();
            assert!(ended.is_none(), "ended before it served JSON-RPC: {ended:?}");
            TcpStream::connect(endpoints.json_rpc).is_ok()
        });
    }

    fn terminate(self) -> ExitStatus {
        self.end_by(Signal::TERM)
    }

    fn end_by(mut self, signal: Signal) -> ExitStatus {
        kill_process(self.pid(), signal).unwrap();
        let mut ended = None;
        wait_until("the end of the process", || {
            ended = self.0.try_wait().unwrap();
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn own_genesis(time: u64) -> String {
    let mut file: Value = serde_json::from_str(&Genesis::native_dev(time).to_json()).unwrap();
    file["config"]["chainId"] = json!(77_777);
    file.to_string()
}

#[test]
fn start_creates_the_chain_of_the_genesis_file_and_refuses_if_it_is_missing_later() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let (home, text) = (folder.path(), own_genesis(GENESIS_TIME));
    fs::write(home.join("genesis.json"), &text).unwrap();
    let endpoints = Endpoints::unused();
    let start = |endpoints: &Endpoints| {
        let mut command = evmd();
        command.arg("start").args(["--quiet", "--home"]).arg(home).args(endpoints.options());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.env("RUST_LOG", "info,evmd::cli=debug");
        command
    };
    let mut node = Running::start(&mut start(&endpoints));
    let log = BufReader::new(node.0.stderr.take().unwrap());
    node.wait_for(&endpoints);
    assert_eq!(call(endpoints.json_rpc, "eth_chainId", &json!([]))["result"], "0x12fd1");
    assert!(node.terminate().success());
    let log: Vec<String> = log.lines().map(Result::unwrap).collect();
    let logged = |text: &str| log.iter().any(|line| line.contains(text));
    assert!(logged("creating the chain of genesis.json"), "{log:?}");
    assert!(logged("the self-test of signature recovery and Keccak-256 passed"), "{log:?}");

    // This simulates a chain whose volume is not mounted.
    fs::rename(home.join("chain"), folder.path().join("unmounted")).unwrap();
    let index = fs::read(home.join("index/data.mdb")).unwrap();
    for command in ["start", "init"] {
        let (code, out, err) = run(home, &[command]);
        if command == "init" && code == 0 {
            continue;
        }
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("but no chain") && err.contains("evmd init --home"), "{err}");
        assert_eq!(fs::read_to_string(home.join("genesis.json")).unwrap(), text);
        assert_eq!(fs::read(home.join("index/data.mdb")).unwrap(), index);
    }
}

#[test]
fn home_that_is_a_file_is_an_error() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for command in ["start", "init"] {
        let (code, out, err) = run(&file, &[command]);
        assert_eq!((code, out.as_str()), (1, ""), "{command}: {err}");
        let expected =
            format!("cannot open {}: it is a file, and a folder is needed", file.display());
        assert!(err.contains(&expected), "{command}: {err}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn head_in_the_future_is_refused_without_a_flag() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let file = folder.path().join("future.json");
    fs::write(&file, own_genesis(now + 3600)).unwrap();
    let home = folder.path().join("home");
    assert_eq!(run(&home, &["init", "--genesis", file.to_str().unwrap()]).0, 0);
    let (code, out, err) = run(&home, &["start", "--quiet"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(
        err.contains("ahead of the system clock") && err.contains("--accept-future-head"),
        "{err}"
    );

    let endpoints = Endpoints::unused();
    let mut command = evmd();
    command.arg("start").args(["--quiet", "--accept-future-head", "--home"]).arg(&home);
    let mut node = Running::start(command.args(endpoints.options()).stdout(Stdio::null()));
    node.wait_for(&endpoints);
    assert!(node.terminate().success());
}

#[test]
fn start_warns_that_a_minimum_price_has_no_effect_on_ethereum_transactions() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (code, out, err) =
        run(home, &["start", "--quiet", "--mempool.minimum-gas-prices", "1stake"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let reason = "mempool.minimum-gas-prices is 1stake, but fees on this chain are paid in atest: set it to \
                  1atest, or to an empty text for no minimum";
    assert!(err.trim_end().ends_with(reason), "{err}");

    let endpoints = Endpoints::unused();
    let mut command = evmd();
    command
        .arg("start")
        .args(["--quiet", "--minimum-gas-prices", "0.0001atest", "--home"])
        .arg(home);
    command.args(endpoints.options()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut node = Running::start(&mut command);
    let log = BufReader::new(node.0.stderr.take().unwrap());
    node.wait_for(&endpoints);
    assert!(node.terminate().success());
    let log: Vec<String> = log.lines().map(Result::unwrap).collect();
    let warning = "mempool.minimum-gas-prices has no effect on Ethereum transactions";
    assert!(log.iter().any(|line| line.contains(warning)), "{log:?}");
}

/// A closed terminal sends SIGHUP to its processes. `nohup` lets them continue.
#[test]
fn closed_terminal_shuts_down_the_node_except_with_nohup() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let endpoints = Endpoints::unused();
    // The test sets both dispositions of the signal explicitly, because it may itself run with nohup.
    for (option, continues) in [("--default-signal=HUP", false), ("--ignore-signal=HUP", true)] {
        let mut command = Command::new("env");
        command.args([option, env!("CARGO_BIN_EXE_evmd"), "start", "--quiet"]);
        command
            .args(["--block-time", "1s", "--home"])
            .arg(folder.path())
            .args(endpoints.options())
            .env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut node = Running::start(&mut command);
        node.wait_for(&endpoints);
        if continues {
            kill_process(node.pid(), Signal::HUP).unwrap();
            let before = newest_block(folder.path());
            wait_until("two more blocks", || newest_block(folder.path()) > before + 1);
            assert!(node.terminate().success());
        } else {
            assert!(node.end_by(Signal::HUP).success());
        }
    }
}

/// A failed write of a log line or of the banner must not stop the node.
#[test]
fn node_survives_full_disks_behind_its_output() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let endpoints = Endpoints::unused();
    let mut command = evmd();
    command.arg("start").arg("--home").arg(folder.path()).args(endpoints.options());
    command.stdout(full_disk()).stderr(full_disk());
    let mut node = Running::start(&mut command);
    node.wait_for(&endpoints);
    assert!(node.terminate().success());
}

#[test]
fn commands_report_failed_writes_of_their_output() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let chain = folder.path().join("chain.rlp");
    exported_chain(&chain, 3);
    let genesis = folder.path().join("genesis.json");
    fs::write(&genesis, Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let genesis = genesis.to_str().unwrap();
    assert_eq!(run(&home, &["init", "--genesis", genesis]).0, 0);
    let addr = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let commands: &[&[&str]] = &[
        &["--help"],
        &["--version"],
        &["version"],
        &["version", "-o", "json"],
        &["import", chain.to_str().unwrap()],
        &["export", "-"],
        &["reindex"],
        &["rollback"],
        &["config", "show"],
        &["config", "get", "engine"],
        &["genesis", "validate", genesis],
        &["debug", "addr", addr],
        &["debug", "prefixes"],
        &["debug", "state-root"],
        &["completion", "bash"],
        &["keys", "list", "--keyring-backend", "test"],
        &["keys", "add", "first", "--keyring-backend", "test"],
        &["keys", "list", "--keyring-backend", "test"],
        &["keys", "show", "first", "--keyring-backend", "test"],
    ];
    for args in commands {
        let mut command = evmd();
        command.args(*args).env("EVMD_HOME", &home).stdout(full_disk()).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        if text.is_empty() && output.status.success() {
            // Only a list command may print nothing.
            assert!(args.contains(&"list"), "{args:?} reported nothing");
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
        assert!(text.contains("No space left on device"), "{args:?}: {text}");
        assert!(!text.contains("panicked"), "{args:?}: {text}");
    }
}

/// Limit on the open files of the node in the next test.
const OPEN_FILES: usize = 200;

#[test]
fn connections_leave_descriptors_for_the_node() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let endpoints = Endpoints::unused();
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {OPEN_FILES} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_evmd"), "start", "--quiet"]);
    command.args(["--block-time", "1s", "--home"]);
    command.arg(folder.path()).args(endpoints.options()).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut node = Running::start(&mut command);
    let mut log = BufReader::new(node.0.stderr.take().unwrap()).lines();
    let lowered = log.by_ref().map(Result::unwrap).find(|line| line.contains("lowered"));
    assert!(lowered.is_some_and(|line| line.contains("json-rpc.max-connections")));
    node.wait_for(&endpoints);

    // Each server receives as many connections as the process may have open files.
    let connections: Vec<TcpStream> = (0..OPEN_FILES)
        .flat_map(|_| endpoints.all())
        .filter_map(|at| TcpStream::connect_timeout(&at, Duration::from_secs(5)).ok())
        .collect();
    assert!(connections.len() > OPEN_FILES);
    let open = || fs::read_dir(format!("/proc/{}/fd", node.0.id())).unwrap().count();
    let head = || newest_block(folder.path());
    let before = head();
    wait_until("blocks are still produced", || head() > before + 2);
    assert!(open() < OPEN_FILES, "{} of {OPEN_FILES} descriptors are in use", open());
    drop(connections);
    wait_until("connections are accepted again", || {
        let mut stream = TcpStream::connect(endpoints.json_rpc).unwrap();
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut response = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_to_end(&mut response).is_ok_and(|n| n > 0)
    });
    assert!(node.terminate().success());
}

/// Returns the newest block of a running node. Reads it from the node's files, which requires no connection.
fn newest_block(home: &Path) -> u64 {
    home::Home::rules_of(home).unwrap().head
}
