//! The file of a home folder with the addresses of the node that runs on it. Commands with `--home` find the node
//! through it, although another node may answer at the default addresses.
//!
//! The file is removed when the node stops. After a kill it stays, and other nodes may listen on its addresses. So it
//! names the run of the node, and a command trusts it only if the node at the address reports the same run.

use crate::cli::query::client::Client;
use config::Endpoints;
use platform::whole_file;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const FILE: &str = "endpoints.json";

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct RunningNode<'a> {
    run: Cow<'a, str>,
    endpoints: Endpoints,
}

/// The part of `/status` that names the run.
#[derive(Deserialize)]
struct StatusRun {
    run: String,
}

/// A name for this run of the node that no other run has: the process id is unique at one time on one machine.
pub(super) fn run_name() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", time.as_nanos(), std::process::id())
}

/// The recorded addresses. The file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
}

impl Record {
    /// Records the addresses of this run. The lock of the home folder must be held until the record is dropped.
    pub(super) fn write(home: &Path, run: &str, endpoints: Endpoints) -> io::Result<Self> {
        let path = home.join(FILE);
        let text = serde_json::to_string_pretty(&RunningNode { run: run.into(), endpoints })?;
        whole_file::write(&path, format!("{text}\n").as_bytes())?;
        Ok(Self { path })
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The addresses of the node that runs on a home folder.
pub(super) fn find(home: &Path) -> Option<Endpoints> {
    let text = std::fs::read_to_string(home.join(FILE)).ok()?;
    let recorded: RunningNode<'_> = serde_json::from_str(&text).ok()?;
    let address = reachable(recorded.endpoints.metrics);
    let metrics = Client::new(&format!("http://{address}"), address.port()).ok()?;
    let (_, status) = metrics.get("/status", "").ok()?;
    let status: StatusRun = serde_json::from_str(&status).ok()?;
    (status.run == recorded.run).then_some(recorded.endpoints)
}

/// An address to connect to for one to listen on: a server that listens on every address of this machine is reached
/// at the loopback address.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
