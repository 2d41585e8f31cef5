//! Compares the engine on every instruction set with libsecp256k1, including crafted collisions.

use super::*;
use crate::{
    lanes::{Lanes, model::Model},
    oracle::{self, Stream, over_every_field},
    order::{Digits, Scalar, WINDOWS, split},
};
use num_bigint::{BigInt, BigUint};
use secp256k1::SecretKey;
use std::sync::Arc;

fn jobs(count: usize, seed: u64) -> Vec<Job> {
    let mut stream = Stream(seed);
    let mut bytes = || limbs::to_be_bytes(&stream.words());
    (0..count)
        .map(|_| {
            let (digest, r, s) = (bytes(), bytes(), bytes());
            Job { digest, r, s, recovery_id: s[0] & 1 }
        })
        .collect()
}

fn check<F: Kernels>(engine: &mut Engine<F>, jobs: &[Job]) {
    let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
    engine.recover_batch(jobs, &mut outcomes);
    for (i, (job, outcome)) in jobs.iter().zip(&outcomes).enumerate() {
        assert_eq!(*outcome, scalar::recover(job), "job {i} of {}: {job:02x?}", jobs.len());
    }
}

/// The scalar b of the blinding point B = b G (see `base`), fixed so that tests can craft collisions.
const TEST_B: [u8; 32] = [0x5a; 32];

fn engine<F: Kernels>(b: [u8; 32]) -> Engine<F> {
    let processor =
        F::detect().expect("tests run only on instruction sets that this processor has");
    Engine::over(processor, Arc::new(BaseTable::new(b).expect("in range")))
}

#[test]
fn results_do_not_depend_on_the_blinding() {
    over_every_field!(random_over);
}

fn random_over<F: Kernels>() {
    let jobs = jobs(70, 1);
    for b in [TEST_B, [0x17; 32]] {
        check(&mut engine::<F>(b), &jobs);
    }
}

/// The step at which a crafted signature makes a formula inapplicable.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Collision {
    /// The sum of the window's multiples of P = -R and lambda P equals plus or minus its row of the base table.
    Row { plus: bool },
    /// The accumulator equals plus or minus the window's point.
    Accumulator { plus: bool },
}

/// Returns the digits of a scalar as integers modulo n, with the halves joined by lambda.
fn digits(u: &BigUint) -> Vec<BigUint> {
    let words = oracle::to_words(u).map(|word| Model::from_words([word; 8]));
    let (d1, d2) = split(&Scalar::from_words(words));
    let digit = |digits: &Digits<Model>, w| {
        let (index, negative) = digits.digit(w);
        let odd = BigInt::from(2 * index.to_words()[0] + 1);
        if negative & 1 == 1 { -odd } else { odd }
    };
    (0..WINDOWS)
        .map(|w| {
            oracle::modulo(&(digit(&d1, w) + digit(&d2, w) * oracle::lambda()), &oracle::order())
        })
        .collect()
}

/// Returns a signature whose recovery with [`TEST_B`] collides at window `w`. R = k G, and both conditions are linear
/// in k for given u1 and u2. Therefore, this solves for k, and then computes s and z from r, u1 and u2.
fn craft(collision: Collision, w: usize, seed: u64) -> Job {
    let n = oracle::order();
    let mut stream = Stream(seed);
    let b = BigUint::from_bytes_be(&TEST_B) % &n;
    let minus = |x: &BigUint| (&n - x % &n) % &n;
    loop {
        let u1 = oracle::from_words(&stream.words()) % &n;
        let u2 = oracle::from_words(&stream.words()) % &n;
        let (d, e) = (digits(&u2), digits(&u1));
        // Both sides are a known value plus k times a known value.
        let (known, slope) = match collision {
            Collision::Row { plus } => {
                let row = &e[w] + &b;
                // -k d = +-row
                (if plus { minus(&row) } else { row }, d[w].clone())
            }
            Collision::Accumulator { plus } => accumulator_condition(w, plus, &d, &e, &b),
        };
        if slope == BigUint::ZERO {
            continue;
        }
        let k = known * oracle::inverse(&slope, &n) % &n;
        let Ok(key) = SecretKey::from_secret_bytes(limbs::to_be_bytes(&oracle::to_words(&k)))
        else {
            continue;
        };
        let point = key.public_key().serialize_uncompressed();
        let r = BigUint::from_bytes_be(&point[1..33]);
        if r >= n {
            continue;
        }
        let bytes = |x: BigUint| limbs::to_be_bytes(&oracle::to_words(&(x % &n)));
        return Job {
            digest: bytes(&u1 * &r),
            s: bytes(&u2 * &r),
            r: bytes(r),
            recovery_id: point[64] & 1,
        };
    }
}

