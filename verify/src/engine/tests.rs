//! The engine on every instruction set against libsecp256k1.

use super::*;
use crate::{lanes::model::Model, oracle::Stream};

fn jobs(count: usize, seed: u64) -> Vec<Job> {
    let mut stream = Stream(seed);
    let mut bytes = || words::to_be_bytes(&stream.words());
    (0..count)
        .map(|_| {
            let (digest, r, s) = (bytes(), bytes(), bytes());
            Job { digest, r, s, recovery_id: s[0] & 1 }
        })
        .collect()
}

fn check<V: Kernels>(engine: &mut Engine<V>, jobs: &[Job]) {
    let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
    engine.recover_batch(jobs, &mut outcomes);
    for (i, (job, outcome)) in jobs.iter().zip(&outcomes).enumerate() {
        assert_eq!(*outcome, scalar::recover(job), "job {i} of {}: {job:02x?}", jobs.len());
    }
}

#[test]
fn model_equals_libsecp256k1() {
    let mut engine = Engine::<Model>::over(BaseTable::shared());
    check(&mut engine, &jobs(70, 1));
}

#[test]
fn ifma_equals_libsecp256k1() {
    if !crate::Backend::Ifma.is_available() {
        return;
    }
    let mut engine = Engine::ifma();
    for count in [5, 16, 33, 300, 3000] {
        check(&mut engine, &jobs(count, count as u64));
    }
}
