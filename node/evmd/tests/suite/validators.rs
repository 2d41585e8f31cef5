//! Runs several validators in one process: pipelines that the consensus engine drives.

mod disks;
mod faults;
mod processes;

use crate::common::{GENESIS_TIME, producing, transfer};
use alloy_primitives::{Address, B256, U256};
use certificates::PublicKey;
use chain::{DEV_ACCOUNTS, FEE_COLLECTOR, Genesis};
use consensus::{
    Clock, ClockStatus, SystemTimeSource,
    validators::{KeyBytes, Peer, Timeouts, Validator, ValidatorOptions, public_key},
};
use home::Home;
use pipeline::{Certify, Options, Pipeline};
use state::{View, Voting, stored};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};
use storage::StateRead;
use testkit::{MAX_WAIT, own_address};
use validator::{EvidenceFile, FinalCertificates, PipelineChain, ValidatorAccounts, encode};

const VALIDATORS: u8 = 4;
const PACE: Duration = Duration::from_millis(50);

struct Node {
    home: Home,
    pipeline: Pipeline,
    validator: Option<Validator>,
}

fn key(number: u8) -> KeyBytes {
    [number + 1; 32]
}

fn public(number: u8) -> PublicKey {
    B256::from(public_key(&key(number)).unwrap()).try_into().unwrap()
}

/// Returns the genesis of a chain with all validators, which receive the fees.
fn genesis() -> Genesis {
    let validators: Vec<_> = (0..VALIDATORS)
        .map(|number| chain::Validator {
            address: operator(number),
            power: 1,
            consensus_key: Some(public(number)),
        })
        .collect();
    Genesis::test_network(GENESIS_TIME, &validators).unwrap()
}

/// Returns the account of a validator. The account sends no transactions.
fn operator(number: u8) -> Address {
    Address::repeat_byte(0xa0 + number)
}

impl Node {
    fn start(folder: &Path, number: u8, addresses: &[SocketAddr]) -> Self {
        let path = folder.join(number.to_string());
        let mut home = if path.exists() {
            Home::open(&path).unwrap()
        } else {
            std::fs::create_dir(&path).unwrap();
            Validator::create_vote_record(&path).unwrap();
            Home::init(&path, &genesis()).unwrap()
        };
        home.config.mempool.accept_without_production = true;
        let certificates = Arc::<FinalCertificates>::default();
        let certifier = Some(Arc::clone(&certificates) as Arc<dyn Certify>);
        let options = Options { given_blocks: true, certifier, ..producing(None) };
        let pipeline = Pipeline::start(&home, options).unwrap();
        let view = pipeline.published.load();
        let genesis = stored::block(&view.blocks().unwrap(), 0).unwrap();
        let keys = (0..VALIDATORS).map(|number| B256::from(public_key(&key(number)).unwrap()));
        let voting = Arc::new(Voting::new(keys.collect()));
        let chain = PipelineChain::new(
            pipeline.blocks().unwrap(),
            pipeline.client(),
            pipeline.published.clone(),
            certificates,
            Arc::clone(&voting),
            (
                EvidenceFile::open(&path).unwrap(),
                Clock::new(SystemTimeSource::boxed(), MAX_WAIT, ClockStatus::default()),
            ),
            ValidatorAccounts::new(&home.spec.native().unwrap().gov, public(number)).unwrap(),
        );
        let peer = |other: u8| Peer {
            key: public_key(&key(other)).unwrap(),
            host: addresses[usize::from(other)].ip().to_string(),
            port: addresses[usize::from(other)].port(),
        };
        let options = ValidatorOptions {
            folder: path,
            genesis_hash: genesis.hash,
            genesis: encode(&genesis),
            key: key(number),
            validators: (0..VALIDATORS).map(|other| public_key(&key(other)).unwrap()).collect(),
            listen: addresses[usize::from(number)],
            peers: (0..VALIDATORS).filter(|other| *other != number).map(peer).collect(),
            max_block_bytes: chain::MAX_BLOCK_BYTES,
            pace: PACE,
            timestamp_step: 0,
            timeouts: Timeouts::with_pace(PACE),
            voting,
        };
        let validator = Validator::start(options, chain).unwrap();
        Self { home, pipeline, validator: Some(validator) }
    }

