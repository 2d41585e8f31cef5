//! Compares admission with block execution and gas estimates under every fork.

use crate::{BlockBuilder, Call, CallError, CallOutcome, CallSite, StateError};
use alloy_consensus::{Header, SignableTransaction, TxEip1559, TxEip2930, TxEip7702, TxLegacy};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip7702::{Authorization, SignedAuthorization},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use chain::{Attributes, ChainSpec, Fork, Genesis, Parent, next_header};
use modules::decorator::{CheckContext, Mode, Reject, check};
use revm::context_interface::result::InvalidTransaction;
use std::{convert::Infallible, sync::OnceLock};
use storage::{Account, StateChanges, StateRead};
use transactions::{RecoveredTx, Transaction};

const CHAIN_ID: u64 = 7;
const SENDER: Address = Address::repeat_byte(0xaa);
const RECIPIENT: Address = Address::repeat_byte(0xbb);
const NONCE: u64 = 5;
const PRICE: u128 = 3_000_000_000;
const PARENT_TIME: u64 = 1_000;
/// More gas than any sample needs, and less than every fork's limit.
const AMPLE_GAS: u64 = 5_000_000;
const BLOCK_GAS: u64 = 100_000_000;

const FORKS: [Fork; 15] = [
    Fork::Frontier,
    Fork::Homestead,
    Fork::Tangerine,
    Fork::SpuriousDragon,
    Fork::Byzantium,
    Fork::Constantinople,
    Fork::Petersburg,
    Fork::Istanbul,
    Fork::Berlin,
    Fork::London,
    Fork::Paris,
    Fork::Shanghai,
    Fork::Cancun,
    Fork::Prague,
    Fork::Osaka,
];

/// A state in which only the sender has an account.
struct OneSender;

