//! Puts load on a running node: a thousand senders submit transactions, some of which leave nonce gaps, are
//! replacements, are underpriced or are invalid. A simple model predicts which transactions are refused, with the
//! reason, and which ones are mined, once each.

mod script;
mod wallets;

use crate::common::{GENESIS_TIME, frames::Frames, producing, wait_until};
use crate::random::Random;
use alloy_primitives::{B256, U256};
use chain::Genesis;
use home::Home;
use pipeline::Pipeline;
use script::{ACCOUNT_QUEUE, Line, MIN_TIP, Script};
use state::View;
use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    path::Path,
    thread,
    time::Duration,
};
use storage::StateRead;
use wallets::{RECIPIENT, Wallet, transfer};

/// Number of transactions in the default run and, if `EVMD_LONG_TESTS` is set, in the long one.
const SUBMISSIONS: usize = 100_000;
const SUBMISSIONS_LONG: usize = 500_000;
const SENDERS: usize = 1_000;
/// Number of connections. The senders are divided among them.
const CONNECTIONS: usize = 4;
/// Number of submissions per write.
const BURST: usize = 64;
/// Initial balance of each sender, in tokens.
const FUNDS: u64 = 90;

/// Returns the development genesis with a base fee that a hundred full blocks hardly change, so that it stays below the
/// fee caps of the script.
fn genesis() -> Genesis {
    let text = Genesis::native_dev(GENESIS_TIME).to_json();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let params = &mut file["config"]["evmd"]["feemarket"]["params"];
    params["base_fee_change_denominator"] = 1000.into();
    Genesis::from_json(&file.to_string()).unwrap()
}

/// Initializes a chain on which the wallets have funds.
fn funded_home(folder: &Path, wallets: &[Wallet]) -> Home {
    let mut home = Home::init(folder, &genesis()).unwrap();
    home.config.mempool.min_tip = MIN_TIP;
    home.config.mempool.account_queue = ACCOUNT_QUEUE;
    // The model does not cover a full pool.
    home.config.mempool.global_slots = SUBMISSIONS_LONG;
    home.config.mempool.global_queue = SUBMISSIONS_LONG;
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(20)))).unwrap();
    let mut frames = Frames::connect(pipeline.ingest_address.unwrap());
    let value = U256::from(FUNDS) * U256::from(10u64).pow(U256::from(18));
    let fundings: Vec<_> = (0u64..)
        .zip(wallets)
        .map(|(nonce, wallet)| {
            let funding = transfer(nonce, crate::common::FEE_CAP * 5, u128::from(MIN_TIP));
            let to = alloy_primitives::TxKind::Call(wallet.address);
            // Ten development accounts, with 10,000 tokens each, fund a hundred wallets each.
            let (from, nonce) = ((nonce % 10) as usize, nonce / 10);
            crate::common::sign(from, alloy_consensus::TxEip1559 { to, value, nonce, ..funding })
        })
        .collect();
    frames.send(fundings.iter().map(AsRef::as_ref)).unwrap();
    for _ in &fundings {
        frames.response().unwrap().unwrap();
    }
    wait_until("the wallets are funded", || {
        let state = pipeline.published.load().state.reader().unwrap();
        wallets.iter().all(|wallet| state.account(wallet.address).unwrap().is_some())
    });
    pipeline.stop();
    pipeline.join().unwrap();
    home
}