    fn height(&self) -> u64 {
        self.pipeline.published.load().number()
    }

    fn stop(mut self) {
        drop(self.validator.take());
        self.pipeline.stop();
        self.pipeline.join().unwrap();
        drop(self.home);
    }
}

/// Waits until `done` returns true for the newest view of a node.
async fn wait_for_view(node: &Node, what: &str, mut done: impl FnMut(&View) -> bool) {
    let mut heads = node.pipeline.published.heads();
    let waiting = async {
        while !done(&node.pipeline.published.load()) {
            heads.changed().await.expect("the pipeline runs");
        }
    };
    tokio::time::timeout(MAX_WAIT, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_any_validator_are_final_on_all() {
    let folder = tempfile::tempdir().unwrap();
    let addresses: Vec<_> = (0..VALIDATORS).map(|_| own_address()).collect();
    let mut nodes: Vec<_> =
        (0..VALIDATORS).map(|number| Node::start(folder.path(), number, &addresses)).collect();
    let mut hashes = Vec::new();
    for round in 0..5 {
        for (sender, node) in nodes.iter().enumerate() {
            let tx = transfer(sender, round, DEV_ACCOUNTS[5].address);
            hashes.push(node.pipeline.client().submit(tx).await.unwrap());
        }
        if round == 2 {
            // After its restart, the validator receives the blocks that the others have finalized in the meantime.
            let stopped = nodes.pop().unwrap();
            stopped.stop();
            let before = nodes[0].height();
            let continues = |view: &View| view.number() > before + 5;
            wait_for_view(&nodes[0], "three validators continue", continues).await;
            nodes.push(Node::start(folder.path(), VALIDATORS - 1, &addresses));
        }
    }
    for node in &nodes {
        wait_for_view(node, "all transactions are final", |view| {
            hashes.iter().all(|hash| view.tx_location(*hash).unwrap().is_some())
        })
        .await;
    }
    let lowest = nodes.iter().map(Node::height).min().unwrap();
    let hash = |node: &Node, number: u64| {
        node.pipeline.published.load().blocks().unwrap().hash(number).unwrap().unwrap()
    };
    for number in 0..=lowest {
        for node in &nodes[1..] {
            assert_eq!(hash(node, number), hash(&nodes[0], number), "block {number}");
        }
    }
    assert_proposers_are_paid(&nodes[0]);
    nodes.into_iter().for_each(Node::stop);
}

/// Asserts that each block names its proposer's account, and that this account has received the base fees.
fn assert_proposers_are_paid(node: &Node) {
    let view = node.pipeline.published.load();
    let blocks = view.blocks().unwrap();
    let mut fees = BTreeMap::<Address, U256>::new();
    for number in 1..=view.number() {
        let header = stored::block(&blocks, number).unwrap().header;
        let price = U256::from(header.base_fee_per_gas.unwrap());
        *fees.entry(header.beneficiary).or_default() += price * U256::from(header.gas_used);
    }
    let operators: BTreeSet<_> = (0..VALIDATORS).map(operator).collect();
    assert!(fees.keys().all(|miner| operators.contains(miner)), "{fees:?}");
    assert!(fees.len() > 1, "{fees:?}");
    let state = view.state.reader().unwrap();
    let balance = |account| state.account(account).unwrap().unwrap_or_default().balance;
    // The balance also contains the priority fees.
    for (miner, base_fees) in fees {
        assert!(balance(miner) >= base_fees, "{miner}");
        assert_eq!(balance(miner).is_zero(), base_fees.is_zero(), "{miner}");
    }
    assert_eq!(balance(FEE_COLLECTOR), U256::ZERO);
}
