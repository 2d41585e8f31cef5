//! Scenario `attack`: how hostile clients affect a cheap call and the node's memory.
//!
//! In each round, the same number of connections first sends valid requests and then attacks. During both,
//! `eth_blockNumber` is called at a fixed rate on separate connections, and each health check uses
//! a new connection. On loopback, or with `--source`, the attack has its own source address, so that
//! the node can distinguish it from the probe.

mod client;
mod kind;
mod monitor;

use crate::{
    drive::{Plan, Source, Watch, drive},
    interrupt,
    options::{Node, Output},
    reads::body,
    rounds::RepeatedRequests,
    stats::Stats,
};
use anyhow::{Context, bail};
use client::{Attack, Counts};
use indicatif::ProgressBar;
use kind::{Kind, Targets};
use monitor::{Monitor, Observed};
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Maximum number of attacking connections: by default, a process may open 1024 files.
const MAX_CLIENTS: usize = 1000;
/// Maximum duration of one measurement, in seconds: an attack always ends by itself.
const MAX_DURATION_S: f64 = 120.0;
/// Maximum number of rounds.
const MAX_ROUNDS: u32 = 9;
/// The attack runs for this long before the probe begins.
const RAMP_UP: Duration = Duration::from_secs(1);
/// Connections of the probe, each with one call in flight. On a single connection, 200 calls per second would form a
/// queue that grows until the end of the measurement as soon as calls take more than 5 ms, and the queue would dominate
/// the latencies. Several connections measure how long separate users of the node wait.
const PROBE_CONNECTIONS: usize = 20;
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// Source address of attacks on this machine: a loopback address that the probe does not use.
const LOOPBACK_SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Time within which the node must answer on as many connections as a measurement uses before the measurement begins.
const SETTLE_PERIOD: Duration = Duration::from_secs(1);
/// Maximum wait before a measurement. A node drops the requests of a disconnected client within seconds.
const MAX_SETTLE: Duration = Duration::from_secs(60);

/// Calls in a valid request. For a small call that is sent alone, the load generator needs as much time as the node,
/// which would therefore be idle while it waits for requests.
const VALID_BATCH_CALLS: usize = 20;
/// Bytes in a MiB.
const MIB: f64 = (1u64 << 20) as f64;

#[derive(Debug, clap::Args)]
pub(crate) struct AttackArgs {
    /// Kind of attack
    #[arg(value_enum)]
    kind: Kind,
    /// JSON-RPC URL of the node
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    url: String,
    /// Ports of its other servers, as NAME=PORT: ws, rest, grpc, comet, ingest, metrics; port 0
    /// excludes the server
    #[arg(long, value_name = "NAME=PORT", value_delimiter = ',')]
    ports: Vec<String>,
    /// Process whose memory is measured [default: the process that listens at a loopback URL]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Number of attacking connections, and of valid connections in the comparison
    #[arg(long, short, value_name = "N", default_value_t = 300)]
    clients: usize,
    /// Duration of each measurement, in seconds
    #[arg(long, short, value_name = "SECONDS", default_value_t = 10.0)]
    duration: f64,
    /// Number of measurements; the medians are printed
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Cheap calls per second
    #[arg(long, value_name = "PER_SECOND", default_value_t = 200.0)]
    probe_rate: f64,
    /// Source address of the attack [default: 127.0.0.2 for a node on loopback]
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,
    /// Attack a node on another machine; you need permission to do so
    #[arg(long)]
    allow_remote: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// One measurement.
#[derive(Debug)]
struct Measurement {
    probe: Stats,
    observed: Observed,
    counts: Counts,
}

/// Runs the attack and returns whether the node stayed healthy.
pub(crate) fn run(args: &AttackArgs) -> anyhow::Result<bool> {
    check(args)?;
    interrupt::listen()?;
    let node = Node::connect(&args.url, args.pid)?;
    let address = node.url.address;
    if !address.ip().to_canonical().is_loopback() && !args.allow_remote {
        bail!("{address} is not a loopback address; use --allow-remote to attack another machine");
    }
    let source = args.source.or_else(|| default_source(address));
    let targets = Targets::new(&node.url, &args.ports)?;
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let valid = measure(args, &node, &targets, None)?;
        let attack = measure(args, &node, &targets, Some(source))?;
        rounds.push((valid, attack));
        if interrupt::requested() {
            break;
        }
    }
    publish(args, &rounds)?;
    Ok(rounds
        .iter()
        .all(|(_, attack)| attack.observed.health_failed == 0 && attack.probe.errors == 0))
}

