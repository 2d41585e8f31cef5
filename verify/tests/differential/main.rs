//! Compares every backend with libsecp256k1 on random, mutated and regrouped input.

#[path = "../support/mod.rs"]
mod support;

use secp256k1_batch_recovery::{Job, Outcome};
use support::{Stream, check, expected, long, recoverers};

/// Number of jobs per batch in `compare`.
const BATCH: usize = 1_000;

/// Compares every backend with libsecp256k1 on `count` jobs that `make` creates.
fn compare(count: usize, seed: u64, make: fn(&mut Stream) -> Job) {
    let mut stream = Stream(seed);
    let mut recoverers = recoverers();
    for _ in 0..count / BATCH {
        let jobs: Vec<_> = (0..BATCH).map(|_| make(&mut stream)).collect();
        let expected = expected(&jobs);
        recoverers.iter_mut().for_each(|recoverer| check(recoverer, &jobs, &expected));
    }
    println!("{count} jobs");
}

#[test]
fn random_jobs_match_libsecp256k1() {
    compare(if long() { 1_000_000 } else { 20_000 }, 1, Stream::job);
}

#[test]
fn mutated_jobs_match_libsecp256k1() {
    compare(if long() { 250_000 } else { 10_000 }, 2, Stream::mutant);
}

#[test]
fn batches_of_any_length_and_offset_match_libsecp256k1() {
    let step = if long() { 1 } else { 13 };
    let mut stream = Stream(3);
    let jobs: Vec<_> =
        (0..1_100).map(|i| if i % 5 == 0 { stream.mutant() } else { stream.job() }).collect();
    let expected = expected(&jobs);
    let lengths = (0..=40).chain((41..=1_030).step_by(step)).chain([255, 256, 257, 1_030]);
    let mut recoverers = recoverers();
    for length in lengths {
        let offset = length % 61;
        let range = offset..offset + length;
        // The expected results come from the scalar backend.
        for recoverer in &mut recoverers[1..] {
            check(recoverer, &jobs[range.clone()], &expected[range.clone()]);
        }
    }
}

#[test]
fn regrouping_changes_nothing() {
    let mut stream = Stream(4);
    let jobs: Vec<_> = (0..600).map(|_| stream.job()).collect();
    let expected = expected(&jobs);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, stream.below(i as u64 + 1) as usize);
    }
    let shuffled: Vec<Job> = order.iter().map(|&i| jobs[i]).collect();
    let outcomes: Vec<Outcome> = order.iter().map(|&i| expected[i]).collect();
    for recoverer in &mut recoverers() {
        check(recoverer, &shuffled, &outcomes);
        for length in [1, 7, 24, 100] {
            for (jobs, outcomes) in shuffled.chunks(length).zip(outcomes.chunks(length)) {
                check(recoverer, jobs, outcomes);
            }
        }
    }
}

#[test]
fn copies_of_one_job_agree() {
    let mut stream = Stream(5);
    for recoverer in &mut recoverers() {
        for _ in 0..4 {
            let jobs = vec![stream.job(); 65];
            check(recoverer, &jobs, &expected(&jobs));
        }
    }
}
