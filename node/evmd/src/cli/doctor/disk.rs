//! Checks the free space and the type of the file system that contains the home folder.

use home::doctor::{Failure, Report};
use rustix::fs::statvfs;
use std::path::Path;

/// Minimum free bytes. With fewer the check fails, because a busy node writes a gigabyte in a few minutes.
const MIN_FREE_BYTES: u64 = 1 << 30;
/// Below this percentage of free space on the file system, the check warns.
const LOW_PERCENT: u64 = 10;

pub(super) fn check(report: &mut Report, home: &Path) {
    match statvfs(home) {
        Ok(system) => {
            let unit = system.f_frsize;
            let (free, all) = (system.f_bavail * unit, system.f_blocks * unit);
            match free < MIN_FREE_BYTES {
                true => report.check("disk.space", Err(low_space(free, all))),
                false => report.warn("disk.space", space(free, all)),
            }
        }
        Err(error) => report.check("disk.space", Err(Failure::new(error, "check the disk"))),
    }
    report.check("disk.file-system", file_system(home));
}

fn space(free: u64, all: u64) -> Result<String, Failure> {
    if free.saturating_mul(100) < all.saturating_mul(LOW_PERCENT) {
        return Err(low_space(free, all));
    }
    Ok(describe(free, all))
}

fn low_space(free: u64, all: u64) -> Failure {
    let minimum =
        format!("a node should have {LOW_PERCENT} % and needs {}", gigabytes(MIN_FREE_BYTES));
    Failure::new(
        format!("{}; {minimum}", describe(free, all)),
        "remove old snapshots or other files, or move the home folder to a larger disk",
    )
}

fn describe(free: u64, all: u64) -> String {
    format!("{} of {} are free", gigabytes(free), gigabytes(all))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Refuses network file systems, because they do not provide the shared memory maps and locks that LMDB needs.
#[cfg(target_os = "linux")]
fn file_system(home: &Path) -> Result<String, Failure> {
    /// File system types of `statfs(2)`.
    const NETWORK: [(u32, &str); 5] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x0102_1997, "9P"),
    ];
    let remedy = "move the home folder to a local disk";
    let found = rustix::fs::statfs(home).map_err(|error| Failure::new(error, remedy))?;
    // The types have 32 bits; some systems sign-extend them.
    let number = found.f_type as u32;
    match NETWORK.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => Err(Failure::new(
            format!(
                "the home folder is on a network file system ({name}), where LMDB may lose data"
            ),
            remedy,
        )),
        None => Ok(format!("not a known network file system ({number:#x})")),
    }
}

#[cfg(not(target_os = "linux"))]
fn file_system(_home: &Path) -> Result<String, Failure> {
    Ok("not examined on this system".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_ten_percent_of_free_space_causes_a_warning() {
        assert!(space(99, 1000).is_err());
        assert_eq!(space(100, 1000).unwrap(), "0.0 GiB of 0.0 GiB are free");
        assert!(space(u64::MAX / 2, u64::MAX).is_ok());
    }
}
