//! Tests block production on a running chain: limits on gas and bytes, empty blocks, timestamps, and transactions that
//! cannot be included together with others.

use crate::common::{
    CHAIN_ID, FEE_CAP, GENESIS_TIME, delegate, export, import, native_home, producing, sign,
    wait_until,
};
use alloy_consensus::{
    Header, Transaction as _, TxEip1559, TxEnvelope, transaction::SignerRecoverable,
};
use alloy_eips::{eip2718::Decodable2718, eip2935::HISTORY_STORAGE_ADDRESS};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, hex, keccak256};
use alloy_rlp::Decodable;
use chain::{DEV_ACCOUNTS, Genesis, MAX_BLOCK_BYTES, block::Block};
use home::Home;
use pipeline::{MAX_TX_BYTES, Pipeline, PoolClient};
use serde_json::{Value, json};
use state::View;
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use storage::StateRead;

const RECIPIENT: Address = Address::repeat_byte(0x77);
const GWEI: u128 = 1_000_000_000;

/// Initializes a chain with development accounts and this block gas limit.
fn home_with_gas(folder: &Path, max_gas: u64) -> Home {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    file["config"]["evmd"]["maxGas"] = json!(max_gas);
    let mut home = Home::init(folder, &Genesis::from_json(&file.to_string()).unwrap()).unwrap();
    home.config.mempool.accept_without_production = true;
    home
}

fn call(nonce: u64, gas_limit: u64, priority_fee: u128) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit,
        max_fee_per_gas: FEE_CAP,
        max_priority_fee_per_gas: priority_fee,
        to: TxKind::Call(RECIPIENT),
        value: U256::ONE,
        ..TxEip1559::default()
    }
}

/// A block's header and its transactions.
type Mined = (Header, Vec<Bytes>);

fn blocks(view: &View) -> Vec<Mined> {
    let blocks = view.blocks().unwrap();
    let block = |number| {
        let (hash, header) = blocks.header(number).unwrap().unwrap();
        let body = blocks.body(number).unwrap().unwrap();
        let txs = Block::from_parts(hash, &header, &body).unwrap().transactions;
        (Header::decode(&mut header.as_ref()).unwrap(), txs)
    };
    (1..=view.number()).map(block).collect()
}

fn hashes(blocks: &[Mined]) -> Vec<B256> {
    blocks.iter().flat_map(|(_, txs)| txs).map(keccak256).collect()
}

/// Submits all transactions at once, so that they are checked against the same pool.
fn submit_all(client: &PoolClient, raw: &[Bytes]) -> Vec<B256> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let submitted = raw.iter().map(|raw| {
        let (client, raw) = (client.clone(), raw.clone());
        runtime.spawn(async move { client.submit(raw).await })
    });
    let submitted: Vec<_> = submitted.collect();
    submitted.into_iter().map(|task| runtime.block_on(task).unwrap().unwrap()).collect()
}

fn balance(pipeline: &Pipeline, address: Address) -> U256 {
    let state = pipeline.published.load().state.reader().unwrap();
    state.account(address).unwrap().unwrap_or_default().balance
}

