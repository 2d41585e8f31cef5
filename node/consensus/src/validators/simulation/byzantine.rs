//! One of four validators does not follow the protocol. The others agree, and the chain continues.

use super::{
    Channels, Receiver, SEEDS, Sender, Simulation,
    headers::{Fault, HOUR, Headers},
    simulate,
};
use crate::validators::{engine, vote_record::VoteRecord};
use commonware_cryptography::ed25519::PublicKey;
use commonware_p2p::{
    Recipients,
    simulated::{SplitForwarder, SplitOrigin, SplitSender, SplitTarget},
};
use commonware_runtime::{Clock, Supervisor, deterministic};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

const BYZANTINE: usize = 3;
/// Number of times that the validators with which each twin exchanges messages change.
const DIVISIONS: usize = 10;

#[test]
fn faulty_blocks_of_a_leader_are_not_final() {
    for fault in [
        Fault::Invalid,
        Fault::Number,
        Fault::Parent,
        Fault::Timestamp,
        Fault::Size,
        Fault::Proposer,
    ] {
        println!("{fault:?}");
        simulate(4, async |mut simulation| {
            simulation.byzantine = Some(BYZANTINE);
            simulation.chains[BYZANTINE].misbehave(fault);
            simulation.start_all().await;
            simulation.advance(20).await;
            simulation.check();
            let proposed = simulation.chains[BYZANTINE].with(|state| state.faulty_proposals);
            assert!(proposed > 1, "{fault:?} was proposed {proposed} times");
            let now =
                simulation.runtime.current().duration_since(std::time::UNIX_EPOCH).unwrap() + HOUR;
            for chain in &simulation.chains {
                let newest = chain.newest_timestamp();
                assert!(newest < now.as_secs() + 60, "a block of {newest} is final");
            }
        });
    }
}

/// Two engines use the same key independently, and each of them exchanges messages with only some of the others.
/// Together they are a validator that proposes two blocks in one view, and sends contradicting votes (Bano and others,
/// "Twins: BFT systems made robust", 2021).
#[test]
fn twins_do_not_divide_the_others() {
    let mut contradictions = 0;
    for seed in 0..SEEDS {
        println!("seed {seed}");
        simulate(seed, async |mut simulation| {
            simulation.byzantine = Some(BYZANTINE);
            simulation.link_all(super::LATENCY).await;
            for at in 0..BYZANTINE {
                simulation.start(at).await;
            }
            let division = simulation.start_twins(BYZANTINE).await;
            for _ in 0..DIVISIONS {
                division.change(&mut simulation);
                simulation.runtime.sleep(Duration::from_millis(1_500)).await;
                simulation.check();
            }
            simulation.advance(10).await;
            simulation.check();
            for chain in &simulation.chains[..BYZANTINE] {
                let pairs = chain.with(|state| std::mem::take(&mut state.contradictions));
                assert!(pairs.iter().all(|pair| pair.validator == BYZANTINE), "{pairs:?}");
                contradictions += pairs.len();
            }
        });
    }
    assert!(contradictions > 0, "no validator has seen contradicting votes");
}

/// The validators that each twin sends to and receives from: one bit per validator.
#[derive(Clone, Debug, Default)]
struct Division {
    first_sends: Arc<AtomicU8>,
    second_sends: Arc<AtomicU8>,
    /// The first twin receives from the other validators.
    second_receives: Arc<AtomicU8>,
}

impl Division {
    fn change(&self, simulation: &mut Simulation) {
        for set in [&self.first_sends, &self.second_sends, &self.second_receives] {
            set.store(simulation.below(16) as u8, Ordering::Relaxed);
        }
    }
}

fn contains(set: &AtomicU8, keys: &[PublicKey], key: &PublicKey) -> bool {
    let at = keys.iter().position(|known| known == key);
    at.is_some_and(|at| set.load(Ordering::Relaxed) >> at & 1 == 1)
}

impl Simulation {
    /// Starts two engines with the key of validator `at`.
    async fn start_twins(&mut self, at: usize) -> Division {
        let division = Division::default();
        let channels = self.channels(at).await;
        let keys: Vec<_> = (0..self.keys.len()).map(|at| self.key(at)).collect();
        let sending = sending(&division, &keys);
        let [first, second] = split(&self.child(), channels, &division, &keys, &sending);
        VoteRecord::create(&self.records.path().join("twin")).unwrap();
        let setup = self.setup(at, &at.to_string(), self.chains[at].clone());
        let mut running = engine::start(self.child(), setup, first).await.unwrap();
        let setup = self.setup(at, "twin", Headers::new(&keys[at], at as u64 + 1));
        running.extend(engine::start(self.child(), setup, second).await.unwrap());
        self.running[at] = Some(running);
        division
    }
}

type Split<F> = SplitSender<PublicKey, deterministic::Context, F>;

/// Selects the receivers of a message of a twin.
fn sending(division: &Division, keys: &[PublicKey]) -> impl SplitForwarder<PublicKey> {
    let (division, keys) = (division.clone(), keys.to_vec());
    move |from: SplitOrigin, to: &Recipients<PublicKey>, _: &_| {
        let set = match from {
            SplitOrigin::Primary => &division.first_sends,
            SplitOrigin::Secondary => &division.second_sends,
        };
        let to = match to {
            Recipients::All => keys.clone(),
            Recipients::Some(some) => some.clone(),
            Recipients::One(one) => vec![one.clone()],
        };
        Some(Recipients::Some(to.into_iter().filter(|to| contains(set, &keys, to)).collect()))
    }
}

/// Splits the channels of a validator into those of two twins.
fn split<F: SplitForwarder<PublicKey>>(
    runtime: &deterministic::Context,
    channels: Channels<Sender, Receiver>,
    division: &Division,
    keys: &[PublicKey],
    sending: &F,
) -> [Channels<Split<F>, Receiver>; 2] {
    let split = |(sender, receiver): (Sender, Receiver)| {
        let (division, keys) = (division.clone(), keys.to_vec());
        let (first, second) = sender.split_with(sending.clone());
        let receives = move |message: &(PublicKey, _)| {
            if contains(&division.second_receives, &keys, &message.0) {
                SplitTarget::Secondary
            } else {
                SplitTarget::Primary
            }
        };
        let receivers = receiver.split_with(runtime.child("split"), receives);
        ((first, receivers.0), (second, receivers.1))
    };
    let (votes, certificates) = (split(channels.votes), split(channels.certificates));
    let (resolver, blocks) = (split(channels.resolver), split(channels.blocks));
    let backfill = split(channels.backfill);
    let first = Channels {
        votes: votes.0,
        certificates: certificates.0,
        resolver: resolver.0,
        blocks: blocks.0,
        backfill: backfill.0,
    };
    let second = Channels {
        votes: votes.1,
        certificates: certificates.1,
        resolver: resolver.1,
        blocks: blocks.1,
        backfill: backfill.1,
    };
    [first, second]
}
