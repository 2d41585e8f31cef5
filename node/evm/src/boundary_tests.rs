//! Tests rules of the protocol at their exact boundaries, with the block builder and simulated blocks.

use super::{
    BlockBuilder, Call, CallSite, Executed, ExecutionCaches, ExecutionHost, PARENT_UNKNOWN,
    SimulateBlock, SimulateOptions, TxError, put_parent_hash,
};
use alloy_consensus::{Header, SignableTransaction, TxLegacy};
use alloy_eips::{
    eip2935::{HISTORY_STORAGE_ADDRESS, HISTORY_STORAGE_CODE},
    eip7002::{WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, WITHDRAWAL_REQUEST_TYPE},
    eip7251::{CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, CONSOLIDATION_REQUEST_TYPE},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex, keccak256};
use chain::{ChainSpec, Genesis};
use std::{collections::BTreeMap, convert::Infallible, sync::OnceLock};
use storage::{Account, StateChanges, StateRead};
use transactions::{RecoveredTx, Transaction};

const CHAIN_ID: u64 = 7;
const SENDER: Address = Address::repeat_byte(0xaa);
const RECIPIENT: Address = Address::repeat_byte(0xbb);
const BENEFICIARY: Address = Address::repeat_byte(0xcb);
const BASE_FEE: u64 = 1_000_000_000;
const GAS_LIMIT: u64 = 30_000_000;
const TRANSFER_GAS: u64 = 21_000;

/// Accounts without storage, and their code.
#[derive(Default)]
struct TestState {
    accounts: BTreeMap<Address, Account>,
    codes: BTreeMap<B256, Bytes>,
}

impl TestState {
    /// Creates a sender with 10^24 wei, and the three system contracts of Prague. The withdrawal request contract
    /// returns nothing, and the consolidation request contract returns 0xab.
    fn new() -> Self {
        let mut state = Self::default();
        state.put_account(SENDER, 0, U256::from(10).pow(U256::from(24)));
        state.put_code(HISTORY_STORAGE_ADDRESS, &HISTORY_STORAGE_CODE);
        state.put_code(WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &hex!("00"));
        state.put_code(CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, &hex!("60ab5f5360015ff3"));
        state
    }

    fn put_account(&mut self, address: Address, nonce: u64, balance: U256) {
        self.accounts.insert(address, Account { nonce, balance, ..Account::default() });
    }

    fn put_code(&mut self, address: Address, code: &[u8]) {
        let code_hash = keccak256(code);
        self.codes.insert(code_hash, Bytes::copy_from_slice(code));
        let account = Account { nonce: 1, code_hash, ..Account::default() };
        self.accounts.insert(address, account);
    }
}

impl StateRead for TestState {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&address).copied())
    }

    fn storage(&self, _: Address, _: U256) -> Result<U256, Infallible> {
        Ok(U256::ZERO)
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, Infallible> {
        Ok(self.codes.get(&code_hash).cloned().unwrap_or_default())
    }

    fn has_storage(&self, _: Address) -> Result<bool, Infallible> {
        Ok(false)
    }
}

/// Returns an Ethereum chain with all forks up to Prague active from its first block on.
fn spec() -> ChainSpec {
    let mut config = serde_json::json!({ "chainId": CHAIN_ID, "terminalTotalDifficulty": 0 });
    for name in ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"] {
        config[format!("{name}Block")] = 0.into();
    }
    for name in ["petersburg", "istanbul", "berlin", "london"] {
        config[format!("{name}Block")] = 0.into();
    }
    for name in ["shanghai", "cancun", "prague"] {
        config[format!("{name}Time")] = 0.into();
    }
    let file = serde_json::json!({ "config": config, "gasLimit": "0x1c9c380", "alloc": {} });
    Genesis::from_json(&file.to_string()).unwrap().spec
}

fn header(number: u64) -> Header {
    Header {
        number,
        timestamp: 1_000 + number,
        parent_hash: keccak256(number.to_be_bytes()),
        gas_limit: GAS_LIMIT,
        beneficiary: BENEFICIARY,
        base_fee_per_gas: Some(BASE_FEE),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        ..Header::default()
    }
}