/// Adds transactions, each of which sends 1 wei to [`RECIPIENT`], to the pool of a chain that does not produce blocks.
/// Then produces blocks until the whole value has arrived.
fn mine(home: &Home, raw: &[Bytes], block_time: Duration) -> Vec<Mined> {
    let pipeline = Pipeline::start(home, producing(None)).unwrap();
    let mut sent = submit_all(&pipeline.client(), raw);
    pipeline.stop();
    pipeline.join().unwrap();
    // The journal contains the pooled transactions.
    let pipeline = Pipeline::start(home, producing(Some(block_time))).unwrap();
    let all = U256::from(raw.len());
    wait_until("all is mined", || balance(&pipeline, RECIPIENT) == all);
    pipeline.stop();
    pipeline.join().unwrap();
    let blocks = blocks(&home.view().unwrap());
    let mut mined = hashes(&blocks);
    mined.sort_unstable();
    sent.sort_unstable();
    assert_eq!(mined, sent, "each once");
    let times: Vec<_> = blocks.iter().map(|(header, _)| header.timestamp).collect();
    assert!(times.is_sorted(), "{times:?}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(times.iter().all(|time| *time <= now), "ahead of the clock at {now}: {times:?}");
    blocks
}

#[test]
fn blocks_respect_the_gas_limit_and_skip_transactions_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let home = home_with_gas(folder.path(), 100_000);
    // Four transactions with a high gas limit and the highest priority fee: one of them and, because only half of its
    // limit is charged, two small transactions fit into a block.
    let wide = (0..4).map(|nonce| sign(0, call(nonce, 90_000, 3 * GWEI)));
    let small = (0..4).flat_map(|nonce| (1..5).map(move |from| (from, nonce)));
    let small = small.map(|(from, nonce)| sign(from, call(nonce, 21_000, GWEI)));
    let raw: Vec<_> = wide.chain(small).collect();
    let blocks = mine(&home, &raw, Duration::from_millis(5));
    assert!(blocks.iter().all(|(header, _)| header.gas_used <= 100_000));
    let counts: Vec<_> = blocks.iter().map(|(_, txs)| txs.len()).filter(|n| *n > 0).collect();
    assert_eq!(counts[..4], [3, 3, 3, 3], "wide and small share blocks");
    assert_eq!(counts[4..].iter().sum::<usize>(), 8);
}

/// If a kill loses the block that funded an account, the journal still has the account's accepted transactions.
#[test]
fn transactions_that_depend_on_a_lost_block_are_kept() {
    const POOR: usize = 9;
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let poor = DEV_ACCOUNTS[POOR].address;
    let alloc = genesis["alloc"].as_object_mut().unwrap();
    let funded = alloc.len();
    alloc.retain(|address, _| address.parse::<Address>().unwrap() != poor);
    assert_eq!(alloc.len(), funded - 1);
    let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
    let [before, after] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let home = Home::init(before.path(), &genesis).unwrap();
    let every = Duration::from_millis(5);
    let pipeline = Pipeline::start(&home, producing(Some(every))).unwrap();
    let value = U256::from(10_u64.pow(18));
    let funding = TxEip1559 { to: TxKind::Call(poor), value, ..call(0, 21_000, GWEI) };
    submit_all(&pipeline.client(), &[sign(0, funding)]);
    wait_until("the funding has arrived", || balance(&pipeline, poor) == value);
    submit_all(&pipeline.client(), &[sign(POOR, call(0, 21_000, GWEI))]);
    let journal = std::fs::read(before.path().join("mempool.journal")).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
    // The same journal is used on a chain that has lost the blocks.
    let home = Home::init(after.path(), &genesis).unwrap();
    std::fs::write(after.path().join("mempool.journal"), journal).unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(every))).unwrap();
    wait_until("both are mined", || balance(&pipeline, RECIPIENT) == U256::ONE);
    pipeline.stop();
    pipeline.join().unwrap();
}

/// A transaction that was mined before a kill is not retried, even if its sender could not pay for it a second time.
#[test]
fn mined_transactions_are_not_retried_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let every = Duration::from_millis(5);
    let path = folder.path().join("mempool.journal");
    let pipeline = Pipeline::start(&home, producing(Some(every))).unwrap();
    let empty = std::fs::read(&path).unwrap();
    // The whole balance minus a reserve for the fee.
    let all = balance(&pipeline, DEV_ACCOUNTS[0].address) - U256::from(10_u64.pow(16));
    submit_all(&pipeline.client(), &[sign(0, TxEip1559 { value: all, ..call(0, 21_000, GWEI) })]);
    wait_until("it is mined", || balance(&pipeline, RECIPIENT) == all);
    let killed = std::fs::read(&path).unwrap();
    assert!(killed.len() > empty.len());
    pipeline.stop();
    pipeline.join().unwrap();
    std::fs::write(&path, killed).unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(every))).unwrap();
    pipeline.stop();
    pipeline.join().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), empty);
}

