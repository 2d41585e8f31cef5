//! Files of signed transactions between random accounts; sender and recipient differ.
//! They are generated once from a seed on two threads, and kept under `target/`.
//!
//! A file has the format of the TCP ingest: a big-endian `u32` length before each EIP-2718
//! transaction. A longer file begins with the bytes of every shorter one of the same seed.

use crate::{signatures, token};
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Signature, TxKind, U256};
use secp256k1::{
    Message, Scalar, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use std::{
    fs::{File, OpenOptions, create_dir_all, read, rename, write},
    io::{BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    thread,
};

/// Chain id of the development genesis.
const CHAIN_ID: u64 = 262_144;
/// Transactions that both threads sign at a time.
const CHUNK: usize = 65_536;

/// Kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Plain transfers of one wei.
    Transfers,
    /// Token transfers of one unit.
    Erc20,
    /// Three plain transfers to one of the token.
    Mixed,
}

impl Kind {
    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "transfers" => Some(Self::Transfers),
            "erc20" => Some(Self::Erc20),
            "mixed" => Some(Self::Mixed),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transfers => "transfers",
            Self::Erc20 => "erc20",
            Self::Mixed => "mixed",
        }
    }

    const fn is_token(self, n: u64) -> bool {
        match self {
            Self::Transfers => false,
            Self::Erc20 => true,
            Self::Mixed => n % 4 == 3,
        }
    }
}

/// Folder of everything that is generated once.
pub fn cache_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let folder = target.join("bench-cache");
    create_dir_all(&folder).expect("a folder under target");
    folder
}

/// Number of consecutive secret keys. The next public key then costs one point addition, a tenth of
/// a point multiplication.
const KEY_RUN: usize = 4096;

/// The private key of account `index`.
fn account_key(index: usize) -> SecretKey {
    let first = signatures::key((index / KEY_RUN) as u64);
    let mut steps = [0; 32];
    steps[24..].copy_from_slice(&((index % KEY_RUN) as u64).to_be_bytes());
    let steps = Scalar::from_be_bytes(steps).expect("a small number");
    first.add_tweak(&steps).expect("zero with a chance of one in 2^243")
}

/// The addresses of the accounts from `first` on, which must begin a run of consecutive keys.
fn key_run(first: usize, addresses: &mut [Address]) {
    let one = SecretKey::from_secret_bytes(B256::with_last_byte(1).0).expect("one").public_key();
    let mut public = account_key(first).public_key();
    for address in addresses {
        *address = Address::from_raw_public_key(&public.serialize_uncompressed()[1..]);
        public = public.combine(&one).expect("infinity with a chance of one in 2^243");
    }
}

/// Addresses of the first `count` accounts.
pub fn addresses(count: usize) -> Vec<Address> {
    let path = cache_folder().join(format!("accounts-{count}.bin"));
    if let Ok(bytes) = read(&path) {
        return bytes.chunks_exact(20).map(Address::from_slice).collect();
    }
    eprintln!("deriving {count} addresses, once");
    let mut found = vec![Address::ZERO; count];
    let half = count.div_ceil(2).next_multiple_of(KEY_RUN);
    thread::scope(|scope| {
        for (part, chunk) in found.chunks_mut(half).enumerate() {
            scope.spawn(move || {
                for (i, addresses) in chunk.chunks_mut(KEY_RUN).enumerate() {
                    key_run(part * half + i * KEY_RUN, addresses);
                }
            });
        }
    });
    let bytes: Vec<u8> = found.iter().flat_map(|address| address.0.0).collect();
    write(&path, bytes).expect("written");
    found
}

/// A deterministic random source.
#[derive(Clone, Debug)]
struct SplitMix(u64);

impl SplitMix {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // The upper half of the product needs no division, and its bias is negligible.
        (((z ^ (z >> 31)) as u128 * bound as u128) >> 64) as u64
    }
}

/// Draws the accounts of transactions.
#[derive(Clone, Debug)]
pub struct Draw {
    accounts: u64,
    skew: f64,
    seed: u64,
    random: SplitMix,
    /// With a skew: the sum of the weights of the accounts up to each one.
    sums: Vec<f64>,
}

impl Draw {
    /// Draws among `accounts` accounts. Account n has the weight n^-`skew` (Zipf distribution); 0 draws all
    /// equally often.
    pub fn new(accounts: usize, skew: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=accounts).take_while(|_| skew > 0.0).map(|n| {
            sum += (n as f64).powf(-skew);
            sum
        });
        let sums = sums.collect();
        Self { accounts: accounts as u64, skew, seed, random: SplitMix(seed), sums }
    }

    fn name(&self) -> String {
        let skew = if self.skew > 0.0 { format!("-zipf{}", self.skew) } else { String::new() };
        format!("{}{skew}-seed{}", self.accounts, self.seed)
    }

    fn account(&mut self) -> u64 {
        let Some(sum) = self.sums.last() else { return self.random.below(self.accounts) };
        // 53 random bits are all that a fraction can have.
        let point = self.random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * sum;
        self.sums.partition_point(|sum| *sum <= point) as u64
    }

    /// Sender and recipient of a transaction.
    fn pair(&mut self) -> (u64, u64) {
        let from = self.account();
        if self.sums.is_empty() {
            let other = self.random.below(self.accounts - 1);
            return (from, if other >= from { other + 1 } else { other });
        }
        loop {
            let to = self.account();
            if to != from {
                return (from, to);
            }
        }
    }
}

