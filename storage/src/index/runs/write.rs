//! Adds runs, and merges them. After each flush, the merge of each level advances in its own transaction.

use heed::RwTxn;

use super::directory::{Directory, Level, Merge, Run};
use super::filter::{self, Filter};
use super::page::{Page, Pages};
use super::{FAN_IN, MIN_MERGE_ENTRIES, PIECE_BYTES, RunError, Runs, STEP_ENTRIES, page_key};
use crate::env::Environment;
use crate::error::{DecodeError, WriteError};
use trie::rows::first_word;

/// Key and value.
type Entry<'t> = (&'t [u8], &'t [u8]);

/// Entries of one input that a step of a merge has read.
struct InputPiece<'t> {
    /// Key in the table and content of each page.
    pages: Vec<(&'t [u8], Page<'t>)>,
    /// Whether the input has no further entries.
    is_last: bool,
    /// Index of the next page and entry.
    next: (usize, usize),
}

/// The result of a step of a merge, before it is written.
struct Step {
    merged: Pages,
    entries: u64,
    /// Pages of the inputs that are no longer needed.
    consumed: Vec<Vec<u8>>,
    /// Last key merged.
    done: Vec<u8>,
    /// Whether the inputs are exhausted.
    is_over: bool,
}

/// A new run. Its pages are written while entries are added, so that only a part of the run is in memory.
pub(in crate::index) struct NewRun {
    runs: Runs,
    directory: Directory,
    run: Run,
    pages: Pages,
    filter: Filter,
}

impl NewRun {
    /// Adds an entry. Its key must not be below the previous key.
    ///
    /// # Panics
    /// If the key has another length, or the entry has 64 KiB or more.
    pub(in crate::index) fn push(
        &mut self,
        txn: &mut RwTxn<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), RunError> {
        self.pages.push(key, value);
        self.run.entries += 1;
        if self.pages.bytes() >= PIECE_BYTES {
            self.write(txn)?;
        }
        Ok(())
    }

    fn write(&mut self, txn: &mut RwTxn<'_>) -> Result<(), RunError> {
        self.runs.put_pages(txn, self.run.id, &self.pages, &mut self.filter)?;
        self.pages.clear_complete();
        Ok(())
    }

    /// Completes the run. The caller must then advance the merges with [`AddedRun::merge`].
    pub(in crate::index) fn finish(mut self, txn: &mut RwTxn<'_>) -> Result<AddedRun, RunError> {
        let added = AddedRun { runs: self.runs, entries: self.run.entries };
        if self.run.entries == 0 {
            return Ok(added);
        }
        self.pages.end_page();
        self.write(txn)?;
        let Self { runs, mut directory, run, filter, .. } = self;
        filter.finish(runs, txn)?;
        if directory.levels.is_empty() {
            directory.levels.push(Level::default());
        }
        directory.levels[0].runs.push(run);
        runs.put_directory(txn, &directory)?;
        Ok(added)
    }
}

/// A run that has been added, with its number of entries.
#[must_use]
pub(in crate::index) struct AddedRun {
    runs: Runs,
    entries: u64,
}

impl AddedRun {
    /// Advances each merge by about twice the number of added entries. Must be called after the commit of the run.
    /// Each merge has its own transaction: LMDB holds the changes of a transaction in memory and does not release
    /// that memory, so a single transaction would need more memory with each new level.
    pub(in crate::index) fn merge(self, env: &Environment) -> Result<(), WriteError> {
        if self.entries == 0 {
            return Ok(());
        }
        // The merge of a level must end before the previous level produces the same amount again.
        let budget = usize::try_from(self.entries).map_or(usize::MAX, |entries| entries * 2);
        let mut from = 0;
        loop {
            let mut txn = env.write()?;
            let merged = self.runs.merge(&mut txn, from, budget.max(MIN_MERGE_ENTRIES));
            match merged.map_err(|error| self.runs.write_error(env, error))? {
                Some(level) => from = level + 1,
                None => return Ok(()),
            }
            env.commit(txn)?;
        }
    }
}

