//! Checks the data file of LMDB before LMDB maps it.
//!
//! Access to a page that is in use but missing from the file raises SIGBUS. LMDB does not check the size of the
//! file, and checks only the magic number and version of its two meta pages. Therefore, this module checks that
//! LMDB could have written the meta pages, and that the file contains the last page in use. LMDB may leave the
//! last pages unwritten if they are free, so the list of free pages is searched for missing pages.
//!
//! LMDB's structures have the byte order of the machine. The checks are skipped on big-endian machines.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::disk_space::DATA_FILE;
use crate::error::OpenError;
use crate::kind::Kind;

/// Number of meta pages at the start of the file.
const META_PAGES: u64 = 2;
/// Size of a page header in bytes.
const PAGE_HEADER_BYTES: usize = 16;
/// Size of the used part of a meta page in bytes.
const META_BYTES: usize = PAGE_HEADER_BYTES + 136;
/// Minimum and maximum size of a page in bytes.
const MIN_PAGE_BYTES: u64 = 512;
const MAX_PAGE_BYTES: u64 = 65_536;
/// First word of a meta page's contents, and version of the file format.
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
/// Flags of pages and nodes.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
const NODE_IN_OVERFLOW: u16 = 0x01;
/// Flags of the table of free pages: integer keys. LMDB adds the persistent flags of the environment, of which
/// this program sets none.
const FREE_FLAGS: u16 = 0x08;
/// Root page of a table without entries.
const NO_PAGE: u64 = u64::MAX;
/// Maximum depth of a tree: the limit of LMDB's cursors.
const MAX_DEPTH: u16 = 32;
/// Maximum number of attempts to read consistent meta pages: another process may be writing them.
const MAX_READS: u32 = 5;

/// The contents of a meta page.
#[derive(Clone, Copy, Debug)]
struct Meta {
    page_bytes: u64,
    free_root: u64,
    last_page: u64,
    txn: u64,
}

/// Rejects a data file that LMDB cannot use safely. A missing or empty file is accepted as a new environment.
pub(crate) fn check(folder: &Path, kind: &Kind) -> Result<(), OpenError> {
    if cfg!(target_endian = "big") {
        return Ok(());
    }
    let path = folder.join(DATA_FILE);
    let io = |source| OpenError::Io { path: path.clone(), source };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    let remedy = kind.damage_remedy;
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(OpenError::foreign(&path, kind, "it is a folder"));
    }
    if metadata.len() == 0 {
        return Ok(());
    }
    let meta = newest_meta(&file).map_err(io)?;
    // The size is read after the meta pages, because a process that writes to the file extends it first.
    let found = file.metadata().map_err(io)?.len();
    let meta = match meta {
        Ok(meta) => meta,
        Err(Refusal::Short(expected)) => {
            return Err(OpenError::Truncated { path, expected, found, remedy });
        }
        Err(Refusal::Damaged(what)) => return Err(OpenError::Damaged { path, what, remedy }),
    };
    let expected = meta.last_page.saturating_add(1).saturating_mul(meta.page_bytes);
    let is_whole =
        found >= expected || free_from(&file, &meta, found / meta.page_bytes).map_err(io)?;
    if is_whole { Ok(()) } else { Err(OpenError::Truncated { path, expected, found, remedy }) }
}

/// Why a file is rejected.
enum Refusal {
    /// The file must have at least this many bytes.
    Short(u64),
    Damaged(&'static str),
}

/// Returns the meta page that LMDB uses.
fn newest_meta(file: &File) -> io::Result<Result<Meta, Refusal>> {
    let mut read = read_metas(file)?;
    for _ in 1..MAX_READS {
        if read.is_ok() {
            break;
        }
        read = read_metas(file)?;
    }
    Ok(read)
}

fn read_metas(file: &File) -> io::Result<Result<Meta, Refusal>> {
    let Some(first) = read(file, 0, META_BYTES)? else {
        return Ok(Err(Refusal::Short(META_PAGES * MIN_PAGE_BYTES)));
    };
    let first = match parse_meta(&first) {
        Ok(meta) => meta,
        Err(what) => return Ok(Err(Refusal::Damaged(what))),
    };
    let Some(second) = read(file, first.page_bytes, META_BYTES)? else {
        return Ok(Err(Refusal::Short(META_PAGES * first.page_bytes)));
    };
    Ok(parse_meta(&second).and_then(|second| newer(first, second)).map_err(Refusal::Damaged))
}

fn parse_meta(page: &[u8]) -> Result<Meta, &'static str> {
    let body = &page[PAGE_HEADER_BYTES..];
    if u16_at(page, 10) != META || u32_at(body, 0) != MAGIC || u32_at(body, 4) != VERSION {
        return Err("it is not an LMDB file, or its meta pages are damaged");
    }
    // The table of free pages (page size, flags, depth, three counts, entries, root) comes before the table of
    // tables.
    let (free, tables) = (&body[24..72], &body[72..120]);
    let meta = Meta {
        page_bytes: u32_at(free, 0).into(),
        free_root: u64_at(free, 40),
        last_page: u64_at(body, 120),
        txn: u64_at(body, 128),
    };
    let is_page = |root: u64| root == NO_PAGE || (META_PAGES..=meta.last_page).contains(&root);
    let is_tree = |tree: &[u8]| {
        let (depth, root) = (u16_at(tree, 6), u64_at(tree, 40));
        is_page(root) && depth <= MAX_DEPTH && (depth == 0) == (root == NO_PAGE)
    };
    if !meta.page_bytes.is_power_of_two()
        || !(MIN_PAGE_BYTES..=MAX_PAGE_BYTES).contains(&meta.page_bytes)
        || u16_at(free, 4) != FREE_FLAGS
        || u16_at(tables, 4) != 0
        || meta.last_page < META_PAGES - 1
        || !is_tree(free)
        || !is_tree(tables)
    {
        return Err("its meta pages are damaged");
    }
    Ok(meta)
}

