//! Compares the base fee of a running chain of 1,000 blocks of varying fullness, on several interfaces, with a model
//! that shares no code with the node. Also tests that inconsistent headers, geneses and stored blocks are refused.

use crate::client::Node;
use crate::common::{CHAIN_ID, GENESIS_TIME, importing, producing, sign};
use alloy_consensus::{Header, TxEip1559};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use alloy_rlp::Decodable;
use chain::{DEV_ACCOUNTS, Genesis, block::join};
use feemarket::store::{self, Record};
use home::Home;
use pipeline::{Fault, Pipeline};
use serde_json::{Value, json};
use std::{path::Path, process::Command, time::Duration};
use storage::{BlockRecord, StateChanges};

const BLOCKS: u64 = 1_000;
/// Gas limit of a block: twenty plain transfers.
const MAX_GAS: u64 = 420_000;
/// One wei in the model's fixed-point numbers, which have 18 decimal digits.
const ONE: u128 = 1_000_000_000_000_000_000;
/// While the next base fee, in wei, is above this, no transactions are sent, so that empty blocks lower it.
const CEILING: u64 = 20_000_000_000;

/// Generates random numbers for the workload with Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        self.0 % bound
    }
}

/// Returns a genesis with a base fee of 4 gwei, a floor, and a minimum charge of 70 % of each gas limit.
fn genesis() -> Genesis {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let section = &mut file["config"]["evmd"];
    section["maxGas"] = json!(MAX_GAS);
    section["feemarket"]["params"]["base_fee"] = json!("4000000000.000000000000000001");
    section["feemarket"]["params"]["min_gas_price"] = json!("1500000000.25");
    section["feemarket"]["params"]["min_gas_multiplier"] = json!("0.7");
    Genesis::from_json(&file.to_string()).unwrap()
}

/// Computes the base fee block by block.
struct Model {
    /// Base fee, in units of 10^-18 wei.
    base: u128,
    block_gas: u128,
}

impl Model {
    fn new() -> Self {
        Self { base: 4_000_000_000 * ONE + 1, block_gas: 0 }
    }

    /// Advances to the next block. `wanted` is the sum of its transactions' gas limits, and `used` is the gas used.
    fn step(&mut self, wanted: u128, used: u128) {
        let target = u128::from(MAX_GAS) / 2;
        let distance = self.block_gas.abs_diff(target);
        let delta = distance * self.base / target / 8;
        self.base = match self.block_gas.cmp(&target) {
            std::cmp::Ordering::Equal => self.base,
            std::cmp::Ordering::Greater => self.base + delta.max(ONE),
            std::cmp::Ordering::Less => (self.base - delta).max(1_500_000_000 * ONE + ONE / 4),
        };
        self.block_gas = (wanted * 7 / 10).max(used);
    }

    fn text(&self) -> String {
        format!("{}.{:018}", self.base / ONE, self.base % ONE)
    }

    fn wei(&self) -> String {
        format!("{:#x}", self.base / ONE)
    }
}

fn hex(value: &Value) -> u128 {
    u128::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap()
}

fn transfer(from: usize, nonce: u64, gas_limit: u64) -> Bytes {
    sign(
        from,
        TxEip1559 {
            chain_id: CHAIN_ID,
            nonce,
            gas_limit,
            max_fee_per_gas: 10 * u128::from(CEILING),
            max_priority_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(Address::repeat_byte(0x77)),
            value: U256::ONE,
            ..TxEip1559::default()
        },
    )
}

/// Sends bursts of up to 39 transfers, more than fit into a block, until the chain is long enough. Meanwhile, the node
/// produces blocks periodically.
async fn grow(node: &Node) {
    let (client, published) = (node.pipeline.client(), &node.pipeline.published);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut nonces = [0; DEV_ACCOUNTS.len()];
    while published.load().number() < BLOCKS {
        let view = published.load();
        let quiet = view.head.next_base_fee > CEILING || random.below(3) == 0;
        let burst = if quiet { 0 } else { random.below(40) };
        // Bursts with exact gas limits fill blocks completely; transfers with loose limits may be charged the minimum.
        let slack = if random.below(2) == 0 { 1 } else { 30_000 };
        let mut submitted = tokio::task::JoinSet::new();
        for _ in 0..burst {
            let from = usize::try_from(random.below(DEV_ACCOUNTS.len() as u64)).unwrap();
            let raw = transfer(from, nonces[from], 21_000 + random.below(slack));
            let client = client.clone();
            submitted.spawn(async move { client.submit(raw).await });
            nonces[from] += 1;
        }
        for result in submitted.join_all().await {
            result.unwrap();
        }
        let next = view.number() + 1 + random.below(2);
        crate::common::wait_until("the chain grows", || published.load().number() >= next);
    }
}