impl Runs {
    /// Begins a run of at most `max_entries` entries. A run without entries is not stored.
    pub(in crate::index) fn begin(
        self,
        txn: &RwTxn<'_>,
        max_entries: u64,
    ) -> Result<NewRun, RunError> {
        let mut directory = self.directory(txn)?;
        let run = Run { id: directory.next_id(), entries: 0, lines: self.lines(max_entries) };
        let filter = Filter::new(run.id, run.lines);
        Ok(NewRun { runs: self, directory, run, pages: Pages::new(self.key_bytes), filter })
    }

    /// Returns the number of filter lines for this number of entries.
    const fn lines(self, entries: u64) -> u64 {
        if self.filtered { filter::lines(entries) } else { 0 }
    }

    /// Writes the complete pages of a run.
    fn put_pages(
        self,
        txn: &mut RwTxn<'_>,
        id: u32,
        pages: &Pages,
        filter: &mut Filter,
    ) -> Result<(), RunError> {
        let corrupt = |why| RunError::Corrupt(page_key(id, &[]), why);
        for bytes in pages.complete() {
            let page = Page::parse(bytes, self.key_bytes).map_err(corrupt)?;
            let (first, _) = page.entry(0).map_err(corrupt)?;
            self.pages.put(txn, &page_key(id, first), bytes)?;
            let filtered = if self.filtered { page.len() } else { 0 };
            for at in 0..filtered {
                let (key, _) = page.entry(at).map_err(corrupt)?;
                filter.insert(self, txn, key)?;
            }
        }
        Ok(())
    }

    /// Finds the first level, starting at `from`, that has an unfinished merge or needs a merge. Advances this
    /// merge by about `budget` entries. Returns the level, if there is one.
    pub(super) fn merge(
        self,
        txn: &mut RwTxn<'_>,
        from: usize,
        budget: usize,
    ) -> Result<Option<usize>, RunError> {
        let mut directory = self.directory(txn)?;
        let levels = &directory.levels;
        let is_due = |at: &usize| levels[*at].merge.is_some() || levels[*at].runs.len() >= FAN_IN;
        let Some(at) = (from..levels.len()).find(is_due) else { return Ok(None) };
        let merge = match directory.levels[at].merge.take() {
            Some(merge) => merge,
            None => self.begin_merge(&mut directory, at),
        };
        let level = &mut directory.levels[at];
        match self.advance(txn, &level.runs[..merge.inputs], merge, budget)? {
            Ok(output) => {
                for run in level.runs.drain(..FAN_IN) {
                    self.remove_filter(txn, run.id, run.lines)?;
                }
                if directory.levels.len() == at + 1 {
                    directory.levels.push(Level::default());
                }
                directory.levels[at + 1].runs.push(output);
            }
            Err(unfinished) => level.merge = Some(unfinished),
        }
        self.put_directory(txn, &directory)?;
        Ok(Some(at))
    }

    fn begin_merge(self, directory: &mut Directory, at: usize) -> Merge {
        let inputs = &directory.levels[at].runs[..FAN_IN];
        let lines = self.lines(inputs.iter().map(|run| run.entries).sum());
        let output = Run { id: directory.next_id(), entries: 0, lines };
        Merge { inputs: FAN_IN, output, done: Vec::new() }
    }

    /// Merges up to about `budget` entries. Returns the output if the merge is complete, otherwise the merge.
    fn advance(
        self,
        txn: &mut RwTxn<'_>,
        inputs: &[Run],
        mut merge: Merge,
        budget: usize,
    ) -> Result<Result<Run, Merge>, RunError> {
        let mut filter = Filter::new(merge.output.id, merge.output.lines);
        let mut left = budget as u64;
        let is_over = loop {
            let entries = STEP_ENTRIES.min(left as usize);
            let step = self.step(txn, inputs, &merge.done, entries)?;
            self.put_pages(txn, merge.output.id, &step.merged, &mut filter)?;
            for key in step.consumed {
                self.pages.table.delete(txn, &key)?;
            }
            merge.output.entries += step.entries;
            merge.done = step.done;
            left = left.saturating_sub(step.entries);
            if step.is_over || left == 0 {
                break step.is_over;
            }
        };
        filter.finish(self, txn)?;
        Ok(if is_over { Ok(merge.output) } else { Err(merge) })
    }

