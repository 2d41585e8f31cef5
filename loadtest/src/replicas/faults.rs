//! Injects faults at random times that are spread over the load. The seed determines them.

use super::{ReplicasArgs, cluster::Cluster, sending::LoadState};
use crate::rng::Rng;
use anyhow::Context;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

/// Polling interval of the number of acknowledged transactions.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum pause before each restart of a killed node, in milliseconds.
const MAX_DOWN_MS: u64 = 1_000;
/// Maximum time for which a node is stopped or messages between validators are held back, in milliseconds: longer than
/// the timeouts of a view.
const MAX_SILENCE_MS: u64 = 12_000;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL of some nodes at once.
    Kill,
    /// SIGSTOP of a node, and SIGCONT later.
    Pause,
    /// Messages between some validators are held back.
    Partition,
}

/// The faults that were injected.
#[derive(Debug)]
pub(super) struct Faults {
    /// The number of kills of each node.
    pub(super) kills: Vec<u64>,
    /// The number of pauses of each node.
    pub(super) pauses: Vec<u64>,
    /// The kind of each partition.
    pub(super) partitions: Vec<&'static str>,
}

/// Injects the faults of the arguments. Returns when all of them are over, or the load has failed.
pub(super) fn inject(
    args: &ReplicasArgs,
    cluster: &Cluster,
    load: &LoadState,
) -> anyhow::Result<Faults> {
    let mut rng = Rng::new(args.seed);
    let none = vec![0; cluster.len()];
    let mut faults = Faults { kills: none.clone(), pauses: none, partitions: Vec::new() };
    let kinds = kinds(args, &mut rng);
    for (number, fault) in kinds.iter().enumerate() {
        let share = args.transactions / kinds.len() as u64;
        let when = number as u64 * share + rng.below(share.max(1));
        while load.acknowledged.load(Relaxed) < when {
            if load.failed.load(Relaxed) {
                return Ok(faults);
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
        let injected = match fault {
            Fault::Kill => kill(args.at_once, cluster, &mut rng, &mut faults.kills),
            Fault::Pause => pause(cluster, &mut rng, &mut faults.pauses),
            Fault::Partition => partition(args, cluster, &mut rng, &mut faults),
        };
        injected.with_context(|| format!("fault {}, {fault:?}", number + 1))?;
    }
    Ok(faults)
}

/// Returns the faults in the order in which they are injected.
fn kinds(args: &ReplicasArgs, rng: &mut Rng) -> Vec<Fault> {
    let counts = [
        (Fault::Kill, args.kills),
        (Fault::Pause, args.pauses),
        (Fault::Partition, args.partitions),
    ];
    let mut kinds: Vec<_> =
        counts.iter().flat_map(|(fault, count)| vec![*fault; *count as usize]).collect();
    // With kills only, no random number is drawn here, so that a seed determines the same kills as in earlier versions.
    if args.pauses + args.partitions > 0 {
        rng.shuffle(&mut kinds);
    }
    kinds
}

/// Kills at most `at_once` nodes, and restarts them one after another.
fn kill(at_once: usize, cluster: &Cluster, rng: &mut Rng, kills: &mut [u64]) -> anyhow::Result<()> {
    let mut nodes: Vec<usize> = (0..cluster.len()).collect();
    let killed = match at_once {
        1 => 1,
        max => 1 + rng.below(max as u64) as usize,
    };
    for at in 0..killed {
        let left = (nodes.len() - at) as u64;
        nodes.swap(at, at + rng.below(left) as usize);
        cluster.kill(nodes[at])?;
        kills[nodes[at]] += 1;
    }
    for node in &nodes[..killed] {
        std::thread::park_timeout(Duration::from_millis(rng.below(MAX_DOWN_MS)));
        cluster.restart(*node)?;
    }
    Ok(())
}

/// Stops a node, and continues it after a random time.
fn pause(cluster: &Cluster, rng: &mut Rng, pauses: &mut [u64]) -> anyhow::Result<()> {
    let node = rng.below(cluster.len() as u64) as usize;
    pauses[node] += 1;
    cluster.signal(node, "-STOP")?;
    std::thread::park_timeout(Duration::from_millis(rng.below(MAX_SILENCE_MS)));
    cluster.signal(node, "-CONT")
}

/// Separates validators for a random time. With a probability of one half, nodes are killed during that time.
fn partition(
    args: &ReplicasArgs,
    cluster: &Cluster,
    rng: &mut Rng,
    faults: &mut Faults,
) -> anyhow::Result<()> {
    let (kind, is_held) = random_partition(args.validators, rng);
    faults.partitions.push(kind);
    cluster.hold(is_held);
    if rng.below(2) == 0 {
        kill(args.at_once, cluster, rng, &mut faults.kills)?;
    }
    std::thread::park_timeout(Duration::from_millis(rng.below(MAX_SILENCE_MS)));
    cluster.hold(|_, _| false);
    Ok(())
}

type IsHeld = Box<dyn Fn(usize, usize) -> bool>;

/// Picks a random partition; returns its name and a function that returns whether messages `(from, to)` are held back.
fn random_partition(validators: usize, rng: &mut Rng) -> (&'static str, IsHeld) {
    let mut order: Vec<usize> = (0..validators).collect();
    rng.shuffle(&mut order);
    let position = move |node: usize| order.iter().position(|at| *at == node).unwrap_or(0);
    match rng.below(4) {
        0 => (
            "halves",
            Box::new(move |from, to| {
                (position(from) < validators / 2) != (position(to) < validators / 2)
            }),
        ),
        1 => ("one alone", Box::new(move |from, to| (position(from) == 0) != (position(to) == 0))),
        2 => ("one is not heard", Box::new(move |from, _| position(from) == 0)),
        _ => ("ring", Box::new(move |from, to| position(to) != (position(from) + 1) % validators)),
    }
}
