//! Determines the memory that the process may use, and defaults that are derived from it.
//!
//! With [`FULL_MEMORY`] or more, every default has its full value. With less, it is reduced in proportion to the
//! memory, but not below its minimum.

use std::{fs, path::Path, sync::LazyLock};

/// Minimum number of bytes of memory with which defaults have their full values.
const FULL_MEMORY: u64 = 16 << 30;

/// Returns the bytes that this process may use: the smallest of the machine's memory and its cgroups' limits.
pub fn available_memory() -> u64 {
    static AVAILABLE: LazyLock<u64> = LazyLock::new(|| available_below(Path::new("/")));
    *AVAILABLE
}

/// Returns a default on this machine. `full` is its full value.
pub fn derived(full: u64, minimum: u64) -> u64 {
    derived_on(available_memory(), full, minimum)
}

/// Returns a default on a machine with this many bytes.
pub fn derived_on(memory: u64, full: u64, minimum: u64) -> u64 {
    let share = u128::from(full) * u128::from(memory.min(FULL_MEMORY)) / u128::from(FULL_MEMORY);
    u64::try_from(share).expect("it is at most the full value").max(minimum)
}

/// Returns [`available_memory`] of a system whose root folder is `root`. If neither the machine nor a cgroup states a
/// size, the memory counts as full.
fn available_below(root: &Path) -> u64 {
    let machine = machine_memory(root);
    let cgroups = cgroup_limits(root);
    cgroups.into_iter().chain(machine).min().unwrap_or(FULL_MEMORY)
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the limits of the process's cgroups and of the cgroups above them, of versions 1 and 2.
fn cgroup_limits(root: &Path) -> Vec<u64> {
    let membership = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut limits = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (mounts, file): (&[_], _) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        // A container often sees its own cgroup as the root of the mount, so the path of the group does not
        // exist there. The loop then still reads the limit of the mount itself.
        for mount in mounts.iter().map(|mount| root.join(mount)) {
            let group = Path::new(group.trim_start_matches('/'));
            let folders = group.ancestors().map(|group| mount.join(group));
            limits.extend(folders.filter_map(|folder| limit(&folder.join(file))));
        }
    }
    limits
}

/// Reads the limit in a file; `None` for `max`. Version 1 states a number near 2^63 instead, which is above the memory
/// of the machine and therefore has no effect.
fn limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns the available memory of a system with these files.
    fn available(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        available_below(root.path())
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree:        1 kB\n");

    #[test]
    fn without_a_cgroup_it_is_the_machines_memory() {
        assert_eq!(available(&[MACHINE]), 8 * GIB);
        assert_eq!(available(&[]), FULL_MEMORY);
        assert_eq!(available(&[("proc/meminfo", "nothing")]), FULL_MEMORY);
    }

    #[test]
    fn a_limit_of_version_2_counts_if_it_is_smaller() {
        let group = ("proc/self/cgroup", "0::/system.slice/evmd.service\n");
        let file = "sys/fs/cgroup/system.slice/evmd.service/memory.max";
        assert_eq!(available(&[MACHINE, group, (file, "2147483648\n")]), 2 * GIB);
        assert_eq!(available(&[MACHINE, group, (file, "max\n")]), 8 * GIB);
        assert_eq!(available(&[MACHINE, group, (file, "99999999999999\n")]), 8 * GIB);
    }

    #[test]
    fn a_limit_of_a_group_above_counts_too() {
        let group = ("proc/self/cgroup", "0::/a/b/c\n");
        let files = [
            MACHINE,
            group,
            ("sys/fs/cgroup/a/b/c/memory.max", "max"),
            ("sys/fs/cgroup/a/b/memory.max", "3221225472"),
            ("sys/fs/cgroup/a/memory.max", "4294967296"),
        ];
        assert_eq!(available(&files), 3 * GIB);
    }

    #[test]
    fn the_limit_of_a_container_that_sees_its_group_as_the_root_counts() {
        let group = ("proc/self/cgroup", "0::/\n");
        assert_eq!(available(&[MACHINE, group, ("sys/fs/cgroup/memory.max", "1073741824")]), GIB);
        let outside = ("proc/self/cgroup", "0::/../../docker/abc\n");
        assert_eq!(available(&[MACHINE, outside, ("sys/fs/cgroup/memory.max", "1073741824")]), GIB);
        let hybrid = ("sys/fs/cgroup/unified/memory.max", "1073741824");
        assert_eq!(available(&[MACHINE, group, hybrid]), GIB);
    }

    #[test]
    fn a_limit_of_version_1_counts_if_it_is_smaller() {
        let group =
            ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/one\n1:cpu:/other\n0::/\n");
        let file = "sys/fs/cgroup/memory/box/one/memory.limit_in_bytes";
        let unlimited = "9223372036854771712\n";
        assert_eq!(available(&[MACHINE, group, (file, "2147483648\n")]), 2 * GIB);
        assert_eq!(available(&[MACHINE, group, (file, unlimited)]), 8 * GIB);
        let above = "sys/fs/cgroup/memory/box/memory.limit_in_bytes";
        assert_eq!(available(&[MACHINE, group, (file, unlimited), (above, "1073741824")]), GIB);
        let mount = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(available(&[MACHINE, group, (mount, "1073741824")]), GIB);
    }

    #[test]
    fn a_default_is_in_proportion_to_the_memory() {
        let on = |memory| derived_on(memory, 1 << 30, 64 << 20);
        assert_eq!([24 * GIB, 16 * GIB].map(on), [GIB, GIB]);
        assert_eq!(on(16 * GIB - 1), GIB - 1);
        assert_eq!([8 * GIB, 2 * GIB, GIB].map(on), [GIB / 2, GIB / 8, 64 << 20]);
        assert_eq!(on(0), 64 << 20);
        assert_eq!(derived_on(u64::MAX, u64::MAX, 1), u64::MAX);
    }
}
