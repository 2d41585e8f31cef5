//! `evmd doctor` checks the machine, the settings and the stored data.

mod clock;
mod disk;
mod limits;
mod permissions;
mod ports;

use super::{HomeArg, Output, start_logs, tested_backend};
use anyhow::bail;
use config::{CONFIG_FILE, Config};
use home::{
    HomeError,
    doctor::{self, Failure, Outcome, Report},
};
use std::{io::Write, path::Path, time::SystemTime};
use storage::{CHAIN_FORMAT, INDEX_FORMAT, OpenError};

/// Checks the machine, the settings and the stored data of a stopped node, or of a snapshot. Exit code 1 if a check
/// fails; each failure and warning names its remedy. While the node runs, the stored data is not checked.
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
    start_logs("warn")?;
    let report = report(&args.home.path()?, args.verify)?;
    print(args.output, &report)?;
    let (failed, all) = (report.failed(), report.checks.len());
    if failed > 0 {
        bail!("{failed} of {all} checks failed");
    }
    Ok(())
}

/// The remedy if this process cannot lock the home folder.
const NO_LOCK: &str =
    "run the command as the owner of the home folder, who must own all files in it";

/// Reads the settings and shifts the ports, as `evmd start` does.
fn settings(home: &Path) -> Result<(Config, String), Failure> {
    let remedy = "correct config.toml, or set the value with `evmd config set`";
    let mut config = Config::load(home).map_err(|error| Failure::new(error, remedy))?;
    config.shift_ports().map_err(|error| Failure::new(error, remedy))?;
    Ok((config, "all settings have valid values".to_owned()))
}

fn report(home: &Path, verify: bool) -> anyhow::Result<Report> {
    let mut report = Report::default();
    report.check("program.version", version());
    let config = report.check_value("home.settings", settings(home)).unwrap_or_default();
    let data = match doctor::run(home, verify) {
        Ok(data) => Ok(data),
        Err(HomeError::Open(OpenError::HomeLocked { .. })) if !verify => {
            Err("the node to be stopped")
        }
        // The check `home.settings` has already failed.
        Err(HomeError::Config(_)) => Err("valid settings"),
        Err(HomeError::Open(error @ (OpenError::Io { .. } | OpenError::OfOtherUser { .. }))) => {
            report.check("home.lock", Err(Failure::new(error, NO_LOCK)));
            Err("access to the home folder")
        }
        Err(other) => return Err(other.into()),
    };
    limits::check(&mut report, &config);
    report.warn("machine.clock", clock::synchronized());
    disk::check(&mut report, home);
    report.check("home.permissions", permissions::check(home));
    match &data {
        Err(needs) => report.skip("servers.ports", needs),
        Ok(_) if !home.join(CONFIG_FILE).exists() => report.skip("servers.ports", CONFIG_FILE),
        Ok(_) => report.warn("servers.ports", ports::check(&config)),
    }
    match data {
        Err(needs) => doctor::skip_data(&mut report, needs),
        Ok(data) => {
            let is_readable = data.failed() == 0;
            report.checks.extend(data.checks);
            if is_readable {
                let now = SystemTime::now();
                report.check("chain.time", doctor::head_time(home, &config, now));
            }
        }
    }
    Ok(report)
}

/// Runs the self-test, because a node with a damaged executable or a faulty processor must not write blocks.
fn version() -> Result<String, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let remedy = "install the program again, or use another machine";
    let backend = tested_backend().map_err(|error| Failure::new(format!("{error:#}"), remedy))?;
    Ok(format!(
        "evmd {version}; backend {backend} passes its self-test; storage formats: chain {CHAIN_FORMAT}, index {INDEX_FORMAT}"
    ))
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
            Outcome::Warning => "warning",
            Outcome::Skipped => "skipped",
        };
        writeln!(out, "{outcome:<8} {:<18} {}", check.name, check.detail)?;
        if let Some(remedy) = &check.remedy {
            writeln!(out, "{:<8} {:<18} remedy: {remedy}", "", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::Genesis;
    use home::Home;

    #[test]
    fn invalid_settings_fail_their_check_and_skip_the_data_checks() {
        let folder = tempfile::tempdir().unwrap();
        drop(Home::init(folder.path(), &Genesis::native_dev(0)).unwrap());
        let outcome = |name| {
            let report = report(folder.path(), false).unwrap();
            report.checks.iter().find(|check| check.name == name).unwrap().outcome
        };
        assert_eq!(outcome("home.settings"), Outcome::Passed);
        assert_eq!(outcome("chain.open"), Outcome::Passed);
        std::fs::write(folder.path().join(CONFIG_FILE), "[json-rpc]\ngas-cap = \"5\"\n").unwrap();
        assert_eq!(outcome("home.settings"), Outcome::Failed);
        assert_eq!(outcome("chain.open"), Outcome::Skipped);
        assert_eq!(outcome("home.permissions"), Outcome::Passed);
    }
}
