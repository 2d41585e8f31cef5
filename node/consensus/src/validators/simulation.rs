//! Tests with four validators in one thread, and simulated time, network and crashes. A seed decides everything that is
//! random, so a failure can be repeated.

mod byzantine;
mod headers;

use self::headers::{HOUR, Headers, encode, genesis};
use super::{
    application::MAX_SECONDS_AHEAD,
    block::ProposedBlock,
    engine::{self, Channels, Setup, Timeouts},
    engine_files::{KeptBlocks, StartError},
    guarded_scheme::GuardedScheme,
    observer::Observer,
    vote_record::{VoteRecord, VoteRecordError},
};
use alloy_primitives::B256;
use certificates::Authority;
use commonware_cryptography::{
    Signer,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::simulated::{self, Link, Network, Oracle};
use commonware_runtime::{Clock, Handle, Quota, Runner, Storage, Supervisor, deterministic};
use commonware_utils::{NZU32, NZU64, NZUsize, TryCollect, ordered::Set};
use rand_core::Rng;
use state::Voting;
use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

const VALIDATORS: u64 = 4;
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Number of simulations in a test that uses several seeds.
const SEEDS: u64 = 10;
/// Number of simulations with random faults, without and with `EVMD_LONG_TESTS`.
const FAULT_SEEDS: u64 = 100;
const FAULT_SEEDS_LONG: u64 = 2_000;
/// Number of faults in a simulation, one every 2.5 s.
const FAULTS: usize = 20;

fn keys() -> impl Iterator<Item = PrivateKey> {
    (0..VALIDATORS).map(PrivateKey::from_seed)
}

/// What replicas know about the validators.
fn authority() -> Authority {
    let public = |key: PrivateKey| {
        let key = B256::from_slice(key.public_key().as_ref());
        certificates::PublicKey::try_from(key).unwrap()
    };
    Authority::of_validators(genesis().hash_slow(), keys().map(public).collect())
}

type Control = simulated::Control<PublicKey, deterministic::Context>;
type Peers = simulated::Manager<PublicKey, deterministic::Context>;
type Sender = simulated::Sender<PublicKey, deterministic::Context>;
type Receiver = simulated::Receiver<PublicKey>;

struct Simulation {
    runtime: deterministic::Context,
    oracle: Oracle<PublicKey, deterministic::Context>,
    keys: Vec<PrivateKey>,
    chains: Vec<Headers>,
    running: Vec<Option<Vec<Handle<()>>>>,
    starts: usize,
    /// How often each validator has lost all files of its engine.
    losses: [usize; VALIDATORS as usize],
    kept_blocks: KeptBlocks,
    /// The validator that does not follow the protocol.
    byzantine: Option<usize>,
    voting: Arc<Voting>,
    records: tempfile::TempDir,
}

impl Simulation {
    async fn new(runtime: deterministic::Context) -> Self {
        let mut keys: Vec<_> = keys().collect();
        keys.sort_by_key(Signer::public_key);
        let participants: Vec<_> = keys.iter().map(Signer::public_key).collect();
        let config = simulated::Config {
            max_size: 4 * MAX_BLOCK_BYTES as u32,
            max_peers_per_set: NZUsize!(VALIDATORS as usize),
            disconnect_on_block: true,
            tracked_peer_sets: NZUsize!(1),
        };
        let (network, oracle) =
            Network::new_with_peers(runtime.child("network"), config, participants).await;
        network.start();
        let records = tempfile::tempdir().unwrap();
        for key in 0..VALIDATORS {
            VoteRecord::create(&records.path().join(key.to_string())).unwrap();
        }
        let public = keys.iter().map(|key| B256::from_slice(key.public_key().as_ref()));
        let voting = Arc::new(Voting::new(public.collect()));
        let chains = (0..VALIDATORS).zip(&keys);
        let chains = chains.map(|(salt, key)| Headers::new(&key.public_key(), salt)).collect();
        let running = (0..VALIDATORS).map(|_| None).collect();
        Self {
            runtime,
            oracle,
            keys,
            chains,
            running,
            starts: 0,
            losses: Default::default(),
            kept_blocks: KeptBlocks::DEFAULT,
            byzantine: None,
            voting,
            records,
        }
    }

    fn key(&self, at: usize) -> PublicKey {
        self.keys[at].public_key()
    }

    async fn link(&self, from: usize, to: usize, latency: Duration) {
        let link = Link {
            latency,
            jitter: latency / 4,
            success_rate: commonware_utils::probability!(1.0),
        };
        let _ = self.oracle.add_link(self.key(from), self.key(to), link).await;
    }

    async fn unlink(&self, from: usize, to: usize) {
        let _ = self.oracle.remove_link(self.key(from), self.key(to)).await;
    }

    async fn link_all(&self, latency: Duration) {
        for (from, to) in pairs() {
            self.link(from, to, latency).await;
        }
    }

    async fn start_all(&mut self) {
        self.link_all(LATENCY).await;
        for at in 0..4 {
            self.start(at).await;
        }
    }

    async fn start(&mut self, at: usize) {
        self.running[at] = Some(self.try_start(at).await.unwrap());
    }

    /// Starts a validator that may refuse to start. Returns its tasks.
    async fn try_start(&mut self, at: usize) -> Result<Vec<Handle<()>>, StartError> {
        let (runtime, channels) = (self.child(), self.channels(at).await);
        let setup = self.setup(at, &at.to_string(), self.chains[at].clone());
        engine::start(runtime, setup, channels).await
    }

    /// Returns a runtime for the next validator that starts.
    fn child(&mut self) -> deterministic::Context {
        self.starts += 1;
        self.runtime.child("validator").with_attribute("start", self.starts)
    }

    async fn channels(&self, at: usize) -> Channels<Sender, Receiver> {
        let control = self.oracle.control(self.key(at));
        let quota = Quota::per_second(NZU32!(10_000));
        let channel = |number| {
            let control = control.clone();
            async move { control.register(number, quota).await.unwrap() }
        };
        Channels {
            votes: channel(0).await,
            certificates: channel(1).await,
            resolver: channel(2).await,
            blocks: channel(3).await,
            backfill: channel(4).await,
        }
    }

    /// Returns the setup of validator `at`. `name` is the name of its record and the prefix of its files.
    fn setup(&self, at: usize, name: &str, chain: Headers) -> Setup<Headers, Control, Peers> {
        let key = self.keys[at].clone();
        let participants: Set<PublicKey> =
            self.keys.iter().map(Signer::public_key).try_collect().unwrap();
        let (public_key, namespace) = (key.public_key(), genesis().hash_slow());
        let record = self.record(name).unwrap();
        // A Byzantine validator may propose blocks above the limit of the others.
        let max_block_bytes = MAX_BLOCK_BYTES << u32::from(self.byzantine == Some(at));
        Setup {
            observer: Observer::new(chain.clone(), Arc::clone(&self.voting)),
            chain,
            files: format!("{name}-{}-", self.losses[at]),
            scheme: GuardedScheme::signer(namespace.as_slice(), participants, key, record).unwrap(),
            genesis: ProposedBlock::genesis(self.key(0), encode(&genesis())).unwrap(),
            max_block_bytes,
            pace: Duration::from_millis(100),
            timestamp_step: 0,
            timeouts: Timeouts::with_pace(Duration::ZERO),
            kept_blocks: self.kept_blocks,
            blocker: self.oracle.control(public_key.clone()),
            peers: self.oracle.manager(),
            public_key,
        }
    }

    async fn kill(&mut self, at: usize) {
        for task in self.running[at].take().expect("the validator runs") {
            task.abort();
            let _ = task.await;
        }
        // Tasks that these tasks started end later, and use the record of votes until then.
        while matches!(self.record(&at.to_string()), Err(VoteRecordError::InUse(_))) {
            self.runtime.sleep(Duration::from_millis(1)).await;
        }
        self.chains[at].forget();
    }

    fn record(&self, name: &str) -> Result<VoteRecord, VoteRecordError> {
        VoteRecord::open(&self.records.path().join(name))
    }

    fn heights(&self) -> Vec<u64> {
        let last = |chain: &Headers| chain.with(|state| *state.chain.last_key_value().unwrap().0);
        self.chains.iter().map(last).collect()
    }

    /// Waits until the running validators have this many more final blocks than the highest one has now.
    async fn advance(&self, blocks: u64) {
        let target = self.heights().into_iter().max().unwrap() + blocks;
        let waits_for = |at: usize| self.running[at].is_some() && self.byzantine != Some(at);
        while (0..).zip(self.heights()).any(|(at, height)| waits_for(at) && height < target) {
            self.runtime.sleep(Duration::from_millis(100)).await;
        }
    }

    /// Asserts that all validators have the same final blocks, up to their heights, and that no votes contradict each
    /// other if no validator is Byzantine.
    fn check(&self) {
        let contradictions = self.voting.read().contradictions;
        assert!(contradictions == 0 || self.byzantine.is_some(), "contradicting votes");
        let chains: Vec<_> =
            self.chains.iter().map(|chain| chain.with(|state| state.chain.clone())).collect();
        let longest = chains.iter().max_by_key(|chain| chain.len()).unwrap();
        // At least half of the blocks have certificates of their own, unless they were requested later.
        let certified =
            |chain: &Headers| chain.with(|state| 2 * state.certified + 1 >= state.chain.len());
        let complete = (0..).zip(&self.chains).filter(|(at, _): &(usize, _)| self.losses[*at] == 0);
        let certified = complete.map(|(_, chain)| chain).all(certified);
        assert!(self.byzantine.is_some() || certified, "few certificates");
        for chain in &chains {
            for (number, hash) in chain {
                assert_eq!(longest[number], *hash, "block {number}");
            }
        }
    }
}

impl Simulation {
    /// Causes a random fault, or ends one.
    async fn disturb(&mut self) {
        let at = self.below(4);
        match self.below(10) {
            0..=2 if self.running[at].is_some() => self.kill(at).await,
            0..=4 if self.running[at].is_none() => self.start(at).await,
            // Divides the validators into two sides that cannot reach each other: 1 and 3, or 2 and 2.
            5 | 6 => {
                let side = 1 + self.below(14);
                for (from, to) in pairs() {
                    if (side >> from & 1) != (side >> to & 1) {
                        self.unlink(from, to).await;
                    }
                }
            }
            // One validator no longer reaches another one.
            7 => {
                let to = (at + 1 + self.below(3)) % 4;
                self.unlink(at, to).await;
            }
            8 => {
                for (from, to) in pairs() {
                    self.unlink(from, to).await;
                }
                let latency = Duration::from_millis(1 + self.below(150) as u64);
                self.link_all(latency).await;
            }
            _ => self.link_all(LATENCY).await,
        }
    }

    /// Kills `lost` validators at a random time, removes their journals, and starts them again.
    async fn lose_journals(&mut self, lost: usize) {
        let time = Duration::from_millis(self.below(200) as u64);
        self.runtime.sleep(time).await;
        let first = self.below(VALIDATORS + 1 - lost as u64);
        let lost = first..first + lost;
        for at in lost.clone() {
            self.kill(at).await;
            let journal = format!("{at}-{}-votes", self.losses[at]);
            self.runtime.remove(&journal, None).await.unwrap();
        }
        for at in lost {
            self.start(at).await;
        }
    }

    /// Kills a validator, and removes all files of its engine.
    async fn lose_files(&mut self, at: usize) {
        self.kill(at).await;
        self.losses[at] += 1;
    }

    fn below(&mut self, limit: u64) -> usize {
        (self.runtime.next_u64() % limit) as usize
    }

    /// Ends all faults, and asserts that the chain continues.
    async fn recover(&mut self) {
        for (from, to) in pairs() {
            self.unlink(from, to).await;
        }
        self.link_all(LATENCY).await;
        for at in 0..4 {
            if self.running[at].is_none() {
                self.start(at).await;
            }
        }
        self.advance(10).await;
        self.check();
    }
}

/// All pairs of validators, in both directions.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..16).map(|pair| (pair / 4, pair % 4)).filter(|(from, to)| from != to)
}

