//! A client that loads a node from outside, over the wire only: it never links the node.
//!
//! `loadtest tx` signs transfers first, so that signing is not measured, then sends them over the
//! TCP ingest and waits until the chain has them.

mod ingest;
mod rpc;
mod sign;
mod tx;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Loads an evmd node over the wire and reports what it took.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Transfers over the TCP ingest
    Tx(tx::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().scenario {
        Scenario::Tx(args) => tx::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell if even the error stream is gone.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("error: {error:#}\n"),
            );
            ExitCode::FAILURE
        }
    }
}
