//! `man-pages DIR` writes a manual page for each command of `evmd`: `evmd.1`, `evmd-start.1` and so on.
//!
//! This is a separate program, because the node does not need the generator, and because building it together
//! with the node (`cargo build -p evmd -p man-pages`) compiles no other crate a second time.

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

fn main() -> anyhow::Result<()> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from).context("usage: man-pages DIR")?;
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let mut evmd = evmd::cli::command().disable_help_subcommand(true);
    evmd.build();
    write_pages(&evmd, &dir)
        .with_context(|| format!("cannot write the manual pages to {}", dir.display()))
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(command: &Command, dir: &Path) -> std::io::Result<()> {
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        write_pages(part, dir)?;
    }
    // A page has the version instead of a date, so that it changes only with the command or the version.
    let version = command.get_version().unwrap_or_default();
    Man::new(command.clone()).source("evmd").date(version).generate_to(dir)?;
    Ok(())
}