impl StateRead for OneSender {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        let balance = U256::from(10).pow(U256::from(24));
        let account = Account { nonce: NONCE, balance, ..Account::default() };
        Ok((address == SENDER).then_some(account))
    }

    fn storage(&self, _: Address, _: U256) -> Result<U256, Infallible> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: B256) -> Result<Bytes, Infallible> {
        Ok(Bytes::new())
    }

    fn has_storage(&self, _: Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Returns the rules of a chain with `fork` active from block 0 on, and the fork `later` from a height or time on.
fn spec(fork: Fork, later: Option<(&str, u64)>) -> ChainSpec {
    let fields = [
        ("homesteadBlock", Fork::Homestead),
        ("eip150Block", Fork::Tangerine),
        ("eip155Block", Fork::SpuriousDragon),
        ("eip158Block", Fork::SpuriousDragon),
        ("byzantiumBlock", Fork::Byzantium),
        ("constantinopleBlock", Fork::Constantinople),
        ("petersburgBlock", Fork::Petersburg),
        ("istanbulBlock", Fork::Istanbul),
        ("berlinBlock", Fork::Berlin),
        ("londonBlock", Fork::London),
        ("terminalTotalDifficulty", Fork::Paris),
        ("shanghaiTime", Fork::Shanghai),
        ("cancunTime", Fork::Cancun),
        ("pragueTime", Fork::Prague),
        ("osakaTime", Fork::Osaka),
    ];
    let mut config = serde_json::json!({ "chainId": CHAIN_ID });
    for (name, _) in fields.into_iter().filter(|(_, from)| *from <= fork) {
        config[name] = 0.into();
    }
    if fork == Fork::Constantinople {
        config["petersburgBlock"] = 1_000_000.into();
    }
    if let Some((name, at)) = later {
        config[name] = at.into();
    }
    let file = serde_json::json!({ "config": config, "gasLimit": "0x5f5e100", "alloc": {} });
    Genesis::from_json(&file.to_string()).unwrap().spec
}

/// A parent block, and the block after it.
struct World {
    fork: Fork,
    spec: ChainSpec,
    parent: Header,
    next: Header,
}

impl World {
    fn new(fork: Fork) -> Self {
        let spec = spec(fork, None);
        let parent = parent_under(fork);
        let parent_is = Parent { header: &parent, hash: B256::ZERO, total_difficulty: U256::ZERO };
        let attributes = Attributes {
            timestamp: PARENT_TIME + 1,
            gas_limit: BLOCK_GAS,
            ..Attributes::default()
        };
        let next = next_header(&spec, &parent_is, &attributes);
        assert_eq!((spec.fork_of(&parent), spec.fork_of(&next)), (fork, fork));
        Self { fork, spec, parent, next }
    }

    fn context(&self) -> CheckContext<'_> {
        let base_fee = self.next.base_fee_per_gas.unwrap_or_default();
        let context =
            CheckContext::after(&self.spec, &self.parent, self.next.timestamp, base_fee, None);
        assert_eq!(context.fork, self.fork);
        context
    }

    fn admit(&self, tx: &RecoveredTx) -> Result<(), Reject> {
        let Ok(verdict) = check(tx, &self.context(), &OneSender, Mode::Check);
        verdict.map(drop)
    }

    /// Returns whether a block accepts the transaction, even if its execution fails.
    fn is_valid_in_block(&self, tx: &RecoveredTx) -> bool {
        let hashes = |_: u64| None;
        let root = |_: &StateChanges| -> Result<B256, StateError> { Ok(B256::ZERO) };
        let block = BlockBuilder::start(&self.spec, &OneSender, &hashes, None, &self.next);
        block.unwrap().push(tx, &root).unwrap().is_ok()
    }

    fn call<T>(&self, run: impl FnOnce(&CallSite<'_, OneSender>) -> T) -> T {
        run(&CallSite {
            spec: &self.spec,
            modules: None,
            state: &OneSender,
            host: &|_: u64| None,
            header: &self.parent,
        })
    }

    fn estimate(&self, sample: &Sample) -> Result<u64, CallError> {
        self.call(|site| site.estimate_gas(&sample.call(None), BLOCK_GAS))
    }

    fn succeeds(&self, sample: &Sample, gas: u64) -> bool {
        let ended = self.call(|site| site.call(&sample.call(Some(gas)), BLOCK_GAS));
        ended.is_ok_and(|result| matches!(result.outcome, CallOutcome::Success(_)))
    }

    /// Returns the lowest gas limit that admission accepts. Raises the limit to the required amount until admission
    /// accepts it.
    fn lowest_admitted(&self, sample: &Sample) -> u64 {
        let mut gas = 1;
        for _ in 0..3 {
            match self.admit(&sample.tx(self.fork, gas)) {
                Ok(()) => return gas,
                Err(Reject::IntrinsicGas { needed, .. } | Reject::FloorGas { needed, .. }) => {
                    assert!(needed > gas, "{sample:?}");
                    gas = needed;
                }
                Err(reject) => panic!("{:?} {sample:?}: {reject}", self.fork),
            }
        }
        panic!("{:?} {sample:?}: not even {gas} gas is enough", self.fork);
    }
}

/// Returns a header with the fields that exist under the fork.
fn parent_under(fork: Fork) -> Header {
    let cancun = (fork >= Fork::Cancun).then_some(0);
    Header {
        number: 1,
        timestamp: PARENT_TIME,
        gas_limit: BLOCK_GAS,
        difficulty: if fork >= Fork::Paris { U256::ZERO } else { U256::from(131_072) },
        base_fee_per_gas: (fork >= Fork::London).then_some(1_000_000_000),
        blob_gas_used: cancun,
        excess_blob_gas: cancun,
        ..Header::default()
    }
}

/// A transaction without its gas limit.
#[derive(Clone, Debug)]
struct Sample {
    tx_type: u8,
    to: TxKind,
    input: Bytes,
    access_list: AccessList,
    authorizations: Vec<SignedAuthorization>,
}

impl Sample {
    fn of_type(tx_type: u8) -> Self {
        Self {
            tx_type,
            to: TxKind::Call(RECIPIENT),
            input: Bytes::new(),
            access_list: AccessList::default(),
            authorizations: Vec::new(),
        }
    }

    fn with_input(bytes: usize, byte: u8) -> Self {
        Self { input: vec![byte; bytes].into(), ..Self::of_type(0) }
    }

    /// Returns init code that stops at once.
    fn creation(bytes: usize) -> Self {
        Self { to: TxKind::Create, ..Self::with_input(bytes, 0) }
    }

    fn first_fork(&self) -> Fork {
        [Fork::Frontier, Fork::Berlin, Fork::London, Fork::Cancun, Fork::Prague]
            [usize::from(self.tx_type)]
    }

    fn call(&self, gas: Option<u64>) -> Call {
        Call {
            from: SENDER,
            to: self.to,
            gas,
            input: self.input.clone(),
            access_list: (self.tx_type > 0).then(|| self.access_list.clone()),
            max_priority_fee_per_gas: (self.tx_type == 2).then_some(0),
            authorizations: self.authorizations.clone(),
            ..Call::default()
        }
    }

    fn tx(&self, fork: Fork, gas_limit: u64) -> RecoveredTx {
        let (input, access_list) = (self.input.clone(), self.access_list.clone());
        let (nonce, to) = (NONCE, self.to);
        match self.tx_type {
            0 => recovered(TxLegacy {
                chain_id: (fork >= Fork::SpuriousDragon).then_some(CHAIN_ID),
                nonce,
                gas_price: PRICE,
                gas_limit,
                to,
                input,
                ..TxLegacy::default()
            }),
            1 => recovered(TxEip2930 {
                chain_id: CHAIN_ID,
                nonce,
                gas_price: PRICE,
                gas_limit,
                to,
                input,
                access_list,
                ..TxEip2930::default()
            }),
            2 => recovered(TxEip1559 {
                chain_id: CHAIN_ID,
                nonce,
                max_fee_per_gas: PRICE,
                gas_limit,
                to,
                input,
                access_list,
                ..TxEip1559::default()
            }),
            _ => recovered(TxEip7702 {
                chain_id: CHAIN_ID,
                nonce,
                max_fee_per_gas: PRICE,
                gas_limit,
                to: RECIPIENT,
                input,
                access_list,
                authorization_list: self.authorizations.clone(),
                ..TxEip7702::default()
            }),
        }
    }
}

/// Returns a transaction of [`SENDER`]. Neither admission nor execution checks its signature.
fn recovered<T: SignableTransaction<Signature>>(tx: T) -> RecoveredTx
where
    Transaction: From<alloy_consensus::Signed<T>>,
{
    RecoveredTx {
        raw: Bytes::new(),
        tx: Transaction::from(tx.into_signed(Signature::test_signature())),
        hash: B256::ZERO,
        sender: SENDER,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

fn access_list() -> AccessList {
    let item = |address: u8, keys: usize| AccessListItem {
        address: Address::repeat_byte(address),
        storage_keys: vec![B256::ZERO; keys],
    };
    AccessList(vec![item(1, 0), item(2, 3)])
}

fn authorization() -> SignedAuthorization {
    let address = Address::repeat_byte(7);
    Authorization { chain_id: U256::ZERO, address, nonce: 0 }
        .into_signed(Signature::test_signature())
}

/// The largest init code since Shanghai, in bytes.
const INIT_CODE_BYTES: usize = 49_152;

fn samples() -> Vec<Sample> {
    vec![
        Sample::of_type(0),
        Sample::with_input(1_000, 0),
        Sample::with_input(1_000, 1),
        // JUMPDEST, which every fork has.
        Sample { input: vec![0x5b; 1_000].into(), ..Sample::creation(0) },
        Sample::creation(INIT_CODE_BYTES),
        Sample::creation(INIT_CODE_BYTES + 1),
        Sample { access_list: access_list(), ..Sample::of_type(1) },
        Sample::of_type(2),
        Sample { access_list: access_list(), ..Sample::of_type(2) },
        Sample { authorizations: vec![authorization()], ..Sample::of_type(4) },
        Sample {
            authorizations: vec![authorization(); 2],
            access_list: access_list(),
            input: vec![1; 1_000].into(),
            ..Sample::of_type(4)
        },
    ]
}

#[test]
fn admission_agrees_with_estimates_and_blocks_under_every_fork() {
    for fork in FORKS {
        let world = World::new(fork);
        for sample in samples() {
            if fork < sample.first_fork() {
                assert_refused_by_type(&world, &sample);
            } else if is_oversized(&world, &sample) {
                assert_refused_by_size(&world, &sample);
            } else {
                assert_estimate_is_admitted(&world, &sample);
            }
        }
    }
}

fn assert_refused_by_type(world: &World, sample: &Sample) {
    let tx = sample.tx(world.fork, AMPLE_GAS);
    let missing = if world.fork < Fork::Berlin { Fork::Berlin } else { sample.first_fork() };
    let expected = format!(
        "transaction type not supported: type {} rejected, pool not yet in {missing:?}",
        sample.tx_type
    );
    assert_eq!(world.admit(&tx).unwrap_err().to_string(), expected, "{:?}", world.fork);
    assert!(!world.is_valid_in_block(&tx), "{:?} {sample:?}", world.fork);
}

fn is_oversized(world: &World, sample: &Sample) -> bool {
    let size = sample.input.len();
    sample.to.is_create() && size > INIT_CODE_BYTES && world.fork >= Fork::Shanghai
}

fn assert_refused_by_size(world: &World, sample: &Sample) {
    let tx = sample.tx(world.fork, AMPLE_GAS);
    let text = "max initcode size exceeded: code size 49153, limit 49152";
    assert_eq!(world.admit(&tx).unwrap_err().to_string(), text);
    let estimate = world.estimate(sample);
    let limit = InvalidTransaction::CreateInitCodeSizeLimit;
    assert!(matches!(estimate, Err(CallError::Invalid(reason)) if reason == limit));
    assert!(!world.is_valid_in_block(&tx));
}

fn assert_estimate_is_admitted(world: &World, sample: &Sample) {
    let (fork, at) = (world.fork, |gas| sample.tx(world.fork, gas));
    let shown = format!("{fork:?}, type {}, {} bytes", sample.tx_type, sample.input.len());
    let estimate = world.estimate(sample).expect(&shown);
    assert_eq!(world.admit(&at(estimate)), Ok(()), "{shown}");
    assert!(world.is_valid_in_block(&at(estimate)) && world.succeeds(sample, estimate), "{shown}");

    // Admission and blocks have the same minimum gas limit.
    let lowest = world.lowest_admitted(sample);
    assert!(world.is_valid_in_block(&at(lowest)), "{shown}: {lowest} is admitted");
    assert!(world.admit(&at(lowest - 1)).is_err(), "{shown}");
    assert!(!world.is_valid_in_block(&at(lowest - 1)), "{shown}: {} is refused", lowest - 1);

    // With less gas, the transaction is refused or fails. An estimate may exceed the required gas by 1.5 %.
    let (mut low, mut need) = (lowest - 1, estimate);
    while low + 1 < need {
        let middle = low + (need - low) / 2;
        if world.succeeds(sample, middle) { need = middle } else { low = middle }
    }
    assert!(world.admit(&at(need - 1)).is_err() || !world.succeeds(sample, need - 1), "{shown}");
    assert!((estimate - need) * 1000 <= estimate * 15, "{shown}: {estimate} for {need}");
}

#[test]
fn gas_cap_of_a_transaction_holds_from_osaka_on() {
    let cap = 1 << 24;
    for fork in FORKS {
        let world = World::new(fork);
        let tx = |gas| Sample::of_type(0).tx(fork, gas);
        assert_eq!(world.admit(&tx(cap)), Ok(()));
        let above = tx(cap + 1);
        let is_capped = matches!(world.admit(&above), Err(Reject::TxGasCap { .. }));
        assert_eq!(is_capped, fork >= Fork::Osaka);
        assert_eq!(world.is_valid_in_block(&above), !is_capped, "{fork:?}");
    }
}

#[test]
fn replay_protection_follows_the_fork() {
    for fork in FORKS {
        let world = World::new(fork);
        let tx = |chain_id| {
            let to = TxKind::Call(RECIPIENT);
            let (nonce, gas_price, gas_limit) = (NONCE, PRICE, 21_000);
            recovered(TxLegacy { chain_id, nonce, gas_price, gas_limit, to, ..TxLegacy::default() })
        };
        let (protected, unprotected) = (tx(Some(CHAIN_ID)), tx(None));
        let has_protection = fork >= Fork::SpuriousDragon;
        assert_eq!(world.admit(&protected).is_ok(), has_protection, "{fork:?}");
        assert_eq!(world.is_valid_in_block(&protected), has_protection, "{fork:?}");
        assert_eq!(world.admit(&unprotected).is_ok(), !has_protection, "{fork:?}");
    }
}

/// Returns the result of admitting a sample on a parent under `fork`, if the next block has this timestamp.
fn admit_after(
    (fork, later): (Fork, (&str, u64)),
    timestamp: u64,
    sample: &Sample,
    gas: u64,
) -> Result<(), Reject> {
    let (spec, parent) = (spec(fork, Some(later)), parent_under(fork));
    let base_fee = parent.base_fee_per_gas.unwrap_or_default();
    let context = CheckContext::after(&spec, &parent, timestamp, base_fee, None);
    let tx = sample.tx(fork, gas);
    let Ok(verdict) = check(&tx, &context, &OneSender, Mode::Check);
    verdict.map(drop)
}

#[test]
fn fork_that_starts_with_the_next_block_decides_admission() {
    const START: u64 = PARENT_TIME + 1;
    let set_code = Sample { authorizations: vec![authorization()], ..Sample::of_type(4) };
    let shanghai = (Fork::Paris, ("shanghaiTime", START));
    let prague = (Fork::Cancun, ("pragueTime", START));
    let osaka = (Fork::Prague, ("osakaTime", START));
    // A rule of the later fork refuses a sample, and a transaction type of the later fork is accepted.
    for (forks, sample, gas, is_admitted_later) in [
        (shanghai, Sample::creation(INIT_CODE_BYTES + 1), AMPLE_GAS, false),
        // Between the intrinsic gas and the floor of EIP-7623.
        (prague, Sample::with_input(1_000, 1), 50_000, false),
        (prague, set_code, AMPLE_GAS, true),
        (osaka, Sample::of_type(2), (1 << 24) + 1, false),
    ] {
        for timestamp in [START - 1, START, START + 1] {
            let is_admitted = admit_after(forks, timestamp, &sample, gas).is_ok();
            let is_later = timestamp >= START;
            assert_eq!(is_admitted, is_later == is_admitted_later, "{forks:?} at {timestamp}");
        }
    }
    // Forks by height: the parent is block 1.
    for height in [2, 3] {
        let london = (Fork::Berlin, ("londonBlock", height));
        let is_admitted = admit_after(london, START, &Sample::of_type(2), 21_000).is_ok();
        assert_eq!(is_admitted, height == 2);
    }
}

#[test]
fn intrinsic_gas_of_a_sample_follows_the_fork() {
    let lowest = |fork, sample: &Sample| World::new(fork).lowest_admitted(sample);
    let nonzero = Sample::with_input(1_000, 1);
    let creation = Sample::creation(INIT_CODE_BYTES);
    assert_eq!(lowest(Fork::Petersburg, &nonzero), 21_000 + 68 * 1_000);
    assert_eq!(lowest(Fork::Istanbul, &nonzero), 21_000 + 16 * 1_000);
    assert_eq!(lowest(Fork::Cancun, &nonzero), 21_000 + 16 * 1_000);
    assert_eq!(lowest(Fork::Prague, &nonzero), 21_000 + 40 * 1_000);
    assert_eq!(lowest(Fork::Frontier, &creation), 21_000 + 4 * 49_152);
    assert_eq!(lowest(Fork::Homestead, &creation), 53_000 + 4 * 49_152);
    assert_eq!(lowest(Fork::Shanghai, &creation), 53_000 + 4 * 49_152 + 2 * 49_152 / 32);
    assert_eq!(lowest(Fork::Prague, &creation), 21_000 + 10 * 49_152);
}

#[test]
fn init_code_and_gas_limit_are_admitted_up_to_their_limits() {
    for fork in [Fork::Paris, Fork::Shanghai, Fork::Prague] {
        let world = World::new(fork);
        for bytes in [INIT_CODE_BYTES - 1, INIT_CODE_BYTES, INIT_CODE_BYTES + 1] {
            let tx = Sample::creation(bytes).tx(fork, AMPLE_GAS);
            let expected = fork < Fork::Shanghai || bytes <= INIT_CODE_BYTES;
            assert_eq!(world.admit(&tx).is_ok(), expected, "{fork:?}, {bytes} bytes");
            assert_eq!(world.is_valid_in_block(&tx), expected, "{fork:?}, {bytes} bytes");
        }
        for gas in [BLOCK_GAS - 1, BLOCK_GAS, BLOCK_GAS + 1] {
            let tx = Sample::of_type(0).tx(fork, gas);
            let refused = Reject::BlockGasLimit { gas, limit: BLOCK_GAS };
            let expected = if gas <= BLOCK_GAS { Ok(()) } else { Err(refused) };
            assert_eq!(world.admit(&tx), expected, "{fork:?}, {gas} gas");
            assert_eq!(world.is_valid_in_block(&tx), expected.is_ok(), "{fork:?}, {gas} gas");
        }
    }
}

#[test]
fn rules_of_a_context_start_with_their_forks() {
    for fork in FORKS {
        let world = World::new(fork);
        let context = world.context();
        assert_eq!(context.london, fork >= Fork::London, "{fork:?}");
        assert_eq!(context.blobs.is_some(), fork >= Fork::Cancun, "{fork:?}");
        assert_eq!(context.replay_protection, fork >= Fork::SpuriousDragon, "{fork:?}");
    }
}