/// Returns the output of `evmd query feemarket`.
fn query(node: &Node, subcommand: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_evmd"))
        .args(["query", "feemarket", subcommand, "--node", &format!("http://{}", node.rest)])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compares one block with the model; returns its fullness in thousandths.
async fn check_block(node: &Node, number: u64, model: &mut Model) -> u128 {
    let at = format!("{number:#x}");
    let block = node.call("eth_getBlockByNumber", json!([at, true])).await;
    let gas = |tx: &Value| hex(&tx["gas"]);
    let wanted = block["transactions"].as_array().unwrap().iter().map(gas).sum();
    let used = hex(&block["gasUsed"]);
    model.step(wanted, used);
    assert_eq!(block["baseFeePerGas"], model.wei(), "block {number}");
    assert_eq!(hex(&block["gasLimit"]), u128::from(MAX_GAS));
    let base_fee = node.call("evmd_feemarketBaseFee", json!([at])).await;
    assert_eq!(base_fee["base_fee"], model.text(), "block {number}");
    let block_gas = node.call("evmd_feemarketBlockGas", json!([at])).await;
    assert_eq!(block_gas["gas"], model.block_gas.to_string(), "block {number}");
    let events = node.call("evmd_blockEvents", json!([at])).await;
    let event = |kind, attributes: &[(&str, String)]| {
        let attribute = |(key, value): &(&str, String)| json!({ "key": key, "value": value });
        json!({ "type": kind, "attributes": attributes.iter().map(attribute).collect::<Vec<_>>() })
    };
    let expected = json!([
        event("fee_market", &[("base_fee", model.text())]),
        event("evm_fee_market", &[("base_fee", (model.base / ONE).to_string())]),
        event(
            "block_gas",
            &[("height", number.to_string()), ("amount", model.block_gas.to_string())]
        ),
    ]);
    assert_eq!(events, expected, "block {number}");
    if number % 100 == 1 {
        let arguments = ["--height", &number.to_string(), "-o", "json"];
        let line = query(node, "base-fee", &arguments);
        assert_eq!(line, format!("{{\"base_fee\":\"{}\"}}\n", model.text()));
        let line = query(node, "block-gas", &arguments);
        assert_eq!(line, format!("{{\"gas\":\"{}\"}}\n", model.block_gas));
        let params: Value = serde_json::from_str(&query(node, "params", &arguments)).unwrap();
        assert_eq!(params["params"]["base_fee"], model.text());
        let text = query(node, "base-fee", &arguments[..2]);
        assert_eq!(text, format!("base_fee: \"{}\"\n", model.text()));
    }
    used * 1_000 / u128::from(MAX_GAS)
}

/// Compares the base fees in the whole fee history.
async fn check_history(node: &Node, last: u64, fees: &[String]) {
    let history = node.call("eth_feeHistory", json!([last, format!("{last:#x}"), [50]])).await;
    assert_eq!(history["oldestBlock"], "0x1");
    assert_eq!(history["baseFeePerGas"].as_array().unwrap()[..], *fees);
    let ratios = history["gasUsedRatio"].as_array().unwrap();
    assert_eq!(ratios.len() as u64, last);
}

/// Writes the blocks from 1 to `last` to a file.
fn export(home: &Home, last: u64, file: &Path) {
    let blocks = home.chain.reader().unwrap();
    let mut bytes = Vec::new();
    for number in 1..=last {
        let (_, header) = blocks.header(number).unwrap().unwrap();
        bytes.extend(join(&header, &blocks.body(number).unwrap().unwrap()));
    }
    std::fs::write(file, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_blocks_follow_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let home = Home::init(&path, &genesis()).unwrap();
    let node = Node::start(folder, home, producing(Some(Duration::from_millis(4)))).await;
    grow(&node).await;
    let mut model = Model::new();
    let mut fees = Vec::new();
    let mut fills = [0_u64; 4];
    for number in 1..=BLOCKS {
        let fill = check_block(&node, number, &mut model).await;
        fills[usize::try_from(fill / 251).unwrap()] += 1;
        fees.push(model.wei());
    }
    assert!(fills.iter().all(|count| *count > 3), "fullness is not mixed: {fills:?}");
    // The history ends with the base fee of the block after the last one.
    model.step(0, 0);
    fees.push(model.wei());
    check_history(&node, BLOCKS, &fees).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_continues_after_a_restart_and_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let file = folder.path().join("chain.rlp");
    let home = Home::init(&first, &genesis()).unwrap();
    for round in 0..3 {
        let options = producing(Some(Duration::from_millis(4)));
        let pipeline = Pipeline::start(&home, options).unwrap();
        let reached = pipeline.published.load().number();
        for nonce in 0..5 {
            let raw = transfer(0, round * 5 + nonce, 30_000);
            pipeline.client().submit(raw).await.unwrap();
        }
        crate::common::wait_until("the chain grows", || {
            pipeline.published.load().number() > reached + 10
        });
        pipeline.stop();
        pipeline.join().unwrap();
    }
    let view = home.view().unwrap();
    let last = view.number();
    export(&home, last, &file);
    // Every base fee follows from the previous block, even across restarts. The import checks all of them.
    let copy = Home::init(&second, &genesis()).unwrap();
    Pipeline::start(&copy, importing(vec![file])).unwrap().join().unwrap();
    let copied = copy.view().unwrap();
    assert_eq!((copied.head.hash, copied.number()), (view.head.hash, last));
    assert_eq!(copied.head.modules, view.head.modules);
}

/// Exports a short chain, changes its last header with `spoil`, and imports it.
fn import_spoiled(spoil: impl Fn(&mut Header)) -> Result<(), Fault> {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let home = Home::init(&first, &genesis()).unwrap();
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(4)))).unwrap();
    crate::common::wait_until("the chain grows", || pipeline.published.load().number() > 3);
    pipeline.stop();
    pipeline.join().unwrap();
    let file = folder.path().join("chain.rlp");
    export(&home, 2, &file);
    let blocks = home.chain.reader().unwrap();
    let (_, header) = blocks.header(3).unwrap().unwrap();
    let mut header = Header::decode(&mut header.as_ref()).unwrap();
    spoil(&mut header);
    let last = join(&alloy_rlp::encode(&header), &blocks.body(3).unwrap().unwrap());
    let bytes = [std::fs::read(&file).unwrap(), last.to_vec()].concat();
    std::fs::write(&file, bytes).unwrap();
    let copy = Home::init(&second, &genesis()).unwrap();
    let ended = Pipeline::start(&copy, importing(vec![file])).unwrap().join();
    let head = copy.view().unwrap().number();
    assert_eq!(head, if ended.is_ok() { 3 } else { 2 }, "an invalid block is not stored");
    ended
}

