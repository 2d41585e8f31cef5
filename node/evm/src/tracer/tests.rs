//! Traces transactions on small chains in memory with the code that the `debug_` and `trace_` methods use.

mod calls;
mod looked_up;
mod recorded;
mod state;

use super::{GethTracer, ParityTracer, Tracer};
use crate::{StateError, TraceError, TracedBlock};
use alloy_consensus::{Header, SignableTransaction as _, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, map::HashSet};
use alloy_rpc_types_trace::parity::TraceType;
use chain::{ChainSpec, Genesis};
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible, sync::OnceLock};
use storage::{Account, AccountChange, StateChanges, StateRead};
use transactions::{RecoveredTx, Transaction};

/// The state after a genesis.
struct GenesisState {
    accounts: BTreeMap<Address, AccountChange>,
    codes: BTreeMap<B256, Bytes>,
}

impl StateRead for GenesisState {
    type Error = Infallible;

    fn account(&self, address: Address) -> Result<Option<Account>, Infallible> {
        Ok(self.accounts.get(&address).and_then(|change| change.account))
    }

    fn storage(&self, address: Address, slot: U256) -> Result<U256, Infallible> {
        let slots = self.accounts.get(&address).map_or(&[][..], |change| &change.slots);
        let value = slots.iter().find(|(key, _)| *key == slot).map(|(_, value)| *value);
        Ok(value.unwrap_or_default())
    }

    fn code(&self, code_hash: B256) -> Result<Bytes, Infallible> {
        Ok(self.codes.get(&code_hash).cloned().unwrap_or_default())
    }

    fn has_storage(&self, address: Address) -> Result<bool, Infallible> {
        Ok(self.accounts.get(&address).is_some_and(|change| !change.slots.is_empty()))
    }
}

/// A chain without blocks, and the state after its genesis.
struct TestChain {
    spec: ChainSpec,
    state: GenesisState,
}

impl TestChain {
    fn new(genesis: &Value) -> Self {
        let genesis = Genesis::from_json(&genesis.to_string()).unwrap();
        let StateChanges { accounts, codes } = genesis.state();
        let accounts = accounts.into_iter().map(|change| (change.address, change)).collect();
        let codes = codes.into_iter().collect();
        Self { spec: genesis.spec, state: GenesisState { accounts, codes } }
    }

    /// Returns the trace of the only transaction of a block with this header.
    fn trace<T>(&self, header: &Header, tx: &RecoveredTx, tracer: T) -> Result<T::Trace, TraceError>
    where
        T: Tracer<GenesisState>,
    {
        let (hashes, hash) = (|_: u64| None, header.hash_slow());
        let (spec, state) = (&self.spec, &self.state);
        let mut block = TracedBlock::start(spec, state, &hashes, header, hash, None, tracer)?;
        block.trace(tx, &|_: &StateChanges| Ok::<_, StateError>(B256::ZERO))
    }

    /// Returns the result of [`Self::trace`] with one of geth's tracers, as JSON.
    fn geth_trace(
        &self,
        header: &Header,
        tx: &RecoveredTx,
        tracer: &str,
        config: &Value,
    ) -> Result<Value, TraceError> {
        let options = json!({ "tracer": tracer, "tracerConfig": config });
        let tracer = GethTracer(serde_json::from_value(options).unwrap());
        self.trace(header, tx, tracer).map(|trace| serde_json::to_value(trace).unwrap())
    }
}

const CHAIN_ID: u64 = 7;
const SENDER: Address = Address::repeat_byte(0xaa);
const CONTRACT: Address = Address::repeat_byte(0xcc);
const OTHER: Address = Address::repeat_byte(0xdd);

/// The rules of a chain from its first block on.
#[derive(Clone, Copy)]
enum Rules {
    Frontier,
    Berlin,
    Prague,
}

impl Rules {
    fn config(self) -> Value {
        let mut config = json!({ "chainId": CHAIN_ID });
        let blocks: &[&str] = match self {
            Self::Frontier => return config,
            Self::Berlin | Self::Prague => {
                &["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"]
            }
        };
        for name in blocks.iter().chain(&["petersburg", "istanbul", "berlin"]) {
            config[format!("{name}Block")] = 0.into();
        }
        if matches!(self, Self::Prague) {
            config["londonBlock"] = 0.into();
            config["terminalTotalDifficulty"] = 0.into();
            for name in ["shanghai", "cancun", "prague"] {
                config[format!("{name}Time")] = 0.into();
            }
        }
        config
    }

    fn header(self) -> Header {
        let is_prague = matches!(self, Self::Prague);
        Header {
            number: 1,
            timestamp: 1,
            gas_limit: 30_000_000,
            difficulty: U256::from(u64::from(!is_prague)),
            base_fee_per_gas: is_prague.then_some(7),
            excess_blob_gas: is_prague.then_some(0),
            ..Header::default()
        }
    }
}

/// Returns a chain with these rules and these accounts, in addition to the sender.
fn chain(rules: Rules, mut accounts: Value) -> TestChain {
    accounts[SENDER.to_string()] = json!({ "balance": "0xde0b6b3a7640000" });
    let genesis = json!({ "config": rules.config(), "gasLimit": "0x1c9c380", "alloc": accounts });
    TestChain::new(&genesis)
}

/// Returns a transaction of the sender, without a signature.
fn transaction(to: TxKind, input: &[u8], gas_limit: u64) -> RecoveredTx {
    let tx = TxLegacy {
        gas_price: 10,
        gas_limit,
        to,
        input: Bytes::copy_from_slice(input),
        ..TxLegacy::default()
    };
    RecoveredTx {
        raw: Bytes::new(),
        tx: Transaction::from(tx.into_signed(Signature::test_signature())),
        hash: B256::with_last_byte(1),
        sender: SENDER,
        high_s: false,
        authorities: OnceLock::new(),
        cosmos: None,
    }
}

/// Returns the JSON that one of geth's tracers returns for a call of [`CONTRACT`] on a chain with these accounts.
fn call(rules: Rules, accounts: Value, tracer: &str, config: Value) -> Value {
    let tx = transaction(TxKind::Call(CONTRACT), &[], 200_000);
    chain(rules, accounts).geth_trace(&rules.header(), &tx, tracer, &config).unwrap()
}

/// Returns the JSON that the `trace_` methods return for the call.
fn parity_call(rules: Rules, accounts: Value, kind: TraceType) -> Value {
    let tx = transaction(TxKind::Call(CONTRACT), &[], 200_000);
    let tracer = ParityTracer(HashSet::from_iter([kind]));
    let trace = chain(rules, accounts).trace(&rules.header(), &tx, tracer).unwrap();
    serde_json::to_value(trace).unwrap()
}
