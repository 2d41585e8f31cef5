//! A client that loads a node from outside, over the wire only: it never links the node.
//!
//! Scenarios make *parts* (one thing to measure on one node); `rounds` runs them, on one node or
//! on two in turn; `drive` is the loop that sends and measures, over `wire`; `report` and `html`
//! tell the result.

mod atomic_file;
mod attack;
mod cpu;
mod drive;
mod explorer;
mod fees;
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
mod reads;
mod report;
mod rng;
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

/// Exit code of a run that ended, with operations that failed.
const SOME_FAILED: u8 = 2;

/// Loads an Ethereum node over the wire and reports what it took.
///
/// Latencies are from the moment a request was due to its whole answer. Server CPU is user and
/// system time of the node's process divided by the operations. Exit codes: 0 done, 1 could not
/// run, 2 done, but some operations failed or a bound was broken, 130 interrupted (Ctrl-C): what
/// was measured until then is told, but by `soak`, `kill` and `fill`.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, arg_required_else_help = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Transactions, followed until they are mined
    Tx(tx::TxArgs),
    /// Sign transactions into a file, for `tx --file`
    Sign(tx::SignArgs),
    /// A genesis file with many funded accounts, for --prefunded
    Genesis(genesis::GenesisArgs),
    /// Fee history in several shapes
    Fees(fees::FeesArgs),
    /// The mix of methods that public endpoints see, or each method alone
    Reads(reads::ReadsArgs),
    /// The calls that other nodes were measured by, row by row
    Peers(peers::PeersArgs),
    /// Whole pages of an explorer, each one JSON-RPC batch
    Explorer(explorer::ExplorerArgs),
    /// A cheap call's latency beside a flood of heavy ones
    Flood(flood::FloodArgs),
    /// A cheap call, memory and health while hostile clients attack
    Attack(attack::AttackArgs),
    /// Transfers and reads for a long time, with memory, disk and latency held to bounds
    Soak(soak::SoakArgs),
    /// SIGKILL under full load again and again: nothing that was told may be lost
    Kill(kill::KillArgs),
    /// Give a chain blocks and transactions to be asked about
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
        Scenario::Attack(args) => attack::run(&args)
            .map(|well| if well { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) }),
        Scenario::Soak(args) => soak::run(&args)
            .map(|kept| if kept { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) }),
        Scenario::Kill(args) => kill::run(&args).map(|()| ExitCode::SUCCESS),
        Scenario::Fill(args) => fill::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        // Nothing is left to tell if even the error stream is gone.
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

fn publish((report, common): (Report, &Common)) -> anyhow::Result<ExitCode> {
    report.publish(common)?;
    if interrupt::requested() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    let bad = report.errors() > 0;
    Ok(if bad { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS })
}