/// One transaction before its signature.
#[derive(Clone, Copy, Debug)]
struct Plan {
    from: u32,
    nonce: u64,
    to: u32,
    token: bool,
}

/// Parses the number of transactions and of bytes of a file.
fn count_and_bytes(text: &str) -> Option<(u64, u64)> {
    let (count, bytes) = text.trim().split_once(' ')?;
    Some((count.parse().ok()?, bytes.parse().ok()?))
}

/// The file with at least `count` transactions between `accounts`. Missing transactions are
/// appended.
pub fn file(accounts: &[Address], kind: Kind, mut draw: Draw, count: u64) -> PathBuf {
    let stem = format!("{}-{}", kind.name(), draw.name());
    let (path, info) = (
        cache_folder().join(format!("{stem}.signed")),
        cache_folder().join(format!("{stem}.signed-count")),
    );
    let known = std::fs::read_to_string(&info).ok().filter(|_| path.exists());
    let (have, bytes) = known.as_deref().and_then(count_and_bytes).unwrap_or_default();
    if have >= count {
        return path;
    }
    eprintln!("signing {} transactions, once", count - have);
    let mut nonces = vec![0u64; accounts.len()];
    let mut plan = |n: u64| {
        let (from, to) = draw.pair();
        let nonce = nonces[from as usize];
        nonces[from as usize] += 1;
        Plan { from: from as u32, nonce, to: to as u32, token: kind.is_token(n) }
    };
    for n in 0..have {
        plan(n);
    }
    let append = OpenOptions::new().create(true).append(true).open(&path).expect("opened");
    // An interrupted run may have appended transactions that it did not count.
    append.set_len(bytes).expect("truncated");
    let mut out = BufWriter::new(append);
    let mut done = have;
    while done < count {
        let size = (count - done).min(CHUNK as u64);
        let plans: Vec<_> = (done..done + size).map(&mut plan).collect();
        let halves: Vec<Vec<u8>> = thread::scope(|scope| {
            let parts = plans.chunks(plans.len().div_ceil(2));
            let threads: Vec<_> =
                parts.map(|part| scope.spawn(move || sign_all(part, accounts))).collect();
            threads.into_iter().map(|thread| thread.join().expect("signed")).collect()
        });
        for bytes in halves {
            out.write_all(&bytes).expect("written");
        }
        done += size;
    }
    out.flush().expect("written");
    let temporary = info.with_extension("tmp");
    let bytes = path.metadata().expect("written").len();
    write(&temporary, format!("{done} {bytes}")).expect("written");
    rename(temporary, info).expect("renamed");
    path
}

fn sign_all(plans: &[Plan], accounts: &[Address]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plans.len() * 128);
    for plan in plans {
        let to = accounts[plan.to as usize];
        let raw = sign(&account_key(plan.from as usize), plan, to);
        out.extend(u32::try_from(raw.len()).expect("a short transaction").to_be_bytes());
        out.extend(raw);
    }
    out
}

fn sign(key: &SecretKey, plan: &Plan, to: Address) -> Vec<u8> {
    let base = TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: plan.nonce,
        max_fee_per_gas: 1_000_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        ..TxEip1559::default()
    };
    let tx = if plan.token {
        TxEip1559 {
            gas_limit: token::TRANSFER_GAS,
            to: TxKind::Call(token::TOKEN),
            input: token::transfer_input(to, U256::ONE),
            ..base
        }
    } else {
        TxEip1559 { gas_limit: 21_000, to: TxKind::Call(to), value: U256::ONE, ..base }
    };
    let digest = Message::from_digest(tx.signature_hash().0);
    let signature = RecoverableSignature::sign_ecdsa_recoverable(digest, key);
    let (id, compact) = signature.serialize_compact();
    let signature = Signature::from_bytes_and_parity(&compact, id == RecoveryId::One);
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718()
}

/// Reads complete frames from a file.
#[derive(Debug)]
pub struct Frames(BufReader<File>);

impl Frames {
    /// Opens the file.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn open(path: &Path) -> Self {
        Self(BufReader::with_capacity(1 << 20, File::open(path).expect("the file was just made")))
    }

    /// Appends up to `count` frames to `out` and returns how many were read.
    ///
    /// # Panics
    /// If the file ends inside a frame.
    pub fn read(&mut self, count: usize, out: &mut Vec<u8>) -> usize {
        for n in 0..count {
            let mut length = [0; 4];
            if self.0.read_exact(&mut length).is_err() {
                return n;
            }
            out.extend(length);
            let start = out.len();
            out.resize(start + u32::from_be_bytes(length) as usize, 0);
            self.0.read_exact(&mut out[start..]).expect("a whole frame");
        }
        count
    }
}
