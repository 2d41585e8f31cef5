//! Runs the producer or the validators, and their replicas. Each keeps its addresses when it restarts.

use super::{ReplicasArgs, links::Links};
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
    time::Duration,
};

/// Name of the genesis file.
const GENESIS: &str = "genesis.json";
/// The folder in which `evmd` creates the key of the producer or the home folders of validators, before they are moved.
const KEY_HOME: &str = "key";
/// Ether of each account: more than it can spend.
const ETHER: u64 = 1_000;
/// Number of fixed ports of a node: JSON-RPC, replication, and connections between validators.
const PORTS: u16 = 3;

/// The nodes. The producer or the validators come first.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Node>,
    /// The connections between validators, if messages are delayed or held back.
    links: Option<Links>,
}

#[derive(Debug)]
struct Node {
    evmd: Evmd,
    options: Vec<(&'static str, String)>,
    rpc: Rpc,
    running: Mutex<Option<Running>>,
}

impl Cluster {
    /// Creates a chain with the home folders of all nodes, and starts them.
    pub(super) fn start(args: &ReplicasArgs) -> anyhow::Result<Self> {
        let first = args.first_address;
        let keys = make_genesis(args)?;
        let links = links(args)?;
        let mut nodes = Vec::new();
        for number in 0..args.producers() + args.replicas {
            let home = home(args, number);
            let evmd = Evmd::find(args.evmd.as_deref(), &home)?;
            evmd.init(Some(&args.folder.join(GENESIS)))?;
            let mut options = vec![
                ("--json-rpc.address", address(first, number, 0).to_string()),
                ("--replication.address", address(first, number, 1).to_string()),
            ];
            match sources(args, number) {
                None => options.push(("--block-time", args.block_time.clone())),
                Some(sources) => options.push(("--follow", sources)),
            }
            if number < args.validators {
                options.push(("--port-offset", "0".to_owned()));
                options.push(("--p2p.address", address(first, number, 2).to_string()));
                if args.validators > 1 {
                    options.push(("--p2p.peers", peers(args, links.as_ref(), &keys, number)));
                }
            }
            let url = format!("http://{}", address(first, number, 0));
            let rpc = Rpc::new(&Url::parse(&url)?);
            nodes.push(Node { evmd, options, rpc, running: Mutex::new(None) });
        }
        let this = Self { nodes, links };
        (0..this.len()).try_for_each(|node| this.restart(node))?;
        Ok(this)
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

    /// Starts a node that is not running.
    pub(super) fn restart(&self, node: usize) -> anyhow::Result<()> {
        let Node { evmd, options, running, .. } = &self.nodes[node];
        *lock(running) = Some(evmd.start_with(options)?);
        Ok(())
    }

    /// Sends a signal. `option` is the option of the program `kill`, such as `-STOP`.
    pub(super) fn signal(&self, node: usize, option: &str) -> anyhow::Result<()> {
        lock(&self.nodes[node].running).as_ref().context("the node is running")?.signal(option)
    }

    /// Holds back what validator `from` sends to validator `to` if `is_held(from, to)`.
    pub(super) fn hold(&self, is_held: impl Fn(usize, usize) -> bool) {
        if let Some(links) = &self.links {
            links.hold(is_held);
        }
    }

    /// Returns the CPU time of a node since it was last started.
    pub(super) fn cpu(&self, node: usize) -> anyhow::Result<Duration> {
        let running = lock(&self.nodes[node].running);
        running.as_ref().context("the node is running")?.cpu()
    }

    /// See [`Running::finality`].
    pub(super) fn finality(&self, node: usize) -> anyhow::Result<Option<[f64; 2]>> {
        lock(&self.nodes[node].running).as_ref().context("the node is running")?.finality()
    }

    /// Computes the state root of a node from its accounts, and compares it with the header.
    pub(super) fn audit(&self, node: usize) -> anyhow::Result<Audit> {
        self.nodes[node].evmd.audit()
    }
}

/// Returns the number of fixed ports of this many nodes.
pub(super) const fn ports(nodes: usize) -> u16 {
    PORTS * nodes as u16
}

fn lock(running: &Mutex<Option<Running>>) -> MutexGuard<'_, Option<Running>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the home folder of a node.
fn home(args: &ReplicasArgs, number: usize) -> PathBuf {
    let producers = args.producers();
    args.folder.join(match number {
        0 if args.validators == 0 => "producer".to_owned(),
        _ if number < producers => format!("validator-{number}"),
        _ => format!("replica-{}", number + 1 - producers),
    })
}

/// Writes a genesis file that funds the accounts, and the secret keys of the nodes that produce blocks into their home
/// folders. Returns the public keys of the validators.
fn make_genesis(args: &ReplicasArgs) -> anyhow::Result<Vec<String>> {
    let ReplicasArgs { folder, accounts, seed, block_gas, .. } = args;
    fs::create_dir(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let key_home = folder.join(KEY_HOME);
    let evmd = Evmd::find(args.evmd.as_deref(), &key_home)?;
    let (keys, template) = match args.validators {
        // Only `evmd init` creates the key of a producer.
        0 => {
            evmd.init(None)?;
            let (home, key) = (home(args, 0), "producer.key");
            fs::create_dir(&home)?;
            fs::copy(key_home.join(key), home.join(key)).context("cannot copy producer.key")?;
            (Vec::new(), key_home.join(GENESIS))
        }
        validators => {
            let keys = evmd.testnet(validators)?;
            for number in 0..validators {
                let (from, to) = (key_home.join(format!("validator-{number}")), home(args, number));
                fs::rename(&from, &to).with_context(|| from.display().to_string())?;
                fs::rename(to.join(GENESIS), key_home.join(GENESIS))?;
            }
            (keys, key_home.join(GENESIS))
        }
    };
    genesis::make(&GenesisArgs {
        accounts: *accounts as u64,
        ether: ETHER,
        block_gas: *block_gas,
        seed: *seed,
        template: Some(template),
        file: folder.join(GENESIS),
    })?;
    Ok(keys)
}

/// Returns the value of `--p2p.peers` of a validator.
fn peers(args: &ReplicasArgs, links: Option<&Links>, keys: &[String], number: usize) -> String {
    let address = |other| match links {
        Some(links) => links.address(number, other),
        None => address(args.first_address, other, 2),
    };
    let others = keys.iter().enumerate().filter(|(other, _)| *other != number);
    let peers = others.map(|(other, key)| format!("{key}@{}", address(other)));
    peers.collect::<Vec<_>>().join(",")
}

/// Creates the links between validators, if their connections must go through this process.
fn links(args: &ReplicasArgs) -> anyhow::Result<Option<Links>> {
    if args.partitions == 0 && args.delay_ms == 0 {
        return Ok(None);
    }
    let targets: Vec<_> =
        (0..args.validators).map(|number| address(args.first_address, number, 2)).collect();
    Links::start(&targets, Duration::from_millis(args.delay_ms)).map(Some)
}

fn address(first: SocketAddr, node: usize, server: u16) -> SocketAddr {
    SocketAddr::new(first.ip(), first.port() + PORTS * node as u16 + server)
}

/// The value of `--follow` of a node, or `None` if it produces blocks. The last of several replicas of a producer
/// prefers the first replica to the producer.
fn sources(args: &ReplicasArgs, number: usize) -> Option<String> {
    let url = |node| format!("http://{}", address(args.first_address, node, 1));
    let producers = args.producers();
    if number < producers {
        return None;
    }
    Some(match args.validators {
        0 if number == args.replicas && number > 1 => format!("{},{}", url(1), url(0)),
        0 => url(0),
        _ => format!("{},{}", url(number % producers), url((number + 1) % producers)),
    })
}
