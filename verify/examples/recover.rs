//! Recovers a batch of signatures on the fastest backend of this machine and prints the throughput.
//!
//! `cargo run --release -p secp256k1-batch-recovery --example recover -- 100000`

use secp256k1::{Message, SecretKey, ecdsa::RecoverableSignature};
use secp256k1_batch_recovery::{Backend, Job, Reason, Recoverer, keccak256, self_test};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse())?;
    println!("signing {count} digests, each with a different key");
    let jobs = (0..count).map(sign).collect::<Result<Vec<_>, _>>()?;

    let backend = Backend::detect()?;
    self_test(backend)?;
    let mut recoverer = Recoverer::new(backend);

    let mut outcomes = vec![Err(Reason::NoPublicKey); jobs.len()];
    let start = Instant::now();
    recoverer.recover_batch(&jobs, &mut outcomes);
    let elapsed = start.elapsed();

    let recovered = outcomes.iter().flatten().count();
    println!(
        "{backend}: {recovered} of {count} public keys in {elapsed:.1?}, {:.0} per second",
        count as f64 / elapsed.as_secs_f64()
    );
    if let Some(Ok(key)) = outcomes.first() {
        println!("the first signer is 0x{}", hex(&key.address));
    }
    Ok(())
}

fn sign(i: u64) -> Result<Job, secp256k1::Error> {
    let key = SecretKey::from_secret_bytes(keccak256(&i.to_be_bytes()))?;
    let digest = keccak256(&i.to_le_bytes());
    let signature =
        RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(digest), &key);
    let (id, compact) = signature.serialize_compact();
    let mut job = Job { digest, recovery_id: id.to_u8(), ..Job::default() };
    job.r.copy_from_slice(&compact[..32]);
    job.s.copy_from_slice(&compact[32..]);
    Ok(job)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