#[test]
fn blocks_respect_the_size_limit() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    // 70 transactions of the maximum size, which would all fit into a block by gas. 64 of them have exactly the maximum
    // size of a block, without the rest of the block's encoding.
    let large = |from: usize, nonce| {
        let input = Bytes::from(vec![0; MAX_TX_BYTES - 119]);
        let gas = 21_000 + 10 * input.len() as u64;
        // The recipient has no code, so the value arrives.
        sign(from, TxEip1559 { input, ..call(nonce, gas, GWEI) })
    };
    let raw: Vec<_> = (0..10).flat_map(|from| (0..7).map(move |n| large(from, n))).collect();
    assert_eq!(raw.iter().map(|raw| raw.len()).max(), Some(MAX_TX_BYTES));
    mine(&home, &raw, Duration::from_millis(5));
    let file = folder.path().join("chain.rlp");
    let head = export(&home, &file);
    let exported = Bytes::from(std::fs::read(&file).unwrap());
    let mut rest = &exported[..];
    let mut sizes = Vec::new();
    while !rest.is_empty() {
        let before = rest.len();
        alloy_rlp::Header::decode_bytes(&mut rest, true).unwrap();
        sizes.push(before - rest.len());
    }
    let largest = sizes.into_iter().max().unwrap();
    assert!(
        largest <= MAX_BLOCK_BYTES && largest > MAX_BLOCK_BYTES - 400 * 1024,
        "{largest} bytes"
    );
    let other =
        Home::init(&folder.path().join("other"), &Genesis::native_dev(GENESIS_TIME)).unwrap();
    import(&other, vec![file]).unwrap();
    assert_eq!(other.view().unwrap().head.hash, head);
}

#[test]
fn without_empty_blocks_no_block_is_produced_until_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let mut home = native_home(folder.path());
    home.config.engine.empty_blocks = false;
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(2)))).unwrap();
    let client = pipeline.client();
    for nonce in 0..20 {
        submit_all(&client, &[sign(0, call(nonce, 21_000, GWEI))]);
        wait_until("it is mined", || balance(&pipeline, RECIPIENT) == U256::from(nonce + 1));
        // Waits for several block times.
        std::thread::park_timeout(Duration::from_millis(10));
    }
    pipeline.stop();
    pipeline.join().unwrap();
    let blocks = blocks(&home.view().unwrap());
    let counts: Vec<_> = blocks.iter().map(|(_, txs)| txs.len()).collect();
    assert_eq!(counts, [1; 20], "one block for each transaction, and no others");
}

#[test]
fn without_empty_blocks_the_base_fee_decreases_for_waiting_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    file["config"]["evmd"]["maxGas"] = json!(100_000);
    file["config"]["evmd"]["feemarket"]["params"]["min_gas_multiplier"] = json!("1.0");
    let genesis = Genesis::from_json(&file.to_string()).unwrap();
    let mut home = Home::init(folder.path(), &genesis).unwrap();
    home.config.engine.empty_blocks = false;
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(2)))).unwrap();
    // The fee cap is above the base fee of the next block, 875,000,000 wei. However, the transaction waits behind a
    // nearly full block that raises the base fee above the cap.
    let cheap = TxEip1559 { max_fee_per_gas: 900_000_000, ..call(1, 21_000, 1) };
    submit_all(&pipeline.client(), &[sign(0, cheap)]);
    submit_all(&pipeline.client(), &[sign(0, call(0, 90_000, GWEI))]);
    wait_until("both are mined", || balance(&pipeline, RECIPIENT) == U256::from(2));
    pipeline.stop();
    pipeline.join().unwrap();
    let blocks = blocks(&home.view().unwrap());
    let counts: Vec<_> = blocks.iter().map(|(_, txs)| txs.len()).collect();
    assert_eq!(counts, [1, 0, 1], "one block is empty, so that the base fee falls");
}

/// Returns a transaction that creates a contract, which stores the hash of the parent block in slot 0.
fn keep_parent_hash(from: usize, nonce: u64) -> Bytes {
    let input = Bytes::from_static(&hex!("600143034060005500"));
    let to = TxKind::Create;
    sign(from, TxEip1559 { to, input, value: U256::ZERO, ..call(nonce, 100_000, GWEI) })
}

