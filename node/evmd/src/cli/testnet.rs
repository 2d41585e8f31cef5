//! `evmd testnet`

use super::{
    Output,
    init::{now, with_chain_id},
    stdout,
    validator::create_record,
};
use alloy_primitives::Address;
use anyhow::{Context, bail};
use certificates::PublicKey;
use chain::{DEV_ACCOUNTS, Genesis, Validator};
use config::{Config, Listen, P2p, Replication, ValidatorAddress};
use home::{GENESIS_FILE, create_validator_key};
use platform::whole_file;
use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// Port at which the first validator listens for the others, the default of CometBFT.
const P2P_PORT: u16 = 26_656;
/// Port at which the first validator serves replicas.
const REPLICATION_PORT: u16 = 9100;
/// Difference between the ports of two validators. No two servers of one node have ports with this difference.
const PORT_STEP: u16 = 100;
/// Milliseconds between blocks.
const BLOCK_TIME_MS: u64 = 250;
/// Maximum number of validators, each of which has a development account.
const MAX_VALIDATORS: u8 = DEV_ACCOUNTS.len() as u8;
/// Name of the file for `docker compose`.
const COMPOSE_FILE: &str = "compose.yaml";
/// Folder of the home in a container.
const CONTAINER_HOME: &str = "/var/lib/evmd";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of validators, 1 or 4 to 10: with n, fewer than n/3 may fail
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = validators)]
    validators: u8,
    /// Folder for the homes; it must not exist or be empty
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Chain id, for EIP-155 and for Cosmos transactions
    #[arg(long, value_name = "ID")]
    chain_id: Option<u64>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn validators(text: &str) -> Result<u8, String> {
    let number = text.parse().map_err(|_| "it is not a number".to_owned())?;
    match number {
        2 | 3 => {
            Err(format!("{number} validators tolerate no fault, as one does: use 1 or at least 4"))
        }
        1..=MAX_VALIDATORS => Ok(number),
        _ => Err(format!("it must be 1 or 4 to {MAX_VALIDATORS}")),
    }
}

/// One home of the network.
struct Member {
    name: String,
    home: PathBuf,
    operator: Address,
    key: PublicKey,
    port_offset: u16,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let folder = &args.output_dir;
    if fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("--output-dir: {} is not empty", folder.display());
    }
    let members = (0..args.validators).map(|number| member(folder, number));
    let members = members.collect::<anyhow::Result<Vec<_>>>()?;
    let genesis = genesis(&members, args.chain_id)?;
    for member in &members {
        write(&member.home.join(GENESIS_FILE), &genesis.to_json())?;
        settings(member, &members).write_new(&member.home)?;
    }
    write(&folder.join(COMPOSE_FILE), &compose(&members))?;
    print(args, &genesis, &members)
}

/// Creates the key and the record of a validator.
fn member(folder: &Path, number: u8) -> anyhow::Result<Member> {
    let name = format!("validator-{number}");
    let home = folder.join(&name);
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    create_record(&home)?;
    let key = create_validator_key(&home)?.public();
    let operator = DEV_ACCOUNTS[usize::from(number)].address;
    Ok(Member { name, home, operator, key, port_offset: u16::from(number) * PORT_STEP })
}

fn genesis(members: &[Member], chain_id: Option<u64>) -> anyhow::Result<Genesis> {
    let validators = members.iter().map(|member| Validator {
        address: member.operator,
        power: 1,
        consensus_key: Some(member.key),
    });
    let genesis = Genesis::test_network(now(), &validators.collect::<Vec<_>>())?;
    match chain_id {
        Some(id) => with_chain_id(&genesis, id).context("--chain-id"),
        None => Ok(genesis),
    }
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

/// The validators as containers, each of which has the default ports.
fn compose(members: &[Member]) -> String {
    let peers = |member: &Member| {
        let others = members.iter().filter(|other| other.key != member.key);
        let peers = others.map(|other| format!("{}@{}:{P2P_PORT}", other.key, other.name));
        peers.collect::<Vec<_>>().join(",")
    };
    // The homes belong to the user who has created them.
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

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    whole_file::write(path, text.as_bytes()).with_context(|| path.display().to_string())
}

fn print(args: &Args, genesis: &Genesis, members: &[Member]) -> anyhow::Result<()> {
    let mut out = stdout();
    let hash = genesis.header().hash_slow();
    match args.output {
        Output::Text => {
            writeln!(
                out,
                "{} validators of chain {}, genesis {hash}. Start each of them:\n",
                members.len(),
                genesis.spec.chain_id,
            )?;
            for member in members {
                writeln!(out, "evmd start --home {}", member.home.display())?;
            }
            writeln!(
                out,
                "\nTheir operators are development accounts, whose keys are public. In containers: docker compose -f {} up",
                args.output_dir.join(COMPOSE_FILE).display()
            )?;
        }
        Output::Json => {
            let members = members.iter().map(|member| {
                serde_json::json!({
                    "home": member.home.to_string_lossy(),
                    "consensusKey": member.key,
                    "operator": member.operator,
                    "portOffset": member.port_offset,
                })
            });
            let value = serde_json::json!({
                "chainId": genesis.spec.chain_id,
                "genesisHash": hash,
                "validators": members.collect::<Vec<_>>(),
            });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_validators_that_tolerate_nothing_more_than_one_are_refused() {
        for number in ["1", "4", "10"] {
            assert!(validators(number).is_ok(), "{number}");
        }
        for number in ["0", "2", "3", "11", "256", "-1", "x"] {
            assert!(validators(number).is_err(), "{number}");
        }
    }

    #[test]
    fn ports_of_two_validators_differ() {
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