/// Returns `known` and `slope` of the condition `known = slope k`, which holds if the accumulator before window `w` is
/// plus or minus the window's point.
fn accumulator_condition(
    w: usize,
    plus: bool,
    d: &[BigUint],
    e: &[BigUint],
    b: &BigUint,
) -> (BigUint, BigUint) {
    let n = oracle::order();
    let minus = |x: BigUint| (&n - x % &n) % &n;
    let power = |exponent: usize| BigUint::from(32u8).modpow(&exponent.into(), &n);
    let weights: BigUint = (0..WINDOWS).map(power).sum();
    let start = minus(b * weights % &n * oracle::inverse(&power(25), &n));
    let mut known = power(25 - w) * start;
    let mut slope = BigUint::ZERO;
    for i in w + 1..WINDOWS {
        known += power(i - w) * (&e[i] + b);
        slope += power(i - w) * &d[i];
    }
    // known - slope k = +-(e_w + b - k d_w)
    let (here, digit) = (&e[w] + b, d[w].clone());
    let (known, slope) = if plus {
        (known + minus(here), slope + minus(digit))
    } else {
        (known + here, slope + digit)
    };
    (known % &n, slope % &n)
}

#[test]
fn crafted_collisions_do_not_affect_other_lanes() {
    over_every_field!(collisions_over);
}

fn collisions_over<F: Kernels>() {
    let mut engine = engine::<F>(TEST_B);
    let honest: Vec<_> = {
        let all = jobs(140, 2);
        all.into_iter().filter(|job| scalar::recover(job).is_ok()).take(40).collect()
    };
    let mut seed = 100;
    for w in [25, 24, 13, 1, 0] {
        for plus in [true, false] {
            for collision in [Collision::Row { plus }, Collision::Accumulator { plus }] {
                seed += 1;
                let crafted = craft(collision, w, seed);
                for position in [0, 5, 39] {
                    let mut jobs = honest.clone();
                    jobs[position] = crafted;
                    check(&mut engine, &jobs);
                    let exchange = &engine.workspace.exchange;
                    for (g, exchange) in exchange[..5].iter().enumerate() {
                        let here = if g == position / 8 { 1 << (position % 8) } else { 0 };
                        // Infinity is the correct result only if opposite points meet in the last window.
                        let infinite =
                            w == 0 && collision == (Collision::Accumulator { plus: false });
                        let (redo, infinity) = if infinite { (0, here) } else { (here, 0) };
                        assert_eq!(exchange.redo, redo, "{collision:?} at {w}, {position}");
                        assert_eq!(exchange.infinite, infinity, "{collision:?} at {w}");
                    }
                }
            }
        }
    }
}

#[test]
fn many_collisions_at_once_do_not_change_results() {
    over_every_field!(many_over);
}

fn many_over<F: Kernels>() {
    let mut engine = engine::<F>(TEST_B);
    let mut jobs = jobs(30, 3);
    for (i, job) in jobs.iter_mut().enumerate().take(24) {
        let plus = i % 2 == 0;
        let collision =
            if i % 3 == 0 { Collision::Row { plus } } else { Collision::Accumulator { plus } };
        *job = craft(collision, i, 500 + i as u64);
    }
    check(&mut engine, &jobs);
}
