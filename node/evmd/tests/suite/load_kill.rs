//! Kills a node under load repeatedly (SIGKILL): no published block and no accepted transaction is lost, and every
//! state root equals the one computed from the blocks.

use crate::common::{
    CHAIN_ID, FEE_CAP, export, frames::Frames, import, native_home, producing, sign, wait_until,
};
use crate::random::Random;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use chain::{DEV_ACCOUNTS, block::Block};
use home::Home;
use pipeline::Pipeline;
use serde_json::{Value, json};
use std::{
    collections::{HashMap, HashSet},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use storage::StateRead;
use testkit::NodeProcess;

/// Number of kills per chain in the default run.
const KILLS: u64 = 4;
/// Number of kills per chain if `EVMD_LONG_TESTS` is set: one for each development account.
const KILLS_LONG: u64 = 10;
/// Number of chains in the long run, which thus has 20 kills in total.
const CHAINS_LONG: u64 = 2;
/// Number of nonces for which a sender submits transactions between two kills.
const NONCES: u64 = 4_000;
/// Nonces are submitted in random order within windows of this size, so fewer than this many wait behind a gap.
const WINDOW: u64 = 32;
/// Number of submissions per write.
const BURST: usize = 32;

#[derive(Clone, Debug)]
struct Submission {
    raw: Bytes,
    hash: B256,
    /// Sender and nonce.
    slot: (usize, u64),
}

/// Returns the number and hash of the newest block, over JSON-RPC, or `None` if the node has ended.
fn newest(json_rpc: SocketAddr) -> Option<(u64, B256)> {
    let params = json!(["latest", false]);
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": params});
    let body = call.to_string();
    let mut stream = TcpStream::connect(json_rpc).ok()?;
    let head = "POST / HTTP/1.1\r\nContent-Type: application/json\r\n";
    let length = body.len();
    write!(
        stream,
        "{head}Host: {json_rpc}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let response: Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
    let number = response["result"]["number"].as_str()?;
    let number = u64::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
    Some((number, response["result"]["hash"].as_str()?.parse().ok()?))
}

/// Sets a flag at the end of a scope, even if an assertion in the scope fails. Otherwise, the thread that waits for the
/// flag would never end, and the scope would wait for that thread.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the submissions of a sender: windows of nonces in random order. About a tenth of them are replaced.
fn submissions(sender: usize, random: &mut Random) -> Vec<Submission> {
    let mut lines = Vec::new();
    for window in 0..NONCES / WINDOW {
        let mut nonces: Vec<u64> = (window * WINDOW..(window + 1) * WINDOW).collect();
        while !nonces.is_empty() {
            let at = random.below(nonces.len() as u64) as usize;
            let nonce = nonces.swap_remove(at);
            let base_priority_fee = 1_000_000_000 + u128::from(random.below(1_000_000_000));
            let times = if random.chance(10) { 2 } else { 1 };
            for time in 1..=times {
                let priority_fee = base_priority_fee * time;
                let tx = TxEip1559 {
                    chain_id: CHAIN_ID,
                    nonce,
                    gas_limit: 21_000,
                    max_fee_per_gas: 10 * FEE_CAP * time,
                    max_priority_fee_per_gas: priority_fee,
                    to: TxKind::Call(Address::repeat_byte(0x77)),
                    value: U256::ONE,
                    ..TxEip1559::default()
                };
                let raw = sign(sender, tx);
                lines.push(Submission { hash: keccak256(&raw), raw, slot: (sender, nonce) });
            }
        }
    }
    lines
}

/// Submits transactions until the node has ended, and returns the accepted ones. Kills the node after `min_responses`
/// responses, once the node has published a block since its start.
fn submit(
    node: &mut NodeProcess,
    lines: &[Submission],
    min_responses: usize,
    has_published: &AtomicBool,
) -> HashSet<B256> {
    let mut sender = Frames::connect(node.endpoints().ingest);
    let mut reader = sender.twin();
    thread::scope(|scope| {
        scope.spawn(move || {
            for burst in lines.chunks(BURST) {
                if sender.send(burst.iter().map(|line| line.raw.as_ref())).is_err() {
                    return;
                }
            }
        });
        let mut accepted = HashSet::new();
        let (mut responses, mut killed) = (0, false);
        while responses < lines.len() {
            let Ok(response) = reader.response() else { break };
            accepted.extend(response);
            responses += 1;
            if !killed && responses >= min_responses && has_published.load(Ordering::Relaxed) {
                node.kill();
                killed = true;
            }
        }
        if !killed {
            wait_until("a block is published", || has_published.load(Ordering::Relaxed));
            node.kill();
        }
        assert!(responses >= min_responses, "only {responses} responses");
        accepted
    })
}

/// Returns how many times each transaction of the chain was mined.
fn mined(home: &Home) -> HashMap<B256, u32> {
    let view = home.view().unwrap();
    let blocks = view.blocks().unwrap();
    let mut mined = HashMap::new();
    for number in 1..=view.number() {
        let (hash, header) = blocks.header(number).unwrap().unwrap();
        let body = blocks.body(number).unwrap().unwrap();
        for raw in Block::from_parts(hash, &header, &body).unwrap().transactions {
            *mined.entry(keccak256(&raw)).or_default() += 1;
        }
    }
    mined
}

/// Returns the transactions in the pool after a restart.
fn pooled(home: &Home) -> HashSet<B256> {
    let pipeline = Pipeline::start(home, producing(None)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let content = runtime.block_on(pipeline.client().content(None)).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
    content.iter().flat_map(|txs| txs.pending.iter().chain(&txs.queued)).map(|tx| tx.hash).collect()
}

/// Executes all blocks of a home again from genesis, which compares the results with the headers. Then compares the
/// development accounts with those that the killed node has stored.
fn verify_by_replay(home: &Home) {
    let again = tempfile::tempdir().unwrap();
    let file = again.path().join("chain.rlp");
    export(home, &file);
    let fresh = native_home(&again.path().join("home"));
    import(&fresh, vec![file]).unwrap();
    let (kept, fresh) = (home.view().unwrap(), fresh.view().unwrap());
    assert_eq!(kept.head.hash, fresh.head.hash);
    let (kept, fresh) = (kept.state.reader().unwrap(), fresh.state.reader().unwrap());
    for account in DEV_ACCOUNTS {
        let address = account.address;
        assert_eq!(kept.account(address).unwrap(), fresh.account(address).unwrap(), "{address}");
    }
}

/// Runs the node until it is killed, and checks its data. Returns how many accepted transactions were replaced.
fn run_until_killed(folder: &Path, lines: &[Submission], min_responses: usize) -> usize {
    let mut node = NodeProcess::start(
        Path::new(env!("CARGO_BIN_EXE_evmd")),
        folder,
        &["--block-time", "20ms"],
    );
    let (json_rpc, has_ended) = (node.endpoints().json_rpc, AtomicBool::new(false));
    let has_published = AtomicBool::new(false);
    let (accepted, published) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut first, mut published) = (None, None);
            while !has_ended.load(Ordering::Relaxed) {
                match newest(json_rpc) {
                    None if published.is_some() => break,
                    newest => published = newest,
                }
                if let Some((number, _)) = published
                    && number > *first.get_or_insert(number)
                {
                    has_published.store(true, Ordering::Relaxed);
                }
                thread::park_timeout(Duration::from_millis(1));
            }
            published
        });
        let ends_the_watch = SetOnDrop(&has_ended);
        let accepted = submit(&mut node, lines, min_responses, &has_published);
        drop(ends_the_watch);
        (accepted, watcher.join().unwrap())
    });
    let home = Home::open(folder).unwrap();
    let view = home.view().unwrap();
    if view.number() > 0 {
        verify_by_replay(&home);
    }
    assert!(published.is_some(), "the node has published its blocks");
    if let Some((number, hash)) = published {
        let (kept, _) = view.blocks().unwrap().header(number).unwrap().unwrap();
        assert_eq!(kept, hash, "block {number} was published");
    }
    let mined = mined(&home);
    let pooled = pooled(&home);
    let kept = |hash: &B256| mined.contains_key(hash) || pooled.contains(hash);
    // A replaced transaction counts as present if its replacement is present.
    let slots: HashSet<_> =
        lines.iter().filter(|line| kept(&line.hash)).map(|line| line.slot).collect();
    let mut replaced = 0;
    for line in lines.iter().filter(|line| accepted.contains(&line.hash)) {
        assert!(slots.contains(&line.slot), "{:?} was accepted but is lost", line.slot);
        replaced += usize::from(!kept(&line.hash));
    }
    let doubles = lines.windows(2).filter(|pair| pair[0].slot == pair[1].slot).count();
    assert!(replaced <= doubles);
    eprintln!(
        "started in {:?}; {} accepted: {} mined in {} blocks, {} pooled, {replaced} replaced; published {published:?}",
        node.started_in(),
        accepted.len(),
        mined.len(),
        view.number(),
        pooled.len(),
    );
    replaced
}

