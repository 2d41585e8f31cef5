//! Scenario `replicas`: sends transactions through the replicas of a producer, or through validators and their
//! replicas, while nodes are killed with SIGKILL, and checks what the nodes have reported to clients.
//!
//! Each node that transactions are sent to has its own senders and its own thread. A sender sends its next transaction
//! when the last one was answered; after an error it continues with the nonce that the node reports. A sender's
//! transaction with a given nonce is always the same, so resending it after a lost response cannot transfer twice.

mod checks;
mod cluster;
mod faults;
mod heads;
mod links;
mod sending;

use crate::{
    fund::{self, SenderSpec, Senders},
    options::Output,
};
use alloy_primitives::B256;
use anyhow::bail;
use checks::{Checked, check};
use cluster::Cluster;
use faults::Faults;
use heads::Heads;
use sending::{LoadState, Share};
use serde_json::json;
use std::{
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Maximum number of replicas, and of validators: this machine runs all of them.
const MAX_REPLICAS: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct ReplicasArgs {
    /// The program `evmd` [default: the one in the folder of this program]
    #[arg(long, value_name = "FILE")]
    evmd: Option<PathBuf>,
    /// New folder for a chain and the home folders of its nodes
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Accounts of the genesis, which send and receive
    #[arg(long, value_name = "N", default_value_t = 30_000)]
    accounts: usize,
    /// Transactions that must be acknowledged
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1_000_000)]
    transactions: u64,
    /// Number of replicas; the last of several follows the first one, and the others follow the producer
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: usize,
    /// Run this many validators instead of a producer; transactions are also sent through them, and each replica follows two of
    /// them [default: one producer]
    #[arg(long, value_name = "N", default_value_t = 0)]
    validators: usize,
    /// Number of kills, each of random nodes at a random time
    #[arg(long, value_name = "N", default_value_t = 30)]
    kills: u64,
    /// Number of times that a random node is stopped with SIGSTOP, for at most 12 s
    #[arg(long, value_name = "N", default_value_t = 0)]
    pauses: u64,
    /// Number of times that validators do not hear each other, for at most 12 s: two halves, one alone, one that is not heard, or a ring
    #[arg(long, value_name = "N", default_value_t = 0)]
    partitions: u64,
    /// Time by which each message between validators is delayed, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay_ms: u64,
    /// Gas limit of a block; a transfer uses 21,000
    #[arg(long, value_name = "GAS", default_value_t = 210_000_000)]
    block_gas: u64,
    /// Maximum number of nodes that are killed at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_once: usize,
    /// Address of JSON-RPC of the first node; its port and those after it, three for each node, must be free, and should be below
    /// the ports that the kernel gives to outgoing connections
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:21000")]
    first_address: SocketAddr,
    /// Time between blocks
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    block_time: String,
    /// Maximum transactions in the mempool while more are sent
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    ahead: u64,
    /// Maximum fee of a transaction, in gwei per gas
    #[arg(long, value_name = "GWEI", default_value_t = 200.0)]
    fee_cap: f64,
    /// Seed of the accounts and of the kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

impl ReplicasArgs {
    fn check(&self) -> anyhow::Result<()> {
        let min = usize::from(self.validators == 0);
        if !(min..=MAX_REPLICAS).contains(&self.replicas) {
            bail!("--replicas must be between {min} and {MAX_REPLICAS}, got {}", self.replicas);
        }
        if self.validators > MAX_REPLICAS {
            bail!("--validators must be at most {MAX_REPLICAS}, got {}", self.validators);
        }
        if self.validators < 2 && (self.partitions > 0 || self.delay_ms > 0) {
            bail!(
                "--partitions and --delay-ms need --validators of at least 2, got {}",
                self.validators
            );
        }
        let nodes = self.producers() + self.replicas;
        if !(1..=nodes).contains(&self.at_once) {
            bail!(
                "--at-once must be between 1 and the number of nodes, {nodes}, got {}",
                self.at_once
            );
        }
        if self.transactions == 0 || self.ahead == 0 {
            bail!("--transactions and --ahead must be at least 1");
        }
        let ports = cluster::ports(nodes);
        if self.first_address.port().checked_add(ports - 1).is_none() {
            bail!(
                "--first-address {}: {ports} consecutive ports are needed from this one on, and the highest port is {}",
                self.first_address,
                u16::MAX
            );
        }
        if self.accounts < nodes {
            bail!(
                "--accounts must be at least the number of nodes, {nodes}, got {}",
                self.accounts
            );
        }
        Ok(())
    }

    /// Returns the number of nodes that produce blocks. They have the lowest indices.
    fn producers(&self) -> usize {
        self.validators.max(1)
    }

    /// Returns the index of the first node that transactions are sent to.
    fn first_entry(&self) -> usize {
        usize::from(self.validators == 0)
    }

    fn senders(&self, chain_id: u64) -> Senders {
        let spec = SenderSpec::of_genesis(self.accounts, self.fee_cap, self.seed);
        fund::without_funding(spec, chain_id)
    }
}

/// The outcome of the load.
#[derive(Debug)]
struct Loaded {
    /// Hashes of the acknowledged transactions.
    acknowledged: Vec<B256>,
    /// Number of transactions without a response, or with an error.
    failed: u64,
    faults: Faults,
    elapsed: Duration,
    /// Time from the start until the mempools were empty, and the head of the first node at that time.
    mined_after: (Duration, u64),
    /// CPU time of each node since it was last started.
    cpu: Vec<Duration>,
    /// Median and 95th percentile of the time to finality at each validator, in milliseconds.
    finality: Vec<[f64; 2]>,
}

