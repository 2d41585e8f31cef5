//! The sending accounts: those that every development chain funds, and generated ones, which these
//! accounts or a genesis fund.
//!
//! All keys here are public, so signatures may leak them. A signature reuses one of a few
//! precomputed nonces: `s` then takes two scalar multiplications instead of a point multiplication.
//! The signatures are valid, and verifying them costs as much as usual.

use crate::rng::Rng;
use alloy_primitives::{Address, B256, Signature, U256, b256, keccak256, uint};
use secp256k1::{PublicKey, SecretKey};
use std::ops::Range;

/// Keys derived from the mnemonic `test test test test test test test test test test test junk`,
/// whose accounts development chains fund.
const DEV_KEYS: [B256; 10] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// Order of the group of secp256k1 (SEC 2, 2.4.1).
const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
/// Half of the order: EIP-2 requires that `s` is not greater.
const HALF_ORDER: U256 =
    uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);
/// Number of generated accounts with consecutive secret keys. Each further public key then costs one
/// point addition, a tenth of the cost of a point multiplication.
const KEY_RUN: u64 = 4096;
/// Number of precomputed nonces. Each signature of a sender uses the next one.
const NONCES: u64 = 64;

/// An account that can sign.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    secret: U256,
    pub(crate) address: Address,
}

impl Key {
    fn new(secret: B256) -> Self {
        Self::with_public(U256::from_be_bytes(secret.0), &public_key(secret))
    }

    fn with_public(secret: U256, public: &PublicKey) -> Self {
        let address = Address::from_word(keccak256(&public.serialize_uncompressed()[1..]));
        Self { secret, address }
    }
}

fn public_key(secret: B256) -> PublicKey {
    SecretKey::from_secret_bytes(secret.0).expect("below the group order").public_key()
}

/// Coordinates of a public key.
fn public_point(secret: B256) -> ([u8; 32], [u8; 32]) {
    let public = public_key(secret).serialize_uncompressed();
    let half = |from: usize| public[from..from + 32].try_into().expect("32 bytes");
    (half(1), half(33))
}

/// Returns the accounts that development chains fund.
pub(crate) fn dev_keys() -> Vec<Key> {
    DEV_KEYS.iter().map(|secret| Key::new(*secret)).collect()
}

/// Generates accounts from a seed, on all cores.
pub(crate) fn senders(seed: u64, count: usize) -> Vec<Key> {
    senders_in(seed, 0..count as u64)
}

/// Returns the accounts of [`senders`] with these indices.
pub(crate) fn senders_in(seed: u64, indices: Range<u64>) -> Vec<Key> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = (indices.end - indices.start).div_ceil(threads).next_multiple_of(KEY_RUN);
    let end = indices.end;
    std::thread::scope(|scope| {
        let parts: Vec<_> = indices
            .step_by(share.max(1) as usize)
            .map(|from| scope.spawn(move || derive_run(seed, from, (from + share).min(end))))
            .collect();
        let made = parts.into_iter().map(|part| part.join().expect("deriving keys does not panic"));
        made.flatten().collect()
    })
}

/// Derives the accounts `from..to`.
fn derive_run(seed: u64, from: u64, to: u64) -> Vec<Key> {
    let one = public_key(B256::with_last_byte(1));
    let mut keys: Vec<Key> = Vec::with_capacity((to - from) as usize);
    let mut last: Option<(U256, PublicKey)> = None;
    for number in from..to {
        let (secret, public) = match last.filter(|_| !number.is_multiple_of(KEY_RUN)) {
            Some((secret, public)) => {
                let next = public.combine(&one).expect("fails with probability 2^-243");
                (secret.add_mod(U256::ONE, ORDER), next)
            }
            None => {
                let secret = sender_secret(seed, number);
                (secret, public_key(B256::from(secret.to_be_bytes::<32>())))
            }
        };
        keys.push(Key::with_public(secret, &public));
        last = Some((secret, public));
    }
    keys
}

/// Returns the account of [`senders`] with this index.
pub(crate) fn sender(seed: u64, number: u64) -> Key {
    Key::new(B256::from(sender_secret(seed, number).to_be_bytes::<32>()))
}

fn sender_secret(seed: u64, number: u64) -> U256 {
    let first = U256::from_be_bytes(derive_scalar("sender", seed, number / KEY_RUN).0);
    first.add_mod(U256::from(number % KEY_RUN), ORDER)
}