fn simulate<F: Future<Output = ()>>(seed: u64, run: impl FnOnce(Simulation) -> F) -> String {
    let config =
        deterministic::Config::new().with_seed(seed).with_timeout(Some(Duration::from_secs(600)));
    deterministic::Runner::new(config).start(|runtime| async move {
        let simulation = Simulation::new(runtime.child("simulation")).await;
        run(simulation).await;
        runtime.auditor().state()
    })
}

const LATENCY: Duration = Duration::from_millis(20);

#[test]
fn four_validators_agree() {
    let run = |seed| {
        simulate(seed, async |mut simulation| {
            simulation.start_all().await;
            simulation.advance(50).await;
            simulation.check();
        })
    };
    assert_eq!(run(1), run(1), "a seed decides everything");
}

#[test]
fn the_chain_continues_with_three_of_four_validators_and_waits_with_two() {
    simulate(2, async |mut simulation| {
        simulation.start_all().await;
        simulation.advance(5).await;
        simulation.kill(1).await;
        simulation.advance(20).await;
        simulation.kill(2).await;
        let before = simulation.heights();
        simulation.runtime.sleep(Duration::from_secs(30)).await;
        let stopped = simulation.heights();
        // Blocks whose certificates were in flight may still become final.
        assert!(
            stopped.iter().zip(&before).all(|(now, then)| now - then <= 2),
            "{before:?} {stopped:?}"
        );
        simulation.start(1).await;
        simulation.advance(10).await;
        simulation.start(2).await;
        simulation.advance(10).await;
        simulation.check();
    });
}

