//! Tests that every read of a damaged or truncated file returns the original value or an error.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used, clippy::type_complexity)]

#[path = "../blocks/mod.rs"]
mod blocks;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use alloy_primitives::B256;
use blocks::{block, changes};
use storage::{ChainDb, ChainOptions, FlushBlock, IndexDb, IndexOptions, OpenError};

const MAP_BYTES: u64 = 64 << 20;
/// Number of blocks in a test environment.
const BLOCKS: u64 = 3;
const PAGE_BYTES: u64 = 4096;
/// Minimum number of bytes per block that [`row_offsets`] must find.
const MIN_ROW_BYTES: usize = 1000;
/// Environment variables of a child process: the folder whose structure it damages, and the offset to begin at.
const CHILD_FOLDER: &str = "STORAGE_TEST_DAMAGE_FOLDER";
const CHILD_START: &str = "STORAGE_TEST_DAMAGE_START";
/// Distance between two bytes that the child damages. It has no common factor with the page size.
const CHILD_STRIDE: usize = 31;
/// Maximum number of crashes of the child before the test fails.
const MAX_CRASHES: usize = 200;

fn open_chain(folder: &Path) -> Result<ChainDb, OpenError> {
    ChainDb::open(folder, ChainOptions { map_bytes: MAP_BYTES })
}

fn open_index(folder: &Path) -> Result<IndexDb, OpenError> {
    IndexDb::open(folder, IndexOptions { map_bytes: MAP_BYTES })
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data.mdb")
}

fn make_chain(folder: &Path) {
    let chain = open_chain(folder).unwrap();
    chain.put_meta("genesis", b"{\"config\": {\"chainId\": 7}}").unwrap();
    for number in 0..BLOCKS {
        chain.append(&[block(number)]).unwrap();
    }
}

fn make_index(folder: &Path) {
    let index = open_index(folder).unwrap();
    for number in 0..BLOCKS {
        let (changes, hash) = (changes(number), block(number).hash);
        let tx_hashes = [hash, B256::with_last_byte(number as u8)];
        let block = FlushBlock {
            number,
            hash,
            tx_hashes: &tx_hashes,
            posting_keys: &[],
            changes: &changes,
        };
        index.flush(&[block]).unwrap();
    }
}

/// Returns the results of the reads of a chain as text; `None` for errors.
fn read_chain(chain: &ChainDb) -> Vec<Option<String>> {
    let Ok(reader) = chain.reader() else { return Vec::new() };
    fn text<T: std::fmt::Debug, E>(result: Result<T, E>) -> Option<String> {
        result.ok().map(|result| format!("{result:?}"))
    }
    // A missing key of `meta` is an error, too: a chain with blocks has a genesis.
    let genesis = chain.meta("genesis").ok().flatten().map(|text| format!("{text:?}"));
    let mut results = vec![text(reader.head()), text(reader.first()), genesis];
    let rows = reader.fees_range(0..=BLOCKS).map(|rows| rows.collect::<Vec<_>>());
    match rows {
        Ok(rows) => results.push(text(rows.into_iter().collect::<Result<Vec<_>, _>>())),
        Err(_) => results.push(None),
    }
    for number in 0..=BLOCKS {
        results.extend([
            text(reader.header(number)),
            text(reader.hash(number)),
            text(reader.body(number)),
            text(reader.body_part(number, |body| (body.len() > 9).then_some(2..9))),
            text(reader.body_bytes(number)),
            text(reader.tx_count(number)),
            text(reader.senders(number)),
            text(reader.sender(number, 1)),
            text(reader.sender(number, 2)),
            text(reader.receipts(number)),
            text(reader.receipts_bytes(number)),
            text(reader.changes(number)),
            text(reader.fees(number)),
            text(reader.module(number)),
        ]);
    }
    results
}

/// Asserts that every result is the original value or an error. Returns the number of errors.
fn compare(what: &str, results: &[Option<String>], expected: &[Option<String>]) -> usize {
    for (result, expected) in results.iter().zip(expected) {
        assert!(result.is_none() || result == expected, "{what}: {result:?}, not {expected:?}");
    }
    results.iter().filter(|result| result.is_none()).count()
}

/// Returns for each byte of the file whether it belongs to a row with a header, a body, senders or the genesis.
/// Rows are found by their contents, which are unique.
fn row_offsets(file: &[u8]) -> Vec<bool> {
    let mut covered = vec![false; file.len()];
    let mut cover = |content: &[u8], before: usize| {
        for start in memmem(file, content) {
            covered[start - before..start + content.len()].fill(true);
        }
    };
    for number in 0..BLOCKS {
        let block = block(number);
        // Length and checksums precede the payload; hash and flags precede a header.
        cover(&block.header, 8 + 33);
        cover(&block.body, 8);
        let senders: Vec<u8> = block.senders.iter().flat_map(|sender| sender.to_vec()).collect();
        cover(&senders, 8);
    }
    cover(b"{\"config\": {\"chainId\": 7}}", 8);
    covered
}