    fn step(
        self,
        txn: &RwTxn<'_>,
        inputs: &[Run],
        done: &[u8],
        budget: usize,
    ) -> Result<Step, RunError> {
        let corrupt = |why| RunError::Corrupt(Vec::new(), why);
        let mut pieces = Vec::with_capacity(inputs.len());
        for run in inputs {
            pieces.push(self.piece(txn, run.id, done, budget / inputs.len() + 1)?);
        }
        // Entries after the end of a piece could sort before entries of other pieces, so the step
        // ends at the lowest last key of those pieces whose inputs have further entries.
        let mut bound: Option<&[u8]> = None;
        for piece in pieces.iter().filter(|piece| !piece.is_last) {
            let (_, page) = piece.pages.last().expect("a piece that is not the last has a page");
            let (last, _) = page.entry(page.len() - 1).map_err(corrupt)?;
            bound = Some(bound.map_or(last, |bound| bound.min(last)));
        }
        let mut merged = Pages::new(self.key_bytes);
        let mut entries = 0;
        let mut last = done;
        let mut heads = Vec::with_capacity(pieces.len());
        for piece in &mut pieces {
            heads.push(piece.take().map_err(corrupt)?.map(with_word));
        }
        loop {
            let lowest = heads.iter().zip(0..).filter_map(|(head, at)| {
                let (word, (key, _)) = (*head)?;
                Some((word, key, at))
            });
            let Some((_, key, at)) = lowest.min() else { break };
            if bound.is_some_and(|bound| key > bound) {
                break;
            }
            let next = pieces[at].take().map_err(corrupt)?.map(with_word);
            let (_, (key, value)) =
                std::mem::replace(&mut heads[at], next).expect("the lowest entry exists");
            merged.push(key, value);
            entries += 1;
            last = key;
        }
        merged.end_page();
        let done = last.to_vec();
        let is_over = heads.iter().all(Option::is_none) && bound.is_none();
        let mut consumed = Vec::new();
        for (at, page) in pieces.iter().flat_map(|piece| &piece.pages) {
            if page.entry(page.len() - 1).map_err(corrupt)?.0 <= done.as_slice() {
                consumed.push(at.to_vec());
            }
        }
        Ok(Step { merged, entries, consumed, done, is_over })
    }

    /// Returns the first pages of a run, with about this many entries after `done`.
    fn piece<'t>(
        self,
        txn: &'t RwTxn<'_>,
        id: u32,
        done: &[u8],
        entries: usize,
    ) -> Result<InputPiece<'t>, RunError> {
        let mut piece = InputPiece { pages: Vec::new(), is_last: true, next: (0, 0) };
        let mut count = 0;
        for row in self.pages.table.prefix_iter(txn, &id.to_be_bytes())? {
            if count >= entries {
                piece.is_last = false;
                break;
            }
            let (at, bytes) = row?;
            let corrupt = |why| RunError::Corrupt(at.to_vec(), why);
            let page = self.page(at, bytes)?;
            if piece.pages.is_empty() {
                piece.next = (0, page.up_to(done).map_err(corrupt)?);
                count += page.len() - piece.next.1;
            } else {
                count += page.len();
            }
            piece.pages.push((at, page));
        }
        Ok(piece)
    }
}

/// Returns an entry with the first word of its key, which is enough to compare most keys.
fn with_word(entry: Entry<'_>) -> (u64, Entry<'_>) {
    (first_word(entry.0), entry)
}

impl<'t> InputPiece<'t> {
    /// Returns the next entry.
    fn take(&mut self) -> Result<Option<Entry<'t>>, DecodeError> {
        let (page, entry) = self.next;
        let Some((_, current)) = self.pages.get(page) else { return Ok(None) };
        if entry == current.len() {
            self.next = (page + 1, 0);
            return self.take();
        }
        self.next.1 += 1;
        current.entry(entry).map(Some)
    }
}