/// Validators are killed and started, and links are removed and slowed down, at random times. `EVMD_SEED` selects one
/// simulation.
#[test]
fn chains_are_equal_after_random_faults() {
    let seeds = match std::env::var("EVMD_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("EVMD_SEED is a number");
            seed..seed + 1
        }
        Err(_) if std::env::var_os("EVMD_LONG_TESTS").is_some() => 0..FAULT_SEEDS_LONG,
        Err(_) => 0..FAULT_SEEDS,
    };
    for seed in seeds {
        println!("seed {seed}");
        simulate(seed, async |mut simulation| {
            simulation.start_all().await;
            for _ in 0..FAULTS {
                simulation.runtime.sleep(Duration::from_millis(2_500)).await;
                simulation.disturb().await;
                simulation.check();
            }
            simulation.recover().await;
        });
    }
}

/// The clock of one validator is an hour ahead, then an hour behind, and then correct.
#[test]
fn a_wrong_clock_of_one_validator_does_not_stop_the_chain() {
    simulate(5, async |mut simulation| {
        simulation.start_all().await;
        for ahead in [2 * HOUR, Duration::ZERO, HOUR] {
            simulation.advance(5).await;
            simulation.chains[1].with(|state| state.ahead = ahead);
            simulation.advance(20).await;
            simulation.check();
            let clock = simulation.runtime.current().duration_since(UNIX_EPOCH).unwrap() + HOUR;
            for timestamp in simulation.chains.iter().map(Headers::newest_timestamp) {
                let latest = clock.as_secs() + MAX_SECONDS_AHEAD;
                assert!(
                    (clock.as_secs() - 60..=latest).contains(&timestamp),
                    "{timestamp} at {clock:?}"
                );
            }
        }
    });
}

