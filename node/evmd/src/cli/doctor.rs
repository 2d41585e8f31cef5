//! `evmd doctor`

use super::{HomeArg, Output, start_logs};
use anyhow::bail;
use home::doctor::{self, Outcome, Report};
use std::io::Write;

/// Checks the stored data of a stopped node, or of a snapshot. Exit code 1 if a check fails; each failure names
/// its remedy.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArg,
    /// Check everything: checksums of all rows, blocks against their headers, and the index against the chain.
    /// Uses about 200 bytes of memory per account
    #[arg(long)]
    verify: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    start_logs("warn");
    let report = doctor::run(&args.home.path()?, args.verify)?;
    print(args.output, &report)?;
    let (failed, all) = (report.failed(), report.checks.len());
    if failed > 0 {
        bail!("{failed} of {all} checks failed");
    }
    Ok(())
}

fn print(output: Output, report: &Report) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    if output == Output::Json {
        let ok = report.failed() == 0;
        let value = serde_json::json!({ "ok": ok, "checks": report.checks });
        return Ok(writeln!(out, "{value}")?);
    }
    for check in &report.checks {
        let outcome = match check.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        writeln!(out, "{outcome:<8} {:<14} {}", check.name, check.detail)?;
        if let Some(remedy) = &check.remedy {
            writeln!(out, "{:<8} {:<14} remedy: {remedy}", "", "")?;
        }
    }
    Ok(())
}
