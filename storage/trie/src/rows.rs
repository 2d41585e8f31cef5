//! Collects rows of one table, which are sorted by key and written in bulk.

/// Divisor for spare capacity: one spare row is reserved for every `SPARE` rows. Unused capacity occupies address
/// space, but no memory.
const SPARE: usize = 8;

/// Position of a row in the bytes, and the lengths of its key and value.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The first word of the key, padded with zeros: most keys differ in it.
    first: u64,
    start: usize,
    key: u32,
    /// [`REMOVED`] for a removed row.
    value: u32,
}

/// Length of the value of a removed row.
const REMOVED: u32 = u32::MAX;

/// Rows to be written and removed.
#[derive(Debug, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    rows: Vec<Row>,
}

impl Rows {
    /// Returns the number of rows.
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether there are no rows.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the size of the rows in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes.len() + size_of::<Row>() * self.rows.len()
    }

    /// Removes all rows, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Removes all rows and reserves memory for `rows` rows of `bytes` bytes each. A new buffer is larger than that,
    /// so that the next call does not allocate hundreds of megabytes again. A buffer that is too small is replaced
    /// rather than grown, because growing it would copy its content.
    pub fn clear_and_reserve(&mut self, rows: usize, bytes: usize) {
        self.clear();
        let spare = rows + rows / SPARE;
        if self.rows.capacity() < rows {
            self.rows = Vec::with_capacity(spare);
        }
        if self.bytes.capacity() < rows * bytes {
            self.bytes = Vec::with_capacity(spare * bytes);
        }
    }

    /// Adds a row. The callbacks append its key and its value.
    pub fn put(&mut self, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        let key = self.bytes.len() - start;
        value(&mut self.bytes);
        let value = (self.bytes.len() - start - key) as u32;
        self.push(start, key, value);
    }

    /// Adds the removal of a key's row.
    pub fn remove(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        key(&mut self.bytes);
        self.push(start, self.bytes.len() - start, REMOVED);
    }

    #[inline]
    fn push(&mut self, start: usize, key: usize, value: u32) {
        let first = first_word(&self.bytes[start..start + key]);
        self.rows.push(Row { first, start, key: key as u32, value });
    }

    /// Sorts by key. A written row takes precedence over the removal of the same key.
    pub fn sort(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        let rest = |row: &Row| (self.key(row), row.value == REMOVED);
        rows.sort_unstable_by(|a, b| a.first.cmp(&b.first).then_with(|| rest(a).cmp(&rest(b))));
        let same = |a: &Row, b: &Row| a.first == b.first && self.key(a) == self.key(b);
        rows.dedup_by(|later, first| same(later, first));
        self.rows = rows;
    }

    /// Iterates over the rows: key and value; the value is `None` if the row is removed.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.rows.iter().map(|row| (self.key(row), self.value(row)))
    }

    fn key(&self, row: &Row) -> &[u8] {
        &self.bytes[row.start..row.start + row.key as usize]
    }

    fn value(&self, row: &Row) -> Option<&[u8]> {
        let start = row.start + row.key as usize;
        (row.value != REMOVED).then(|| &self.bytes[start..start + row.value as usize])
    }
}

/// Returns the first word of a key, padded with zeros. Keys are sorted by it, and then by the whole key.
pub fn first_word(key: &[u8]) -> u64 {
    let mut word = [0; 8];
    let length = key.len().min(word.len());
    word[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(word)
}
