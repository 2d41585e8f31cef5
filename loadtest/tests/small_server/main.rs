//! Runs the built binary against a small server with prepared responses, and checks counts, output
//! and exit codes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Serves JSON-RPC over HTTP until the test ends; `respond` returns the response to each call.
fn serve(respond: fn(&Value) -> Value) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve_connection(stream, respond));
        }
    });
    address
}

fn serve_connection(mut stream: TcpStream, respond: fn(&Value) -> Value) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(text) = line.strip_prefix("content-length:") {
                length = text.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let complete = |call: &Value| {
            let mut response = respond(call);
            response["jsonrpc"] = json!("2.0");
            response["id"] = call["id"].clone();
            response
        };
        let response = match &request {
            Value::Array(calls) => calls.iter().map(complete).collect(),
            call => complete(call),
        };
        let text = response.to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        // Send everything in one write, so that a delayed acknowledgement does not defer part of it.
        let response = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
        stream.write_all(response.as_bytes()).ok()?;
    }
}

/// Answers as a node with a chain of 2,000 empty blocks.
fn quiet_chain(call: &Value) -> Value {
    match call["method"].as_str().unwrap() {
        "eth_chainId" => json!({ "result": "0x1" }),
        "eth_blockNumber" => json!({ "result": "0x7d0" }),
        "eth_feeHistory" => json!({ "result": { "oldestBlock": call["params"][1] } }),
        "eth_getBlockTransactionCountByNumber" => json!({ "result": "0x0" }),
        "web3_clientVersion" => json!({ "result": "small/1" }),
        other => json!({ "error": { "code": -32601, "message": format!("no {other}") } }),
    }
}

fn failing(call: &Value) -> Value {
    match call["method"].as_str().unwrap() {
        "eth_feeHistory" => json!({ "error": { "code": -32000, "message": "not today" } }),
        _ => quiet_chain(call),
    }
}

fn slow(call: &Value) -> Value {
    if call["method"] == "eth_feeHistory" {
        thread::park_timeout(Duration::from_millis(100));
    }
    quiet_chain(call)
}

/// Never responds to one of the fee history calls.
fn silent_once(call: &Value) -> Value {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if call["method"] == "eth_feeHistory" && CALLS.fetch_add(1, Relaxed) == 10 {
        loop {
            thread::park();
        }
    }
    quiet_chain(call)
}

/// Number of fee history calls so far.
static FEE_HISTORY_CALLS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

fn counting_with_notification(call: &Value) -> Value {
    if call["method"] == "eth_feeHistory" {
        *FEE_HISTORY_CALLS.0.lock().unwrap() += 1;
        FEE_HISTORY_CALLS.1.notify_all();
    }
    quiet_chain(call)
}

fn loadtest(scenario: &str, address: SocketAddr, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args([scenario, "--url", &format!("http://{address}")])
        .args(arguments)
        .output()
        .unwrap()
}

fn figures(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const QUICK: [&str; 6] = ["-d", "0.4", "--warmup", "0", "-o", "json"];

#[test]
fn every_shape_is_measured_without_errors() {
    let address = serve(quiet_chain);
    let shapes = ["--shape", "20:10,50", "--shape", "10:@old"];
    let json = figures(&loadtest("fees", address, &[&QUICK[..], &shapes].concat()));
    assert_eq!(json["nodes"][0]["version"], "small/1");
    let parts = json["nodes"][0]["parts"].as_array().unwrap();
    let names: Vec<_> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, ["(20, 2p)", "(10, 0p, old)"]);
    for part in parts {
        let operations = part["operations"].as_u64().unwrap();
        assert!(operations > 0, "{part}");
        assert_eq!(part["rounds"][0]["operations"], operations);
        assert_eq!(part["errors"], 0);
        assert!(part["serverCpuMicroseconds"].is_number(), "found by its port: {part}");
    }
}

#[test]
fn failures_are_reported_with_exit_code_2() {
    let address = serve(failing);
    let output = loadtest("fees", address, &["-d", "0.2", "--shape", "1:"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not today"), "{text}");
}

#[test]
fn missing_response_is_a_failure_and_the_run_continues() {
    let address = serve(silent_once);
    let options = ["--timeout", "0.1", "--connections", "1", "--shape", "1:"];
    let output = loadtest("fees", address, &[&QUICK[..], &options].concat());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = &json["nodes"][0]["parts"][0];
    assert!(part["operations"].as_u64().unwrap() > 10, "the run continued: {part}");
    let errors = part["errors"].as_u64().unwrap();
    assert!((1..10).contains(&errors), "requests in flight on that connection: {part}");
    assert!(json.to_string().contains("no answer in 100.0ms (--timeout)"), "{json}");
}

/// Number of fee history calls before the restart.
static BEFORE_RESTART: AtomicU32 = AtomicU32::new(0);
const CALLS_BEFORE_RESTART: u32 = 50;

fn counted(call: &Value) -> Value {
    if call["method"] == "eth_feeHistory" {
        BEFORE_RESTART.fetch_add(1, Relaxed);
    }
    quiet_chain(call)
}

/// Serves `CALLS_BEFORE_RESTART` calls, closes all connections, and serves again after `pause`.
fn serve_and_restart(pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let mut streams = Vec::new();
        while BEFORE_RESTART.load(Relaxed) < CALLS_BEFORE_RESTART {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    streams.push(stream.try_clone().unwrap());
                    thread::spawn(move || serve_connection(stream, counted));
                }
                Err(_) => thread::park_timeout(Duration::from_millis(1)),
            }
        }
        drop(listener);
        streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        thread::park_timeout(pause);
        for stream in TcpListener::bind(address).unwrap().incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve_connection(stream, quiet_chain));
        }
    });
    address
}

