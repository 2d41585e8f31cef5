//! Scenario `kill`: repeatedly kills a node with SIGKILL under full load, and checks that the
//! restarted node has all answered transactions and all blocks that it had reported.
//!
//! Each round uses its own senders, so it does not depend on earlier rounds.

use crate::{
    drive::{Plan, Source, Watch, drive},
    fund::{self, Recipients, SenderSpec, Senders},
    heads::{ReportedHeads, Subscription},
    keys::Key,
    node::{Audit, Evmd, Replayed, Running},
    options::{Output, bar},
    signed::{self, Header, Reader},
    tx::{RequestFormat, Submissions},
    tx_template::Load,
    wire::Endpoint,
};
use alloy_primitives::Address;
use anyhow::{Context, bail};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Polling interval of the number of answered transactions.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Polling interval of the number of mined transactions after a restart.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// If no further transaction is mined for this long, the missing ones count as lost.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time without an answered transaction before a round fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a request under load.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of reported blocks that are checked after a restart, including the newest.
const MAX_CHECKED_BLOCKS: usize = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    /// The program `evmd` [default: the one in the folder of this program]
    #[arg(long, value_name = "FILE")]
    evmd: Option<PathBuf>,
    /// Home folder of a new chain with a genesis from `loadtest genesis`
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// Accounts of that genesis: each kill has a share of them as senders, and all of them receive
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    accounts: usize,
    /// Number of kills
    #[arg(long, value_name = "N", default_value_t = 20)]
    kills: usize,
    /// Answered transactions before the first kill
    #[arg(long, value_name = "N", default_value_t = 250_000)]
    least: u64,
    /// Answered transactions before the last kill; those between are spaced evenly
    #[arg(long, value_name = "N", default_value_t = 600_000)]
    most: u64,
    /// Connections to the TCP ingest
    #[arg(long, short, value_name = "N", default_value_t = 4)]
    connections: usize,
    /// Maximum transactions sent but not mined
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    ahead: u64,
    /// Maximum fee of a transaction, in gwei per gas
    #[arg(long, value_name = "GWEI", default_value_t = 200.0)]
    fee_cap: f64,
    /// Seed of the genesis
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

impl KillArgs {
    fn check(&self) -> anyhow::Result<()> {
        if self.kills == 0 || self.least == 0 || self.most < self.least {
            bail!("--kills and --least must be at least 1, and --most at least --least");
        }
        if self.ahead == 0 {
            bail!("--ahead must be at least 1, got 0");
        }
        if self.accounts / self.kills < self.connections.max(1) {
            bail!("--accounts {} is too low for {} kills", self.accounts, self.kills);
        }
        Ok(())
    }

    /// Returns the number of answered transactions after which the node is killed.
    fn target(&self, round: usize) -> u64 {
        let steps = (self.kills - 1).max(1) as u64;
        self.least + (self.most - self.least) * round as u64 / steps
    }
}

/// One start, load and kill of the node, and its state afterwards.
#[derive(Clone, Debug)]
struct KillRound {
    answered: u64,
    /// Answered transactions per second.
    rate: f64,
    /// The newest block that the node reported.
    reported: u64,
    /// State of the home folder after the kill.
    killed: Audit,
    /// Whether blocks of this round were flushed before the kill.
    flushed: bool,
    /// Blocks replayed at the restart.
    replayed: Replayed,
    /// Time from starting the process to serving.
    restart_seconds: f64,
}

impl KillRound {
    /// Returns the seconds from restart to serving per 100,000 replayed transactions, or `None` if
    /// none was replayed.
    fn restart_seconds_per_100k(&self) -> Option<f64> {
        let replayed = Some(self.replayed.transactions).filter(|replayed| *replayed > 0)?;
        Some(self.restart_seconds * 1e5 / replayed as f64)
    }

    fn json(&self) -> Value {
        json!({
            "answered": self.answered, "answeredPerSecond": self.rate, "reported": self.reported,
            "head": self.killed.head, "flushed": self.killed.block,
            "flushedInThisLife": self.flushed, "unflushedTransactions": self.killed.unflushed,
            "replayedBlocks": self.replayed.blocks,
            "replayedTransactions": self.replayed.transactions,
            "replaySeconds": self.replayed.seconds,
            "restartSeconds": self.restart_seconds,
            "restartSecondsPer100000": self.restart_seconds_per_100k(),
        })
    }
}

