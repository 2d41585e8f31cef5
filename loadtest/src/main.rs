//! A load-testing client. It sends requests to nodes over the network, and does not link their code.
//!
//! A scenario with a report consists of *parts*, each of which is one measurement on one node.
//! `rounds` runs them on one node, or alternately on two. `drive` is the loop that sends requests
//! over `wire` and measures. `report` and `html` format the result, and `publish` prints it.

mod atomic_file;
mod attack;
mod cpu;
mod drive;
mod environment;
mod explorer;
mod fees;
mod figures;
mod fill;
mod flood;
mod follow;
mod fund;
mod genesis;
mod heads;
mod html;
mod http;
mod interrupt;
mod keys;
mod kill;
mod node;
mod options;
mod peers;
mod plot;
mod publish;
mod reads;
mod replicas;
mod report;
mod rng;
mod round;
mod rounds;
mod rpc;
mod sample;
mod signed;
mod soak;
mod stats;
mod token;
mod tx;
mod tx_template;
mod wire;
mod ws;

use clap::{Parser, Subcommand};
use options::Common;
use report::Report;
use std::{io::Write as _, process::ExitCode};

/// Exit code of a run with failed operations, failed health checks or an exceeded bound.
const SOME_FAILED: u8 = 2;

/// Load tests an Ethereum node over the network.
///
/// Latency is the time from when a request was due until its complete response. Server CPU is user
/// and system time of the node's process, divided by the operations. Exit codes: 0 success, 1 could
/// not run, 2 some operations failed or a bound was exceeded, 130 interrupted (Ctrl-C); all
/// scenarios except `soak`, `kill`, `replicas` and `fill` then report the results so far.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Send transactions and follow them until they are mined
    Tx(tx::TxArgs),
    /// Sign transactions into a file, for `tx --file`
    Sign(tx::SignArgs),
    /// Write a genesis file with many funded accounts, for --prefunded
    Genesis(genesis::GenesisArgs),
    /// Request fee history in several shapes
    Fees(fees::FeesArgs),
    /// Request the mix of methods that public endpoints receive, or each method alone
    Reads(reads::ReadsArgs),
    /// Request each call of the comparison with other nodes
    Peers(peers::PeersArgs),
    /// Request whole pages of a block explorer, each as one JSON-RPC batch
    Explorer(explorer::ExplorerArgs),
    /// Measure the latency of a cheap call during a flood of heavy calls
    Flood(flood::FloodArgs),
    /// Measure a cheap call, memory and health while hostile clients attack
    Attack(attack::AttackArgs),
    /// Send transfers and reads for a long time, with bounds on memory, disk and latency
    Soak(soak::SoakArgs),
    /// Kill a node repeatedly under full load (SIGKILL) and check that nothing it reported is lost
    Kill(kill::KillArgs),
    /// Send transactions through replicas while nodes are killed (SIGKILL), and check that none is lost
    Replicas(replicas::ReplicasArgs),
    /// Fill a chain with blocks and transactions to query
    Fill(fill::FillArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().scenario {
        Scenario::Tx(args) => tx::run(&args).and_then(publish),
        Scenario::Sign(args) => tx::sign(&args).map(|()| ExitCode::SUCCESS),
        Scenario::Genesis(args) => genesis::run(&args).map(|()| ExitCode::SUCCESS),
        Scenario::Fees(args) => fees::run(&args).and_then(publish),
        Scenario::Reads(args) => reads::run(&args).and_then(publish),
        Scenario::Peers(args) => peers::run(&args).and_then(publish),
        Scenario::Explorer(args) => explorer::run(&args).and_then(publish),
        Scenario::Flood(args) => flood::run(&args).and_then(publish),
        Scenario::Attack(args) => attack::run(&args).map(exit_code),
        Scenario::Soak(args) => soak::run(&args).map(exit_code),
        Scenario::Kill(args) => kill::run(&args).map(|()| ExitCode::SUCCESS),
        Scenario::Replicas(args) => replicas::run(&args).map(|()| ExitCode::SUCCESS),
        Scenario::Fill(args) => fill::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        // If stderr is closed, the error cannot be reported anywhere.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

fn publish((report, common): (Report, &Common)) -> anyhow::Result<ExitCode> {
    publish::publish(&report, common)?;
    Ok(exit_code(report.errors() == 0))
}

fn exit_code(has_succeeded: bool) -> ExitCode {
    match has_succeeded {
        _ if interrupt::requested() => ExitCode::from(interrupt::EXIT_CODE),
        true => ExitCode::SUCCESS,
        false => ExitCode::from(SOME_FAILED),
    }
}
