//! The command line, with one module per command. A command parses its flags, calls the other crates and prints the
//! result, usually as text or JSON.

mod completion;
mod config;
mod db;
mod debug;
mod doctor;
mod export;
mod genesis;
mod import;
mod init;
mod keys;
mod logs;
mod prefix;
mod promote;
mod query;
mod reindex;
mod rollback;
mod rpc;
mod rules;
mod running_node;
mod snapshot;
mod standard_output;
mod start;
mod status;
mod testnet;
mod tx;
mod validator;
mod version;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use logs::start as start_logs;
use pipeline::Reading;
use standard_output::{is_stdout_closed, stdout};
use std::{io::Write, path::PathBuf, process::ExitCode, time::Instant};
use verify::Backend;

/// An EVM indexer node: receives signed transactions or blocks, and serves wallets, explorers and fee
/// estimators.
#[derive(Debug, Parser)]
#[command(name = "evmd", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// The home folder before the name of the command, where the SDK's scripts put it. The help of the commands
    /// that use it shows it as their own option.
    #[arg(long, value_name = "DIR", global = true, hide = true)]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a home folder with a new chain
    Init(init::Args),
    /// Run the node; creates a development chain if the home folder is empty
    Start(Box<start::Args>),
    /// Append blocks from RLP files, as geth exports them; the node must be stopped
    Import(import::Args),
    /// Write blocks to an RLP file, as geth exports them; the node must be stopped
    Export(export::Args),
    /// Rebuild the whole index from the chain; the node must be stopped
    Reindex(reindex::Args),
    /// Check the machine, the settings and, while the node is stopped, the stored data
    Doctor(doctor::Args),
    /// Show the head, the endpoints and the pipeline of a running node
    Status(status::Args),
    /// Query a running node
    #[command(visible_alias = "q")]
    Query(query::Args),
    /// Call a method of JSON-RPC
    Rpc(rpc::Args),
    /// Create, sign and send transactions
    Tx(tx::Args),
    /// Show the version
    Version(version::Args),
    /// Manage keys
    Keys(keys::Args),
    /// Show and change settings
    #[command(subcommand)]
    Config(config::Command),
    /// Examine the database of a home folder
    #[command(subcommand)]
    Db(db::Command),
    /// Work on genesis files
    #[command(subcommand)]
    Genesis(genesis::Command),
    /// Examine data without a node
    #[command(subcommand)]
    Debug(debug::Command),
    /// Remove the newest blocks of a stopped node; their transactions and those of the mempool are lost
    Rollback(rollback::Args),
    /// Make a stopped replica the producer of its chain
    ///
    /// Its head becomes the last block of the old producer, and its own key signs the blocks after it. The command asks the
    /// nodes that this replica follows, and refuses if one of them has a later block or a newer producer term. Afterwards it
    /// sends them the new term, and the old producer stops.
    Promote(promote::Args),
    /// Show and adopt versions of the consensus rules of a native chain
    #[command(subcommand)]
    Rules(rules::Command),
    /// Copy the chain, also of a running node, and create a home folder from a copy
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Create the homes of several validators that run a new chain together, for tests
    Testnet(testnet::Args),
    /// Manage the key with which this home votes on blocks
    #[command(subcommand)]
    Validator(validator::Command),
    /// Print a shell script that completes commands and flags
    Completion(completion::Args),
}

/// The home folder, an option of all commands.
#[derive(Clone, Debug, clap::Args)]
struct HomeArg {
    /// Home folder
    #[arg(long, value_name = "DIR", env = "EVMD_HOME")]
    home: Option<PathBuf>,
}

impl HomeArg {
    /// Returns the given folder, or `~/.evmd`.
    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.home {
            Some(path) => Ok(path.clone()),
            None => std::env::home_dir()
                .map(|home| home.join(".evmd"))
                .context("there is no home directory: set a folder with --home"),
        }
    }
}

/// The format in which a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Returns the commands and their flags, for generated documentation.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line and runs the command. Returns exit code 1 for a failure and 2 for wrong usage.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return show_usage(&error),
    };
    // Output without a final line break is still in the buffer.
    let done = run(cli.command).and_then(|()| Ok(stdout().flush()?));
    logs::flush();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, there is nowhere to report the error.
            drop(writeln!(std::io::stderr(), "error: {}", in_one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Prints a usage error, or the requested help or version.
fn show_usage(error: &clap::Error) -> ExitCode {
    let usage = u8::try_from(error.exit_code()).unwrap_or(2);
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe && usage == 0 => {
            drop(writeln!(std::io::stderr(), "error: cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(usage),
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Init(args) => init::run(&args),
        Command::Start(args) => start::run(&args),
        Command::Import(args) => import::run(args),
        Command::Export(args) => export::run(&args),
        Command::Reindex(args) => reindex::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Rpc(args) => rpc::run(&args),
        Command::Tx(args) => tx::run(args),
        Command::Version(args) => version::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Config(command) => config::run(&command),
        Command::Db(command) => db::run(&command),
        Command::Genesis(command) => genesis::run(&command),
        Command::Debug(command) => debug::run(&command),
        Command::Promote(args) => promote::run(&args),
        Command::Rollback(args) => rollback::run(&args),
        Command::Rules(command) => rules::run(&command),
        Command::Snapshot(command) => snapshot::run(&command),
        Command::Testnet(args) => testnet::run(&args),
        Command::Validator(command) => validator::run(&command),
        Command::Completion(args) => completion::run(&args),
    }
}

/// Joins an error and its causes with colons. A cause is skipped if the text before it already ends with it.
fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    // The messages of other libraries may have several lines.
    line.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Detects the signature recovery backend for this processor and runs its self-test.
fn tested_backend() -> anyhow::Result<Backend> {
    let backend = Backend::detect()?;
    let begun = Instant::now();
    verify::ensure_self_tested(backend)?;
    let elapsed = begun.elapsed();
    tracing::debug!(%backend, ?elapsed, "the self-test of signature recovery and Keccak-256 passed");
    Ok(backend)
}

/// Writes a table with one line per pipeline stage.
fn stage_table(out: &mut impl Write, stages: &[Reading]) -> std::io::Result<()> {
    writeln!(
        out,
        "{:<8} {:>10} {:>10} {:>8} {:>9} {:>9}",
        "stage", "in", "out", "batches", "busy s", "idle s"
    )?;
    for stage in stages {
        writeln!(
            out,
            "{:<8} {:>10} {:>10} {:>8} {:>9.3} {:>9.3}",
            stage.name,
            stage.received,
            stage.sent,
            stage.batches,
            stage.busy_seconds,
            stage.idle_seconds
        )?;
    }
    Ok(())
}
