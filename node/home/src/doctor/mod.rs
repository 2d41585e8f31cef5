//! Checks a home folder whose node is stopped, for `evmd doctor`.
//!
//! Each check has a name, an outcome and, if it found a fault, a remedy. Checks only read. A check that depends on a
//! failed one is skipped, so that one fault is reported once. Callers may add checks of their own to the report.

mod chain;
mod index;

use crate::{
    Home, HomeError, INDEX_FOLDER, check_index, future_head::check_block_time, open_chain,
    open_index, stored_genesis, stored_spec,
};
use ::chain::ChainSpec;
use config::Config;
use serde::Serialize;
use std::{fmt::Display, path::Path, time::SystemTime};
use storage::{ChainDb, HomeLock, IndexDb};

/// Maximum number of failures that one check reports: enough to see a pattern, and few enough to read.
const MAX_FAILURES: usize = 10;

/// The outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No fault was found.
    Passed,
    /// A fault was found.
    Failed,
    /// The node works, but not as well as it could.
    Warning,
    /// The check was not run, because something that it needs is missing.
    Skipped,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The name of the check.
    pub name: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// A description of what was checked, or of the fault.
    pub detail: String,
    /// How to repair the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// All checks of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// In the order in which they ran.
    pub checks: Vec<Check>,
}

/// Why a check failed.
#[derive(Debug)]
pub struct Failure {
    detail: String,
    remedy: String,
}

impl Failure {
    /// Describes a fault, and what the operator can do.
    pub fn new(detail: impl Display, remedy: impl Into<String>) -> Self {
        Self { detail: detail.to_string(), remedy: remedy.into() }
    }

    fn of_index(detail: impl Display) -> Self {
        Self::new(detail, "`evmd reindex` builds the index again from the chain")
    }

    fn of_block(number: u64, detail: impl Display) -> Self {
        let remedy = match number.checked_sub(1) {
            Some(keep) => format!(
                "restore a snapshot, or remove the blocks from {number} on (`evmd rollback --height \
                 {keep}`) and import them again"
            ),
            None => "restore a snapshot".to_owned(),
        };
        Self::new(format_args!("block {number}: {detail}"), remedy)
    }
}

impl Report {
    /// Returns the number of failed checks.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| check.outcome == Outcome::Failed).count()
    }

    /// Records the outcome of a check.
    pub fn check(&mut self, name: &'static str, result: Result<String, Failure>) {
        self.check_value(name, result.map(|detail| ((), detail)));
    }

    /// Records the outcome of a check whose failure is only a warning.
    pub fn warn(&mut self, name: &'static str, result: Result<String, Failure>) {
        self.record(name, Outcome::Warning, result);
    }

    /// Records that a check was not run, because it needs what the text `needs` names.
    pub fn skip(&mut self, name: &'static str, needs: &str) {
        let detail = format!("needs {needs}");
        self.checks.push(Check { name, outcome: Outcome::Skipped, detail, remedy: None });
    }

    /// Records the outcome of a check. Returns its value unless it failed.
    pub fn check_value<T>(
        &mut self,
        name: &'static str,
        result: Result<(T, String), Failure>,
    ) -> Option<T> {
        let (found, result) = match result {
            Ok((found, detail)) => (Some(found), Ok(detail)),
            Err(failure) => (None, Err(failure)),
        };
        self.record(name, Outcome::Failed, result);
        found
    }

    fn record(&mut self, name: &'static str, fault: Outcome, result: Result<String, Failure>) {
        let (outcome, detail, remedy) = match result {
            Ok(detail) => (Outcome::Passed, detail, None),
            Err(failure) => (fault, failure.detail, Some(failure.remedy)),
        };
        self.checks.push(Check { name, outcome, detail, remedy });
    }
}

/// Names of the checks that run only with `verify`, and read all data.
const VERIFY_CHAIN: [&str; 4] =
    ["chain.genesis", "chain.rows", "chain.blocks", "chain.certificates"];
const VERIFY_INDEX: [&str; 4] = ["index.runs", "index.lookups", "index.state", "index.trie"];

/// Names of the checks that also run without `verify`, and read only what opening a home reads.
const OPEN: [&str; 3] = ["chain.open", "index.open", "index.chain"];

/// Records that the stored data was not checked, because the checks need what the text `needs` names.
pub fn skip_data(report: &mut Report, needs: &str) {
    OPEN.iter().for_each(|name| report.skip(name, needs));
}

/// Checks the stored data of a home folder or a snapshot. With `verify`, every row is read; otherwise only what opening
/// a home reads.
///
/// # Errors
/// If the folder holds no chain, if its settings are invalid, or if a node is running on it. Faults in the data
/// are part of the report.
pub fn run(home: &Path, verify: bool) -> Result<Report, HomeError> {
    Home::require_chain(home)?;
    let _lock = HomeLock::acquire(home)?;
    let config = Config::load(home)?;
    Ok(check_data(home, &config, verify))
}

