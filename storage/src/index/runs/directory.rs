//! The list of runs by level, and the progress of their merges.

use super::{DIRECTORY, RunError, Runs};
use heed::{AnyTls, RoTxn, RwTxn};
use trie::primitive::{DecodeError, Input, put_count, put_varint};

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) id: u32,
    pub(super) entries: u64,
    /// Number of lines in its filter; 0 without a filter.
    pub(super) lines: u64,
}

/// A merge of the oldest runs of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merge {
    /// Number of inputs.
    pub(super) inputs: usize,
    /// The output.
    pub(super) output: Run,
    /// Entries up to this key are in the output, and are ignored in the inputs.
    pub(super) done: Vec<u8>,
}

/// Runs of similar size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    /// Oldest first.
    pub(super) runs: Vec<Run>,
    pub(super) merge: Option<Merge>,
}

/// All runs of a table. The first level contains the newest runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Directory {
    /// The id that was assigned last.
    pub(super) last_id: u32,
    pub(super) levels: Vec<Level>,
}

/// A run as a reader sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) id: u32,
    /// Number of lines of its filter.
    pub(super) lines: u64,
    /// Entries up to this key are ignored in this run.
    pub(super) after: &'a [u8],
}

impl Directory {
    pub(super) fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.checked_add(1).expect("fewer than 2^32 runs");
        self.last_id
    }

    /// Returns the runs to search, newest first.
    pub(super) fn sources(&self) -> impl DoubleEndedIterator<Item = Source<'_>> {
        self.levels.iter().flat_map(|level| {
            let (inputs, after, output) = match &level.merge {
                Some(merge) => (merge.inputs, merge.done.as_slice(), Some(merge.output)),
                None => (0, &[][..], None),
            };
            let runs = level.runs.iter().enumerate().rev().map(move |(at, run)| {
                let after = if at < inputs { after } else { &[] };
                Source { id: run.id, lines: run.lines, after }
            });
            runs.chain(output.map(|run| Source { id: run.id, lines: run.lines, after: &[] }))
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.last_id.into());
        put_count(&mut out, self.levels.len());
        let put_run = |out: &mut Vec<u8>, run: &Run| {
            put_varint(out, run.id.into());
            put_varint(out, run.entries);
            put_varint(out, run.lines);
        };
        for level in &self.levels {
            put_count(&mut out, level.runs.len());
            for run in &level.runs {
                put_run(&mut out, run);
            }
            put_count(&mut out, level.merge.as_ref().map_or(0, |merge| merge.inputs));
            if let Some(merge) = &level.merge {
                put_run(&mut out, &merge.output);
                put_count(&mut out, merge.done.len());
                out.extend_from_slice(&merge.done);
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::borrowed(bytes);
        let last_id = take_id(&mut input)?;
        let count = input.count(2)?;
        let mut levels = Vec::with_capacity(count);
        for _ in 0..count {
            levels.push(take_level(&mut input)?);
        }
        input.finish()?;
        Ok(Self { last_id, levels })
    }
}

fn take_level(input: &mut Input<'_>) -> Result<Level, DecodeError> {
    let count = input.count(2)?;
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        runs.push(take_run(input)?);
    }
    let inputs = input.varint()?;
    let inputs = usize::try_from(inputs).ok().filter(|inputs| *inputs <= runs.len());
    let inputs = inputs.ok_or_else(|| input.error("a merge with more inputs than runs"))?;
    if inputs == 0 {
        return Ok(Level { runs, merge: None });
    }
    let output = take_run(input)?;
    let length = input.count(1)?;
    let done = input.bytes(length)?.to_vec();
    Ok(Level { runs, merge: Some(Merge { inputs, output, done }) })
}

fn take_run(input: &mut Input<'_>) -> Result<Run, DecodeError> {
    Ok(Run { id: take_id(input)?, entries: input.varint()?, lines: input.varint()? })
}

fn take_id(input: &mut Input<'_>) -> Result<u32, DecodeError> {
    let id = input.varint()?;
    u32::try_from(id).map_err(|_| input.error("id of a run is above 32 bits"))
}

impl Runs {
    /// Reads the directory; an empty table has an empty one.
    pub(super) fn directory(self, txn: &RoTxn<'_, AnyTls>) -> Result<Directory, RunError> {
        match self.pages.table.get(txn, &DIRECTORY)? {
            Some(row) => {
                let directory = self.pages.rows.payload(&DIRECTORY, row);
                let directory = directory.and_then(Directory::decode);
                directory.map_err(|why| RunError::Corrupt(DIRECTORY.to_vec(), why))
            }
            None => Ok(Directory::default()),
        }
    }

    pub(super) fn put_directory(
        self,
        txn: &mut RwTxn<'_>,
        directory: &Directory,
    ) -> Result<(), RunError> {
        Ok(self.pages.put(txn, &DIRECTORY, &directory.encode())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_round_trips() {
        let run = |id| Run { id, entries: u64::from(id) * 1000, lines: u64::from(id) };
        let merge = Merge { inputs: 2, output: run(9), done: vec![1, 2, 3] };
        let directory = Directory {
            last_id: 300,
            levels: vec![
                Level { runs: vec![run(3), run(4), run(5)], merge: Some(merge) },
                Level::default(),
                Level { runs: vec![run(1)], merge: None },
            ],
        };
        assert_eq!(Directory::decode(&directory.encode()), Ok(directory.clone()));
        let order: Vec<_> = directory.sources().map(|source| source.id).collect();
        assert_eq!(order, [5, 4, 3, 9, 1], "newest first, the output after its inputs");
        let after: Vec<_> = directory.sources().map(|source| source.after.len()).collect();
        assert_eq!(after, [0, 3, 3, 0, 0]);
        let mut bytes = directory.encode();
        bytes.pop();
        assert!(Directory::decode(&bytes).is_err());
    }
}