#[test]
fn block_hash_opcode_returns_the_deferred_parent_hash() {
    let folder = tempfile::tempdir().unwrap();
    // Each block has room for two creations, so blocks follow each other immediately.
    let home = home_with_gas(folder.path(), 200_000);
    let transfers = (0..20).map(|nonce| sign(5, call(nonce, 21_000, 2 * GWEI)));
    let creations = (0..5).flat_map(|from| (0..6).map(move |nonce| keep_parent_hash(from, nonce)));
    let raw: Vec<_> = transfers.chain(creations).collect();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(1)))).unwrap();
    submit_all(&pipeline.client(), &raw);
    let mined = || hashes(&blocks(&pipeline.published.load())).len();
    wait_until("all is mined", || mined() == raw.len());
    pipeline.stop();
    pipeline.join().unwrap();

    let view = home.view().unwrap();
    let (blocks, state) = (blocks(&view), view.state.reader().unwrap());
    let mut checked = 0;
    for (header, txs) in &blocks {
        let parent = U256::from_be_bytes(header.parent_hash.0);
        let slot = U256::from(header.number - 1);
        assert_eq!(state.storage(HISTORY_STORAGE_ADDRESS, slot).unwrap(), parent);
        for raw in txs {
            let tx = TxEnvelope::decode_2718_exact(raw).unwrap();
            if !tx.is_create() {
                continue;
            }
            let sender = tx.recover_signer().unwrap();
            let kept = state.storage(sender.create(tx.nonce()), U256::ZERO).unwrap();
            assert_eq!(kept, parent, "in block {}", header.number);
            checked += 1;
        }
    }
    let parents = blocks.iter().skip(1).map(|(header, _)| header.parent_hash);
    assert!(blocks.iter().map(|(header, _)| header.hash_slow()).zip(parents).all(|(a, b)| a == b));
    assert_eq!(checked, 30);
}

/// Returns the init code of a contract that sends the whole balance of its account to [`RECIPIENT`].
fn drain() -> Bytes {
    let code = [&hex!("5f5f5f5f4773")[..], RECIPIENT.as_slice(), &hex!("5af100")].concat();
    let length = u8::try_from(code.len()).unwrap();
    [&[0x60, length][..], &hex!("80600a5f395ff300"), &code].concat().into()
}

#[test]
fn only_unpayable_transactions_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(100)))).unwrap();
    let client = pipeline.client();
    let create = TxEip1559 { to: TxKind::Create, value: U256::ZERO, ..call(0, 200_000, GWEI) };
    submit_all(&client, &[sign(0, TxEip1559 { input: drain(), ..create })]);
    let contract = DEV_ACCOUNTS[0].address.create(0);
    let has_code = |address| {
        let state = pipeline.published.load().state.reader().unwrap();
        modules::decorator::has_code(&state.account(address).unwrap().unwrap_or_default())
    };
    wait_until("the contract exists", || has_code(contract));
    // Account 1 delegates to the contract, so that a call by any account empties account 1.
    let poor = DEV_ACCOUNTS[1].address;
    submit_all(&client, &[delegate(0, 1, 1, contract)]);
    wait_until("account 1 delegates", || has_code(poor));
    pipeline.stop();
    pipeline.join().unwrap();
    // While no blocks are produced, the pool receives a call of account 0 that empties account 1. It has a higher price
    // than the transactions of account 1.
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let empty =
        TxEip1559 { to: TxKind::Call(poor), value: U256::ZERO, ..call(2, 100_000, 9 * GWEI) };
    let sent = submit_all(
        &pipeline.client(),
        &[
            sign(1, call(1, 21_000, GWEI)),
            sign(2, call(0, 21_000, GWEI / 2)),
            sign(2, call(1, 21_000, GWEI / 2)),
            sign(0, empty),
        ],
    );
    pipeline.stop();
    pipeline.join().unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    let client = pipeline.client();
    let mined = |hash: &B256| hashes(&blocks(&pipeline.published.load())).contains(hash);
    wait_until("the others are mined", || sent[1..].iter().all(mined));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    wait_until("the pool is empty", || {
        let level = runtime.block_on(client.level()).unwrap();
        level.pending + level.queued == 0
    });
    assert!(!mined(&sent[0]) && balance(&pipeline, poor).is_zero());
    pipeline.stop();
    pipeline.join().unwrap();
}