/// Does the same as [`run`] with a folder whose lock the caller holds.
pub(crate) fn check_data(home: &Path, config: &Config, verify: bool) -> Report {
    let mut report = Report::default();
    let chain = report.check_value(OPEN[0], open_the_chain(home, config));
    let index = report.check_value(OPEN[1], open_the_index(home, config));
    match (&chain, &index) {
        (Some((chain, _)), Some(index)) => {
            report.check_value(OPEN[2], same_chain(chain, index));
        }
        _ => report.skip(OPEN[2], "both environments"),
    }
    if !verify {
        return report;
    }
    let Some((chain, spec)) = chain else {
        VERIFY_CHAIN.iter().chain(&VERIFY_INDEX).for_each(|name| report.skip(name, "the chain"));
        return report;
    };
    report.check_value(VERIFY_CHAIN[0], chain::genesis(&chain));
    report.check_value(VERIFY_CHAIN[1], chain::rows(&chain));
    let blocks = report.check_value(VERIFY_CHAIN[2], chain::blocks(&chain, &spec));
    report.check_value(VERIFY_CHAIN[3], chain::certificates(&chain, &spec, home));
    match index {
        None => VERIFY_INDEX.iter().for_each(|name| report.skip(name, "the index")),
        Some(index) => {
            report.check_value(VERIFY_INDEX[0], index::runs(&index));
            match blocks {
                Some(()) => {
                    report.check_value(VERIFY_INDEX[1], index::lookups(&chain, &index));
                }
                None => report.skip(VERIFY_INDEX[1], "blocks without damage"),
            }
            report.check_value(VERIFY_INDEX[2], index::state(&chain, &index));
            report.check_value(VERIFY_INDEX[3], index::trie(&chain, &index));
        }
    }
    report
}

/// Compares the timestamp of the newest block with the system clock, as `evmd start` does. A development chain passes,
/// because its clients set the time.
///
/// # Errors
/// If the block is too far ahead, or if the chain cannot be read.
pub fn head_time(home: &Path, config: &Config, now: SystemTime) -> Result<String, Failure> {
    let ((chain, spec), _) = open_the_chain(home, config)?;
    if spec.is_development() {
        return Ok("clients set the time of a development chain".to_owned());
    }
    let remedy = "correct the system clock, or start with --accept-future-head";
    let failed = |error: &dyn Display| Failure::new(error, remedy);
    let blocks = chain.reader().map_err(|error| failed(&error))?;
    let head = blocks.head_number().map_err(|error| failed(&error))?.unwrap_or(0);
    check_block_time(&blocks, head, spec.rules, now, config.engine.max_clock_step())
        .map_err(|error| failed(&error))?;
    Ok("the newest block is not ahead of the system clock".to_owned())
}

fn open_the_chain(home: &Path, config: &Config) -> Result<((ChainDb, ChainSpec), String), Failure> {
    let remedy = "the detail of the check names the remedy";
    let failed = |error: &dyn Display| Failure::new(error, remedy);
    let chain = open_chain(home, config).map_err(|error| failed(&error))?;
    let text = stored_genesis(&chain).map_err(|error| failed(&error))?;
    let text = text.ok_or_else(|| Failure::new("the genesis is missing", "restore a snapshot"))?;
    let spec = stored_spec(&chain, &text).map_err(|error| failed(&error))?;
    let head = chain.reader().and_then(|blocks| blocks.head());
    let head = head.map_err(|error| failed(&error))?;
    let (number, hash) =
        head.ok_or_else(|| Failure::new("the chain has no blocks", "restore a snapshot"))?;
    Ok(((chain, spec), format!("head {number} {hash}")))
}

fn open_the_index(home: &Path, config: &Config) -> Result<(IndexDb, String), Failure> {
    // Opening a missing index would create one.
    if !home.join(INDEX_FOLDER).join("data.mdb").exists() {
        return Err(Failure::of_index("the index is missing"));
    }
    let index = open_index(home, config).map_err(Failure::of_index)?;
    let flushed = index.reader().and_then(|reader| reader.flushed());
    let detail = match flushed.map_err(Failure::of_index)? {
        Some(number) => format!("flushed up to block {number}"),
        None => "empty".to_owned(),
    };
    Ok((index, detail))
}

fn same_chain(chain: &ChainDb, index: &IndexDb) -> Result<((), String), Failure> {
    check_index(chain, index).map_err(Failure::of_index)?;
    Ok(((), "its newest block is a block of the chain".to_owned()))
}