/// Validators whose journals are lost do not vote against their earlier votes, because they have the record. The chain
/// continues as long as one validator has its journal, which contains the newest certificates.
#[test]
fn votes_are_not_contradicted_when_journals_are_lost() {
    for seed in 0..SEEDS {
        simulate(seed, async |mut simulation| {
            simulation.start_all().await;
            for lost in [1, 2, 3] {
                simulation.advance(3).await;
                simulation.lose_journals(lost).await;
            }
            simulation.recover().await;
        });
    }
}

/// Engines keep copies of the newest blocks only. An engine that has lost its files starts at the newest certified
/// block of its node, and needs no older block from the other validators.
#[test]
fn an_engine_without_files_starts_at_the_newest_block() {
    for seed in 0..SEEDS {
        simulate(seed, async |mut simulation| {
            simulation.kept_blocks = KeptBlocks { count: 16, per_file: NZU64!(8) };
            simulation.start_all().await;
            simulation.advance(45).await;
            let at = simulation.below(VALIDATORS);
            let before = simulation.heights()[at];
            assert!(before > 40, "{before} blocks");
            simulation.lose_files(at).await;
            simulation.advance(5).await;
            simulation.recover().await;
            assert!(simulation.heights()[at] > before, "validator {at} continues after {before}");
        });
    }
}

