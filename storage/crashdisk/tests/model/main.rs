//! Tests which files the model keeps for programs that sync too little.

// Helper functions of tests may panic, too.
#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crashdisk::{Fault, Recorder, Recording, Tree};

/// Environment variables of a child process: its operation and its folder.
const OPERATION: &str = "CRASHDISK_TEST_OPERATION";
const FOLDER: &str = "CRASHDISK_TEST_FOLDER";
/// Linux flag: each write returns only when its data is on the disk.
const O_DSYNC: i32 = 0o10000;

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Not a test by itself: runs as the program that is recorded.
#[test]
fn child_runs_its_operation() {
    let (Ok(operation), Some(folder)) = (std::env::var(OPERATION), std::env::var_os(FOLDER)) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let path = |name: &str| folder.join(name);
    match operation.as_str() {
        "writes" => {
            fs::write(path("unsynced"), "content").unwrap();
            fs::write(path("nameless"), "content").unwrap();
            sync(&path("nameless"));
            fs::write(path("before"), "new content").unwrap();
            sync(&path("before"));
            println!("written");
        }
        "order" => {
            let mut options = OpenOptions::new();
            let plain = options.write(true).open(path("before")).unwrap();
            let synced = options.custom_flags(O_DSYNC).open(path("before")).unwrap();
            plain.write_all_at(b"aaaa", 0).unwrap();
            synced.write_all_at(b"bb", 1).unwrap();
            println!("synced");
            plain.sync_data().unwrap();
            println!("all");
            plain.write_all_at(b"cccc", 0).unwrap();
            plain.set_len(2).unwrap();
            println!("cut");
        }
        "renames" => {
            for (name, content, parent) in
                [("a", false, true), ("b", true, false), ("c", true, true)]
            {
                let mut file = File::create(path("new")).unwrap();
                file.write_all(name.as_bytes()).unwrap();
                if content {
                    file.sync_data().unwrap();
                }
                fs::rename(path("new"), path(name)).unwrap();
                if parent {
                    sync(&folder);
                }
                println!("renamed {name}");
            }
        }
        "folders" => {
            fs::create_dir(path("x")).unwrap();
            fs::write(path("x/file"), "content").unwrap();
            sync(&path("x/file"));
            sync(&path("x"));
            fs::rename(path("x"), path("y")).unwrap();
            fs::copy(path("before"), path("y/copy")).unwrap();
            fs::remove_file(path("before")).unwrap();
            sync(&folder);
            fs::remove_dir_all(path("y")).unwrap();
        }
        other => panic!("unknown operation {other}"),
    }
}

/// Records the child in a folder with a file `before`.
fn watch(operation: &str, check: impl FnOnce(Recording, &Path)) {
    let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("before"), "content").unwrap();
    let recorder = Recorder::new(own.path(), folder.path()).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child_runs_its_operation", "--nocapture"]).stdout(Stdio::piped());
    child.env(OPERATION, operation).env(FOLDER, recorder.root());
    let output = recorder.watch(&mut child).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.missed(&[]).unwrap(), Vec::<String>::new());
    check(recording, folder.path());
}

/// Returns the contents of a file after a power failure at the output of a line.
fn at_line(recording: &Recording, line: &str, name: &str, keep: bool) -> Option<String> {
    let mut found = None;
    recording.replay(|disk, event| {
        let output = String::from_utf8_lossy(event.output().unwrap_or_default());
        if output.lines().any(|text| text == line) {
            let mut tree = disk.tree(&mut || keep);
            found = tree.entries.remove(Path::new(name)).flatten();
        }
    });
    found.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn unsynced_data_is_lost() {
    watch("writes", |recording, _| {
        let content = |name, keep| at_line(&recording, "written", name, keep);
        for name in ["unsynced", "nameless"] {
            assert_eq!(content(name, false), None, "{name}: its name is not synced");
            assert_eq!(content(name, true).as_deref(), Some("content"));
        }
        assert_eq!(content("before", false).as_deref(), Some("new content"));
        let lost = recording.lost(&[]).unwrap();
        assert_eq!(lost, ["nameless is missing", "unsynced is missing"]);
        assert_eq!(recording.faults(true), []);
    });
}

#[test]
fn synced_write_overrides_earlier_writes() {
    watch("order", |recording, _| {
        let content = |line, keep| at_line(&recording, line, "before", keep).unwrap();
        assert_eq!(content("synced", false), "cbbtent");
        assert_eq!(content("synced", true), "abbaent");
        assert_eq!(content("all", false), "abbaent");
        assert_eq!(content("cut", false), "abbaent");
        assert_eq!(content("cut", true), "cc");
    });
}

#[test]
fn rename_requires_synced_contents_and_folder() {
    watch("renames", |recording, folder| {
        let path = |name: &str| folder.canonicalize().unwrap().join(name);
        let faults = recording.faults(true);
        let content = Fault::ContentNotSynced { path: path("a"), unsynced: path("a") };
        assert_eq!(faults, [content, Fault::NameNotSynced { path: path("b") }]);
        // The name remains without the contents, which never happens after a kill.
        assert_eq!(at_line(&recording, "renamed a", "a", false).as_deref(), Some(""));
        assert_eq!(at_line(&recording, "renamed b", "b", false), None);
        assert_eq!(at_line(&recording, "renamed c", "c", false).as_deref(), Some("c"));
    });
}

#[test]
fn unsynced_removal_of_a_synced_folder_is_undone() {
    watch("folders", |recording, folder| {
        assert_eq!(recording.faults(true), []);
        let lost = recording.lost(&[]).unwrap();
        assert_eq!(lost, ["y should not be there", "y/file should not be there"]);
        let copy = tempfile::tempdir().unwrap();
        let tree = recording.after().tree(&mut || false);
        tree.write(copy.path()).unwrap();
        assert_eq!(Tree::read(copy.path()).unwrap(), tree);
        assert_eq!(Tree::read(folder).unwrap(), Tree::default());
    });
}