/// Runs the load with all faults, and then all checks. A lost transaction or a replaced block is an error.
pub(crate) fn run(args: &ReplicasArgs) -> anyhow::Result<()> {
    args.check()?;
    let cluster = Cluster::start(args)?;
    let senders = args.senders(cluster.rpc(0).chain_id()?);
    let heads = Heads::new(cluster.len());
    let loaded = load(args, &cluster, &Arc::new(senders), &heads)?;
    let checked = check(&cluster, args.producers(), &loaded.acknowledged, &heads)?;
    publish(args, &loaded, &checked)
}

fn load(
    args: &ReplicasArgs,
    cluster: &Cluster,
    senders: &Arc<Senders>,
    heads: &Heads,
) -> anyhow::Result<Loaded> {
    let load = LoadState {
        target: args.transactions,
        ahead: args.ahead,
        acknowledged: AtomicU64::new(0),
        pooled: AtomicU64::new(0),
        are_faults_over: AtomicBool::new(false),
        failed: AtomicBool::new(false),
    };
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let watching: Vec<_> = (0..cluster.len())
            .map(|node| {
                let (rpc, done, load) = (cluster.rpc(node), &done, &load);
                scope.spawn(move || {
                    let watched = heads.watch(node, rpc, done);
                    watched.inspect_err(|_| load.failed.store(true, Relaxed))
                })
            })
            .collect();
        let producers: Vec<_> = (0..args.producers()).map(|node| cluster.rpc(node)).collect();
        let ended = &done;
        let load = &load;
        let measuring = scope.spawn(move || load.measure_pool(&producers, ended));
        let entries = args.first_entry()..cluster.len();
        let count = entries.len();
        let shares: Vec<_> = entries
            .enumerate()
            .map(|(number, node)| {
                let share = Share::new(Arc::clone(senders), args.seed, number, count);
                let rpc = cluster.rpc(node);
                scope.spawn(move || load.send(share, rpc))
            })
            .collect();
        let injected = faults::inject(args, cluster, load);
        load.are_faults_over.store(true, Relaxed);
        if injected.is_err() {
            load.failed.store(true, Relaxed);
        }
        let panicked = |_| anyhow::anyhow!("a sending thread panicked");
        let sent: Vec<_> = shares.into_iter().map(|share| share.join().map_err(panicked)).collect();
        let elapsed = begun.elapsed();
        let mined = checks::wait_for_empty_pools(cluster, args.producers());
        let mined_after = mined.map(|block| (begun.elapsed(), block));
        let cpu = (0..cluster.len()).map(|node| cluster.cpu(node)).collect::<anyhow::Result<_>>();
        let finality: Vec<_> = (0..args.validators).map(|node| cluster.finality(node)).collect();
        done.store(true, Relaxed);
        for thread in watching {
            thread.join().map_err(|_| anyhow::anyhow!("watching a head panicked"))??;
        }
        measuring.join().map_err(|_| anyhow::anyhow!("measuring the mempool panicked"))?;
        let (faults, mined_after) = (injected?, mined_after?);
        let (mut acknowledged, mut failed) = (Vec::new(), 0);
        for share in sent {
            let share = share??;
            acknowledged.extend(share.acknowledged);
            failed += share.failed;
        }
        let finality =
            finality.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Loaded { acknowledged, failed, faults, elapsed, mined_after, cpu: cpu?, finality })
    })
}

fn publish(args: &ReplicasArgs, loaded: &Loaded, checked: &Checked) -> anyhow::Result<()> {
    let Loaded { acknowledged, failed, faults, elapsed, mined_after, cpu, finality } = loaded;
    let Faults { kills, pauses, partitions } = faults;
    let cpu: Vec<_> = cpu.iter().map(Duration::as_secs_f64).collect();
    let seconds = elapsed.as_secs_f64();
    let rate = acknowledged.len() as f64 / seconds;
    let (producers, replicas) = kills.split_at(args.producers());
    let makers = if args.validators == 0 { "producer" } else { "validators" };
    let mut out = std::io::stdout();
    if args.output == Output::Json {
        let value = json!({
            "acknowledged": acknowledged.len(), "failed": failed, "seconds": seconds, "perSecond": rate,
            "minedSeconds": mined_after.0.as_secs_f64(), "blocksWhenMined": mined_after.1,
            "killsOfProducers": producers, "killsOfReplicas": replicas, "blocks": checked.blocks,
            "pauses": pauses, "partitions": partitions,
            "cpuSeconds": cpu, "finalityMs": finality, "mined": checked.mined, "receipts": checked.receipts, "stateRoot": checked.state_root,
        });
        return Ok(writeln!(out, "{value:#}")?);
    }
    writeln!(
        out,
        "{} transactions acknowledged by {} nodes in {seconds:.1} s ({rate:.0}/s), mined after {:.1} s; {failed} transactions without a response or refused; kills: \
         {makers} {producers:?}, replicas {replicas:?}; pauses {pauses:?}, partitions {partitions:?}; seconds of CPU of each node since its last start {cpu:.1?}; milliseconds to \
         finality (p50, p95) of each validator {finality:.1?}",
        acknowledged.len(),
        kills.len() - args.first_entry(),
        mined_after.0.as_secs_f64(),
    )?;
    Ok(writeln!(
        out,
        "{} transactions in {} blocks, the same on all nodes; each acknowledged transaction is in exactly one block; {} receipts on \
         each node; no head moved backwards; the accounts of each node match its state root; state root of block {}: {}",
        checked.mined, checked.blocks, checked.receipts, checked.blocks, checked.state_root
    )?)
}
