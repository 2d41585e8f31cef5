//! CPU time of processes, from `/proc`: what a node spends on the load, and what this client does.

use anyhow::Context;
use std::{fs, net::SocketAddr, path::Path, time::Duration};

/// Ticks a second in `/proc/PID/stat`: fixed for user space on Linux (USER_HZ).
const TICKS_PER_SECOND: u64 = 100;

/// A process whose CPU time is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    /// One given by number.
    pub(crate) fn from_pid(pid: u32) -> anyhow::Result<Self> {
        let process = Self(pid);
        process.cpu().with_context(|| format!("no process {pid} (--pid)"))?;
        Ok(process)
    }

    /// This process.
    pub(crate) fn own() -> Self {
        Self(std::process::id())
    }

    /// The process that listens on a loopback address; `None` elsewhere, or when it is not ours
    /// to see.
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

    /// CPU time of all its threads so far, those that have ended included.
    pub(crate) fn cpu(self) -> anyhow::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        ticks(&stat)
            .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
            .context("the process's stat file is not as expected")
    }

    /// Bytes of memory by the kernel's count of that name, such as `VmRSS:`; `None` once it has
    /// gone.
    pub(crate) fn memory(self, name: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }
}

/// Inode of the socket that listens on `port`, from the kernel's table.
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

/// User and system time of a stat file, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // The name in parentheses may hold anything; the fields are counted behind it.
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
    fn a_name_with_parentheses_does_not_move_the_fields() {
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn this_process_is_found_by_its_listening_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = Process::listening(listener.local_addr().unwrap());
        assert_eq!(found, Some(Process::own()));
        assert!(Process::own().memory("VmRSS:").unwrap() > 0);
        assert!(Process::own().cpu().is_ok());
        assert_eq!(Process::listening("192.0.2.1:80".parse().unwrap()), None);
    }
}
