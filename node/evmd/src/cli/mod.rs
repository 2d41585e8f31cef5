//! The command line: one file a command. Parsing and meaning stay apart: a command's file turns
//! its flags into calls of the library and its results into text or JSON, and holds no logic.

mod completion;
mod config;
mod debug;
mod doctor;
mod export;
mod genesis;
mod import;
mod init;
mod keys;
mod logs;
mod prefix;
mod query;
mod reindex;
mod rollback;
mod rules;
mod snapshot;
mod standard_output;
mod start;
mod status;
mod tx;
mod version;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use logs::start as start_logs;
use pipeline::Reading;
use standard_output::{is_stdout_closed, stdout};
use std::{io::Write, path::PathBuf, process::ExitCode, time::Instant};
use verify::Backend;

/// An EVM indexer-node: takes signed transactions or whole blocks in, answers wallets, explorers
/// and fee estimators.
#[derive(Debug, Parser)]
#[command(name = "evmd", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// The home folder before the command's name, where the SDK's scripts put it. Commands that have
    /// one show it as theirs.
    #[arg(long, value_name = "DIR", global = true, hide = true)]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a home folder with a new chain
    Init(init::Args),
    /// Run the node; makes a development chain if the home folder is empty
    Start(start::Args),
    /// Append blocks from RLP files, as geth exports them; the node must be stopped
    Import(import::Args),
    /// Write blocks to an RLP file, as geth exports them; the node must be stopped
    Export(export::Args),
    /// Build the index again from the chain, all of it; the node must be stopped
    Reindex(reindex::Args),
    /// Check the stored data; the node must be stopped
    Doctor(doctor::Args),
    /// Show a running node's head, endpoints and pipeline
    Status(status::Args),
    /// Ask a running node
    #[command(visible_alias = "q")]
    Query(query::Args),
    /// Make, sign and send transactions
    Tx(tx::Args),
    /// Show the version
    Version(version::Args),
    /// Manage keys
    Keys(keys::Args),
    /// Show and change settings
    #[command(subcommand)]
    Config(config::Command),
    /// Work on genesis files
    #[command(subcommand)]
    Genesis(genesis::Command),
    /// Look into data without a node
    #[command(subcommand)]
    Debug(debug::Command),
    /// Remove the newest blocks of a stopped node; their transactions, and those of the mempool,
    /// are gone
    Rollback(rollback::Args),
    /// Show and adopt versions of a native chain's consensus rules
    #[command(subcommand)]
    Rules(rules::Command),
    /// Copy a chain, of a running node too, and make a home folder of a copy
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Print what makes a shell complete commands and flags
    Completion(completion::Args),
}

/// The home folder, as every command takes it.
#[derive(Clone, Debug, clap::Args)]
struct HomeArg {
    /// Home folder
    #[arg(long, value_name = "DIR", env = "EVMD_HOME")]
    home: Option<PathBuf>,
}

impl HomeArg {
    /// The folder named, or `~/.evmd`.
    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.home {
            Some(path) => Ok(path.clone()),
            None => std::env::home_dir()
                .map(|home| home.join(".evmd"))
                .context("no home directory: name a folder with --home"),
        }
    }
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// The commands and their flags, for documents.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the command line and runs the command. Exit code 1 for a failure, 2 for wrong usage.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return show_usage(&error),
    };
    // What was written without a line break is still in the buffer.
    let done = run(cli.command).and_then(|()| Ok(stdout().flush()?));
    logs::flush();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to tell if even the error stream is gone.
            drop(writeln!(std::io::stderr(), "error: {}", in_one_line(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Prints a usage error, or the help or version that was asked for.
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
        Command::Tx(args) => tx::run(args),
        Command::Version(args) => version::run(&args),
        Command::Keys(args) => keys::run(args),
        Command::Config(command) => config::run(&command),
        Command::Genesis(command) => genesis::run(&command),
        Command::Debug(command) => debug::run(&command),
        Command::Rollback(args) => rollback::run(&args),
        Command::Rules(command) => rules::run(&command),
        Command::Snapshot(command) => snapshot::run(&command),
        Command::Completion(args) => completion::run(&args),
    }
}

/// A failure and its causes, less those that a message before them ends with.
fn in_one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    // A message of another library may have lines; ours is one.
    line.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The recovery backend of this process, after its self-test.
fn tested_backend() -> anyhow::Result<Backend> {
    let backend = Backend::detect()?;
    let begun = Instant::now();
    verify::ensure_self_tested(backend)?;
    let elapsed = begun.elapsed();
    tracing::debug!(%backend, ?elapsed, "the self-test of signature recovery and Keccak-256 passed");
    Ok(backend)
}

/// What each stage did, a line each.
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
            stage.taken,
            stage.given,
            stage.batches,
            stage.busy_seconds,
            stage.idle_seconds
        )?;
    }
    Ok(())
}
