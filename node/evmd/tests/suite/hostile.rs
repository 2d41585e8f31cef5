//! Tests attackers with a small budget on a chain with honest users.
//!
//! Each attacker owns one ether and tries to exhaust one resource: first alone, then all attackers at once. An honest
//! request may only be refused if the attackers paid at least as much as it offered. Filters and subscriptions are
//! free, so the node first evicts those of the client that uses the most; an honest user with few of them is never
//! refused.
//!
//! The long run has 10,000 blocks and prints the same table: `EVMD_LONG_TESTS=1 cargo test --release -p evmd
//! --test suite hostile -- --nocapture`

mod account;
mod attack;
mod free;
mod honest;
mod world;

use alloy_primitives::U256;
use attack::{Attack, Attacker};
use free::Free;
use honest::{Honest, KINDS, Record};
use world::{ETHER, World};

/// Number of blocks of the long run, and of the default run.
const LONG_BLOCKS: u64 = 10_000;
const BLOCKS: u64 = 200;
/// Minimum number of steps of each attack, because some attacks cause many blocks per step.
const MIN_STEPS: u64 = 14;
/// Number of blocks to wait before the next attack, so that the transactions of the previous one have left the pool.
const REST_BLOCKS: u64 = 3;

/// The result of one attack, or of all attacks together.
struct Outcome {
    name: String,
    paid: U256,
    records: [Record; 4],
    stored_bytes: u64,
    steps: u64,
}

impl Outcome {
    /// Prints a row of the table: the refusals of honest users, and the stored bytes per ether.
    fn print(&self, calm_bytes_per_step: f64) {
        let paid = self.paid.to::<u128>() as f64 / ETHER as f64;
        let refused: u64 = self.records.iter().map(|record| record.refused).sum();
        let asked: u64 = self.records.iter().map(|record| record.asked).sum();
        let extra = self.stored_bytes as f64 - calm_bytes_per_step * self.steps as f64;
        let per_ether = |amount: f64| if paid > 0.0 { amount / paid } else { f64::INFINITY };
        println!(
            "{:26} {paid:>10.6} {refused:>5} of {asked:<6} {:>12.1} {extra:>12.0} {:>14.0}",
            self.name,
            if refused == 0 { 0.0 } else { per_ether(refused as f64) },
            if extra <= 0.0 { 0.0 } else { per_ether(extra) },
        );
    }

    fn violations(&self) -> impl Iterator<Item = String> {
        KINDS.iter().zip(&self.records).flat_map(move |(kind, record)| {
            record.violations.iter().map(move |text| format!("{}: {kind}: {text}", self.name))
        })
    }
}

/// The chain, its honest users, and the number of steps so far.
struct Scenario {
    world: World,
    honest: Honest,
    step: u64,
}

impl Scenario {
    /// Attacks until `blocks` more blocks have been produced, for at least `steps` steps.
    async fn attack(
        &mut self,
        name: &str,
        attackers: &mut [Attacker],
        blocks: u64,
        steps: u64,
    ) -> Outcome {
        let begun = (self.world.view().number(), self.world.stored_bytes());
        let paid = |world: &World, attackers: &[Attacker]| {
            attackers.iter().map(|attacker| attacker.spent(world)).sum::<U256>()
        };
        let mut records = [(); 4].map(|()| Record::begin(paid(&self.world, &*attackers)));
        let last = self.step + steps;
        while self.world.view().number() < begun.0 + blocks || self.step < last {
            self.step += 1;
            for attacker in &mut *attackers {
                attacker.act(&self.world, self.honest.target()).await;
            }
            let paid = || paid(&self.world, &*attackers);
            self.honest.act(&self.world, self.step, &mut records, paid).await;
        }
        let paid = paid(&self.world, &*attackers);
        for record in &mut records {
            record.judge(paid);
        }
        Outcome {
            name: name.to_owned(),
            paid,
            records,
            stored_bytes: self.world.stored_bytes().saturating_sub(begun.1),
            steps: self.step - (last - steps),
        }
    }

    async fn rest(&mut self) {
        self.attack("", &mut [], REST_BLOCKS, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_requests_are_refused_only_if_the_attackers_pay_more() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let blocks = if long { LONG_BLOCKS } else { BLOCKS };
    let part = blocks / (Attack::ALL.len() as u64 + 2);
    let mut alone = Attack::ALL.map(|attack| Attacker::new(attack, "alone"));
    let mut together = Attack::ALL.map(|attack| Attacker::new(attack, "together"));
    let honest = Honest::new();
    let attackers = alone.iter().chain(&together).flat_map(Attacker::accounts);
    let world = World::new(honest.accounts().chain(attackers)).await;
    let mut scenario = Scenario { world, honest, step: 0 };
    let calm = scenario.attack("no attacker", &mut [], part, MIN_STEPS).await;
    let mut outcomes = Vec::new();
    for (attack, attacker) in Attack::ALL.iter().zip(&mut alone) {
        let attacker = std::slice::from_mut(attacker);
        outcomes.push(scenario.attack(attack.resource(), attacker, part, MIN_STEPS).await);
        scenario.rest().await;
    }
    outcomes.push(scenario.attack("all together", &mut together, part, MIN_STEPS).await);
    let calm_bytes = calm.stored_bytes as f64 / calm.steps as f64;
    println!(
        "{:26} {:>10} {:>15} {:>12} {:>12} {:>14}",
        "resource", "ether paid", "refused", "per ether", "extra bytes", "per ether"
    );
    [&calm].into_iter().chain(&outcomes).for_each(|outcome| outcome.print(calm_bytes));
    let violations: Vec<_> = outcomes.iter().chain([&calm]).flat_map(Outcome::violations).collect();
    assert_eq!(violations, Vec::<String>::new());
    for record in &calm.records {
        assert!(record.asked > 0 && record.refused == 0, "without an attack: {record:?}");
    }
    scenario.world.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_uses_most_free_resources_is_refused_first() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let steps = if long { 1_000 } else { 20 };
    let honest = Honest::new();
    let mut scenario = Scenario { world: World::new(honest.accounts()).await, honest, step: 0 };
    let mut free = Free::default();
    let mut records = [(); 4].map(|()| Record::begin(U256::ZERO));
    for step in 1..=steps {
        // Honest transactions cause the blocks that the filters and subscriptions report.
        scenario.honest.act(&scenario.world, step, &mut records, || U256::ZERO).await;
        free.act(&scenario.world).await;
    }
    println!(
        "filters and subscriptions: the attacker got {} and was refused {}; of {} honest requests {} were refused",
        free.taken, free.denied, free.asked, free.refused
    );
    assert!(free.denied > 0, "the attack does not reach the limits");
    assert_eq!(free.refused, 0, "of {}", free.asked);
    drop(free);
    scenario.world.node.stop().await;
}
