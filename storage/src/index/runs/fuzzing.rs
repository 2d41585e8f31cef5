//! Properties that hold for a run whose rows contain arbitrary bytes, for the fuzz targets (`node/fuzz`).

use super::directory::Directory;
use super::page::{Page, Pages};

/// Length of the keys in generated pages, in bytes.
const KEY_BYTES: usize = 4;

/// Decodes bytes as a page of a run. The first byte, modulo 64, is the length of the keys.
///
/// # Panics
/// If an entry or a position that the page returns is not inside the page.
pub fn page(data: &[u8]) {
    let Some((&key_bytes, bytes)) = data.split_first() else { return };
    let key_bytes = usize::from(key_bytes % 64);
    let Ok(page) = Page::parse(bytes, key_bytes) else { return };
    assert!(page.len() > 0 && page.len() <= bytes.len(), "{} entries", page.len());
    for at in 0..page.len() {
        let Ok((key, value)) = page.entry(at) else { continue };
        assert_eq!(key.len(), key_bytes);
        assert!(key.len() + value.len() <= bytes.len());
        if let (Ok(below), Ok(up_to)) = (page.below(key), page.up_to(key)) {
            assert!(below <= page.len() && up_to <= page.len());
        }
    }
}

/// Generates pages from the bytes: for each entry a key of four bytes, and a byte with the length of the value
/// that follows. Reading the pages must return the entries, and a search must find each of them.
///
/// # Panics
/// If an entry is lost or changed.
pub fn pages_of_entries(mut data: &[u8]) {
    let mut entries: Vec<([u8; KEY_BYTES], &[u8])> = Vec::new();
    while let Some((&[a, b, c, d, length], rest)) = data.split_first_chunk() {
        let (value, rest) = rest.split_at(rest.len().min(usize::from(length)));
        entries.push(([a, b, c, d], value));
        data = rest;
    }
    // A table does not contain two values for one key.
    entries.sort_unstable();
    entries.dedup_by_key(|(key, _)| *key);
    let mut pages = Pages::new(KEY_BYTES);
    for (key, value) in &entries {
        pages.push(key, value);
    }
    pages.end_page();
    let complete: Vec<_> = pages.complete().map(|page| Page::parse(page, KEY_BYTES)).collect();
    let complete = complete.into_iter().collect::<Result<Vec<_>, _>>().expect("a complete page");
    let found: Vec<_> = complete
        .iter()
        .flat_map(|page| (0..page.len()).map(|at| page.entry(at).expect("an entry")))
        .collect();
    let expected: Vec<_> = entries.iter().map(|(key, value)| (key.as_slice(), *value)).collect();
    assert_eq!(found, expected);
    for page in complete {
        for at in 0..page.len() {
            let (key, _) = page.entry(at).expect("an entry");
            assert_eq!(page.below(key), Ok(at));
            assert_eq!(page.up_to(key), Ok(at + 1));
        }
    }
}

/// Decodes bytes as the directory of a table's runs.
///
/// # Panics
/// If the directory has a different encoding, or if there is not exactly one source for each run and each merge.
pub fn run_directory(bytes: &[u8]) {
    let Ok(directory) = Directory::decode(bytes) else { return };
    let runs: usize = directory.levels.iter().map(|level| level.runs.len()).sum();
    let merges = directory.levels.iter().filter(|level| level.merge.is_some()).count();
    assert_eq!(directory.sources().count(), runs + merges);
    assert!(runs <= bytes.len());
    assert_eq!(directory.encode(), bytes, "a value has exactly one encoding");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_hold_for_small_rows() {
        page(&[1, 0, 2, 0, 1, 0, 3, 7, 8, 9]);
        pages_of_entries(&[0, 0, 0, 1, 2, 7, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        run_directory(&[3, 1, 1, 1, 5, 0, 1, 2, 9, 0, 1, 7]);
    }

    #[test]
    fn properties_hold_for_several_pages() {
        let entries: Vec<u8> =
            (0..200_u8).flat_map(|n| [vec![n, 0, 0, 0, 90], vec![n; 90]].concat()).collect();
        pages_of_entries(&entries);
    }
}
