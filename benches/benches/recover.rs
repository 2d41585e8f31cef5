//! Measures public-key recovery by every backend, by libsecp256k1 called directly, and by k256.
//!
//! Run it with `cargo bench --profile release --workspace --bench recover`. Every measurement uses one thread.

use benches::signatures::{self, compact, libsecp256k1};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use verify::{Backend, Job, Outcome, Reason, Recoverer};

/// Batch lengths. The vector backends process up to 256 signatures at a time; the last batch is far longer.
const BATCHES: [usize; 12] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 8_192];
/// Signatures per iteration for the libraries that recover one signature at a time. Their cost per
/// signature does not depend on the batch length.
const SINGLES: usize = 64;

fn batches(c: &mut Criterion) {
    let jobs = signatures::jobs(8_192);
    for backend in Backend::available() {
        verify::ensure_self_tested(backend).expect("the backend has right results");
        let mut group = c.benchmark_group(format!("recover/{backend}"));
        let mut recoverer = Recoverer::new(backend);
        for batch in BATCHES {
            if backend == Backend::Scalar && batch > 256 {
                continue;
            }
            group.throughput(Throughput::Elements(batch as u64));
            let mut outcomes = vec![Err(Reason::RecoveryId); batch];
            recoverer.recover_batch(&jobs[..batch], &mut outcomes);
            assert!(outcomes.iter().all(Outcome::is_ok));
            // Each iteration uses the next part of the jobs. The largest batch always uses all jobs.
            let mut from = 0;
            group.bench_function(BenchmarkId::from_parameter(batch), |b| {
                b.iter(|| {
                    from = if from + 2 * batch <= jobs.len() { from + batch } else { 0 };
                    recoverer.recover_batch(black_box(&jobs[from..from + batch]), &mut outcomes);
                });
            });
        }
        group.finish();
    }
}

fn libraries(c: &mut Criterion) {
    let jobs = signatures::jobs(SINGLES);
    let mut group = c.benchmark_group("recover/libraries");
    group.throughput(Throughput::Elements(SINGLES as u64));
    group.bench_function("libsecp256k1", |b| {
        b.iter(|| jobs.iter().map(|job| libsecp256k1(job)[1]).fold(0, |a, b| a ^ b));
    });
    group.bench_function("k256", |b| {
        b.iter(|| jobs.iter().map(|job| k256(job)[1]).fold(0, |a, b| a ^ b));
    });
    group.finish();
}

fn k256(job: &Job) -> [u8; 65] {
    use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
    let id = RecoveryId::from_byte(job.recovery_id).expect("0 to 3");
    let signature = Signature::from_slice(&compact(job)).expect("in range");
    let key = VerifyingKey::recover_from_prehash(&job.digest, &signature, id).expect("valid");
    key.to_encoded_point(false).as_bytes().try_into().expect("uncompressed")
}

/// Measures batches with input that an attacker could send to slow recovery down. The scalar backend,
/// which calls libsecp256k1, is the comparison.
fn adversarial(c: &mut Criterion) {
    let honest = signatures::jobs(256);
    let mixed = |worst: &[Job]| -> Vec<Job> {
        honest
            .iter()
            .zip(worst)
            .enumerate()
            .map(|(i, (h, w))| if i % 8 == 0 { *w } else { *h })
            .collect()
    };
    let infinity = signatures::infinity(256);
    let off_curve = signatures::off_curve(256);
    let cases = [
        ("one-in-8-infinity", mixed(&infinity)),
        ("all-infinity", infinity),
        ("one-in-8-off-curve", mixed(&off_curve)),
        ("all-off-curve", off_curve),
    ];
    for backend in Backend::available() {
        let mut group = c.benchmark_group(format!("recover-adversarial/{backend}"));
        group.throughput(Throughput::Elements(256));
        let mut recoverer = Recoverer::new(backend);
        for (name, jobs) in &cases {
            let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
            group.bench_function(*name, |b| {
                b.iter(|| recoverer.recover_batch(black_box(jobs), &mut outcomes));
            });
        }
        group.finish();
    }
}

criterion_group! { name = benches; config = benches::quick(); targets = libraries, batches, adversarial }
criterion_main!(benches);
