//! Creates the homes of several validators that run a new chain together, for tests.

use crate::record::{RecordError, create_validator, require_engine};
use alloy_primitives::Address;
use certificates::PublicKey;
use chain::{DEV_ACCOUNTS, Genesis, GenesisError, Validator};
use config::{Config, ConfigError, Listen, P2p, Replication, ValidatorAddress};
use home::GENESIS_FILE;
use platform::whole_file;
use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// Port at which the first validator listens for the others, the default of CometBFT.
const P2P_PORT: u16 = 26_656;
/// Port at which the first validator serves replicas.
const REPLICATION_PORT: u16 = 9100;
/// Difference between the ports of consecutive validators. No two servers of one node have ports that differ by a
/// multiple of it.
const PORT_STEP: u16 = 100;
const BLOCK_TIME_MS: u64 = 250;
/// Maximum number of validators, each of which has a development account.
pub const MAX_VALIDATORS: u8 = DEV_ACCOUNTS.len() as u8;
const COMPOSE_FILE: &str = "compose.yaml";
/// Folder of the home in a container.
const CONTAINER_HOME: &str = "/var/lib/evmd";

/// Why a test network cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestNetworkError {
    /// The folder has files.
    #[error("{} is not empty: choose a new folder", .0.display())]
    NotEmpty(PathBuf),
    /// A file or folder cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A key or a record of votes cannot be created.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The genesis is not valid.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The settings cannot be written.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// One home of the network.
#[derive(Debug)]
pub struct Member {
    name: String,
    /// The home folder.
    pub home: PathBuf,
    /// The account of its operator, a development account.
    pub operator: Address,
    /// Its consensus key.
    pub key: PublicKey,
    /// The number that is added to the port of each of its servers.
    pub port_offset: u16,
}

/// A network whose homes have been created.
#[derive(Debug)]
pub struct TestNetwork {
    /// The genesis.
    pub genesis: Genesis,
    /// The homes.
    pub members: Vec<Member>,
    /// The file for `docker compose`.
    pub compose: PathBuf,
}

impl TestNetwork {
    /// Creates the homes in a folder that is empty or missing. `adjust` may change the genesis before it is written;
    /// `timestamp` is the genesis time in seconds since 1970.
    ///
    /// # Errors
    /// [`TestNetworkError`].
    pub fn create(
        folder: &Path,
        validators: u8,
        timestamp: u64,
        adjust: impl FnOnce(Genesis) -> Result<Genesis, GenesisError>,
    ) -> Result<Self, TestNetworkError> {
        // This must fail before anything is written.
        require_engine()?;
        if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(TestNetworkError::NotEmpty(folder.to_owned()));
        }
        let members = (0..validators).map(|number| member(folder, number));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let genesis = adjust(genesis(&members, timestamp)?)?;
        for member in &members {
            write(&member.home.join(GENESIS_FILE), &genesis.to_json())?;
            settings(member, &members).write_new(&member.home)?;
        }
        let compose = folder.join(COMPOSE_FILE);
        write(&compose, &self::compose(&members))?;
        Ok(Self { genesis, members, compose })
    }
}

fn member(folder: &Path, number: u8) -> Result<Member, TestNetworkError> {
    let name = format!("validator-{number}");
    let home = folder.join(&name);
    fs::create_dir_all(&home)
        .map_err(|source| TestNetworkError::Io { path: home.clone(), source })?;
    let key = create_validator(&home)?;
    let operator = DEV_ACCOUNTS[usize::from(number)].address;
    Ok(Member { name, home, operator, key, port_offset: u16::from(number) * PORT_STEP })
}

fn genesis(members: &[Member], timestamp: u64) -> Result<Genesis, GenesisError> {
    let validators = members.iter().map(|member| Validator {
        address: member.operator,
        power: 1,
        consensus_key: Some(member.key),
    });
    Genesis::test_network(timestamp, &validators.collect::<Vec<_>>())
}

/// The settings of a validator on this machine.
fn settings(member: &Member, members: &[Member]) -> Config {
    let peers = members.iter().filter(|other| other.key != member.key).map(|other| {
        let port = P2P_PORT + other.port_offset;
        ValidatorAddress { key: other.key, host: Ipv4Addr::LOCALHOST.to_string(), port }
    });
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, P2P_PORT));
    let replication = SocketAddr::from((Ipv4Addr::LOCALHOST, REPLICATION_PORT));
    let mut config = Config {
        replication: Replication { address: Listen::At(replication), ..Replication::default() },
        p2p: P2p { address: Listen::At(address), peers: peers.collect() },
        ..Config::default()
    };
    config.node.moniker.clone_from(&member.name);
    config.server.port_offset = member.port_offset;
    config.engine.block_time_ms = BLOCK_TIME_MS;
    config
}

/// Returns the file for `docker compose`. Each validator is a container with the default ports.
fn compose(members: &[Member]) -> String {
    let peers = |member: &Member| {
        let others = members.iter().filter(|other| other.key != member.key);
        let peers = others.map(|other| format!("{}@{}:{P2P_PORT}", other.key, other.name));
        peers.collect::<Vec<_>>().join(",")
    };
    // The homes belong to the user of this process.
    let user =
        format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut text = String::from(
        "# Runs the validators in containers. The image is built as docs/packaging.md says.\nname: evmd-testnet\n\nservices:\n",
    );
    for member in members {
        let _ = writeln!(
            text,
            "  {name}:
    image: evmd
    user: \"{user}\"
    command: >-
      start --home {CONTAINER_HOME} --port-offset 0
      --p2p.address 0.0.0.0:{P2P_PORT} --p2p.peers {peers}
      --json-rpc.address 0.0.0.0:8545 --pages.address 0.0.0.0:8080 --metrics.address 0.0.0.0:26660
    volumes: [\"./{name}:{CONTAINER_HOME}\"]
    ports: [\"127.0.0.1:{rpc}:8545\", \"127.0.0.1:{pages}:8080\"]
    stop_grace_period: 60s",
            name = member.name,
            peers = peers(member),
            rpc = 8545 + member.port_offset,
            pages = 8080 + member.port_offset,
        );
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), TestNetworkError> {
    whole_file::write(path, text.as_bytes())
        .map_err(|source| TestNetworkError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_all_validators_differ() {
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..u16::from(MAX_VALIDATORS) {
            let mut config = Config::default();
            config.p2p.address = Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, P2P_PORT)));
            config.server.port_offset = number * PORT_STEP;
            config.shift_ports().unwrap();
            for (name, address) in config.listening() {
                assert!(seen.insert(address), "{name} {address}");
            }
        }
    }
}
