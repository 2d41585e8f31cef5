//! `evmd snapshot`

use super::{HomeArg, Output, start_logs};
use home::snapshot::{self, Checked};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Copy the chain of a home folder to a new folder and compact it; the node may be running
    Create(Checkable),
    /// Create a home folder from a snapshot
    Restore(Checkable),
}

#[derive(Debug, clap::Args)]
pub(super) struct Checkable {
    #[command(flatten)]
    args: Args,
    /// Check everything in the copy, as `evmd doctor --verify` does, and remove it if it is damaged
    #[arg(long)]
    verify: bool,
}

impl Checkable {
    const fn checked(&self) -> Checked {
        if self.verify { Checked::Verified } else { Checked::Opened }
    }

    /// What follows the result.
    const fn addition(&self) -> &'static str {
        if self.verify { ", and verified them" } else { "" }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder of the snapshot
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    start_logs("warn");
    match command {
        Command::Create(create) => {
            let args = &create.args;
            let height = snapshot::create(&args.home.path()?, &args.folder, create.checked())?;
            print(args.output, "Copied", height, &args.folder, create.addition())
        }
        Command::Restore(restore) => {
            let args = &restore.args;
            let path = args.home.path()?;
            let home = snapshot::restore(&args.folder, &path, restore.checked())?;
            print(args.output, "Restored", home.view()?.number(), &path, restore.addition())
        }
    }
}

fn print(
    output: Output,
    done: &str,
    height: u64,
    folder: &Path,
    addition: &str,
) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    match output {
        Output::Text => {
            writeln!(out, "{done} blocks 0 to {height} to {}{addition}", folder.display())?;
        }
        Output::Json => {
            writeln!(
                out,
                "{}",
                serde_json::json!({ "height": height, "folder": folder.to_string_lossy() })
            )?;
        }
    }
    Ok(())
}