#[test]
fn requests_during_a_restart_fail_and_the_run_continues() {
    let address = serve_and_restart(Duration::from_millis(300));
    // More connections than may be lost in a row.
    let run = ["-d", "1.5", "--warmup", "0", "-o", "json", "--shape", "1:", "-c", "32"];
    let output = loadtest("fees", address, &run);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = &json["nodes"][0]["parts"][0];
    let before = u64::from(CALLS_BEFORE_RESTART);
    assert!(part["operations"].as_u64().unwrap() > 2 * before, "the run continued: {part}");
    assert!(part["errors"].as_u64().unwrap() > 0, "{part}");
}

#[test]
fn ctrl_c_reports_the_results_so_far() {
    let address = serve(counting_with_notification);
    let program = Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args(["fees", "--url", &format!("http://{address}"), "-d", "600", "--warmup", "0"])
        .args(["-o", "json", "--shape", "1:", "--shape", "2:"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (calls, increased) = &FEE_HISTORY_CALLS;
    drop(increased.wait_while(calls.lock().unwrap(), |calls| *calls < 200).unwrap());
    let pid = program.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = program.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = json["nodes"][0]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 1, "the other part was not started");
    assert!(parts[0]["operations"].as_u64().unwrap() >= 200, "{}", parts[0]);
    assert!(json.to_string().contains("interrupted"), "{json}");
}

#[test]
fn open_loop_does_not_exceed_its_rate_and_counts_waiting_as_latency() {
    let address = serve(quiet_chain);
    let rate = ["--rate", "200", "--shape", "1:"];
    let json = figures(&loadtest("fees", address, &[&QUICK[..], &rate].concat()));
    let operations = json["nodes"][0]["parts"][0]["operations"].as_u64().unwrap();
    assert!((1..=81).contains(&operations), "80 are due in 0.4 s: {operations}");
    // With one connection and 100 ms per response, later ones of the 20 requests due in 0.4 s wait
    // for earlier ones.
    let address = serve(slow);
    let queued = ["--rate", "50", "-c", "1", "--shape", "1:"];
    let json = figures(&loadtest("fees", address, &[&QUICK[..], &queued].concat()));
    let part = &json["nodes"][0]["parts"][0];
    let max = part["latencyMicroseconds"]["max"].as_f64().unwrap();
    assert!(max >= 300_000.0, "waiting for the connection counts: {part}");
}

#[test]
fn comparison_prints_ratios_and_refuses_a_node_with_itself() {
    let (ours, theirs) = (serve(quiet_chain), serve(quiet_chain));
    let compare = format!("http://{theirs}");
    let page = tempfile::NamedTempFile::new().unwrap();
    let path = page.path().to_str().unwrap();
    let arguments = ["-d", "0.2", "--shape", "1:", "--compare", &compare, "--html", path];
    let output = loadtest("fees", ours, &arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("A/B"), "{text}");
    let html = std::fs::read_to_string(page.path()).unwrap();
    assert!(html.contains("Latency by percentile") && html.ends_with("</html>\n"));
    let same = format!("http://{ours}");
    let output = loadtest("fees", ours, &["--compare", &same]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("same node"));
}

#[test]
fn invalid_runs_are_refused_at_once() {
    let address = serve(quiet_chain);
    let error_of = |scenario: &str, arguments: &[&str]| {
        let output = loadtest(scenario, address, arguments);
        assert_eq!(output.status.code(), Some(1), "{scenario} {arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error_of("reads", &[]).contains("loadtest fill"));
    assert!(error_of("flood", &[]).contains("does not serve eth_getLogs"));
    assert!(error_of("flood", &["--heavy", "trace"]).contains("--json-rpc.api"));
    assert!(error_of("fees", &["-c", "0"]).contains("--connections must be between"));
    assert!(error_of("fees", &["--rate", "0"]).contains("--rate must be above 0"));
    assert!(error_of("fees", &["--pid", "4194304"]).contains("--pid"));
    assert!(error_of("fees", &["--shape", "3000:@old"]).contains("too few"));
    assert!(error_of("tx", &["--file", "/nowhere"]).contains("/nowhere"));
    let unused = testkit::own_address();
    let output = loadtest("fees", unused, &[]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains(&format!("the request to http://{unused}/ failed")), "{message}");
}

#[test]
fn interrupted_run_leaves_no_output_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, part) =
        (folder.path().join("genesis.json"), folder.path().join("genesis.json.part"));
    let genesis = |accounts: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadtest"));
        command.args(["genesis", "--accounts", accounts]).arg(&file).stdout(Stdio::null());
        command
    };
    // Far more accounts than are written before the kill.
    let mut child = genesis("50000000").spawn().unwrap();
    let begun = Instant::now();
    while !std::fs::metadata(&part).is_ok_and(|part| part.len() > 0) {
        assert!(begun.elapsed() < Duration::from_secs(300), "nothing was written");
        thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(part.exists() && !file.exists());
    assert!(genesis("10").status().unwrap().success());
    assert!(file.exists() && !part.exists());
    let written = std::fs::read(&file).unwrap();
    assert_eq!(genesis("11").status().unwrap().code(), Some(1), "an existing file is refused");
    assert_eq!(std::fs::read(&file).unwrap(), written);
    let signed = folder.path().join("signed");
    let mut sign = Command::new(env!("CARGO_BIN_EXE_loadtest"));
    let options = ["sign", "--offline", "1", "--prefunded", "-n", "10", "--senders", "2"];
    assert!(sign.args(options).arg(&signed).stdout(Stdio::null()).status().unwrap().success());
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(signed.exists() && names == 2);
}