#[test]
fn killed_node_keeps_accepted_transactions() {
    let long = std::env::var_os("EVMD_LONG_TESTS").is_some();
    let (chains, kills) = if long { (CHAINS_LONG, KILLS_LONG) } else { (1, KILLS) };
    for chain in 0..chains {
        kill_repeatedly(kills, Random(9 + chain));
    }
}

fn kill_repeatedly(kills: u64, mut random: Random) {
    let folder = tempfile::tempdir().unwrap();
    drop(native_home(folder.path()));
    let mut all = Vec::new();
    let mut replaced = 0;
    for kill in 0..kills {
        let lines = submissions(kill as usize, &mut random);
        let min_responses = 200 + random.below(3_000) as usize;
        replaced += run_until_killed(folder.path(), &lines, min_responses);
        all.extend(lines);
    }
    assert!(replaced > 0, "no accepted transaction was replaced");
    // Every executable transaction is mined once.
    let home = Home::open(folder.path()).unwrap();
    let kept: HashSet<_> = pooled(&home).into_iter().chain(mined(&home).into_keys()).collect();
    let slots: HashSet<_> =
        all.iter().filter(|line| kept.contains(&line.hash)).map(|line| line.slot).collect();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(20)))).unwrap();
    for (sender, account) in DEV_ACCOUNTS.iter().enumerate().take(kills as usize) {
        let gap = (0..).find(|nonce| !slots.contains(&(sender, *nonce))).unwrap();
        wait_until("all transactions before the first gap are mined", || {
            let state = pipeline.published.load().state.reader().unwrap();
            state.account(account.address).unwrap().unwrap().nonce == gap
        });
    }
    pipeline.stop();
    pipeline.join().unwrap();
    assert!(mined(&home).values().all(|times| *times == 1));
}
