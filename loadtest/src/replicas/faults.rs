//! Faults at random times, which are spread over the load. A seed decides which ones.

use super::{ReplicasArgs, cluster::Cluster, sending::Load};
use crate::rng::Rng;
use anyhow::Context;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

/// Polling interval of the number of acknowledged transactions.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time for which a killed node stays down, in milliseconds.
const MAX_DOWN_MS: u64 = 1_000;
/// Maximum time for which a node is stopped, or for which validators do not hear each other, in milliseconds: longer than the timeouts of
/// a view.
const MAX_SILENCE_MS: u64 = 12_000;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL of some nodes at once.
    Kill,
    /// SIGSTOP of a node, and SIGCONT later.
    Pause,
    /// Some validators do not hear some others.
    Partition,
}

/// Which nodes had how many faults.
#[derive(Debug)]
pub(super) struct Faults {
    /// The number of kills of each node.
    pub(super) kills: Vec<u64>,
    /// The number of pauses of each node.
    pub(super) pauses: Vec<u64>,
    /// The kind of each partition.
    pub(super) partitions: Vec<&'static str>,
}

/// Makes the faults of the arguments happen. Returns when all of them are over.
pub(super) fn happen(
    args: &ReplicasArgs,
    cluster: &Cluster,
    load: &Load,
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
        let happened = match fault {
            Fault::Kill => kill(args.at_once, cluster, &mut rng, &mut faults.kills),
            Fault::Pause => pause(cluster, &mut rng, &mut faults.pauses),
            Fault::Partition => partition(args, cluster, &mut rng, &mut faults),
        };
        happened.with_context(|| format!("fault {}, {fault:?}", number + 1))?;
    }
    Ok(faults)
}

/// The faults in a random order.
fn kinds(args: &ReplicasArgs, rng: &mut Rng) -> Vec<Fault> {
    let counts = [
        (Fault::Kill, args.kills),
        (Fault::Pause, args.pauses),
        (Fault::Partition, args.partitions),
    ];
    let mut kinds: Vec<_> =
        counts.iter().flat_map(|(fault, count)| vec![*fault; *count as usize]).collect();
    // Without other kinds, a seed stands for the same kills as ever.
    if args.pauses + args.partitions > 0 {
        rng.shuffle(&mut kinds);
    }
    kinds
}

/// Kills some nodes, and starts them again.
fn kill(at_once: usize, cluster: &Cluster, rng: &mut Rng, kills: &mut [u64]) -> anyhow::Result<()> {
    let mut nodes: Vec<usize> = (0..cluster.len()).collect();
    let killed = match at_once {
        1 => 1,
        most => 1 + rng.below(most as u64) as usize,
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

/// Stops a node, and continues it.
fn pause(cluster: &Cluster, rng: &mut Rng, pauses: &mut [u64]) -> anyhow::Result<()> {
    let node = rng.below(cluster.len() as u64) as usize;
    pauses[node] += 1;
    cluster.signal(node, "-STOP")?;
    std::thread::park_timeout(Duration::from_millis(rng.below(MAX_SILENCE_MS)));
    cluster.signal(node, "-CONT")
}

/// Separates validators. One time in two, nodes are killed meanwhile.
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

/// A kind of partition, and whether what one validator sends to another is held back.
fn random_partition(validators: usize, rng: &mut Rng) -> (&'static str, IsHeld) {
    let mut order: Vec<usize> = (0..validators).collect();
    rng.shuffle(&mut order);
    let place = move |node: usize| order.iter().position(|at| *at == node).unwrap_or(0);
    match rng.below(4) {
        0 => (
            "halves",
            Box::new(move |from, to| {
                (place(from) < validators / 2) != (place(to) < validators / 2)
            }),
        ),
        1 => ("one alone", Box::new(move |from, to| (place(from) == 0) != (place(to) == 0))),
        2 => ("one is not heard", Box::new(move |from, _| place(from) == 0)),
        _ => ("ring", Box::new(move |from, to| place(to) != (place(from) + 1) % validators)),
    }
}
