//! The producer and its replicas, which keep their addresses when they start again.

use super::ReplicasArgs;
use crate::{
    genesis::{self, GenesisArgs},
    http::Url,
    node::{Audit, Evmd, Running},
    rpc::Rpc,
};
use anyhow::Context;
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The home folder that only provides the key of the producer.
const KEY_HOME: &str = "key";
/// Ether of each account: more than it can spend.
const ETHER: u64 = 1_000;
/// Gas limit of a block: 10,000 transfers.
const BLOCK_GAS: u64 = 210_000_000;
/// Ports of a node that stay the same: JSON-RPC and replication.
const PORTS: u16 = 2;

/// The nodes; the producer is the first.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    evmd: Evmd,
    options: Vec<(&'static str, String)>,
    rpc: Rpc,
    running: Mutex<Option<Running>>,
}

impl Cluster {
    /// Creates a chain whose producer signs its blocks, with the home folders of all nodes, and starts them.
    pub(super) fn start(args: &ReplicasArgs) -> anyhow::Result<Self> {
        let ReplicasArgs { folder, replicas, first_address, block_time, .. } = args;
        let genesis = make_genesis(args)?;
        let mut nodes = Vec::new();
        for number in 0..=*replicas {
            let home = match number {
                0 => folder.join("producer"),
                _ => folder.join(format!("replica-{number}")),
            };
            let evmd = Evmd::find(args.evmd.as_deref(), &home)?;
            evmd.init(Some(&genesis))?;
            let mut options = vec![
                ("--json-rpc.address", address(*first_address, number, 0).to_string()),
                ("--replication.address", address(*first_address, number, 1).to_string()),
            ];
            match sources(*first_address, number, *replicas) {
                None => {
                    let key = "producer.key";
                    fs::copy(folder.join(KEY_HOME).join(key), home.join(key))
                        .context("cannot copy producer.key")?;
                    options.push(("--block-time", block_time.clone()));
                }
                Some(sources) => options.push(("--follow", sources)),
            }
            let url = format!("http://{}", address(*first_address, number, 0));
            let rpc = Rpc::new(&Url::parse(&url)?);
            let running = evmd.start_with(&options)?;
            nodes.push(Node { evmd, options, rpc, running: Mutex::new(Some(running)) });
        }
        Ok(Self { nodes })
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn rpc(&self, node: usize) -> &Rpc {
        &self.nodes[node].rpc
    }

    /// Kills a node with SIGKILL.
    pub(super) fn kill(&self, node: usize) -> anyhow::Result<()> {
        let mut running = lock(&self.nodes[node].running);
        running.take().context("the node is running")?.kill()
    }

    /// Starts a killed node again.
    pub(super) fn restart(&self, node: usize) -> anyhow::Result<()> {
        let Node { evmd, options, running, .. } = &self.nodes[node];
        *lock(running) = Some(evmd.start_with(options)?);
        Ok(())
    }

    /// Computes the state root of a node from its accounts, and compares it with the header.
    pub(super) fn audit(&self, node: usize) -> anyhow::Result<Audit> {
        self.nodes[node].evmd.audit()
    }
}

/// The number of ports of a producer with this number of replicas.
pub(super) const fn ports(replicas: usize) -> u16 {
    PORTS * (replicas as u16 + 1)
}

fn lock(running: &Mutex<Option<Running>>) -> MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a genesis file that funds the accounts and names the key of a producer.
fn make_genesis(args: &ReplicasArgs) -> anyhow::Result<PathBuf> {
    let ReplicasArgs { folder, accounts, seed, .. } = args;
    fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Only `evmd init` makes the key of a producer.
    let key_home = folder.join(KEY_HOME);
    Evmd::find(args.evmd.as_deref(), &key_home)?.init(None)?;
    let file = folder.join("genesis.json");
    genesis::make(&GenesisArgs {
        accounts: *accounts as u64,
        ether: ETHER,
        block_gas: BLOCK_GAS,
        seed: *seed,
        template: Some(key_home.join("genesis.json")),
        file: file.clone(),
    })?;
    Ok(file)
}

fn address(first: SocketAddr, node: usize, server: u16) -> SocketAddr {
    SocketAddr::new(first.ip(), first.port() + PORTS * node as u16 + server)
}

/// The value of `--follow` of a node; `None` for the producer.
fn sources(first: SocketAddr, number: usize, replicas: usize) -> Option<String> {
    let url = |node| format!("http://{}", address(first, node, 1));
    match number {
        0 => None,
        _ if number == replicas && replicas > 1 => Some(format!("{},{}", url(1), url(0))),
        _ => Some(url(0)),
    }
}