/// A part of the expected error, and the change that causes it.
type Case = (&'static str, fn(&mut Header));

#[test]
fn header_that_contradicts_the_fee_market_is_refused() {
    import_spoiled(|_| ()).unwrap();
    let cases: [Case; 5] = [
        ("baseFeePerGas is", |header| {
            header.base_fee_per_gas = header.base_fee_per_gas.map(|fee| fee + 1);
        }),
        ("gasLimit is", |header| header.gas_limit += 1),
        ("extraData is", |header| header.extra_data = B256::repeat_byte(7).0.into()),
        ("extraData bytes is 31, expected 32", |header| header.extra_data = vec![1; 31].into()),
        ("extraData bytes is 0, expected 32", |header| header.extra_data = Bytes::new()),
    ];
    for (reason, spoil) in cases {
        let fault = import_spoiled(spoil).unwrap_err().to_string();
        assert!(fault.contains("block 3") && fault.contains(reason), "{fault}");
    }
}

#[test]
fn invalid_genesis_is_refused_with_the_field() {
    let error_with = |path: &[&str], value: Value| {
        let mut file: Value = serde_json::from_str(&genesis().to_json()).unwrap();
        let mut field = &mut file;
        for key in path {
            field = &mut field[key];
        }
        *field = value;
        Genesis::from_json(&file.to_string()).unwrap_err().to_string()
    };
    let section = ["config", "evmd"];
    let params = ["config", "evmd", "feemarket", "params"];
    let at = |name: &'static str| [&params[..], &[name]].concat();
    let of = |name: &'static str| [&section[..], &[name]].concat();
    for (path, value, reason) in [
        (at("base_fee_change_denominator"), json!(0), "denominator cannot be 0"),
        (at("elasticity_multiplier"), json!(0), "elasticity multiplier cannot be zero"),
        (at("enable_height"), json!("-1"), "enable height cannot be negative"),
        (at("base_fee"), json!("-1"), "initial base fee cannot be negative"),
        (at("base_fee"), json!("18446744073709551616"), "block header"),
        (at("min_gas_price"), json!("-1"), "value cannot be negative"),
        (at("min_gas_multiplier"), json!("1.1"), "value cannot be greater than 1"),
        (of("tokenDecimals"), json!(0), "between 1 and 18, got 0"),
        (of("tokenDecimals"), json!(19), "between 1 and 18, got 19"),
        (of("maxGas"), json!(-2), "-2 is below -1"),
        (of("maxGas"), json!(0), "0 gas a block"),
        (of("maxGas"), json!("4999"), "4999 gas a block"),
        (of("maxGas"), json!(1.5), "not an integer"),
        (of("bech32Prefix"), json!(""), "lower-case letters"),
        (of("unknown"), json!(1), "unknown field"),
        (of("evm"), json!({ "params": { "extra_eips": [1] } }), "must be empty"),
        (vec!["extraData"], json!("0x01"), "root of its modules"),
        (vec!["baseFeePerGas"], json!("0x7"), "but baseFeePerGas says 7"),
    ] {
        let error = error_with(&path, value);
        assert!(error.contains(reason), "{path:?}: {error}");
        let section = if path[0] == "config" { "config.evmd" } else { "genesis field" };
        let known = error.contains(section) || error.contains("config.evmd");
        assert!(known, "{path:?}: {error}");
    }
}

#[test]
fn stored_fee_market_that_could_halt_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("home");
    let home = Home::init(&path, &genesis()).unwrap();
    let view = home.view().unwrap();
    let native = home.spec.native().unwrap();
    let whole =
        view.head.modules.as_deref().unwrap().record(native, 1, std::iter::empty(), Vec::new());
    // The row has empty parameters, in which every divisor is zero, and a matching root.
    let mut pairs = store::decode(&whole.row).unwrap();
    pairs.insert(store::key(store::PARAMS_KEY), Bytes::new());
    let zero = Record { row: store::encode(&pairs), ..Record::default() };
    let parent = &view.head.header;
    for (record, extra_data, reason) in [
        (zero.to_bytes(), zero.root(), "denominator cannot be 0"),
        (whole.to_bytes(), B256::ZERO, "module root"),
        (Bytes::from_static(b"\x01"), whole.root(), "module row"),
    ] {
        let path = tempfile::tempdir().unwrap();
        let home = Home::init(path.path(), &genesis()).unwrap();
        let header = Header {
            number: 1,
            parent_hash: view.head.hash,
            extra_data: extra_data.0.into(),
            ..Header::clone(parent)
        };
        let blocks = home.chain.reader().unwrap();
        home.chain
            .append(&[BlockRecord {
                number: 1,
                hash: header.hash_slow(),
                flags: storage::BlockFlags::NONE,
                header: alloy_rlp::encode(&header).into(),
                body: blocks.body(0).unwrap().unwrap(),
                senders: Vec::new(),
                receipts: Vec::new(),
                changes: StateChanges::default().into(),
                fees: blocks.fees(0).unwrap().unwrap(),
                module: record,
                governance: Vec::new(),
                certificate: None,
            }])
            .unwrap();
        let error = home.view().unwrap_err().to_string();
        assert!(error.contains("block 1 is damaged") && error.contains(reason), "{error}");
    }
}
