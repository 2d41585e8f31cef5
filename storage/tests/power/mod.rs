//! Tests that after a power failure at any moment every announced block exists, whichever unsynced
//! writes are on the disk.

use crashdisk::{Disk, Operation, Recorder, Recording};

use super::*;

/// Number of announcements of each child.
const ANNOUNCES: u64 = 8;
/// Number of random selections of unsynced writes that are tested at each moment, in addition to the empty one.
const DRAWS: u32 = 2;
/// LMDB's reader table, which need not be durable and is written through a map.
const READERS_FILE: &str = "lock.mdb";

/// Records a child, which must create the folder of its environment and the parent of that folder.
fn record(test: &str) -> Recording {
    let (own, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recorder = Recorder::new(own.path(), root.path()).unwrap();
    let mut child = child(test, &recorder.root().join(FOLDER));
    child.env(CHILD_ANNOUNCES, ANNOUNCES.to_string());
    let output = recorder.watch(&mut child).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let recording = recorder.finish().unwrap();
    assert_eq!(recording.missed(&[READERS_FILE]).unwrap(), Vec::<String>::new());
    assert_eq!(recording.lost(&[READERS_FILE]).unwrap(), Vec::<String>::new());
    assert_eq!(recording.faults(true), []);
    recording
}

/// Path of the child's environment below the recorded folder.
const FOLDER: &str = "home/environment";

/// Checks the files that a power failure leaves at each announcement, and at each sync after the first announcement.
fn check_each_moment(test: &str, check: fn(&Path, u64)) {
    let mut announced = None;
    let mut announcements = 0;
    let mut coin_flip = coin_flips();
    record(test).replay(|disk, event| {
        let output = String::from_utf8_lossy(event.output().unwrap_or_default());
        let mut numbers = output.lines().filter_map(|line| line.strip_prefix("written "));
        let number = numbers.next_back().map(|number| number.parse::<u64>().unwrap());
        announcements += u64::from(number.is_some());
        announced = number.or(announced);
        let is_synced = match &event.operation {
            Operation::Write { synced, .. } => *synced,
            operation => matches!(operation, Operation::Sync { .. }),
        };
        if let Some(announced) = announced.filter(|_| number.is_some() || is_synced) {
            check_moment(disk, announced, &mut coin_flip, check);
        }
    });
    assert_eq!(announcements, ANNOUNCES);
}

fn check_moment(
    disk: &Disk,
    announced: u64,
    coin_flip: &mut impl FnMut() -> bool,
    check: fn(&Path, u64),
) {
    for draw in 0..=DRAWS {
        let files = tempfile::tempdir().unwrap();
        let tree = disk.tree(&mut || draw > 0 && coin_flip());
        tree.without(&[READERS_FILE]).write(files.path()).unwrap();
        check(&files.path().join(FOLDER), announced);
    }
}

/// Returns pseudo-random booleans, which are the same in each run.
fn coin_flips() -> impl FnMut() -> bool {
    let mut count = 0_u64;
    move || {
        count += 1;
        keccak256(count.to_be_bytes())[0] & 1 == 0
    }
}

#[test]
fn appended_blocks_outlive_a_power_failure() {
    check_each_moment("child_appends", check_chain);
}

#[test]
fn flushed_blocks_outlive_a_power_failure() {
    check_each_moment("child_flushes", check_index);
}