/// Runs all kills. Any lost block or transaction is an error.
pub(crate) fn run(args: &KillArgs) -> anyhow::Result<()> {
    args.check()?;
    let evmd = Evmd::find(args.evmd.as_deref(), &args.home)?;
    let mut node = evmd.start()?;
    let wanted = SenderSpec::of_genesis(args.accounts, args.fee_cap, args.seed);
    let all = fund::without_funding(wanted, node.rpc.chain_id()?);
    if node.rpc.balances(&[all.keys[0].address])?[0].is_zero() {
        bail!(
            "{} does not fund these senders: create its genesis with `loadtest genesis`, with at least \
             as many accounts and the same seed",
            args.home.display()
        );
    }
    let mut out = std::io::stdout();
    let mut rounds = Vec::new();
    for number in 0..args.kills {
        let (round, next) = run_one_kill(args, &evmd, node, &all, number)
            .with_context(|| format!("kill {}", number + 1))?;
        node = next;
        if args.output == Output::Text {
            writeln!(
                out,
                "kill {:>2}: {} answered at {:.0}/s; newest reported block {}, head {}, index at {}{}; \
                 {} transactions replayed in {:.2} s, serving after {:.2} s",
                number + 1,
                round.answered,
                round.rate,
                round.reported,
                round.killed.head,
                round.killed.block,
                if round.flushed { "" } else { " (no flush in this round)" },
                round.replayed.transactions,
                round.replayed.seconds,
                round.restart_seconds,
            )?;
        }
        rounds.push(round);
    }
    node.kill()?;
    publish(args, &rounds)
}

fn publish(args: &KillArgs, rounds: &[KillRound]) -> anyhow::Result<()> {
    let mut each: Vec<_> = rounds.iter().filter_map(KillRound::restart_seconds_per_100k).collect();
    each.sort_unstable_by(f64::total_cmp);
    let (median, max) = (each.get(each.len() / 2), each.last());
    let flushed = rounds.iter().filter(|round| round.flushed).count();
    let mut out = std::io::stdout();
    if args.output == Output::Json {
        let rounds: Vec<_> = rounds.iter().map(KillRound::json).collect();
        let value = json!({
            "kills": rounds, "afterAFlush": flushed,
            "restartSecondsPer100000": { "median": median, "most": max },
        });
        return Ok(writeln!(out, "{value:#}")?);
    }
    writeln!(
        out,
        "{} kills, {flushed} of them after a flush under load: no checked block was lost or \
         replaced, no answered transaction was lost, and every state root matched the accounts",
        rounds.len()
    )?;
    let (Some(median), Some(max)) = (median, max) else {
        return Ok(writeln!(
            out,
            "no transaction had to be replayed, because all were flushed (see --least)"
        )?);
    };
    Ok(writeln!(
        out,
        "restart per 100,000 replayed transactions: median {median:.2} s, maximum {max:.2} s, over \
         {} restarts with a replay",
        each.len()
    )?)
}

/// Runs one round: full load, SIGKILL, restart and all checks. Returns the restarted node.
fn run_one_kill(
    args: &KillArgs,
    evmd: &Evmd,
    mut node: Running,
    all: &Senders,
    number: usize,
) -> anyhow::Result<(KillRound, Running)> {
    let first_head = node.rpc.block_number()?;
    let share = args.accounts / args.kills;
    let keys: Arc<[Key]> = all.keys[number * share..(number + 1) * share].into();
    let target = args.target(number);
    let file = sign(args, &keys, all, target)?;
    let (answered, rate, reported) = load(args, &mut node, file, target)?;
    drop(node);
    let (&newest, _) = reported.last_key_value().context("the node reported no block")?;
    let killed = evmd.audit().context("state after the kill")?;
    let node = evmd.start().context("restart after the kill")?;
    check_blocks(&node, &reported)?;
    let restarted = evmd.audit().context("state after the restart")?;
    if restarted.block < newest {
        bail!("block {newest} was reported, but the index ends at block {}", restarted.block);
    }
    let kept = wait_until_mined(&node, &keys, answered)?;
    if kept < answered {
        bail!("{answered} transactions were answered, but only {kept} are mined");
    }
    let round = KillRound {
        answered,
        rate,
        reported: newest,
        killed,
        flushed: killed.block > first_head,
        replayed: node.replayed,
        restart_seconds: node.starting.as_secs_f64(),
    };
    Ok((round, node))
}

/// Signs enough transactions for the load to continue until the kill.
fn sign(args: &KillArgs, keys: &Arc<[Key]>, all: &Senders, target: u64) -> anyhow::Result<File> {
    let senders = Senders {
        keys: Arc::clone(keys),
        template: all.template.clone(),
        recipients: Recipients::Among(Arc::clone(&all.keys)),
    };
    let header = Header {
        chain_id: all.template.chain_id,
        load: Load::Transfer,
        count: target + args.ahead,
        senders: keys.len(),
        seed: args.seed,
        first_nonces: vec![0; keys.len()],
    };
    let mut file =
        tempfile::tempfile().context("cannot create a temporary file for signed transactions")?;
    signed::write(&mut file, &header, &senders, &ProgressBar::hidden())?;
    Ok(file)
}