/// Generates the scripts of all wallets on [`CONNECTIONS`] threads.
fn scripts(wallets: &[Wallet], submissions: usize) -> Vec<Script> {
    let each = submissions / wallets.len();
    let parts = wallets.chunks(wallets.len().div_ceil(CONNECTIONS));
    thread::scope(|scope| {
        let write = |(seed, wallet): (u64, &Wallet)| {
            script::write(wallet, &mut Random(0x5eed ^ (seed << 20)), each)
        };
        let threads: Vec<_> = parts
            .enumerate()
            .map(|(part, wallets)| {
                let first = (part * wallets.len()) as u64;
                scope.spawn(move || (first..).zip(wallets).map(write).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Interleaves scripts randomly, and keeps the order within each script.
fn shuffled(scripts: &[Script], seed: u64) -> Vec<&Line> {
    let mut random = Random(seed);
    let mut rests: Vec<_> = scripts.iter().map(|script| script.lines.iter()).collect();
    let mut lines = Vec::new();
    while !rests.is_empty() {
        let at = random.below(rests.len() as u64) as usize;
        // Takes a few consecutive transactions of one wallet, as wallets send them.
        let run = 1 + random.below(8) as usize;
        lines.extend(rests[at].by_ref().take(run));
        if rests[at].len() == 0 {
            drop(rests.swap_remove(at));
        }
    }
    lines
}

/// Submits transactions over one connection, and compares each response with the model. Returns how many transactions
/// were refused for each reason, and how many were `accepted`.
fn submit(address: SocketAddr, lines: &[&Line]) -> BTreeMap<&'static str, usize> {
    let mut sender = Frames::connect(address);
    let mut reader = sender.twin();
    thread::scope(|scope| {
        scope.spawn(move || {
            for burst in lines.chunks(BURST) {
                sender.send(burst.iter().map(|line| line.raw.as_ref())).unwrap();
            }
        });
        let mut counts = BTreeMap::new();
        for line in lines {
            let response = reader.response().unwrap();
            match (&response, line.refused) {
                (Ok(hash), None) => assert_eq!(*hash, alloy_primitives::keccak256(&line.raw)),
                (Err(text), Some(start)) if text.starts_with(start) => {}
                other => panic!("{other:?}"),
            }
            *counts.entry(line.refused.unwrap_or("accepted")).or_default() += 1;
        }
        counts
    })
}

/// Returns how many times each transaction was mined after block `first`.
fn mined(view: &View, first: u64) -> HashMap<B256, u32> {
    let blocks = view.blocks().unwrap();
    let mut mined = HashMap::new();
    for number in first + 1..=view.number() {
        let (hash, header) = blocks.header(number).unwrap().unwrap();
        let body = blocks.body(number).unwrap().unwrap();
        let block = chain::block::Block::from_parts(hash, &header, &body).unwrap();
        for raw in block.transactions {
            *mined.entry(alloy_primitives::keccak256(&raw)).or_default() += 1;
        }
    }
    mined
}

#[test]
fn load_of_a_thousand_senders_equals_the_model() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let submissions = if long { SUBMISSIONS_LONG } else { SUBMISSIONS };
    let wallets: Vec<_> = (0..SENDERS as u64).map(Wallet::new).collect();
    let folder = tempfile::tempdir().unwrap();
    let home = funded_home(folder.path(), &wallets);
    let scripts = scripts(&wallets, submissions);
    let first = home.view().unwrap().number();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(100)))).unwrap();
    let address = pipeline.ingest_address.unwrap();
    let counts = thread::scope(|scope| {
        let parts = scripts.chunks(scripts.len().div_ceil(CONNECTIONS));
        let clients: Vec<_> = (0..)
            .zip(parts)
            .map(|(seed, part)| scope.spawn(move || submit(address, &shuffled(part, seed))))
            .collect();
        let mut counts = BTreeMap::new();
        for client in clients {
            for (reason, count) in client.join().unwrap() {
                *counts.entry(reason).or_default() += count;
            }
        }
        counts
    });
    eprintln!("{counts:#?}");
    assert!(counts.values().sum::<usize>() >= submissions);
    assert_eq!(counts.len(), 12, "every reason occurs");

    let expected: HashMap<B256, u32> =
        scripts.iter().flat_map(|script| script.mined.values()).map(|hash| (*hash, 1)).collect();
    let received = || {
        let state = pipeline.published.load().state.reader().unwrap();
        state.account(RECIPIENT).unwrap().unwrap_or_default().balance
    };
    wait_until("all expected ones are mined", || received() >= U256::from(expected.len()));
    assert!(mined(&pipeline.published.load(), first) == expected, "each once, and no others");
    // A used nonce is refused with an error that names the next nonce.
    let mut frames = Frames::connect(address);
    for (wallet, script) in wallets.iter().zip(&scripts).take(10) {
        let again = wallet.sign(transfer(0, crate::common::FEE_CAP * 6, u128::from(MIN_TIP)));
        frames.send([again.as_ref()]).unwrap();
        let text = format!("nonce too low: next nonce {}, tx nonce 0", script.mined.len());
        assert_eq!(frames.response().unwrap(), Err(text));
    }
    pipeline.stop();
    pipeline.join().unwrap();
}