fn memmem(file: &[u8], content: &[u8]) -> Vec<usize> {
    let starts = 0..=file.len() - content.len();
    starts.filter(|start| file[*start..].starts_with(content)).collect()
}

/// Flips one bit of an open file. Memory maps of the file change as well.
fn flip(file: &File, offset: usize, bit: usize) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset as u64).unwrap();
    byte[0] ^= 1 << bit;
    file.write_all_at(&byte, offset as u64).unwrap();
}

#[test]
fn flipped_bit_of_a_row_never_changes_a_result() {
    let folder = tempfile::tempdir().unwrap();
    make_chain(folder.path());
    let contents = fs::read(data(folder.path())).unwrap();
    let covered = row_offsets(&contents);
    let count = covered.iter().filter(|covered| **covered).count();
    assert!(count > BLOCKS as usize * MIN_ROW_BYTES, "{count} bytes of rows found");
    let chain = open_chain(folder.path()).unwrap();
    let expected = read_chain(&chain);
    assert!(expected.iter().all(Option::is_some));
    let file = File::options().read(true).write(true).open(data(folder.path())).unwrap();
    let mut silent = 0;
    let offsets = (0..contents.len()).filter(|offset| covered[*offset]);
    for (index, offset) in offsets.enumerate() {
        // Flips one bit of each byte. Bodies are long and uniform, so only a sixteenth of their bytes is tested.
        let is_body = contents[offset..].first() == contents[offset..].get(64);
        if is_body && index % 16 != 0 {
            continue;
        }
        let bit = offset % 8;
        flip(&file, offset, bit);
        let errors =
            compare(&format!("bit {bit} of byte {offset}"), &read_chain(&chain), &expected);
        silent += usize::from(errors == 0);
        flip(&file, offset, bit);
    }
    // Pages of earlier transactions also contain rows, which are not read any more.
    assert!(silent < count / 2, "{silent} flips of {count} had no effect");
    assert_eq!(read_chain(&chain), expected);
}

/// Not a test by itself: damages bytes after the first two pages that do not belong to these rows, and prints each
/// offset before damaging it.
#[test]
fn child_damages_the_structure() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let folder = Path::new(&folder);
    let start: usize = std::env::var(CHILD_START).unwrap().parse().unwrap();
    let contents = fs::read(data(folder)).unwrap();
    let covered = row_offsets(&contents);
    let chain = open_chain(folder).unwrap();
    let expected = read_chain(&chain);
    let file = File::options().read(true).write(true).open(data(folder)).unwrap();
    for offset in (start..contents.len()).step_by(CHILD_STRIDE) {
        if covered[offset] || offset < 2 * PAGE_BYTES as usize {
            continue;
        }
        for bit in 0..8 {
            println!("\nat {offset} {bit}");
            flip(&file, offset, bit);
            compare(&format!("bit {bit} of byte {offset}"), &read_chain(&chain), &expected);
            flip(&file, offset, bit);
        }
    }
    println!("\nfinished");
}

/// LMDB's own structure has no checksums: damage may end the process, but never changes a result.
#[test]
fn flipped_bit_of_the_structure_never_changes_a_result() {
    let folder = tempfile::tempdir().unwrap();
    make_chain(folder.path());
    let contents = fs::read(data(folder.path())).unwrap();
    let (mut start, mut crashes) = (0, Vec::new());
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_damages_the_structure", "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .env(CHILD_START, start.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = child.stderr.take().unwrap();
        let errors = std::thread::spawn(move || std::io::read_to_string(errors).unwrap());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let lines: Vec<String> =
            lines.filter(|line| line.starts_with("at ") || line == "finished").collect();
        let status = child.wait().unwrap();
        let errors = errors.join().unwrap();
        assert!(!errors.contains(", not "), "{errors}");
        let last = lines.last().expect("the child prints its offset");
        let Some(at) = last.strip_prefix("at ") else { break };
        let offset: usize = at.split(' ').next().unwrap().parse().unwrap();
        crashes.push(format!("{at}: {status}"));
        assert!(crashes.len() < MAX_CRASHES, "{crashes:?}");
        // The child has ended before it could undo its damage.
        fs::write(data(folder.path()), &contents).unwrap();
        start = offset + CHILD_STRIDE;
    }
    println!("{} of {} bytes end the process: {crashes:#?}", crashes.len(), contents.len());
}

