//! Signatures by many distinct keys, so that no candidate benefits from a cached key.

use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use verify::{Job, keccak256};

/// `count` valid jobs, each signed by a different key.
pub fn jobs(count: usize) -> Vec<Job> {
    (0..count as u64).map(|i| sign(&key(i), keccak256(&(!i).to_be_bytes()))).collect()
}

/// The `i`-th private key.
///
/// # Panics
/// With probability 2^-128.
pub fn key(i: u64) -> SecretKey {
    SecretKey::from_secret_bytes(keccak256(&i.to_be_bytes())).expect("below the group order")
}

/// The key that libsecp256k1 recovers: 0x04, x and y.
///
/// # Panics
/// If the job has no public key.
pub fn libsecp256k1(job: &Job) -> [u8; 65] {
    let id = RecoveryId::from_u8_masked(job.recovery_id);
    let signature = RecoverableSignature::from_compact(&compact(job), id).expect("in range");
    let key = signature.recover_ecdsa(Message::from_digest(job.digest)).expect("valid");
    key.serialize_uncompressed()
}

/// r and s, one after the other.
pub fn compact(job: &Job) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(&job.r);
    bytes[32..].copy_from_slice(&job.s);
    bytes
}

/// `count` jobs that recover the point at infinity. Any signer can construct such a signature (s = z / k for R = k G),
/// and no cheap check detects it, so it must not cost more than a valid one.
pub fn infinity(count: usize) -> Vec<Job> {
    jobs(count).iter().map(at_infinity).collect()
}

/// `count` jobs whose r is not the x of a point on the curve: libsecp256k1 rejects them after a square root.
pub fn off_curve(count: usize) -> Vec<Job> {
    let mut scalar = verify::Recoverer::new(verify::Backend::Scalar);
    let mut found = Vec::with_capacity(count);
    for i in 0u64.. {
        let job = Job {
            digest: keccak256(&i.to_le_bytes()),
            r: keccak256(&(i ^ 1 << 63).to_le_bytes()),
            s: keccak256(&(i ^ 1 << 62).to_le_bytes()),
            recovery_id: 0,
        };
        let mut outcome = [Err(verify::Reason::RecoveryId)];
        scalar.recover_batch(&[job], &mut outcome);
        if outcome[0].is_err() {
            found.push(job);
        }
        if found.len() == count {
            break;
        }
    }
    found
}

fn sign(key: &SecretKey, digest: [u8; 32]) -> Job {
    let signature = RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(digest), key);
    let (id, compact) = signature.serialize_compact();
    let (r, s) = compact.split_at(32);
    Job {
        digest,
        r: r.try_into().expect("half of 64 bytes"),
        s: s.try_into().expect("half of 64 bytes"),
        recovery_id: id.to_u8(),
    }
}

/// With R = k G: the digest becomes s k, so that s R - z G is infinity.
fn at_infinity(job: &Job) -> Job {
    use secp256k1::Scalar;
    let k = SecretKey::from_secret_bytes(keccak256(&job.digest)).expect("below the order");
    let point = k.public_key().serialize_uncompressed();
    let s = SecretKey::from_secret_bytes(job.s).expect("in range");
    let z = k.mul_tweak(&Scalar::from(s)).expect("not zero");
    Job {
        digest: z.to_secret_bytes(),
        r: point[1..33].try_into().expect("x of 65 bytes"),
        s: job.s,
        recovery_id: point[64] & 1,
    }
}
