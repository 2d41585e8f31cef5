//! `evmd import` appends blocks from RLP files to the chain of a stopped node.

use super::{HomeArg, Output, start_logs, tested_backend};
use anyhow::Context;
use home::Home;
use indicatif::{ProgressBar, ProgressStyle};
use pipeline::{CommittedTotals, Options, Pipeline, Reading, SystemTimeSource};
use serde_json::json;
use state::View;
use std::{
    collections::BTreeMap,
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of consecutive RLP blocks, as geth exports them; compressed with gzip if the name ends in .gz;
    /// - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    home: HomeArg,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Interval of progress updates.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    start_logs("warn")?;
    args.files.iter().try_for_each(|file| check(file))?;
    let backend = tested_backend()?;
    let home = Home::open(&args.home.path()?)?;
    let before = home.view()?.number();
    let begun = Instant::now();
    let options = Options {
        transactions: None,
        mining: None,
        files: args.files,
        forwarder: None,
        given_blocks: false,
        recover_workers: home.config.pipeline.recover_workers(),
        backend,
        certifier: None,
        clocks: SystemTimeSource::boxed,
    };
    let pipeline = Pipeline::start(&home, options)?;
    let bar = progress_bar();
    while !pipeline.is_over() {
        show(&bar, &pipeline, before, begun);
        std::thread::park_timeout(PROGRESS_INTERVAL);
    }
    bar.finish_and_clear();
    let monitor = pipeline.monitor();
    let published = pipeline.published.clone();
    let (source, committed) = (Arc::clone(&pipeline.source), Arc::clone(&pipeline.committed));
    // After a fault, the later stages still process their input, and the result is final only once they have ended.
    let ended = pipeline.join();
    let seconds = begun.elapsed().as_secs_f64();
    let view = published.load();
    let (imported, known) = (view.number() - before, source.known.load(Ordering::Relaxed));
    // If no block was imported or already known, the error is more useful than a summary of zeros.
    if ended.is_ok() || imported > 0 || known > 0 {
        let report = Report { imported, known, committed: &committed, seconds, view: &view };
        report.print(args.output, &monitor.readings())?;
    }
    Ok(ended?)
}

/// Checks that a file can be opened. Standard input and pipes are not checked, because they can only be opened once.
fn check(file: &Path) -> anyhow::Result<()> {
    if file.as_os_str() == "-" {
        return Ok(());
    }
    let open = || match std::fs::metadata(file)? {
        metadata if metadata.is_file() => std::fs::File::open(file).map(drop),
        metadata if metadata.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        _ => Ok(()),
    };
    open().with_context(|| format!("cannot read {}", file.display()))
}

/// Returns a progress bar, which is hidden unless standard error is a terminal.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {percent}% {msg} ETA {eta}")
        .expect("the template is a constant");
    ProgressBar::new(0).with_style(style)
}

fn show(bar: &ProgressBar, pipeline: &Pipeline, before: u64, begun: Instant) {
    if bar.is_hidden() {
        return;
    }
    let seconds = begun.elapsed().as_secs_f64().max(0.001);
    let view = pipeline.published.load();
    let blocks = view.number() - before;
    bar.set_length(pipeline.source.bytes.load(Ordering::Relaxed));
    bar.set_position(pipeline.source.bytes_read.load(Ordering::Relaxed));
    bar.set_message(format!(
        "block {} {:.0} blocks/s {:.0} tx/s {:.1} Mgas/s",
        view.number(),
        blocks as f64 / seconds,
        pipeline.committed.transactions() as f64 / seconds,
        pipeline.committed.gas() as f64 / seconds / 1e6,
    ));
}

struct Report<'a> {
    imported: u64,
    known: u64,
    committed: &'a CommittedTotals,
    seconds: f64,
    view: &'a View,
}

impl Report<'_> {
    fn print(&self, output: Output, stages: &[Reading]) -> anyhow::Result<()> {
        let head = &self.view.head;
        let (txs, gas) = (self.committed.transactions(), self.committed.gas());
        let mut out = crate::cli::stdout();
        match output {
            Output::Json => {
                let stages: BTreeMap<_, _> = stages.iter().map(|s| (s.name, s)).collect();
                let value = json!({
                    "imported": self.imported,
                    "known": self.known,
                    "head": {
                        "number": self.view.number(),
                        "hash": head.hash,
                        "stateRoot": head.header.state_root,
                    },
                    "transactions": txs,
                    "gas": gas,
                    "seconds": self.seconds,
                    "stages": stages,
                });
                writeln!(out, "{value}")?;
            }
            Output::Text => {
                writeln!(
                    out,
                    "imported {} blocks, {txs} transactions, {:.1} Mgas in {:.2} s ({} blocks were \
                     known)\nhead {} {}\nstate root {}",
                    self.imported,
                    gas as f64 / 1e6,
                    self.seconds,
                    self.known,
                    self.view.number(),
                    head.hash,
                    head.header.state_root
                )?;
                if self.imported > 0 {
                    super::stage_table(&mut out, stages)?;
                }
            }
        }
        Ok(())
    }
}
