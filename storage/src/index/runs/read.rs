//! Lookups over all runs.

use std::ops::Bound;

use heed::{AnyTls, RoTxn};

use super::directory::Source;
use super::{ID_BYTES, RunError, Runs, page_key};
use crate::table::KeyRange;

/// Key and value of an entry, borrowed from the memory map.
pub(in crate::index) type Entry<'t> = (&'t [u8], &'t [u8]);

impl Runs {
    /// Returns the newest entry whose key begins with `prefix` and is at most `key`. Keys with the prefix must
    /// be higher in newer runs.
    pub(in crate::index) fn latest<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        prefix: &[u8],
        key: &[u8],
    ) -> Result<Option<Entry<'t>>, RunError> {
        for source in self.directory(txn)?.sources() {
            let found = self.at_most(txn, source, key)?;
            if let Some(entry) = found.filter(|entry| entry.0.starts_with(prefix)) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns the entry with the lowest key in `first..=last`.
    pub(in crate::index) fn earliest<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        first: &[u8],
        last: &[u8],
    ) -> Result<Option<Entry<'t>>, RunError> {
        let mut lowest: Option<Entry<'t>> = None;
        for source in self.directory(txn)?.sources() {
            let found = self.at_least(txn, source, first)?.filter(|entry| entry.0 <= last);
            lowest = [lowest, found].into_iter().flatten().min_by_key(|entry| entry.0);
        }
        Ok(lowest)
    }

    /// Returns the value of a key that at most one run contains.
    pub(in crate::index) fn exact<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        key: &[u8],
    ) -> Result<Option<&'t [u8]>, RunError> {
        for source in self.directory(txn)?.sources() {
            if !self.may_hold(txn, source.id, source.lines, key)? {
                continue;
            }
            if let Some((_, value)) = self.at_most(txn, source, key)?.filter(|found| found.0 == key)
            {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Returns the last entry of one run with a key up to `key`.
    fn at_most<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        source: Source<'_>,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>, RunError> {
        let row = self.pages.table.get_lower_than_or_equal_to(txn, &page_key(source.id, key))?;
        let Some((at, bytes)) = row.filter(|(at, _)| is_of(at, source.id)) else {
            return Ok(None);
        };
        let corrupt = |why| RunError::Corrupt(at.to_vec(), why);
        let page = self.page(at, bytes)?;
        let Some(last) = page.up_to(key).map_err(corrupt)?.checked_sub(1) else {
            return Ok(None);
        };
        let entry = page.entry(last).map_err(corrupt)?;
        Ok((entry.0 > source.after).then_some(entry))
    }

    /// Returns the first entry of one run with a key from `key` on.
    fn at_least<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        source: Source<'_>,
        key: &[u8],
    ) -> Result<Option<Entry<'t>>, RunError> {
        let from = page_key(source.id, key);
        let from = self.page_with(txn, source, &from)?.unwrap_or(&from);
        let range: KeyRange<'_> = (Bound::Included(from), Bound::Unbounded);
        for row in self.pages.table.range(txn, &range)? {
            let (at, bytes) = row?;
            if !is_of(at, source.id) {
                break;
            }
            let corrupt = |why| RunError::Corrupt(at.to_vec(), why);
            let page = self.page(at, bytes)?;
            let begin = page.up_to(source.after).map_err(corrupt)?;
            let begin = begin.max(page.below(key).map_err(corrupt)?);
            if begin < page.len() {
                return page.entry(begin).map(Some).map_err(corrupt);
            }
        }
        Ok(None)
    }

    /// Returns the key of the last page of a run that begins at or before `from`, and may therefore contain the
    /// next entries.
    fn page_with<'t>(
        self,
        txn: &'t RoTxn<'_, AnyTls>,
        source: Source<'_>,
        from: &[u8],
    ) -> Result<Option<&'t [u8]>, RunError> {
        let before = self.pages.table.get_lower_than_or_equal_to(txn, from)?;
        Ok(before.map(|(at, _)| at).filter(|at| is_of(at, source.id)))
    }

    /// Passes every entry with a key in `first..=last` to `take`: the oldest run first, each run in
    /// key order.
    pub(in crate::index) fn each(
        self,
        txn: &RoTxn<'_, AnyTls>,
        first: &[u8],
        last: &[u8],
        mut take: impl FnMut(&[u8], &[u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        for source in self.directory(txn)?.sources().rev() {
            self.each_of(txn, source, first, last, &mut take)?;
        }
        Ok(())
    }

    fn each_of(
        self,
        txn: &RoTxn<'_, AnyTls>,
        source: Source<'_>,
        first: &[u8],
        last: &[u8],
        take: &mut impl FnMut(&[u8], &[u8]) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let from = page_key(source.id, first);
        let from = self.page_with(txn, source, &from)?.unwrap_or(&from);
        let to = page_key(source.id, last);
        let range: KeyRange<'_> = (Bound::Included(from), Bound::Included(&to));
        for row in self.pages.table.range(txn, &range)? {
            let (at, bytes) = row?;
            let corrupt = |why| RunError::Corrupt(at.to_vec(), why);
            let page = self.page(at, bytes)?;
            let begin = page.up_to(source.after).map_err(corrupt)?;
            let begin = begin.max(page.below(first).map_err(corrupt)?);
            for entry in begin..page.up_to(last).map_err(corrupt)? {
                let (key, value) = page.entry(entry).map_err(corrupt)?;
                take(key, value)?;
            }
        }
        Ok(())
    }
}

/// Returns whether the key of a page belongs to this run.
fn is_of(key: &[u8], id: u32) -> bool {
    key.len() > ID_BYTES && key[..ID_BYTES] == id.to_be_bytes()
}