/// Returns a transfer of one wei.
fn transfer(nonce: u64, gas_price: u64) -> RecoveredTx {
    let tx = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_price: gas_price.into(),
        gas_limit: TRANSFER_GAS,
        to: TxKind::Call(RECIPIENT),
        value: U256::ONE,
        ..TxLegacy::default()
    };
    RecoveredTx {
        raw: Bytes::new(),
        tx: Transaction::from(tx.into_signed(Signature::test_signature())),
        hash: B256::with_last_byte(nonce as u8),
        sender: SENDER,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

fn no_root(_: &StateChanges) -> Result<B256, super::StateError> {
    Ok(B256::ZERO)
}

/// A host with caches and without block hashes.
#[derive(Default)]
struct FastHost(ExecutionCaches);

impl ExecutionHost for FastHost {
    fn block_hash(&self, _: u64) -> Result<Option<B256>, super::StateError> {
        Ok(None)
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        Some(&self.0)
    }
}

/// Executes transactions in a block: with the interpreter only if `is_plain`, otherwise also with the fast paths.
fn run(
    state: &TestState,
    header: &Header,
    txs: &[RecoveredTx],
    is_plain: bool,
) -> (Vec<Result<u64, TxError>>, Executed) {
    let (spec, plain, fast) = (spec(), |_: u64| None, FastHost::default());
    let host: &dyn ExecutionHost = if is_plain { &plain } else { &fast };
    let mut block = BlockBuilder::start(&spec, state, host, None, header).unwrap();
    let verdicts = txs.iter().map(|tx| block.push(tx, &no_root).unwrap()).collect();
    (verdicts, block.finish(&[], Some(&[])).unwrap())
}

/// Asserts that the fast path of transfers and the interpreter produce the same result, and returns it.
fn run_both_ways(
    state: &TestState,
    header: &Header,
    txs: &[RecoveredTx],
) -> (Vec<Result<u64, TxError>>, Executed) {
    let [fast, interpreted] = [false, true].map(|is_plain| run(state, header, txs, is_plain));
    assert_eq!(format!("{:?}", fast.0), format!("{:?}", interpreted.0));
    assert_eq!(fast.1, interpreted.1);
    fast
}

#[test]
fn transaction_may_use_all_the_gas_that_is_left_in_a_block() {
    let state = TestState::new();
    let txs = [transfer(0, BASE_FEE), transfer(1, BASE_FEE)];
    for (gas_limit, included) in [
        (TRANSFER_GAS - 1, 0),
        (TRANSFER_GAS, 1),
        (TRANSFER_GAS + 1, 1),
        (2 * TRANSFER_GAS - 1, 1),
        (2 * TRANSFER_GAS, 2),
        (2 * TRANSFER_GAS + 1, 2),
    ] {
        let header = Header { gas_limit, ..header(1) };
        let (verdicts, executed) = run_both_ways(&state, &header, &txs);
        assert_eq!(executed.receipts.len(), included, "limit {gas_limit}");
        for verdict in &verdicts[included..] {
            let available = gas_limit - included as u64 * TRANSFER_GAS;
            let Err(TxError::BlockGas { limit, available: found }) = verdict else {
                panic!("{verdict:?}");
            };
            assert_eq!((*limit, *found), (TRANSFER_GAS, available));
        }
    }
}

#[test]
fn transfer_near_the_maximum_nonce_ends_as_in_the_interpreter() {
    for (nonce, is_included) in
        [(u64::MAX - 3, true), (u64::MAX - 2, true), (u64::MAX - 1, true), (u64::MAX, false)]
    {
        let mut state = TestState::new();
        state.put_account(SENDER, nonce, U256::from(10).pow(U256::from(24)));
        let (verdicts, executed) = run_both_ways(&state, &header(1), &[transfer(nonce, BASE_FEE)]);
        assert_eq!(verdicts[0].is_ok(), is_included, "nonce {nonce}: {:?}", verdicts[0]);
        if is_included {
            let sender = executed.changes.accounts.iter().find(|c| c.address == SENDER).unwrap();
            assert_eq!(sender.account.unwrap().nonce, nonce + 1);
        }
    }
}

/// Checks that a payment of zero touches the fee recipient: a touched empty account is removed (EIP-161).
#[test]
fn transfer_without_a_priority_fee_removes_an_empty_fee_recipient() {
    for gas_price in [BASE_FEE, BASE_FEE + 1] {
        for balance in [None, Some(U256::ZERO), Some(U256::ONE)] {
            let mut state = TestState::new();
            if let Some(balance) = balance {
                state.put_account(BENEFICIARY, 0, balance);
            }
            let (_, executed) = run_both_ways(&state, &header(1), &[transfer(0, gas_price)]);
            let mut changes = executed.changes.accounts.iter();
            let change = changes.find(|change| change.address == BENEFICIARY);
            let after = match change {
                Some(change) => change.account.map(|account| account.balance),
                None => balance,
            };
            let priority_fee = U256::from(TRANSFER_GAS * (gas_price - BASE_FEE));
            let sum = balance.unwrap_or_default() + priority_fee;
            let expected = (!sum.is_zero()).then_some(sum);
            assert_eq!(after, expected, "{balance:?} at {gas_price}");
        }
    }
}

#[test]
fn block_contains_the_requests_of_both_system_contracts() {
    let mut state = TestState::new();
    let consolidation = Bytes::from(vec![CONSOLIDATION_REQUEST_TYPE, 0xab]);
    let (_, executed) = run(&state, &header(1), &[], false);
    assert_eq!(executed.requests.iter().collect::<Vec<_>>(), [&consolidation]);
    // Requests are ordered by type.
    state.put_code(WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, &hex!("60cd5f5360015ff3"));
    let (_, executed) = run(&state, &header(1), &[], false);
    let withdrawal = Bytes::from(vec![WITHDRAWAL_REQUEST_TYPE, 0xcd]);
    assert_eq!(executed.requests.iter().collect::<Vec<_>>(), [&withdrawal, &consolidation]);
}

/// Checks that the slot is the same whether the hash is known when the block starts or is inserted later.
#[test]
fn history_contract_reuses_its_slots_after_8191_blocks() {
    let state = TestState::new();
    for (number, slot) in [(1, 0), (8_190, 8_189), (8_191, 8_190), (8_192, 0), (8_193, 1)] {
        let header = header(number);
        let (_, executed) = run(&state, &header, &[], false);
        let mut changes = executed.changes.accounts.iter();
        let history = changes.find(|change| change.address == HISTORY_STORAGE_ADDRESS).unwrap();
        assert_eq!(history.slots, [(U256::from(slot), header.parent_hash.into())], "{number}");

        let (spec, hashes) = (spec(), |_: u64| None);
        let unknown = Header { parent_hash: PARENT_UNKNOWN, ..header.clone() };
        let block =
            BlockBuilder::start_before_parent(&spec, &state, &hashes, None, &unknown).unwrap();
        let mut deferred = block.finish(&[], Some(&[])).unwrap();
        put_parent_hash(&mut deferred.changes, number, header.parent_hash);
        assert_eq!(deferred, executed, "block {number}");
    }
}

/// Returns the logs of one simulated call: the address that emitted each log, and its position in the block.
fn simulated_logs(state: &TestState, value: u64, trace_transfers: bool) -> Vec<(Address, usize)> {
    let (spec, parent) = (spec(), header(1));
    let host: &dyn ExecutionHost = &|_: u64| None;
    let site = CallSite { spec: &spec, modules: None, state, host, header: &parent };
    let call = Call {
        from: SENDER,
        to: TxKind::Call(RECIPIENT),
        gas: Some(1_000_000),
        value: U256::from(value),
        ..Call::default()
    };
    let block = SimulateBlock { calls: vec![call], ..SimulateBlock::default() };
    let options = SimulateOptions { trace_transfers, validation: false, gas_cap: GAS_LIMIT };
    let blocks = site.simulate(parent.hash_slow(), &no_root, vec![block], options).unwrap();
    let logs = &blocks[0].calls[0].logs;
    logs.iter().map(|(position, log)| (log.address, *position)).collect()
}

#[test]
fn simulated_transfer_logs_leave_out_delegate_calls_and_count_reverted_logs() {
    const DELEGATE: Address = Address::repeat_byte(0xd1);
    const REVERTING: Address = Address::repeat_byte(0xd2);
    const PAID: Address = Address::repeat_byte(0xd3);
    const TRANSFER_LOG_ADDRESS: Address = Address::repeat_byte(0xee);
    let mut state = TestState::new();
    // LOG0 without data.
    const LOG: &[u8] = &hex!("5f5fa0");
    let call = |opcode: u8, value: Option<u8>, to: Address| {
        let mut code = hex!("5f5f5f5f").to_vec();
        code.extend(value.iter().flat_map(|value| [0x60, *value]));
        code.push(0x73);
        code.extend(to);
        code.extend([0x5a, opcode, 0x50]);
        code
    };
    let (plain_call, delegate_call) = (0xf1, 0xf4);
    // Logs, makes a delegate call in the context of a value transfer, calls a contract that logs twice and reverts,
    // sends one wei, and logs.
    let code = [
        LOG,
        &call(delegate_call, None, DELEGATE),
        &call(plain_call, Some(0), REVERTING),
        &call(plain_call, Some(1), PAID),
        LOG,
    ]
    .concat();
    state.put_code(RECIPIENT, &code);
    state.put_code(DELEGATE, LOG);
    let reverting = [LOG, LOG, &hex!("5f5ffd")].concat();
    state.put_code(REVERTING, &reverting);
    assert_eq!(
        simulated_logs(&state, 9, true),
        [
            (TRANSFER_LOG_ADDRESS, 0),
            (RECIPIENT, 1),
            // The delegate logs as its caller. The two logs at 3 and 4 were reverted.
            (RECIPIENT, 2),
            (TRANSFER_LOG_ADDRESS, 5),
            (RECIPIENT, 6),
        ]
    );
    let without_transfers = [(RECIPIENT, 0), (RECIPIENT, 1), (RECIPIENT, 4)];
    assert_eq!(simulated_logs(&state, 9, false), without_transfers);
}
