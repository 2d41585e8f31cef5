//! Pages of packed entries. A page of several entries fits into one page of the file.
//!
//! Layout, integers big-endian: count (u16), the end of each entry (u16 each, relative to the first
//! entry), the entries: key, value.

use crate::checked::{CHUNK_BYTES, head_bytes};
use crate::error::DecodeError;

/// Bytes of a page: an overflow page of 4 KiB without LMDB's header and the head of a row with one
/// checksum.
const PAGE_BYTES: usize = 4096 - 16 - head_bytes(1, CHUNK_BYTES);
/// Bytes of the count, and of each end.
const NUMBER_BYTES: usize = 2;

/// Builds the pages of a run: the complete pages that have not been written, and the current one.
#[derive(Debug)]
pub(super) struct Pages {
    key_bytes: usize,
    /// Complete pages, concatenated.
    bytes: Vec<u8>,
    /// End of each page.
    page_ends: Vec<usize>,
    /// The current page.
    entries: Vec<u8>,
    ends: Vec<u16>,
}

impl Pages {
    /// Creates an empty builder.
    pub(super) const fn new(key_bytes: usize) -> Self {
        Self {
            key_bytes,
            bytes: Vec::new(),
            page_ends: Vec::new(),
            entries: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds an entry. Its key must not be below the previous key.
    ///
    /// # Panics
    /// If the key has another length, or the entry has 64 KiB or more.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        assert_eq!(key.len(), self.key_bytes, "keys of a table have one length");
        let needed = self.entries.len() + key.len() + value.len();
        let numbers = (self.ends.len() + 2) * NUMBER_BYTES;
        if needed + numbers > PAGE_BYTES && !self.ends.is_empty() {
            self.end_page();
        }
        self.entries.extend_from_slice(key);
        self.entries.extend_from_slice(value);
        let end = u16::try_from(self.entries.len()).expect("entries are short");
        self.ends.push(end);
    }

    /// Completes the current page, unless it is empty.
    pub(super) fn end_page(&mut self) {
        if self.ends.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(&(self.ends.len() as u16).to_be_bytes());
        for end in self.ends.drain(..) {
            self.bytes.extend_from_slice(&end.to_be_bytes());
        }
        self.bytes.append(&mut self.entries);
        self.page_ends.push(self.bytes.len());
    }

    /// Returns the complete pages.
    pub(super) fn complete(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.page_ends);
        starts.zip(&self.page_ends).map(|(start, end)| &self.bytes[*start..*end])
    }

    /// Returns the size of the complete pages in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes the complete pages, but keeps their memory.
    pub(super) fn clear_complete(&mut self) {
        self.bytes.clear();
        self.page_ends.clear();
    }
}

/// A page being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    key_bytes: usize,
    ends: &'a [[u8; NUMBER_BYTES]],
    entries: &'a [u8],
}

impl<'a> Page<'a> {
    pub(super) fn parse(bytes: &'a [u8], key_bytes: usize) -> Result<Self, DecodeError> {
        let error = |what| DecodeError { what, at: bytes.len() };
        let (count, rest) = bytes.split_first_chunk().ok_or(error("page without a count"))?;
        let count = usize::from(u16::from_be_bytes(*count));
        let ends = rest.get(..count * NUMBER_BYTES).ok_or(error("page without its ends"))?;
        let (ends, _) = ends.as_chunks();
        let entries = &rest[count * NUMBER_BYTES..];
        let page = Self { key_bytes, ends, entries };
        // Each end is checked when it is used. If the last one is correct, the page is complete.
        if count == 0 || page.end(count - 1) != entries.len() {
            return Err(error("page is truncated"));
        }
        Ok(page)
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    fn end(&self, at: usize) -> usize {
        usize::from(u16::from_be_bytes(self.ends[at]))
    }

    /// Returns the key and value of an entry.
    ///
    /// # Panics
    /// If `at` is not below the number of entries.
    pub(super) fn entry(&self, at: usize) -> Result<(&'a [u8], &'a [u8]), DecodeError> {
        let start = if at == 0 { 0 } else { self.end(at - 1) };
        let entry = self.entries.get(start..self.end(at));
        entry
            .and_then(|entry| entry.split_at_checked(self.key_bytes))
            .ok_or(DecodeError { what: "entry of a page is shorter than its key", at: start })
    }

    /// Returns the number of entries with a key up to this one.
    pub(super) fn up_to(&self, key: &[u8]) -> Result<usize, DecodeError> {
        self.count_first(|entry| entry <= key)
    }

    /// Returns the number of entries with a key below this one.
    pub(super) fn below(&self, key: &[u8]) -> Result<usize, DecodeError> {
        self.count_first(|entry| entry < key)
    }

    /// Returns the number of entries before the first one whose key does not satisfy `is_before`.
    fn count_first(&self, is_before: impl Fn(&[u8]) -> bool) -> Result<usize, DecodeError> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.entry(middle)?.0) { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}