/// A validator that was offline for longer than the others keep blocks receives the blocks as a replica does. It cannot
/// start with the files of its engine then.
#[test]
fn a_node_that_has_followed_the_others_votes_again() {
    simulate(1, async |mut simulation| {
        simulation.kept_blocks = KeptBlocks { count: 32, per_file: NZU64!(8) };
        simulation.start_all().await;
        simulation.advance(5).await;
        simulation.kill(3).await;
        simulation.advance(engine::KEPT_VIEWS.get() + 40).await;
        simulation.chains[3].copy(&simulation.chains[0]);
        let refused = simulation.try_start(3).await;
        assert!(matches!(refused, Err(StartError::OtherBlocks { .. })));
        simulation.losses[3] += 1;
        simulation.recover().await;
    });
}

#[test]
fn an_engine_does_not_start_with_an_invalid_certificate() {
    simulate(2, async |mut simulation| {
        simulation.start_all().await;
        simulation.advance(5).await;
        simulation.lose_files(2).await;
        simulation.chains[2].damage_certificate();
        assert!(matches!(simulation.try_start(2).await, Err(StartError::InvalidCertificate)));
    });
}

/// Blocks that were imported from a file have no certificates, so an engine does not know at which block it can start.
#[test]
fn an_engine_does_not_start_on_blocks_without_certificates() {
    simulate(3, async |mut simulation| {
        simulation.start_all().await;
        simulation.advance(30).await;
        simulation.lose_files(2).await;
        simulation.chains[2].remove_certificate();
        let refused = simulation.try_start(2).await;
        assert!(matches!(refused, Err(StartError::NoCertificate { .. })));
    });
}

/// A validator that has lost its blocks and the files of its engine cannot receive the first blocks from the others.
#[test]
fn old_copies_of_blocks_are_removed() {
    simulate(0, async |mut simulation| {
        simulation.kept_blocks = KeptBlocks { count: 16, per_file: NZU64!(8) };
        simulation.start_all().await;
        // Blocks of the newest views are kept in addition.
        simulation.advance(engine::KEPT_VIEWS.get() + 40).await;
        simulation.lose_files(1).await;
        simulation.start(1).await;
        // It is killed before or after it has started at its newest block. It must not request the first block in
        // either case.
        simulation.kill(1).await;
        match simulation.try_start(1).await {
            Ok(running) => simulation.running[1] = Some(running),
            Err(StartError::OtherBlocks { .. }) => simulation.losses[1] += 1,
            Err(error) => panic!("{error:?}"),
        }
        simulation.recover().await;
        simulation.lose_files(0).await;
        simulation.chains[0] = Headers::new(&simulation.key(0), 1_000);
        simulation.start(0).await;
        simulation.runtime.sleep(Duration::from_secs(10)).await;
        simulation.check();
        assert_eq!(simulation.heights()[0], 0, "no validator has block 1");
    });
}

/// If all journals are lost at once, the only copies of a certificate that some validators had seen may be lost. Then
/// the votes of that view cannot be completed, and the chain stops. It never forks.
#[test]
fn chains_are_equal_when_all_journals_are_lost() {
    for seed in 0..SEEDS {
        simulate(seed, async |mut simulation| {
            simulation.start_all().await;
            simulation.advance(3).await;
            simulation.lose_journals(4).await;
            simulation.runtime.sleep(Duration::from_secs(10)).await;
            simulation.check();
        });
    }
}
