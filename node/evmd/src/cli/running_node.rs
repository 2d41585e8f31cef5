//! Writes and reads a file in the home folder, which contains the addresses of the node that runs on that folder.
//! Through this file, commands with `--home` find the right node even if another node listens on the default addresses.
//!
//! The file is removed when the node stops. After a SIGKILL it remains, and another node may listen on its addresses.
//! So the node locks the file, and a command trusts only a locked file: the kernel releases the lock when the process
//! ends.

use config::Endpoints;
use platform::whole_file;
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, TryLockError},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
};

const FILE: &str = "endpoints.json";

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct RunningNode {
    endpoints: Endpoints,
}

/// The locked file. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Record {
    /// Records the addresses of this process. The home folder must stay locked until the record is dropped.
    pub(super) fn write(home: &Path, endpoints: Endpoints) -> io::Result<Self> {
        let path = home.join(FILE);
        let text = serde_json::to_string_pretty(&RunningNode { endpoints })?;
        whole_file::write(&path, format!("{text}\n").as_bytes())?;
        let file = File::open(&path)?;
        // A command that reads the file may hold the lock for a moment.
        file.lock()?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Returns the addresses of the node that runs on a home folder, or `None` if no node runs on it.
///
/// # Errors
/// If this user has no permission to read the file.
pub(super) fn find(home: &Path) -> io::Result<Option<Endpoints>> {
    let mut file = match File::open(home.join(FILE)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(_) => return Ok(None),
    };
    if !matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
        return Ok(None);
    }
    let recorded = serde_json::from_reader::<_, RunningNode>(&mut file).ok();
    Ok(recorded.map(|recorded| recorded.endpoints))
}

/// Converts a listening address to one to connect to: a server that listens on every address of this machine is reached
/// at the loopback address.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
