//! Helpers of the integration tests: transactions signed by the development accounts, and nodes in temporary
//! folders.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod both_ways;
pub mod frames;
pub mod signed;

use alloy_consensus::{SignableTransaction, Signed, TxEip1559, TxEip7702, TxEnvelope};
use alloy_eips::{eip2718::Encodable2718, eip7702::Authorization};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use chain::{DEV_ACCOUNTS, Genesis, block::join};
use home::{Home, HomeError};
use pipeline::{Mining, MiningControl, Options, Pipeline, SystemTimeSource};
use secp256k1::{
    Message, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use state::View;
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use storage::{OpenError, StateRead};
use testkit::MAX_WAIT;
use verify::Backend;

/// Chain ID of the development genesis.
pub const CHAIN_ID: u64 = 262_144;
/// Timestamp of the test chains' genesis, in seconds.
pub const GENESIS_TIME: u64 = 1_700_000_000;
/// A fee cap above the base fee in every test, in wei per gas.
pub const FEE_CAP: u128 = 100_000_000_000;

/// Returns a signed transfer of 1 wei by development account `from`.
pub fn transfer(from: usize, nonce: u64, to: Address) -> Bytes {
    sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: FEE_CAP,
            max_priority_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(to),
            value: U256::ONE,
            ..TxEip1559::default()
        },
    )
}

/// Returns an unsigned transaction with a gas limit of 200,000.
pub fn unsigned(nonce: u64, to: TxKind, input: impl Into<Bytes>) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: FEE_CAP,
        to,
        input: input.into(),
        ..TxEip1559::default()
    }
}

/// Signs with the key of development account `from`, and returns the EIP-2718 encoding.
pub fn sign<T>(from: usize, tx: T) -> Bytes
where
    T: SignableTransaction<Signature>,
    TxEnvelope: From<Signed<T>>,
{
    let signature = signature(from, tx.signature_hash());
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
}

/// Signs a hash with the key of development account `from`.
pub fn signature(from: usize, hash: B256) -> Signature {
    let key = SecretKey::from_secret_bytes(DEV_ACCOUNTS[from].private_key.0).unwrap();
    let signature =
        RecoverableSignature::sign_ecdsa_recoverable(Message::from_digest(hash.0), &key);
    let (id, compact) = signature.serialize_compact();
    Signature::from_bytes_and_parity(&compact, id == RecoveryId::One)
}

/// Returns a transaction of account `from` that delegates account `authority`, whose nonce is 0, to the code of
/// `target` (EIP-7702).
pub fn delegate(from: usize, nonce: u64, authority: usize, target: Address) -> Bytes {
    let authorization = Authorization { chain_id: U256::from(CHAIN_ID), address: target, nonce: 0 };
    let signature_of_authority = signature(authority, authorization.signature_hash());
    let tx = TxEip7702 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 100_000,
        max_fee_per_gas: FEE_CAP,
        max_priority_fee_per_gas: 1_000_000_000,
        authorization_list: vec![authorization.into_signed(signature_of_authority)],
        ..TxEip7702::default()
    };
    let signature = signature(from, tx.signature_hash());
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
}

/// Initializes a native development chain that accepts transactions even if it does not produce blocks.
pub fn native_home(folder: &Path) -> Home {
    let mut home = Home::init(folder, &Genesis::native_dev(GENESIS_TIME)).unwrap();
    home.config.mempool.accept_without_production = true;
    home
}

/// Returns options with which the pipeline imports files and then ends.
pub fn importing(files: Vec<PathBuf>) -> Options {
    Options {
        transactions: None,
        mining: None,
        files,
        forwarder: None,
        given_blocks: false,
        recover_workers: 2,
        backend: Backend::detect().unwrap(),
        certifier: None,
        clocks: SystemTimeSource::boxed,
    }
}

