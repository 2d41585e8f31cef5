//! Tests that foreign files and a home folder in use are rejected. Formats are tested in `env::tests`.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use storage::{ChainDb, ChainOptions, HomeLock, IndexDb, IndexOptions, OpenError};

/// Environment variable of a child process: the home folder to lock.
const CHILD_HOME: &str = "STORAGE_TEST_HOME";
/// Environment variable of a child process that instead reads the chain in that folder.
const CHILD_READS: &str = "STORAGE_TEST_READS";
/// Small enough to map in any test.
const MAP_BYTES: usize = 1 << 20;

fn open_chain(folder: &Path) -> Result<ChainDb, OpenError> {
    ChainDb::open(folder, ChainOptions { map_bytes: MAP_BYTES as u64 })
}

fn open_index(folder: &Path) -> Result<IndexDb, OpenError> {
    IndexDb::open(folder, IndexOptions { map_bytes: MAP_BYTES as u64 })
}

#[test]
fn environment_of_the_other_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_chain(folder.path()).unwrap());
    let error = open_index(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    open_chain(folder.path()).unwrap();
}

#[test]
fn file_that_is_not_an_environment_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = fs::File::create(folder.path().join("data.mdb")).unwrap();
    file.write_all(&[0x5a; 16384]).unwrap();
    let error = open_chain(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
}

#[test]
fn a_path_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, b"").unwrap();
    assert!(matches!(open_chain(&path).unwrap_err(), OpenError::Foreign { .. }));
    assert!(matches!(HomeLock::acquire(&path).unwrap_err(), OpenError::Io { .. }));
}

#[test]
fn error_of_a_path_that_is_not_an_environment_names_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link, inside] = ["file", "link", "inside"].map(|name| folder.path().join(name));
    fs::write(&file, b"").unwrap();
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    fs::create_dir_all(inside.join("data.mdb")).unwrap();
    for path in [&file, &link, &inside] {
        let error = open_index(path).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("evmd reindex"), "{error}");
        let error = open_chain(path).unwrap_err().to_string();
        assert!(error.contains("snapshot") && !error.contains("reindex"), "{error}");
    }
}

/// `evmd rollback` opens the chain, so it cannot repair a chain that cannot be opened.
#[test]
fn error_of_a_chain_that_cannot_be_opened_does_not_suggest_rollback() {
    let folder = tempfile::tempdir().unwrap();
    drop(open_chain(folder.path()).unwrap());
    let data = fs::OpenOptions::new().write(true).open(folder.path().join("data.mdb")).unwrap();
    data.set_len(5000).unwrap();
    let error = open_chain(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Truncated { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("evmd snapshot restore") && !text.contains("rollback"), "{text}");
}

/// Not a test by itself: runs in the other process of the tests below.
#[test]
fn child_holds_the_home() {
    let Some(home) = std::env::var_os(CHILD_HOME) else { return };
    if std::env::var_os(CHILD_READS).is_some() {
        let chain = open_chain(Path::new(&home)).unwrap();
        let _reader = chain.reader().unwrap();
        println!("reading");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    match HomeLock::acquire(home) {
        Ok(_lock) => {
            println!("locked");
            // Holds the lock until the parent closes the pipe or kills this process.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        Err(error) => println!("refused: {error}"),
    }
}

fn child(home: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "child_holds_the_home", "--nocapture"])
        .env(CHILD_HOME, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    child
}

#[test]
fn error_of_a_second_process_names_the_pid_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let lock = HomeLock::acquire(folder.path()).unwrap();
    let output = child(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let expected = format!("in use by process {}", std::process::id());
    assert!(text.contains("refused") && text.contains(&expected), "{text}");
    drop(lock);
    HomeLock::acquire(folder.path()).unwrap();
}

#[test]
fn lock_of_a_killed_process_is_released() {
    use std::io::BufRead;
    let folder = tempfile::tempdir().unwrap();
    let mut child = child(folder.path()).spawn().unwrap();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(out.lines().any(|line| line.unwrap().contains("locked")));
    match HomeLock::acquire(folder.path()).unwrap_err() {
        OpenError::HomeLocked { pid, .. } => assert_eq!(pid, Some(child.id())),
        other => panic!("{other}"),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    HomeLock::acquire(folder.path()).unwrap();
}

#[test]
fn killed_reader_does_not_keep_pages() {
    use std::io::BufRead;
    let folder = tempfile::tempdir().unwrap();
    let chain = open_chain(folder.path()).unwrap();
    chain.put_meta("text", b"first").unwrap();
    let mut child = child(folder.path()).env(CHILD_READS, "").spawn().unwrap();
    let out = std::io::BufReader::new(child.stdout.take().unwrap());
    assert!(out.lines().any(|line| line.unwrap().contains("reading")));
    let text = vec![0x5a; MAP_BYTES / 16];
    let grown = |times: u32| {
        let before = chain.stats().used_bytes;
        (0..times).for_each(|_| chain.put_meta("text", &text).unwrap());
        chain.stats().used_bytes - before
    };
    assert!(grown(4) > 3 * text.len() as u64, "pages that a reader may still see are kept");
    child.kill().unwrap();
    child.wait().unwrap();
    grown(2);
    assert_eq!(grown(20), 0, "pages are reused once the reader has ended");
}
