//! `evmd snapshot` copies the chain of a home folder, and creates a home folder from a copy.

use super::{HomeArg, Output, start_logs};
use home::snapshot::{self, Checked};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Copy the chain of a home folder to a new folder and compact it; the node may be running
    Create(Args),
    /// Create a home folder from a snapshot
    Restore(Args),
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
    /// Check everything in the copy, as `evmd doctor --verify` does, and remove it if it is damaged
    #[arg(long)]
    verify: bool,
}

impl Args {
    const fn checked(&self) -> Checked {
        if self.verify { Checked::Verified } else { Checked::Opened }
    }

    /// Prints the result.
    fn print(&self, done: &str, height: u64, folder: &Path) -> anyhow::Result<()> {
        let mut out = crate::cli::stdout();
        match self.output {
            Output::Text => {
                let verified = if self.verify { ", and verified them" } else { "" };
                writeln!(out, "{done} blocks 0 to {height} to {}{verified}", folder.display())?;
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
}

pub(super) fn run(command: &Command) -> anyhow::Result<()> {
    start_logs("warn")?;
    match command {
        Command::Create(args) => {
            let height = snapshot::create(&args.home.path()?, &args.folder, args.checked())?;
            args.print("Copied", height, &args.folder)
        }
        Command::Restore(args) => {
            let path = args.home.path()?;
            let home = snapshot::restore(&args.folder, &path, args.checked())?;
            args.print("Restored", home.view()?.number(), &path)
        }
    }
}