/// Returns options with which the pipeline accepts transactions and, if there is a `block_time`, produces blocks.
pub fn producing(block_time: Option<Duration>) -> Options {
    Options {
        transactions: Some("127.0.0.1:0".parse().unwrap()),
        mining: block_time.map(|time| MiningControl::new(Mining::Every(time))),
        files: Vec::new(),
        forwarder: None,
        given_blocks: true,
        recover_workers: 2,
        backend: Backend::detect().unwrap(),
        certifier: None,
        clocks: SystemTimeSource::boxed,
    }
}

/// Exports a native chain to `file`, and returns the hash of its head. The chain has at least `length` blocks and 30
/// transfers, which are in at least two blocks.
pub fn exported_chain(file: &Path, length: u64) -> B256 {
    let folder = tempfile::tempdir().unwrap();
    exported_chain_of(&native_home(folder.path()), file, length)
}

/// Like [`exported_chain`], but produces the blocks in `home`.
pub fn exported_chain_of(home: &Home, file: &Path, length: u64) -> B256 {
    let pipeline = Pipeline::start(home, producing(Some(Duration::from_millis(5)))).unwrap();
    let client = pipeline.client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let is_included = |nonce: u64| {
        let state = pipeline.published.load().state.reader().unwrap();
        state.account(DEV_ACCOUNTS[0].address).unwrap().is_some_and(|account| account.nonce > nonce)
    };
    for nonce in 0..30 {
        let raw = transfer(0, nonce, Address::with_last_byte(nonce as u8));
        runtime.block_on(client.submit(raw)).unwrap();
        if nonce == 14 {
            wait_until("the first half is in a block", || is_included(nonce));
        }
    }
    wait_until("the chain has enough blocks", || pipeline.published.load().number() >= length);
    pipeline.stop();
    pipeline.join().unwrap();
    export(home, file)
}

/// Writes the blocks of a home, from block 1 on, to a file in the import format; returns the hash of the head.
pub fn export(home: &Home, file: &Path) -> B256 {
    export_view(&home.view().unwrap(), file)
}

/// Writes the blocks of a view, from block 1 on, to a file in the import format; returns the hash of the head.
pub fn export_view(view: &View, file: &Path) -> B256 {
    let blocks = view.blocks().unwrap();
    let mut bytes = Vec::new();
    for number in 1..=view.number() {
        let (_, header) = blocks.header(number).unwrap().unwrap();
        bytes.extend(join(&header, &blocks.body(number).unwrap().unwrap()));
    }
    std::fs::write(file, bytes).unwrap();
    view.head.hash
}

/// Imports files, and waits until the pipeline has ended.
pub fn import(home: &Home, files: Vec<PathBuf>) -> Result<(), pipeline::Fault> {
    Pipeline::start(home, importing(files)).unwrap().join()
}

/// Opens the home folder of a node that has stopped in this process. A thread that handled the last request may
/// still hold a view for a short time, and LMDB allows an environment to be opened only once per process.
pub fn reopened(folder: &Path) -> Home {
    let mut opened = None;
    wait_until("the last view is dropped", || {
        opened = match Home::open(folder) {
            Err(HomeError::Open(OpenError::AlreadyOpen { .. })) => None,
            other => Some(other.unwrap()),
        };
        opened.is_some()
    });
    opened.expect("the home was opened")
}

/// Calls `done` until it returns true, and fails after [`MAX_WAIT`].
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    wait_for(what, || if done() { Ok(()) } else { Err(String::new()) });
}

/// Calls `done` until it succeeds, and fails with its last error after [`MAX_WAIT`].
pub fn wait_for(what: &str, mut done: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(error) = done() {
        assert!(begun.elapsed() < MAX_WAIT, "gave up waiting until {what}: {error}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// Returns a folder of third-party data. Tests that call this are ignored by default.
pub fn fixtures(name: &str) -> PathBuf {
    let root =
        std::env::var_os("EVMD_FIXTURES").expect("EVMD_FIXTURES is not set: run .ci/fixtures");
    let folder = Path::new(&root).join(name);
    assert!(folder.is_dir(), "EVMD_FIXTURES has no folder {name}: run .ci/fixtures");
    folder
}