#[test]
fn flipped_bit_of_the_first_two_pages_never_changes_a_result() {
    let folder = tempfile::tempdir().unwrap();
    make_chain(folder.path());
    let chain = open_chain(folder.path()).unwrap();
    let expected = read_chain(&chain);
    drop(chain);
    let contents = fs::read(data(folder.path())).unwrap();
    let mut refused = 0;
    for page in 0..2 {
        for offset in page * PAGE_BYTES as usize..page * PAGE_BYTES as usize + 152 {
            for bit in 0..8 {
                let mut damaged = contents.clone();
                damaged[offset] ^= 1 << bit;
                fs::write(data(folder.path()), &damaged).unwrap();
                match open_chain(folder.path()) {
                    Ok(chain) => {
                        compare(&format!("bit {bit} of {offset}"), &read_chain(&chain), &expected);
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 500, "{refused} flips refused");
}

/// Returns truncated sizes, each of which cuts off at least one page in use.
fn cuts(length: u64) -> Vec<u64> {
    let pages = length / PAGE_BYTES;
    let mut cuts =
        vec![1, 151, 152, PAGE_BYTES - 1, PAGE_BYTES, 2 * PAGE_BYTES - 1, 2 * PAGE_BYTES];
    cuts.extend([length / 2, length - PAGE_BYTES, length - 1]);
    cuts.extend((2..pages).map(|page| page * PAGE_BYTES));
    cuts
}

#[test]
fn truncated_file_is_refused_with_its_sizes_and_a_remedy() {
    type Open = fn(&Path) -> Result<(), OpenError>;
    let kinds: [(fn(&Path), Open, &str); 2] = [
        (make_chain, |folder| open_chain(folder).map(drop), "snapshot"),
        (make_index, |folder| open_index(folder).map(drop), "evmd reindex"),
    ];
    for (make, open, remedy) in kinds {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        open(folder.path()).unwrap();
        let contents = fs::read(data(folder.path())).unwrap();
        for cut in cuts(contents.len() as u64) {
            fs::write(data(folder.path()), &contents[..cut as usize]).unwrap();
            let error = open(folder.path()).unwrap_err();
            let text = error.to_string();
            match error {
                OpenError::Truncated { expected, found, .. } => {
                    assert_eq!(found, cut);
                    assert!(expected > cut, "{text}");
                    assert!(text.contains(&cut.to_string()) && text.contains(remedy), "{text}");
                }
                other => panic!("{cut} bytes: {other}"),
            }
        }
        fs::write(data(folder.path()), &contents).unwrap();
        open(folder.path()).unwrap();
    }
}

#[test]
fn a_file_without_its_last_free_pages_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let chain = open_chain(folder.path()).unwrap();
    let mut shortest = u64::MAX;
    // Removed blocks leave free pages at the end.
    for number in 0..40 {
        chain.append(&[block(number)]).unwrap();
    }
    chain.truncate_after(1).unwrap();
    chain.put_meta("key", b"value").unwrap();
    let last_page = chain.stats().used_bytes / PAGE_BYTES;
    drop(chain);
    let contents = fs::read(data(folder.path())).unwrap();
    for pages in (2..last_page).rev() {
        fs::write(data(folder.path()), &contents[..(pages * PAGE_BYTES) as usize]).unwrap();
        match open_chain(folder.path()) {
            Ok(chain) => {
                // All pages in use must exist.
                let reader = chain.reader().unwrap();
                assert_eq!(reader.head().unwrap(), Some((1, block(1).hash)));
                for number in 0..=1 {
                    assert_eq!(reader.verify_block(number).unwrap(), 7);
                }
                shortest = pages;
            }
            Err(error) => {
                assert!(matches!(error, OpenError::Truncated { .. }), "{pages} pages: {error}");
                break;
            }
        }
    }
    assert!(shortest < last_page, "at least one of {last_page} pages was free");
}

#[test]
fn error_of_an_invalid_index_names_reindex() {
    let cases: [(&str, fn(&Path)); 4] = [
        ("a chain", |folder| drop(open_chain(folder).unwrap())),
        ("text", |folder| fs::write(data(folder), "text ".repeat(4000)).unwrap()),
        ("zeros", |folder| fs::write(data(folder), vec![0; 16_384]).unwrap()),
        ("nearly nothing", |folder| fs::write(data(folder), b"x").unwrap()),
    ];
    for (name, make) in cases {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        let error = open_index(folder.path()).unwrap_err();
        assert!(error.to_string().contains("evmd reindex"), "{name}: {error}");
    }
}