fn check(args: &AttackArgs) -> anyhow::Result<()> {
    if !(1..=MAX_CLIENTS).contains(&args.clients) {
        bail!("--clients must be between 1 and {MAX_CLIENTS}, got {}", args.clients);
    }
    if !(0.1..=MAX_DURATION_S).contains(&args.duration) {
        bail!("--duration must be between 0.1 and {MAX_DURATION_S} seconds, got {}", args.duration);
    }
    if !(1..=MAX_ROUNDS).contains(&args.rounds) {
        bail!("--rounds must be between 1 and {MAX_ROUNDS}, got {}", args.rounds);
    }
    if !(1.0..=10_000.0).contains(&args.probe_rate) {
        bail!("--probe-rate must be between 1 and 10000, got {}", args.probe_rate);
    }
    Ok(())
}

/// Returns the default source address of the attack. Linux permits connections from every address in 127.0.0.0/8.
fn default_source(node: SocketAddr) -> Option<IpAddr> {
    let is_local = node.ip().is_ipv4() && node.ip().is_loopback();
    (cfg!(target_os = "linux") && is_local).then_some(LOOPBACK_SOURCE.into())
}

/// Probes the node during the attack if `attack` is set, and during valid requests otherwise. The inner
/// option is the source address of the attack.
fn measure(
    args: &AttackArgs,
    node: &Node,
    targets: &Targets,
    attack: Option<Option<IpAddr>>,
) -> anyhow::Result<Measurement> {
    settle(args, node)?;
    let watch = Watch::default();
    let monitor = Monitor::new(targets.metrics, node.process);
    let (probe, counts, observed) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| monitor.run(&watch.abandon));
        let loading = scope.spawn(|| match attack {
            Some(source) => Ok(Attack { kind: args.kind, targets, source, clients: args.clients }
                .run(&watch.abandon)),
            None => valid_requests(args, node, &watch).map(|()| Counts::default()),
        });
        std::thread::park_timeout(RAMP_UP);
        let probe = probe(args, node);
        watch.abandon.store(true, Relaxed);
        (probe, loading.join(), watching.join())
    });
    let counts = counts.map_err(|_| anyhow::anyhow!("the load panicked"))??;
    let observed = observed.map_err(|_| anyhow::anyhow!("the monitor panicked"))?;
    Ok(Measurement { probe: probe.context("the probe")?, observed, counts })
}

/// Waits until the node has closed the connections of the previous measurement. Until then, they count towards the
/// limit of the probe's address, and the node might refuse the probe.
fn settle(args: &AttackArgs, node: &Node) -> anyhow::Result<()> {
    let connections = args.clients + PROBE_CONNECTIONS;
    let plan = Plan {
        connections,
        depth: None,
        duration: Some(SETTLE_PERIOD),
        rate: Some(connections as f64 / SETTLE_PERIOD.as_secs_f64()),
        timeout: PROBE_TIMEOUT,
    };
    let until = Instant::now() + MAX_SETTLE;
    while Instant::now() < until && !interrupt::requested() {
        let bodies: Arc<[_]> = vec![body("eth_blockNumber", &json!([]))].into();
        let source: Box<dyn Source> = Box::new(RepeatedRequests::new(bodies, connections));
        let bar = ProgressBar::hidden();
        let stats = drive(&node.endpoint(), &plan, vec![source], &Watch::default(), &bar)?;
        if stats.errors == 0 {
            return Ok(());
        }
    }
    if interrupt::requested() {
        return Ok(());
    }
    bail!(
        "the node refused some of {connections} connections for {} s: use fewer --clients, or raise \
         json-rpc.max-connections of the node",
        MAX_SETTLE.as_secs()
    );
}

fn probe(args: &AttackArgs, node: &Node) -> anyhow::Result<Stats> {
    let plan = Plan {
        connections: PROBE_CONNECTIONS,
        depth: None,
        duration: Some(Duration::from_secs_f64(args.duration)),
        rate: Some(args.probe_rate),
        timeout: PROBE_TIMEOUT,
    };
    let bodies: Arc<[_]> = vec![body("eth_blockNumber", &json!([]))].into();
    let source: Box<dyn Source> = Box::new(RepeatedRequests::new(bodies, PROBE_CONNECTIONS));
    drive(&node.endpoint(), &plan, vec![source], &Watch::default(), &ProgressBar::hidden())
}

/// Creates a batch that contains a call [`VALID_BATCH_CALLS`] times.
fn batch(call: &[u8]) -> Vec<u8> {
    let calls = vec![call; VALID_BATCH_CALLS].join(&b","[..]);
    [b"[", &calls[..], b"]"].concat()
}

