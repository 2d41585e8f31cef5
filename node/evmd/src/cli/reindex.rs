//! `evmd reindex` rebuilds the index of a stopped node from its chain.

use super::HomeArg;
use home::Home;
use std::{io::Write, time::Instant};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArg,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    super::start_logs("info")?;
    let begun = Instant::now();
    let home = Home::reindex(&args.home.path()?)?;
    let head = home.view()?.number();
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(
        crate::cli::stdout(),
        "rebuilt the index in {seconds:.1} s; the head is block {head}"
    )?;
    Ok(())
}