/// Returns the newer meta page, if both are consistent. LMDB writes transaction n to page n mod 2. In a new file or
/// a copy, the first page has transaction 0, and the second 0 or 1.
fn newer(first: Meta, second: Meta) -> Result<Meta, &'static str> {
    let is_new = first.txn == 0 && second.txn <= 1;
    let alternate = first.txn.is_multiple_of(2) && first.txn.abs_diff(second.txn) == 1;
    let (old, new) = if second.txn > first.txn { (first, second) } else { (second, first) };
    if first.page_bytes != second.page_bytes
        || !(is_new || alternate)
        || new.last_page < old.last_page
    {
        return Err("its two meta pages are inconsistent");
    }
    Ok(new)
}

/// Returns whether every page from `first` to the last one is free; false if the list of free pages is
/// malformed.
fn free_from(file: &File, meta: &Meta, first: u64) -> io::Result<bool> {
    let mut missing: BTreeSet<u64> = BTreeSet::new();
    let mut pages = vec![(meta.free_root, 0)];
    let mut visited = 0;
    while let Some((page, depth)) = pages.pop() {
        visited += 1;
        if page == NO_PAGE || page >= first || depth > MAX_DEPTH || visited > first {
            return Ok(false);
        }
        let bytes = usize::try_from(meta.page_bytes).expect("at most 64 KiB");
        let Some(content) = read(file, page * meta.page_bytes, bytes)? else { return Ok(false) };
        let Some(nodes) = nodes(&content) else { return Ok(false) };
        let flags = u16_at(&content, 10);
        for node in nodes {
            if flags & BRANCH != 0 {
                let low = u64::from(u32_at(node, 0));
                pages.push((low | u64::from(u16_at(node, 4)) << 32, depth + 1));
                continue;
            }
            let Some(ids) = free_ids(file, meta, node)? else { return Ok(false) };
            let (ids, _) = ids.as_chunks();
            let ids = ids.iter().skip(1).map(|id| u64::from_le_bytes(*id));
            missing.extend(ids.filter(|id| (first..=meta.last_page).contains(id)));
        }
    }
    Ok(missing.len() as u64 == meta.last_page + 1 - first)
}

/// Returns the nodes of a branch or leaf page.
fn nodes(page: &[u8]) -> Option<Vec<&[u8]>> {
    let (flags, lower) = (u16_at(page, 10), usize::from(u16_at(page, 12)));
    let is_node_page = flags & (BRANCH | LEAF) != 0 && flags & (OVERFLOW | META) == 0;
    let starts = page.get(PAGE_HEADER_BYTES..lower).filter(|_| is_node_page)?;
    let (starts, _) = starts.as_chunks::<2>();
    let node = |start: &[u8; 2]| {
        let start = usize::from(u16::from_le_bytes(*start));
        page.get(start..).filter(|node| node.len() >= 8 && start >= lower)
    };
    starts.iter().map(node).collect()
}

/// Returns the list in a leaf node of the table of free pages: the number of pages, followed by each page.
fn free_ids(file: &File, meta: &Meta, node: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let length = u32_at(node, 0) as usize;
    let (flags, key) = (u16_at(node, 4), usize::from(u16_at(node, 6)));
    let Some(data) = node.get(8 + key..) else { return Ok(None) };
    if flags & NODE_IN_OVERFLOW == 0 {
        return Ok(data.get(..length).map(<[u8]>::to_vec));
    }
    let Some(page) = data.first_chunk().map(|page| u64::from_le_bytes(*page)) else {
        return Ok(None);
    };
    let start = page.checked_mul(meta.page_bytes).filter(|_| page <= meta.last_page);
    match start {
        Some(start) => read(file, start + PAGE_HEADER_BYTES as u64, length),
        None => Ok(None),
    }
}

/// Reads `count` bytes at offset `at`; `None` if the file does not contain all of them.
fn read(file: &File, at: u64, count: usize) -> io::Result<Option<Vec<u8>>> {
    let end = at.checked_add(count as u64);
    if end.is_none_or(|end| end > file.metadata().map_or(0, |file| file.len())) {
        return Ok(None);
    }
    let mut bytes = vec![0; count];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a little-endian integer of a structure whose size has been checked.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