/// Derives a number below the order. It is 0 with probability 2^-256.
fn derive_scalar(what: &str, seed: u64, number: u64) -> B256 {
    let text = [what.as_bytes(), &seed.to_be_bytes(), &number.to_be_bytes()].concat();
    let number = U256::from_be_bytes(keccak256(text).0) % ORDER;
    B256::from(number.to_be_bytes::<32>())
}

/// Returns the address of a generated account that only receives.
pub(crate) fn recipient(seed: u64, number: u64) -> Address {
    let mut rng = Rng::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
    let mut bytes = [0; 20];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&rng.next().to_be_bytes()[..part.len()]);
    }
    Address::from(bytes)
}

/// An ECDSA nonce and the values derived from it.
#[derive(Clone, Copy, Debug)]
struct Nonce {
    inverse: U256,
    r: U256,
    y_is_odd: bool,
}

/// Signs with precomputed nonces, as the module documentation explains.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    nonces: Vec<Nonce>,
}

impl Signer {
    pub(crate) fn new(seed: u64) -> Self {
        let nonce = |number| {
            let nonce = derive_scalar("nonce", seed, number);
            let (x, y) = public_point(nonce);
            let inverse = U256::from_be_bytes(nonce.0).inv_mod(ORDER).expect("the order is prime");
            let r = U256::from_be_bytes(x);
            assert!(r < ORDER, "fails with probability 2^-128");
            Nonce { inverse, r, y_is_odd: y[31] & 1 == 1 }
        };
        Self { nonces: (0..NONCES).map(nonce).collect() }
    }

    /// Signs a digest; `index` chooses the nonce.
    pub(crate) fn sign(&self, key: &Key, digest: B256, index: u64) -> Signature {
        let Nonce { inverse, r, y_is_odd } = self.nonces[(index % NONCES) as usize];
        let product = r.mul_mod(key.secret, ORDER);
        let s = U256::from_be_bytes(digest.0).reduce_mod(ORDER).add_mod(product, ORDER);
        let s = s.mul_mod(inverse, ORDER);
        assert!(!s.is_zero(), "fails with probability 2^-256");
        match s > HALF_ORDER {
            true => Signature::new(r, ORDER - s, !y_is_odd),
            false => Signature::new(r, s, y_is_odd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secp256k1::{
        Message,
        ecdsa::{RecoverableSignature, RecoveryId},
    };

    #[test]
    fn libsecp256k1_recovers_the_signer() {
        let signer = Signer::new(7);
        let mut keys = senders(7, 5);
        keys.extend(dev_keys());
        let mut odd = 0;
        for index in 0..2 * NONCES {
            let key = &keys[index as usize % keys.len()];
            let digest = keccak256(index.to_be_bytes());
            let signature = signer.sign(key, digest, index);
            assert!(signature.s() <= HALF_ORDER);
            odd += usize::from(signature.v());
            let mut compact = [0; 64];
            compact[..32].copy_from_slice(&signature.r().to_be_bytes::<32>());
            compact[32..].copy_from_slice(&signature.s().to_be_bytes::<32>());
            let id = if signature.v() { RecoveryId::One } else { RecoveryId::Zero };
            let signature = RecoverableSignature::from_compact(&compact, id).unwrap();
            let public = signature.recover_ecdsa(Message::from_digest(digest.0)).unwrap();
            let hash = keccak256(&public.serialize_uncompressed()[1..]);
            assert_eq!(Address::from_word(hash), key.address, "index {index}");
        }
        assert!((1..2 * NONCES as usize).contains(&odd), "both parities occur");
    }

    #[test]
    fn accounts_depend_only_on_the_seed() {
        assert_eq!(senders(1, 3)[2].address, senders(1, 9)[2].address);
        let many = senders(1, 2 * KEY_RUN as usize + 2);
        for number in [0, 1, KEY_RUN - 1, KEY_RUN, 2 * KEY_RUN + 1] {
            let (single, run) = (sender(1, number), &many[number as usize]);
            assert_eq!((single.secret, single.address), (run.secret, run.address), "{number}");
        }
        assert_ne!(senders(1, 1)[0].address, senders(2, 1)[0].address);
        assert_ne!(recipient(1, 1), recipient(1, 2));
        assert_eq!(
            dev_keys()[0].address,
            "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse::<Address>().unwrap()
        );
    }
}
