//! Tests the addresses of the servers: ports that the kernel chooses, addresses in use, servers that are off, and the
//! port offset.

use super::{call, evmd, forking, run};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
};

const FLAGS: [&str; 9] = [
    "--json-rpc.address",
    "--json-rpc.ws-address",
    "--rest.address",
    "--grpc.address",
    "--comet.address",
    "--ingest.address",
    "--metrics.address",
    "--pages.address",
    "--replication.address",
];

/// The lines that a node prints at its start, up to the addresses.
fn banner(node: &mut super::Running) -> String {
    let mut lines = BufReader::new(node.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut banner = Vec::new();
    while banner.last().is_none_or(|line: &String| !line.starts_with("metrics")) {
        banner.push(lines.next().expect("the banner has a line for metrics"));
    }
    banner.join("\n")
}

#[test]
fn ports_that_the_kernel_chooses_are_shown_everywhere() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let mut command = evmd();
    command.args(["start", "--quiet", "--home"]).arg(folder.path());
    command.args(FLAGS.iter().flat_map(|flag| [*flag, "127.0.0.1:0"]));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut node = super::Running::start(&mut command);
    let banner = banner(&mut node);
    assert!(!banner.contains(":0\n") && !banner.contains(":0 "), "{banner}");
    let start = banner.find("JSON-RPC         http://").unwrap() + "JSON-RPC         http://".len();
    let json_rpc: SocketAddr = banner[start..].split(' ').next().unwrap().parse().unwrap();
    let endpoints = call(json_rpc, "evmd_endpoints", &json!([]))["result"].clone();
    let endpoints = endpoints.as_object().unwrap();
    // Only a validator has a p2p address.
    assert_eq!((endpoints.len(), &endpoints["p2p"]), (FLAGS.len() + 1, &Value::Null));
    for (name, address) in endpoints.iter().filter(|(name, _)| *name != "p2p") {
        let address = address.as_str().unwrap();
        assert!(banner.contains(address), "{name} is {address}: {banner}");
        TcpStream::connect(address).unwrap();
    }
    // A command learns all addresses from any of these servers.
    for name in ["jsonRpc", "rest", "metrics"] {
        let url = format!("http://{}", endpoints[name].as_str().unwrap());
        let output = evmd().args(["status", "-o", "json", "--node", &url]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["endpoints"].as_object(), Some(endpoints), "{name}");
    }
    assert!(node.terminate().success());
}

#[test]
fn all_addresses_in_use_are_named_with_their_flags() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [first, second] = sockets.each_ref().map(|socket| socket.local_addr().unwrap().to_string());
    let start = |changed: &[(&str, &str)]| {
        let mut args = vec!["start", "--quiet"];
        for flag in FLAGS {
            let own = changed.iter().find(|(name, _)| *name == flag);
            args.extend([flag, own.map_or("127.0.0.1:0", |(_, address)| *address)]);
        }
        let (code, out, err) = run(folder.path(), &args);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        err.lines().last().unwrap().to_owned()
    };
    let in_use = "Address already in use (os error 98)";
    for (flag, name) in [
        ("--json-rpc.address", "JSON-RPC"),
        ("--json-rpc.ws-address", "WebSocket"),
        ("--rest.address", "REST"),
        ("--grpc.address", "gRPC"),
        ("--comet.address", "CometBFT RPC"),
        ("--ingest.address", "ingest"),
        ("--metrics.address", "metrics"),
        ("--pages.address", "web pages"),
    ] {
        let expected = format!(
            "error: {name} on {first} ({flag}): {in_use}: set another address with {flag}, or stop the process that \
             uses it"
        );
        assert_eq!(start(&[(flag, &first)]), expected);
    }
    assert_eq!(
        start(&[("--rest.address", &first), ("--ingest.address", &second)]),
        format!(
            "error: REST on {first} (--rest.address): {in_use}; ingest on {second} (--ingest.address): {in_use}: set \
             other addresses with these flags, or stop the processes that use them"
        )
    );
    drop(sockets);
    assert_eq!(
        start(&[("--json-rpc.address", &first), ("--json-rpc.ws-address", &first)]),
        format!(
            "error: WebSocket on {first} (--json-rpc.ws-address): JSON-RPC of this node has the same address \
             (--json-rpc.address): set another address with --json-rpc.ws-address"
        )
    );
}

#[test]
fn each_server_can_be_switched_off() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().display().to_string();
    let labels =
        ["JSON-RPC", "", "REST", "gRPC", "CometBFT RPC", "transactions", "metrics", "web pages"];
    // The WebSocket server alone has no line of its own. A node without any server is useless, but runs.
    for off in
        [&FLAGS[..1], &FLAGS[2..3], &FLAGS[3..4], &FLAGS[4..5], &FLAGS[5..7], &FLAGS[7..], &FLAGS]
    {
        let mut command = evmd();
        command.args(["start", "--quiet", "--home", &home]);
        for flag in FLAGS {
            command.args([flag, if off.contains(&flag) { "off" } else { "127.0.0.1:0" }]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut node = super::Running::start(&mut command);
        let banner = banner(&mut node);
        for (flag, label) in FLAGS.iter().zip(labels).filter(|(_, label)| !label.is_empty()) {
            let is_off = banner.contains(&format!("\n{label:<17}off"));
            let is_web_socket_on = label == "JSON-RPC" && !off.contains(&FLAGS[1]);
            assert_eq!(is_off, off.contains(flag) && !is_web_socket_on, "{label}: {banner}");
        }
        let command = |line: &str| run(folder.path(), &line.split(' ').collect::<Vec<_>>());
        // A command finds the node even without the metrics server, and names the server that it needs.
        for (flag, line) in [
            ("--json-rpc.address", "rpc eth_chainId"),
            ("--rest.address", "q gov params"),
            ("--metrics.address", "status"),
        ] {
            let (code, _, err) = command(line);
            let is_named = err.contains("the server is off") && err.contains(flag);
            assert_eq!(
                (code != 0, is_named),
                (off.contains(&flag), off.contains(&flag)),
                "{line}: {err}"
            );
        }
        assert!(node.terminate().success());
    }
}

#[test]
fn offset_is_added_to_every_port() {
    let _forking = forking();
    let folder = tempfile::tempdir().unwrap();
    let free = testkit::own_address();
    let lower = SocketAddr::new(free.ip(), free.port() - 7);
    let mut command = evmd();
    command.args(["start", "--quiet", "--port-offset", "7", "--home"]).arg(folder.path());
    command.args(FLAGS[1..].iter().flat_map(|flag| [*flag, "127.0.0.1:0"]));
    command
        .args(["--json-rpc.address", &lower.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut node = super::Running::start(&mut command);
    let banner = banner(&mut node);
    assert!(banner.contains(&format!("JSON-RPC         http://{free} ")), "{banner}");
    assert!(node.terminate().success());
    let too_high = ["start", "--port-offset", "60000"];
    let unused = folder.path().join("unused");
    let (code, _, err) = run(&unused, &too_high);
    assert!(!unused.exists(), "a refused start creates no chain");
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("--port-offset") && err.contains("127.0.0.1:8545"), "{err}");
}
