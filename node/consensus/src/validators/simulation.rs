//! Four validators in one thread, with simulated time, network and crashes. A seed decides everything that is random, so a
//! failure can be repeated.

use super::{
    application::Chain,
    block::ProposedBlock,
    engine::{self, Channels, Setup, Timeouts},
    guarded_scheme::GuardedScheme,
    observer::Observer,
    vote_record::{VoteRecord, VoteRecordError},
};
use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, U256, map::B256Map};
use certificates::{Authority, BlockId, Certificate};
use chain::block::Block;
use commonware_cryptography::{
    Signer,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::simulated::{self, Link, Network, Oracle};
use commonware_runtime::{Clock, Handle, Quota, Runner, Storage, Supervisor, deterministic};
use commonware_utils::{NZU32, NZUsize, TryCollect, ordered::Set};
use rand_core::Rng;
use state::Voting;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

const VALIDATORS: u64 = 4;
const MAX_BLOCK_BYTES: usize = 1 << 20;
/// Simulations of the tests with random faults, in the short form and in the long one.
const SEEDS: u64 = 10;
const SEEDS_LONG: u64 = 1_000;
/// Faults of a simulation, one in 2.5 s.
const FAULTS: usize = 20;

/// A chain of headers, as the node of one validator has it.
#[derive(Clone, Debug, Default)]
struct Headers(Arc<Mutex<HeadersState>>);

#[derive(Debug, Default)]
struct HeadersState {
    /// Blocks that were checked or built, also those that are final.
    valid: B256Map<Header>,
    /// The final blocks, by number.
    chain: BTreeMap<u64, B256>,
    /// Distinguishes the blocks of this validator.
    salt: u64,
    /// How many final blocks had a certificate.
    certified: usize,
}

/// The keys of the validators.
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

fn encode(header: &Header) -> Bytes {
    let body = Block { header: header.clone(), ..Block::default() };
    chain::block::join(&alloy_rlp::encode(header), &body.encode_body()).into()
}

fn genesis() -> Header {
    Header { timestamp: 1, ..Header::default() }
}

impl Headers {
    fn new(salt: u64) -> Self {
        let (header, state) = (genesis(), HeadersState { salt, ..HeadersState::default() });
        let this = Self(Arc::new(Mutex::new(state)));
        this.with(|state| {
            let hash = header.hash_slow();
            state.chain.insert(0, hash);
            state.valid.insert(hash, header);
        });
        this
    }

    fn with<T>(&self, f: impl FnOnce(&mut HeadersState) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    /// A crash: blocks that are not final are lost.
    fn forget(&self) {
        self.with(|state| {
            let chain: Vec<B256> = state.chain.values().copied().collect();
            state.valid.retain(|hash, _| chain.contains(hash));
        });
    }
}

impl Chain for Headers {
    fn head(&self) -> u64 {
        self.with(|state| *state.chain.last_key_value().unwrap().0)
    }

    async fn build(&self, parent: B256, timestamp: u64) -> Option<Bytes> {
        self.with(|state| {
            let before = state.valid.get(&parent)?;
            state.salt += 1_000;
            let header = Header {
                parent_hash: parent,
                number: before.number + 1,
                timestamp,
                difficulty: U256::from(state.salt),
                ..Header::default()
            };
            state.valid.insert(header.hash_slow(), header.clone());
            Some(encode(&header))
        })
    }

    async fn outgoing_transactions(&self) -> Bytes {
        std::future::pending().await
    }

    async fn incoming_transactions(&self, _: Bytes) {}

    async fn knows(&self, block: B256) -> bool {
        self.with(|state| state.valid.contains_key(&block))
    }

    async fn check(&self, block: Bytes) -> bool {
        let header = Block::decode(&block).unwrap().header;
        self.with(|state| {
            let Some(parent) = state.valid.get(&header.parent_hash) else {
                panic!("block {} was checked before its parent", header.number);
            };
            let valid = parent.number + 1 == header.number && parent.timestamp <= header.timestamp;
            state.valid.insert(header.hash_slow(), header);
            valid
        })
    }

    async fn finalize(&self, block: Bytes, certificate: Option<Bytes>) {
        let header = Block::decode(&block).unwrap().header;
        self.with(|state| {
            let (number, hash) = (header.number, header.hash_slow());
            if let Some(certificate) = certificate {
                let certificate = Certificate::decode(&certificate).unwrap();
                authority().verify(BlockId { number, hash }, &certificate).unwrap();
                state.certified += 1;
            }
            if let Some(known) = state.chain.get(&number) {
                assert_eq!(*known, hash, "two final blocks {number}");
                return;
            }
            assert_eq!(state.chain[&(number - 1)], header.parent_hash);
            state.chain.insert(number, hash);
            state.valid.insert(hash, header);
        });
    }
}

/// The validators, and the network between them.
struct Simulation {
    runtime: deterministic::Context,
    oracle: Oracle<PublicKey, deterministic::Context>,
    keys: Vec<PrivateKey>,
    chains: Vec<Headers>,
    running: Vec<Option<Vec<Handle<()>>>>,
    starts: usize,
    voting: Arc<Voting>,
    records: tempfile::TempDir,
}

impl Simulation {
    async fn new(runtime: deterministic::Context) -> Self {
        let mut keys: Vec<_> = keys().collect();
        keys.sort_by_key(Signer::public_key);
        let participants: Vec<_> = keys.iter().map(Signer::public_key).collect();
        let config = simulated::Config {
            max_size: 2 * MAX_BLOCK_BYTES as u32,
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
        let chains = (0..VALIDATORS).map(Headers::new).collect();
        let running = (0..VALIDATORS).map(|_| None).collect();
        Self { runtime, oracle, keys, chains, running, starts: 0, voting, records }
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
        let key = self.keys[at].clone();
        let participants: Set<PublicKey> =
            self.keys.iter().map(Signer::public_key).try_collect().unwrap();
        let record = self.record(at).unwrap();
        let genesis = ProposedBlock::genesis(self.key(0), encode(&genesis())).unwrap();
        let control = self.oracle.control(key.public_key());
        let quota = Quota::per_second(NZU32!(10_000));
        let channel = |number| {
            let control = control.clone();
            async move { control.register(number, quota).await.unwrap() }
        };
        let channels = Channels {
            votes: channel(0).await,
            certificates: channel(1).await,
            resolver: channel(2).await,
            blocks: channel(3).await,
            backfill: channel(4).await,
        };
        let public_key = key.public_key();
        let namespace = self::genesis().hash_slow();
        let setup = Setup {
            chain: self.chains[at].clone(),
            files: format!("{at}-"),
            scheme: GuardedScheme::signer(namespace.as_slice(), participants, key, record).unwrap(),
            public_key,
            genesis,
            observer: Observer::new(Arc::clone(&self.voting)),
            max_block_bytes: MAX_BLOCK_BYTES,
            pace: Duration::from_millis(100),
            timestamp_step: 0,
            timeouts: Timeouts::with_pace(Duration::ZERO),
            blocker: control,
            peers: self.oracle.manager(),
        };
        self.starts += 1;
        let runtime = self.runtime.child("validator").with_attribute("start", self.starts);
        self.running[at] = Some(engine::start(runtime, setup, channels).await.unwrap());
    }

    async fn kill(&mut self, at: usize) {
        for task in self.running[at].take().expect("it runs") {
            task.abort();
            let _ = task.await;
        }
        // Tasks of these tasks end later, and have the record of votes.
        while matches!(self.record(at), Err(VoteRecordError::InUse(_))) {
            self.runtime.sleep(Duration::from_millis(1)).await;
        }
        self.chains[at].forget();
    }

    fn record(&self, at: usize) -> Result<VoteRecord, VoteRecordError> {
        VoteRecord::open(&self.records.path().join(at.to_string()))
    }

    fn heights(&self) -> Vec<u64> {
        let last = |chain: &Headers| chain.with(|state| *state.chain.last_key_value().unwrap().0);
        self.chains.iter().map(last).collect()
    }

    /// Waits until the running validators have this many more final blocks than the highest one has now.
    async fn advance(&self, blocks: u64) {
        let target = self.heights().into_iter().max().unwrap() + blocks;
        let running = |at: usize| self.running[at].is_some();
        while self.heights().iter().enumerate().any(|(at, height)| running(at) && *height < target)
        {
            self.runtime.sleep(Duration::from_millis(100)).await;
        }
    }

    /// All validators have the same final blocks, up to their heights, and none has sent contradicting votes.
    fn check(&self) {
        assert_eq!(self.voting.read().contradictions, 0, "contradicting votes");
        let chains: Vec<_> =
            self.chains.iter().map(|chain| chain.with(|state| state.chain.clone())).collect();
        let longest = chains.iter().max_by_key(|chain| chain.len()).unwrap();
        for chain in &self.chains {
            chain.with(|state| {
                assert!(2 * state.certified + 1 >= state.chain.len(), "few certificates");
            });
        }
        for chain in &chains {
            for (number, hash) in chain {
                assert_eq!(longest[number], *hash, "block {number}");
            }
        }
    }
}

impl Simulation {
    /// A fault, or the end of one.
    async fn disturb(&mut self) {
        let at = self.below(4);
        match self.below(10) {
            0..=2 if self.running[at].is_some() => self.kill(at).await,
            0..=4 if self.running[at].is_none() => self.start(at).await,
            // Two sides that cannot reach each other: 1 to 3, or 2 to 2.
            5 | 6 => {
                let side = 1 + self.below(14);
                for (from, to) in pairs() {
                    if (side >> from & 1) != (side >> to & 1) {
                        self.unlink(from, to).await;
                    }
                }
            }
            // One direction.
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

    /// Kills this many validators at a random time, removes their journals, and starts them again.
    async fn lose_journals(&mut self, lost: usize) {
        let time = Duration::from_millis(self.below(200) as u64);
        self.runtime.sleep(time).await;
        let first = self.below(VALIDATORS + 1 - lost as u64);
        let lost = first..first + lost;
        for at in lost.clone() {
            self.kill(at).await;
            self.runtime.remove(&format!("{at}-votes"), None).await.unwrap();
        }
        for at in lost {
            self.start(at).await;
        }
    }

    /// A random number below `limit`.
    fn below(&mut self, limit: u64) -> usize {
        (self.runtime.next_u64() % limit) as usize
    }

    /// Ends all faults. The chain must go on.
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
fn one_of_four_may_stop_and_two_may_not() {
    simulate(2, async |mut simulation| {
        simulation.start_all().await;
        simulation.advance(5).await;
        simulation.kill(1).await;
        simulation.advance(20).await;
        simulation.kill(2).await;
        let before = simulation.heights();
        simulation.runtime.sleep(Duration::from_secs(30)).await;
        let stopped = simulation.heights();
        // Blocks whose certificates were on the way.
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

/// Kills, starts, partitions and slow links at random times. `EVMD_SEED` selects one simulation.
#[test]
fn chains_are_equal_after_random_faults() {
    let seeds = match std::env::var("EVMD_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("EVMD_SEED is a number");
            seed..seed + 1
        }
        Err(_) if std::env::var_os("EVMD_LONG_TESTS").is_some() => 0..SEEDS_LONG,
        Err(_) => 0..SEEDS,
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

/// Validators whose journals are lost do not vote against their earlier votes, because they have the record. The chain goes
/// on as long as one validator has its journal, in which the newest certificates are.
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

/// If all journals are lost at once, and with them the only copies of a certificate that some validators had seen, the votes of that
/// view cannot be completed, and the chain stops. It never forks.
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
