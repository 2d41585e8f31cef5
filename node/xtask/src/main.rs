//! Tasks of this repository. The only one is `cargo xtask tidy`, which checks the source.

mod tidy;

use clap::{Parser, Subcommand};
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, Parser)]
#[command(name = "xtask", about = "Tasks of this repository")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check dependencies, module cycles, references, names of tests, unsafe code and wording; `cargo test` runs the same checks
    Tidy,
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().task {
        Task::Tidy => tidy::run(&workspace()),
    }
}

/// The root of the repository.
fn workspace() -> PathBuf {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    root.canonicalize().unwrap_or(root)
}
