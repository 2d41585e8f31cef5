//! Transactions on small chains in memory, traced by the code that serves `debug_` and `trace_`.

mod recorded;

use super::{GethTracer, Tracer};
use crate::{
    chain::{ChainSpec, Genesis},
    execution::{RecoveredTx, StateError, TraceError, TracedBlock},
};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible};
use storage::{Account, AccountChange, StateChanges, StateRead};

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

/// A chain of which there is only the state after its genesis.
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

    /// The trace of the only transaction of a block with this header.
    fn trace<T>(&self, header: &Header, tx: &RecoveredTx, tracer: T) -> Result<T::Trace, TraceError>
    where
        T: Tracer<GenesisState>,
    {
        let (hashes, hash) = (|_: u64| None, header.hash_slow());
        let (spec, state) = (&self.spec, &self.state);
        let mut block = TracedBlock::start(spec, state, &hashes, header, hash, None, tracer)?;
        block.trace(tx, &|_: &StateChanges| Ok::<_, StateError>(B256::ZERO))
    }

    /// [`Self::trace`] by one of geth's tracers, as JSON.
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