/// Loads the node until it has answered `target` transactions, then kills it. Returns the number of
/// answered transactions, their rate per second, and the hashes of the reported blocks by number.
fn load(
    args: &KillArgs,
    node: &mut Running,
    file: File,
    target: u64,
) -> anyhow::Result<(u64, f64, BTreeMap<u64, String>)> {
    let (heads, done, mined) =
        (ReportedHeads::default(), AtomicBool::new(false), AtomicU64::new(0));
    let watch = Watch::default();
    let plan = Plan {
        connections: args.connections,
        depth: None,
        duration: None,
        rate: None,
        timeout: TIMEOUT,
    };
    let reader = Reader::open(file, args.connections)?;
    let source: Box<dyn Source + '_> =
        Box::new(Submissions::new(reader, RequestFormat::Raw, args.ahead, &mined));
    let endpoint = Endpoint::Ingest(node.ingest);
    let subscription = Subscription::open(&node.ws)?;
    let (rpc, first) = (node.rpc.clone(), node.rpc.block_number()?);
    let begun = Instant::now();
    let elapsed = std::thread::scope(|scope| {
        let listening = scope.spawn(|| heads.listen(subscription, &done));
        let polling = scope.spawn(|| heads.poll(&rpc, &done));
        let counting = scope.spawn(|| count_mined(&rpc, first, &mined, &done));
        let bar = bar("load");
        let (endpoint, plan, watch) = (&endpoint, &plan, &watch);
        let loading = scope.spawn(move || drive(endpoint, plan, vec![source], watch, &bar));
        let (mut seen, mut last_progress) = (0, Instant::now());
        while seen < target && !loading.is_finished() && last_progress.elapsed() < STALL_TIMEOUT {
            std::thread::park_timeout(POLL_INTERVAL);
            let answered = watch.operations.load(Relaxed);
            if answered > seen {
                (seen, last_progress) = (answered, Instant::now());
            }
        }
        let elapsed = begun.elapsed();
        let killed = node.kill();
        watch.abandon.store(true, Relaxed);
        done.store(true, Relaxed);
        let panicked = |what| anyhow::anyhow!("{what} panicked");
        // Lost connections are expected here.
        let loaded = loading.join().map_err(|_| panicked("loading"))?;
        listening.join().map_err(|_| panicked("listening"))??;
        polling.join().map_err(|_| panicked("polling"))??;
        counting.join().map_err(|_| panicked("counting"))?;
        killed?;
        if watch.operations.load(Relaxed) < target {
            let why = loaded.err().map_or_else(String::new, |error| format!(": {error:#}"));
            bail!(
                "only {} of {target} transactions were answered{why}",
                watch.operations.load(Relaxed)
            );
        }
        Ok(elapsed)
    })?;
    let answered = watch.operations.load(Relaxed);
    Ok((answered, answered as f64 / elapsed.as_secs_f64(), heads.into_hashes()))
}

/// Counts mined transactions until `done` is set or a call fails because the node has ended.
fn count_mined(rpc: &crate::rpc::Rpc, mut head: u64, mined: &AtomicU64, done: &AtomicBool) {
    while !done.load(Relaxed) {
        let Ok(newest) = rpc.block_number() else { return };
        while head < newest {
            head += 1;
            let Ok(txs) = rpc.tx_count(head) else { return };
            mined.fetch_add(txs, Relaxed);
        }
        std::thread::park_timeout(POLL_INTERVAL * 20);
    }
}

/// Fails unless the restarted node has the newest reported block and a sample of the others, with the reported hashes.
fn check_blocks(node: &Running, reported: &BTreeMap<u64, String>) -> anyhow::Result<()> {
    let step = reported.len().div_ceil(MAX_CHECKED_BLOCKS).max(1);
    for (number, hash) in reported.iter().rev().step_by(step) {
        let block =
            node.rpc.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false]))?;
        if block["hash"].as_str() != Some(hash) {
            bail!("block {number} was reported as {hash}, and is now {}", block["hash"]);
        }
    }
    Ok(())
}

/// Waits until all answered transactions of the round's senders are mined, as long as there is
/// progress. Returns the number of mined transactions. An empty pool does not end the wait, because
/// transactions may be on their way from the pool into a block.
fn wait_until_mined(node: &Running, keys: &[Key], answered: u64) -> anyhow::Result<u64> {
    let addresses: Vec<Address> = keys.iter().map(|key| key.address).collect();
    let (mut kept, mut last_progress) = (0, Instant::now());
    while kept < answered && last_progress.elapsed() < DRAIN_TIMEOUT {
        std::thread::park_timeout(DRAIN_POLL_INTERVAL);
        let mined = node.rpc.nonces(&addresses)?.into_iter().sum();
        if mined > kept {
            (kept, last_progress) = (mined, Instant::now());
        }
    }
    Ok(kept)
}
