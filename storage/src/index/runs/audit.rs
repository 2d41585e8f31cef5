//! Verifies every page of every run.

use heed::{AnyTls, RoTxn};

use super::directory::{Level, Run, Source};
use super::{DIRECTORY, RunError, Runs};
use crate::error::DecodeError;

/// The number of pages that were read, and the number of entries in them that readers can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::index) struct Audit {
    pub(in crate::index) pages: u64,
    pub(in crate::index) entries: u64,
}

impl Runs {
    /// Verifies every page, the order of the entries, the number of entries in the directory, and that the filters
    /// accept every key.
    pub(in crate::index) fn audit(self, txn: &RoTxn<'_, AnyTls>) -> Result<Audit, RunError> {
        let directory = self.directory(txn)?;
        let mut audit = Audit::default();
        for level in &directory.levels {
            self.audit_level(txn, level, &mut audit)?;
        }
        Ok(audit)
    }

    fn audit_level(
        self,
        txn: &RoTxn<'_, AnyTls>,
        level: &Level,
        audit: &mut Audit,
    ) -> Result<(), RunError> {
        let (inputs, done) = match &level.merge {
            Some(merge) => (merge.inputs, merge.done.as_slice()),
            None => (0, &[][..]),
        };
        let mut left = 0;
        for (at, run) in level.runs.iter().enumerate() {
            if at < inputs {
                left += self.audit_run(txn, run, done, audit)?;
            } else if self.audit_run(txn, run, &[], audit)? != run.entries {
                return Err(wrong_count());
            }
        }
        let Some(merge) = &level.merge else { return Ok(()) };
        let merged = self.audit_run(txn, &merge.output, &[], audit)?;
        let all: u64 = level.runs[..inputs].iter().map(|run| run.entries).sum();
        if merged != merge.output.entries || merged + left != all {
            return Err(wrong_count());
        }
        Ok(())
    }

    /// Verifies the entries of a run with keys above `after`.
    fn audit_run(
        self,
        txn: &RoTxn<'_, AnyTls>,
        run: &Run,
        after: &[u8],
        audit: &mut Audit,
    ) -> Result<u64, RunError> {
        let source = Source { id: run.id, lines: run.lines, after };
        let mut entries = 0;
        let mut last: Vec<u8> = Vec::new();
        for row in self.pages.table.prefix_iter(txn, &run.id.to_be_bytes())? {
            let (at, row) = row?;
            let corrupt = |what| RunError::Corrupt(at.to_vec(), DecodeError { what, at: 0 });
            let page = self.page(at, row)?;
            audit.pages += 1;
            for entry in 0..page.len() {
                let (key, _) =
                    page.entry(entry).map_err(|why| RunError::Corrupt(at.to_vec(), why))?;
                if key < last.as_slice() {
                    return Err(corrupt("the entries of a run are not in ascending order"));
                }
                last.clear();
                last.extend_from_slice(key);
                if key <= source.after {
                    continue;
                }
                if self.filtered && !self.may_hold(txn, source.id, source.lines, key)? {
                    return Err(corrupt("the filter of a run rejects a key of the run"));
                }
                entries += 1;
            }
        }
        audit.entries += entries;
        Ok(entries)
    }
}

fn wrong_count() -> RunError {
    let why =
        DecodeError { what: "the number of entries in a run differs from its directory", at: 0 };
    RunError::Corrupt(DIRECTORY.to_vec(), why)
}