/// Sends requests that keep the node busy, on as many connections as the attack has.
fn valid_requests(args: &AttackArgs, node: &Node, watch: &Watch) -> anyhow::Result<()> {
    let plan = Plan {
        connections: args.clients,
        depth: None,
        duration: None,
        rate: None,
        timeout: PROBE_TIMEOUT,
    };
    let calls = [
        ("eth_getBlockByNumber", json!(["latest", true])),
        ("eth_feeHistory", json!(["0x10", "latest", [25, 50, 75]])),
        ("eth_getBalance", json!(["0x0000000000000000000000000000000000000001", "latest"])),
        ("eth_gasPrice", json!([])),
    ];
    let bodies: Arc<[_]> =
        calls.map(|(method, params)| batch(&body(method, &params))).to_vec().into();
    let source: Box<dyn Source> = Box::new(RepeatedRequests::new(bodies, args.clients));
    drive(&node.endpoint(), &plan, vec![source], watch, &ProgressBar::hidden())?;
    Ok(())
}

fn milliseconds(stats: &Stats, quantile: f64) -> f64 {
    stats.latency.value_at_quantile(quantile) as f64 / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn publish(args: &AttackArgs, rounds: &[(Measurement, Measurement)]) -> anyhow::Result<()> {
    let medians = |value: fn(&Measurement) -> f64| {
        let valid = median(rounds.iter().map(|(valid, _)| value(valid)).collect());
        (valid, median(rounds.iter().map(|(_, attack)| value(attack)).collect()))
    };
    let p50 = medians(|run| milliseconds(&run.probe, 0.5));
    let p99 = medians(|run| milliseconds(&run.probe, 0.99));
    let memory = medians(|run| run.observed.memory as f64 / MIB);
    let health = medians(|run| run.observed.health_slowest.as_secs_f64() * 1e3);
    let ratio = median(
        rounds
            .iter()
            .map(|(valid, attack)| {
                milliseconds(&attack.probe, 0.99) / milliseconds(&valid.probe, 0.99).max(1e-3)
            })
            .collect(),
    );
    let sum = |count: fn(&Counts) -> u64| -> u64 {
        rounds.iter().map(|(_, attack)| count(&attack.counts)).sum()
    };
    let failed: u64 = rounds.iter().map(|(_, attack)| attack.observed.health_failed).sum();
    let answered: u64 = rounds.iter().map(|(_, attack)| attack.observed.health_answered).sum();
    let probe_errors: u64 = rounds.iter().map(|(_, attack)| attack.probe.errors).sum();
    let counts: Value = json!({
        "connected": sum(|counts| counts.connected),
        "answered": sum(|counts| counts.answered),
        "refused": sum(|counts| counts.refused),
        "closed": sum(|counts| counts.closed),
        "notConnected": sum(|counts| counts.not_connected),
        "bytesSent": sum(|counts| counts.sent),
        "bytesReceived": sum(|counts| counts.received),
    });
    let mut out = std::io::stdout();
    if args.output == Output::Json {
        let pair = |(valid, attack): (f64, f64)| json!({ "valid": valid, "attack": attack });
        let result = json!({
            "kind": args.kind.to_string(),
            "clients": args.clients,
            "rounds": rounds.len(),
            "p50Ms": pair(p50),
            "p99Ms": pair(p99),
            "p99Ratio": ratio,
            "memoryMiB": pair(memory),
            "healthSlowestMs": pair(health),
            "healthAnswered": answered,
            "healthFailed": failed,
            "probeErrors": probe_errors,
            "attack": counts,
        });
        writeln!(out, "{result}")?;
        return Ok(());
    }
    writeln!(
        out,
        "attack {}, {} clients, {} rounds (medians)",
        args.kind,
        args.clients,
        rounds.len()
    )?;
    writeln!(out, "{:32}{:>12}{:>12}", "", "valid", "attack")?;
    for (name, (valid, attack)) in [
        ("eth_blockNumber p50, ms", p50),
        ("eth_blockNumber p99, ms", p99),
        ("slowest health check, ms", health),
        ("anonymous memory, MiB", memory),
    ] {
        writeln!(out, "{name:32}{valid:>12.2}{attack:>12.2}")?;
    }
    writeln!(out, "p99 ratio {ratio:.2}, failed probes {probe_errors}")?;
    writeln!(out, "health checks answered {answered}, failed {failed}")?;
    writeln!(out, "attack {counts}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn batch_repeats_the_call() {
        let calls: Vec<Value> =
            serde_json::from_slice(&batch(&body("eth_gasPrice", &json!([])))).unwrap();
        assert_eq!(calls.len(), VALID_BATCH_CALLS);
        assert!(calls.iter().all(|call| call["method"] == "eth_gasPrice"));
    }

    #[test]
    fn attack_on_loopback_uses_its_own_source_address() {
        let source = |text: &str| default_source(text.parse().unwrap());
        assert_eq!(source("192.0.2.1:1"), None);
        assert_eq!(source("[::1]:1"), None);
        assert_eq!(source("127.0.0.1:1").is_some(), cfg!(target_os = "linux"));
    }
}
