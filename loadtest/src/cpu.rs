//! CPU time and memory of the node and of this client, from `/proc`.

use anyhow::Context;
use std::{fs, net::SocketAddr, path::Path, time::Duration};

/// Ticks per second in `/proc/PID/stat`: fixed for user space on Linux (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;

/// A process whose CPU time and memory are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// Returns the process with this id. Fails if it does not exist.
    pub(crate) fn from_pid(pid: u32) -> anyhow::Result<Self> {
        let process = Self(pid);
        process.cpu().with_context(|| format!("--pid {pid}: no such process"))?;
        Ok(process)
    }

    pub(crate) fn own() -> Self {
        Self(std::process::id())
    }

    /// Returns the process that listens on a loopback address; `None` for other addresses, or if
    /// there is no such process that this user may inspect.
    pub(crate) fn listening(address: SocketAddr) -> Option<Self> {
        if !address.ip().is_loopback() {
            return None;
        }
        let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .filter_map(|table| fs::read_to_string(table).ok())
            .find_map(|table| listener_inode(&table, address.port()))?;
        let wanted = format!("socket:[{inode}]");
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.find(|pid| holds(*pid, &wanted)).map(Self)
    }

    /// Returns the CPU time of all threads of the process so far, including those that have ended.
    pub(crate) fn cpu(self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        ticks(&stat)
            .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
            .context("unexpected format of /proc/PID/stat")
    }

    /// Reads a memory field of `/proc/PID/status`, such as `VmRSS:`, in bytes. Returns `None` once
    /// the process has ended.
    pub(crate) fn memory(self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}

/// Finds the inode of the socket that listens on `port` in the kernel's table.
fn listener_inode(table: &str, port: u16) -> Option<u64> {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let listens = fields.get(1)?.ends_with(&port) && *fields.get(3)? == LISTEN;
        if listens { fields.get(9)?.parse().ok() } else { None }
    })
}

fn holds(pid: u32, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files
        .flatten()
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(socket)))
}

/// Returns the sum of user and system time in a stat file, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // The name in parentheses may contain any character, so fields are counted after it.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_name_with_parentheses_is_skipped() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn process_is_found_by_its_listening_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = Process::listening(listener.local_addr().unwrap());
        assert_eq!(found, Some(Process::own()));
        assert!(Process::own().memory("VmRSS:").unwrap() > 0);
        assert!(Process::own().cpu().is_ok());
        assert_eq!(Process::listening("192.0.2.1:80".parse().unwrap()), None);
    }
}