#[test]
fn oversized_transactions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    let client = pipeline.client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let input = Bytes::from(vec![0; 128 * 1024]);
    let raw = sign(0, TxEip1559 { input, ..call(0, 2_000_000, GWEI) });
    let reject = runtime.block_on(client.submit(raw.clone())).unwrap_err();
    let text = format!("oversized data: transaction size {}, limit 131072", raw.len());
    assert_eq!((reject.to_string(), reject.code().number), (text, 21));
    let level = runtime.block_on(client.level()).unwrap();
    assert_eq!((level.pending, level.queued, level.bytes), (0, 0, 0));
    pipeline.stop();
    pipeline.join().unwrap();
}

/// Returns a genesis with Ethereum's rules up to this fork: `paris`, `shanghai` or `cancun`.
fn ethereum_genesis(fork: &str) -> Genesis {
    let mut config = json!({ "chainId": CHAIN_ID, "terminalTotalDifficulty": 0 });
    let blocks = ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"];
    for fork in blocks.into_iter().chain(["petersburg", "istanbul", "berlin", "london"]) {
        config[format!("{fork}Block")] = json!(0);
    }
    let times = ["shanghai", "cancun"];
    let upto = times.iter().position(|time| *time == fork).map_or(0, |at| at + 1);
    for fork in &times[..upto] {
        config[format!("{fork}Time")] = json!(0);
    }
    let account = (DEV_ACCOUNTS[0].address.to_string(), json!({ "balance": "0xde0b6b3a7640000" }));
    let genesis = json!({
        "config": config, "gasLimit": "0x1c9c380", "difficulty": "0x0",
        "baseFeePerGas": "0x3b9aca00", "alloc": Value::from_iter([account])
    });
    Genesis::from_json(&genesis.to_string()).unwrap()
}

/// Produces at least `more` blocks, which include `transfer` if there is one. Another node of the same chain imports
/// them.
fn produce_and_import(home: &Home, genesis: &Genesis, transfer: Option<Bytes>, more: u64) {
    let begun = home.view().unwrap().number();
    let pipeline = Pipeline::start(home, producing(Some(Duration::from_millis(5)))).unwrap();
    submit_all(&pipeline.client(), transfer.as_slice());
    wait_until("blocks are produced", || pipeline.published.load().number() >= begun + more);
    pipeline.stop();
    pipeline.join().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.rlp");
    let head = export(home, &file);
    let other = Home::init(&folder.path().join("home"), genesis).unwrap();
    import(&other, vec![file]).unwrap();
    let view = other.view().unwrap();
    assert_eq!(view.head.hash, head);
    let arrived = view.state.reader().unwrap().account(RECIPIENT).unwrap();
    assert_eq!(arrived.is_some(), transfer.is_some());
}

#[test]
fn produced_ethereum_blocks_follow_their_fork() {
    for fork in ["paris", "shanghai", "cancun"] {
        let folder = tempfile::tempdir().unwrap();
        let genesis = ethereum_genesis(fork);
        let home = Home::init(folder.path(), &genesis).unwrap();
        produce_and_import(&home, &genesis, Some(sign(0, call(0, 21_000, GWEI))), 3);
    }
    // The sample chain through every fork contains the system contracts of the later forks.
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/samples/every_fork");
    let genesis = std::fs::read_to_string(samples.join("genesis.json")).unwrap();
    let genesis = Genesis::from_json(&genesis).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &genesis).unwrap();
    import(&home, vec![samples.join("chain.rlp")]).unwrap();
    produce_and_import(&home, &genesis, None, 3);
}

/// On a chain without system contracts, a block without transactions changes no account.
#[test]
fn blocks_without_changes_are_not_replayed_after_a_clean_stop() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::init(folder.path(), &ethereum_genesis("shanghai")).unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    wait_until("blocks are produced", || pipeline.published.load().number() >= 2);
    pipeline.stop();
    pipeline.join().unwrap();
    drop(home);
    let home = Home::open(folder.path()).unwrap();
    assert!(home.view().unwrap().number() >= 2);
    assert_eq!(home.replayed.blocks, 0);
}
