//! Executes one block, transaction by transaction.
//!
//! [`execute_block`] executes an imported block and refuses it at the first invalid transaction.
//! [`BlockBuilder`] tries transactions and keeps the valid ones. Both use the same engine, so importing a
//! produced block gives the same result.

use std::{borrow::Borrow, error::Error};

use alloy_consensus::{Header, Transaction as _, Typed2718};
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS, eip4895::Withdrawal,
    eip7685::Requests,
};
use alloy_evm::{
    FromRecoveredTx,
    eth::dao_fork::{DAO_HARDFORK_ACCOUNTS, DAO_HARDFORK_BENEFICIARY},
};
use alloy_primitives::{Address, B256, Bytes, Log, U256};
use revm::{
    Database,
    context::TxEnv,
    context_interface::result::{EVMError, ExecutionResult},
};
use storage::{GovernanceRow, ReceiptOutcome, StateChanges, StateRead, StoredReceipt, prefetch};

use super::{
    BlockHashes, ExecutionError, StateError, TxError,
    access_predictor::{AccessPredictor, CalldataWords},
    cosmos::session,
    deferred_parent_hash::{PARENT_UNKNOWN, ParentUnknown, is_history_code, parent_slot},
    environment::Environment,
    machine::{Machine, MachineError},
    overlay::Overlay,
    requests,
    rewards::rewards,
    transfer_fast_path,
};
use chain::{ChainSpec, Fork, Rules};
use feemarket::store::StoredEvent;
use modules::{
    Modules,
    decorator::{self, Admitted, CheckContext, Mode, Reject, Sender, has_code},
    gov::{Governance, Session},
};
use transactions::{RecoveredTx, named};
use transactions::{
    Update,
    cosmos::{CosmosTx, Refusal, TX_TYPE},
};

/// How many transactions ahead of the executed one memory is prefetched.
const PREFETCH_DISTANCE: usize = 8;

/// The input of the executor: a decoded block with known senders and a checked header.
#[derive(Clone, Copy, Debug)]
pub struct BlockInput<'a, T> {
    /// The complete header.
    pub header: &'a Header,
    /// The transactions in order.
    pub transactions: &'a [T],
    /// Headers of the ommers, for their rewards.
    pub ommers: &'a [Header],
    /// Withdrawals; absent before Shanghai.
    pub withdrawals: Option<&'a [Withdrawal]>,
}

/// The result of executing a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// One receipt per transaction, in order.
    pub receipts: Vec<StoredReceipt>,
    /// Gas used by each transaction.
    pub tx_gas: Vec<u64>,
    /// Sender of each transaction.
    pub senders: Vec<Address>,
    /// The participants of the transactions, see [`named`].
    pub named: Vec<Address>,
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Gas limits of all transactions, as counted by the fee market.
    pub gas_wanted: u64,
    /// Blob gas used by all transactions.
    pub blob_gas_used: u64,
    /// Requests to the consensus layer (EIP-7685); empty before Prague.
    pub requests: Requests,
    /// The differences from the parent's state.
    pub changes: StateChanges,
    /// New parameters of modules that were decided in the block, in order. Each is one that
    /// [`Modules::update`] accepts.
    pub updates: Vec<Update>,
    /// Governance after the block and the rows to store of it, if the block changed it.
    pub gov: Option<(Governance, Vec<GovernanceRow>)>,
    /// Events of Cosmos transactions and of governance, in order.
    pub events: Vec<StoredEvent>,
}

/// Computes the state root after `changes` to the parent's state.
pub type StateRoot<'a> = dyn Fn(&StateChanges) -> Result<B256, StateError> + 'a;

/// Executes a whole block on its parent's state.
///
/// `state_root` is called after each transaction before Byzantium, whose receipts contain state roots, and
/// never since. For `modules` see [`BlockBuilder::start`]. The result is not compared with the header; see
/// [`super::validate_executed`].
///
/// # Errors
/// The first transaction that is not valid, a system contract that failed, or a failed read.
pub fn execute_block<S, T: Borrow<RecoveredTx>>(
    spec: &ChainSpec,
    state: &S,
    hashes: &dyn BlockHashes,
    state_root: &StateRoot<'_>,
    modules: Option<&Modules>,
    input: &BlockInput<'_, T>,
) -> Result<Executed, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut block = BlockBuilder::start(spec, state, hashes, modules, input.header)?;
    block.expect(input.transactions)?;
    for (index, tx) in input.transactions.iter().map(Borrow::borrow).enumerate() {
        block.approach(input.transactions, index);
        block.push(tx, state_root)?.map_err(|reason| ExecutionError::Transaction {
            number: input.header.number,
            index,
            hash: tx.hash,
            reason,
        })?;
    }
    block.finish(input.ommers, input.withdrawals)
}

/// Executes one transaction on `state`, without what a block does before and after its transactions.
///
/// # Errors
/// The outer error is a failed read; the inner one says why the transaction is not valid.
pub fn execute_transaction<S>(
    spec: &ChainSpec,
    state: &S,
    hashes: &dyn BlockHashes,
    header: &Header,
    tx: &RecoveredTx,
) -> Result<Result<Executed, TxError>, ExecutionError>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let mut block = BlockBuilder::new(spec, state, hashes, None, header);
    // No receipt leaves this function, so its state root does not matter.
    Ok(block.push(tx, &|_| Ok(B256::ZERO))?.map(|_| block.into_executed()))
}

/// Sender and recipient. A creation has no recipient; the sender is returned twice.
fn sender_and_recipient(tx: &RecoveredTx) -> [Address; 2] {
    [tx.sender, tx.tx.to().unwrap_or(tx.sender)]
}

/// The words of a transaction's call, for access prediction.
fn calldata_words(tx: &RecoveredTx) -> CalldataWords<'_> {
    CalldataWords { sender: tx.sender, input: tx.tx.input() }
}

/// Prefetches the transaction at `at`, if there is one.
fn prefetch_tx<T: Borrow<RecoveredTx>>(txs: &[T], at: usize) {
    if let Some(tx) = txs.get(at) {
        prefetch(tx.borrow());
    }
}

/// A block under construction.
#[derive(Debug)]
pub struct BlockBuilder<'a, S, I = ()>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    pub(super) spec: &'a ChainSpec,
    pub(super) number: u64,
    pub(super) environment: Environment,
    pub(super) machine: Machine<'a, S, I>,
    /// On a native chain: what its transactions are checked against.
    checks: Option<CheckContext<'a>>,
    /// On a native chain: governance in this block.
    pub(super) gov: Option<Session<'a>>,
    pub(super) executed: Executed,
    /// Positions of sender and recipient of each preloaded transaction.
    ends: Vec<[u32; 2]>,
    /// Predicts the slots that they will access.
    predictor: AccessPredictor,
    /// Disables the transfer fast path.
    interpret_all: bool,
}

/// The outcome of a transaction.
struct Done {
    gas: u64,
    success: bool,
    logs: Vec<Log>,
}

impl<'a, S> BlockBuilder<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Starts a block and applies what precedes its first transaction: the system calls of EIP-4788 and
    /// EIP-2935, and the DAO fork. Only the header fields that transactions can observe matter, and not gas
    /// used, roots or bloom.
    ///
    /// `modules` are those of a native chain at the beginning of the block. With them, transactions are
    /// checked and charged by the rules of the chain; without, they run as if alone.
    ///
    /// # Errors
    /// When state cannot be read.
    pub fn start(
        spec: &'a ChainSpec,
        state: &'a S,
        hashes: &'a dyn BlockHashes,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Result<Self, ExecutionError> {
        let mut block = Self::new(spec, state, hashes, modules, header);
        block.begin(header)?;
        Ok(block)
    }

    /// [`Self::start`] before the parent's hash is known. The header contains [`PARENT_UNKNOWN`] instead of
    /// the hash, and `hashes` fail when it is requested. Complete the changes with [`put_parent_hash`].
    ///
    /// # Errors
    /// [`ParentUnknown`] if the code of the history contract is not that of EIP-2935; or as [`Self::start`].
    ///
    /// [`put_parent_hash`]: super::put_parent_hash
    pub fn start_early(
        spec: &'a ChainSpec,
        state: &'a S,
        hashes: &'a dyn BlockHashes,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Result<Self, ExecutionError> {
        debug_assert_eq!(header.parent_hash, PARENT_UNKNOWN);
        let mut block = Self::start(spec, state, hashes, modules, header)?;
        if block.environment.fork >= Fork::Prague {
            block.hide_parent_hash().map_err(|source| block.state_error(source))?;
        }
        Ok(block)
    }

    /// Makes reads of the placeholder fail that was written to the history contract instead of the parent's
    /// hash.
    fn hide_parent_hash(&mut self) -> Result<(), StateError> {
        let overlay = self.machine.overlay_mut();
        let Some(contract) = overlay.account(HISTORY_STORAGE_ADDRESS)? else { return Ok(()) };
        if has_code(&contract) && !is_history_code(contract.code_hash) {
            return Err(ParentUnknown.into());
        }
        overlay.hide_slot(HISTORY_STORAGE_ADDRESS, parent_slot(self.number));
        Ok(())
    }

    fn new(
        spec: &'a ChainSpec,
        state: &'a S,
        hashes: &'a dyn BlockHashes,
        modules: Option<&'a Modules>,
        header: &Header,
    ) -> Self {
        let mut environment = Environment::new(spec, modules, header);
        environment.charge_shares(modules);
        let checks = modules.map(|_| CheckContext::of_block(spec, modules, header));
        let overlay = Overlay::new(state, hashes, environment.fork < Fork::SpuriousDragon);
        let block = Self::over(spec, overlay, environment, header.number, ());
        Self { checks, gov: session(spec, modules, header), ..block }
    }
}

impl<'a, S, I> BlockBuilder<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// A block on an existing overlay, under an inspector.
    pub(super) fn over(
        spec: &'a ChainSpec,
        overlay: Overlay<'a, S>,
        environment: Environment,
        number: u64,
        inspector: I,
    ) -> Self {
        let machine = Machine::new(
            overlay,
            environment.cfg.clone(),
            environment.block.clone(),
            environment.fork,
            environment.native.clone(),
            inspector,
        );
        Self {
            spec,
            number,
            environment,
            machine,
            checks: None,
            gov: None,
            executed: Executed::default(),
            ends: Vec::new(),
            predictor: AccessPredictor::default(),
            interpret_all: false,
        }
    }

    pub(super) fn begin(&mut self, header: &Header) -> Result<(), ExecutionError> {
        if self.spec.dao_fork() == Some((self.number, true)) {
            self.apply_dao_fork().map_err(|source| self.state_error(source))?;
        }
        if let Some(root) = header.parent_beacon_block_root
            && self.environment.fork >= Fork::Cancun
        {
            self.silent_call(BEACON_ROOTS_ADDRESS, root)?;
        }
        if self.environment.fork >= Fork::Prague {
            self.silent_call(HISTORY_STORAGE_ADDRESS, header.parent_hash)?;
        }
        Ok(())
    }

    /// EIP-779: moves the balances of the DAO and its children to the refund contract.
    fn apply_dao_fork(&mut self) -> Result<(), StateError> {
        let overlay = self.machine.overlay_mut();
        let mut total = U256::ZERO;
        for address in DAO_HARDFORK_ACCOUNTS {
            total += overlay.drain(address)?;
        }
        overlay.credit(DAO_HARDFORK_BENEFICIARY, total)
    }

    /// A system call whose failure, or whose missing contract, is ignored (EIP-4788, EIP-2935).
    fn silent_call(&mut self, contract: Address, data: B256) -> Result<(), ExecutionError> {
        if self.number == 0 {
            return Ok(());
        }
        let data = Bytes::copy_from_slice(data.as_slice());
        self.machine.system_call(contract, data).map_err(|error| self.fatal(error))?;
        Ok(())
    }

    /// Prepares for transactions that will probably be pushed: reserves memory, and reads their senders,
    /// recipients and predicted slots together.
    ///
    /// # Errors
    /// When state cannot be read.
    pub fn expect<T: Borrow<RecoveredTx>>(&mut self, txs: &[T]) -> Result<(), ExecutionError> {
        self.executed.receipts.reserve(txs.len());
        self.executed.tx_gas.reserve(txs.len());
        self.executed.senders.reserve(txs.len());
        self.executed.named.reserve(txs.len());
        let mut ends = Vec::with_capacity(2 * txs.len());
        let mut calls = Vec::new();
        for (at, tx) in txs.iter().map(Borrow::borrow).enumerate() {
            prefetch_tx(txs, at + PREFETCH_DISTANCE);
            ends.extend(sender_and_recipient(tx));
            if tx.tx.to().is_some() && !tx.tx.input().is_empty() {
                prefetch(tx.tx.input().as_ref());
                calls.push(at as u32);
            }
        }
        let positions =
            self.machine.overlay_mut().preload(&ends).map_err(|source| self.state_error(source))?;
        self.ends = positions.as_chunks().0.to_vec();
        self.preload_predicted_slots(txs, &calls).map_err(|source| self.state_error(source))
    }

    /// Reads the slots that these transactions, which are calls, will probably access.
    fn preload_predicted_slots<T: Borrow<RecoveredTx>>(
        &mut self,
        txs: &[T],
        calls: &[u32],
    ) -> Result<(), StateError> {
        let call = |at: u32| {
            let tx: &RecoveredTx = txs[at as usize].borrow();
            let [_, position] = self.ends[at as usize];
            (position, tx.tx.to().unwrap_or_default(), calldata_words(tx))
        };
        for predicted in self.predictor.predict(calls, call) {
            self.machine.use_known_hashes();
            let (address, position) = predicted.contract;
            let overlay = self.machine.overlay_mut();
            let positions = overlay.preload_slots(address, position, &predicted.slots)?;
            self.predictor.record(txs.len(), &predicted, &positions);
        }
        Ok(())
    }

    /// Prepares for the preloaded transaction at `at`, which will be pushed next, and prefetches the data of
    /// the following ones.
    pub fn approach<T: Borrow<RecoveredTx>>(&mut self, txs: &[T], at: usize) {
        let overlay = self.machine.overlay_mut();
        let met = overlay.touched_accounts();
        if let Some(ends) = self.ends.get(at + PREFETCH_DISTANCE) {
            prefetch_tx(txs, at + PREFETCH_DISTANCE);
            ends.iter().for_each(|position| met.prefetch(*position));
            let slots = self.predictor.positions(at + PREFETCH_DISTANCE);
            if let Some(met) = met.at(ends[1]).touched_slots_mut().filter(|_| !slots.is_empty()) {
                slots.iter().for_each(|position| met.prefetch(*position));
            }
        }
        if let Some(tx) = txs.get(at + PREFETCH_DISTANCE / 2) {
            prefetch(tx.borrow().tx.input().as_ref());
        }
        if let Some([sender, to]) = self.ends.get(at) {
            let [from, receiver] = sender_and_recipient(txs[at].borrow());
            met.prepare_tx([(from, *sender), (receiver, *to)]);
            overlay.prepare_tx_slots(*to, &self.predictor, at, calldata_words(txs[at].borrow()));
        }
    }

    /// Gas left in the block.
    pub const fn gas_left(&self) -> u64 {
        self.environment.block.gas_limit.saturating_sub(self.executed.gas_used)
    }

    /// Gas used by the transactions so far.
    pub const fn gas_used(&self) -> u64 {
        self.executed.gas_used
    }

    /// Number of transactions so far.
    pub const fn len(&self) -> usize {
        self.executed.receipts.len()
    }

    /// Whether the block has no transaction yet.
    pub const fn is_empty(&self) -> bool {
        self.executed.receipts.is_empty()
    }

    /// Executes a transaction and returns its gas, or the reason why it is not valid here. The block is
    /// unchanged in that case.
    ///
    /// For `state_root` see [`execute_block`].
    ///
    /// # Errors
    /// The outer error is fatal: a read failed, and the block cannot continue.
    pub fn push(
        &mut self,
        tx: &RecoveredTx,
        state_root: &StateRoot<'_>,
    ) -> Result<Result<u64, TxError>, ExecutionError> {
        if let Err(reason) = self.admit(tx) {
            return Ok(Err(reason));
        }
        let admitted = match self.deliver(tx).map_err(|source| self.state_error(source))? {
            Ok(admitted) => admitted,
            Err(reject) => return Ok(Err(reject.into())),
        };
        if let Some(cosmos) = &tx.cosmos {
            return self.push_cosmos(tx, cosmos, admitted, state_root);
        }
        let gas = match self.transfer(tx).map_err(|source| self.state_error(source))? {
            Some(gas) => {
                let done = Done { gas, success: true, logs: Vec::new() };
                self.record(tx.tx.ty(), 0, done, state_root)?
            }
            None => match self.machine.transact(TxEnv::from_recovered_tx(&tx.tx, tx.sender)) {
                Ok(result) => {
                    self.learn(tx);
                    self.account(tx.tx.ty(), tx.blob_gas(), result, state_root)?
                }
                Err(EVMError::Transaction(reason)) => return Ok(Err(TxError::Invalid(reason))),
                Err(error) => return Err(self.fatal(error)),
            },
        };
        self.count_wanted(admitted);
        self.name(tx);
        Ok(Ok(gas))
    }

    /// Extends the access pattern of the called function if the call read slots that were not predicted.
    fn learn(&mut self, tx: &RecoveredTx) {
        let asked = self.machine.overlay().unpredicted_reads();
        if let Some(contract) = tx.tx.to().filter(|_| !asked.is_empty()) {
            self.predictor.learn(contract, calldata_words(tx), asked);
        }
    }

    /// Records the participants of a transaction now, while it is in the caches.
    fn name(&mut self, tx: &RecoveredTx) {
        self.executed.senders.push(tx.sender);
        self.executed.named.extend(named(&tx.tx, tx.sender, tx.cosmos.as_deref()));
    }

    /// Tries the messages of a Cosmos transaction without checking signature, fee and sequence; returns the
    /// gas it would use, and its events.
    ///
    /// # Errors
    /// The outer error is a failed read.
    pub fn try_cosmos(
        &mut self,
        cosmos: &CosmosTx,
    ) -> Result<Result<(u64, Vec<StoredEvent>), Refusal>, ExecutionError> {
        let done =
            self.run_messages(&cosmos.messages).map_err(|source| self.state_error(source))?;
        Ok(done.map(|events| (cosmos.gas_used(), events)))
    }

    /// [`Self::push`] of an admitted Cosmos transaction.
    fn push_cosmos(
        &mut self,
        tx: &RecoveredTx,
        cosmos: &CosmosTx,
        admitted: Option<Admitted>,
        state_root: &StateRoot<'_>,
    ) -> Result<Result<u64, TxError>, ExecutionError> {
        let succeeded = match self.run_cosmos(cosmos).map_err(|source| self.state_error(source))? {
            Ok(succeeded) => succeeded,
            Err(reason) => return Ok(Err(reason)),
        };
        self.count_wanted(admitted);
        let gas = cosmos.gas_used();
        let done = Done { gas, success: succeeded, logs: Vec::new() };
        self.record(TX_TYPE, 0, done, state_root)?;
        self.name(tx);
        Ok(Ok(gas))
    }

    fn count_wanted(&mut self, admitted: Option<Admitted>) {
        if let (Some(checks), Some(admitted)) = (&mut self.checks, admitted) {
            checks.gas_wanted = admitted.gas_wanted;
            self.executed.gas_wanted = admitted.gas_wanted.get();
        }
    }

    /// Disables the transfer fast path, so that the interpreter executes every transaction. It is the oracle
    /// of the fast path in tests.
    #[must_use]
    pub fn interpreted(self) -> Self {
        Self { interpret_all: true, ..self }
    }

    /// Executes a plain transfer on the fast path; `None` if the interpreter must execute it.
    fn transfer(&mut self, tx: &RecoveredTx) -> Result<Option<u64>, StateError> {
        if self.interpret_all {
            return Ok(None);
        }
        transfer_fast_path::transfer(self.machine.overlay_mut(), &self.environment, tx)
    }

    /// Adds the outcome of a transaction to the block; returns its gas.
    pub(super) fn account(
        &mut self,
        tx_type: u8,
        blob_gas: u64,
        result: ExecutionResult,
        state_root: &StateRoot<'_>,
    ) -> Result<u64, ExecutionError> {
        let (gas, success) = (result.tx_gas_used(), result.is_success());
        let done = Done { gas, success, logs: result.into_logs() };
        self.record(tx_type, blob_gas, done, state_root)
    }

    fn record(
        &mut self,
        tx_type: u8,
        blob_gas: u64,
        done: Done,
        state_root: &StateRoot<'_>,
    ) -> Result<u64, ExecutionError> {
        let Done { gas, success, logs } = done;
        self.executed.gas_used += gas;
        self.executed.blob_gas_used += blob_gas;
        self.executed.tx_gas.push(gas);
        let outcome = if self.environment.fork >= Fork::Byzantium {
            ReceiptOutcome::Status(success)
        } else {
            let root = state_root(&self.machine.overlay().changes());
            ReceiptOutcome::PostState(root.map_err(|source| self.state_error(source))?)
        };
        self.executed.receipts.push(StoredReceipt {
            tx_type,
            outcome,
            cumulative_gas_used: self.executed.gas_used,
            logs,
        });
        Ok(gas)
    }

    /// The machine the block runs on.
    pub(super) const fn machine_mut(&mut self) -> &mut Machine<'a, S, I> {
        &mut self.machine
    }

    /// Rules that the interpreter does not check: signatures and the block's limits.
    fn admit(&self, tx: &RecoveredTx) -> Result<(), TxError> {
        if tx.high_s && self.environment.fork >= Fork::Homestead {
            return Err(TxError::HighS);
        }
        if tx.tx.is_legacy()
            && tx.tx.chain_id().is_some()
            && !self.spec.replay_protection(self.number)
        {
            return Err(TxError::ReplayProtected);
        }
        if tx.tx.is_eip4844() && self.spec.rules == Rules::Native {
            return Err(TxError::BlobsRefused);
        }
        let (limit, available) = (tx.tx.gas_limit(), self.gas_left());
        if limit > available {
            return Err(TxError::BlockGas { limit, available });
        }
        let wanted = tx.blob_gas();
        let available = self.environment.blob_gas_limit.saturating_sub(self.executed.blob_gas_used);
        if wanted > available && self.environment.fork >= Fork::Cancun {
            return Err(TxError::BlockBlobGas { wanted, available });
        }
        Ok(())
    }

    /// The native chain's checks on the current state of the block; `None` on an Ethereum chain.
    fn deliver(
        &mut self,
        tx: &RecoveredTx,
    ) -> Result<Result<Option<Admitted>, Reject>, StateError> {
        let Some(checks) = &self.checks else { return Ok(Ok(None)) };
        let overlay = self.machine.overlay_mut();
        let account = overlay.account(tx.sender)?.unwrap_or_default();
        let may_send = !has_code(&account) || overlay.code_by_hash(account.code_hash)?.is_eip7702();
        let sender = Sender { account, may_send };
        Ok(decorator::check_sender(tx, checks, &sender, Mode::Deliver).map(Some))
    }

    /// Ends the block: requests of EIP-6110, 7002 and 7251, rewards, withdrawals.
    ///
    /// # Errors
    /// A system contract that failed, a deposit that cannot be read, or a failed state read.
    pub fn finish(
        mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<Executed, ExecutionError> {
        self.end(ommers, withdrawals)?;
        Ok(self.into_executed())
    }

    /// [`Self::finish`] for a block that is followed by another one on the same overlay. The changes are
    /// those of all blocks so far.
    pub(super) fn finish_and_go_on(
        mut self,
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(Executed, Overlay<'a, S>), ExecutionError> {
        self.end(&[], withdrawals)?;
        self.executed.changes = self.machine.overlay().changes();
        Ok((self.executed, self.machine.into_overlay()))
    }

    pub(super) fn end(
        &mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(), ExecutionError> {
        if self.environment.fork >= Fork::Prague {
            self.executed.requests = requests::collect(
                &mut self.machine,
                self.number,
                self.spec.deposit_contract,
                &self.executed.receipts,
            )?;
        }
        self.end_governance().map_err(|source| self.state_error(source))?;
        self.pay(ommers, withdrawals).map_err(|source| self.state_error(source))
    }

    pub(super) fn into_executed(mut self) -> Executed {
        self.executed.changes = self.machine.overlay().changes();
        self.executed
    }

    fn pay(
        &mut self,
        ommers: &[Header],
        withdrawals: Option<&[Withdrawal]>,
    ) -> Result<(), StateError> {
        let (fork, number) = (self.environment.fork, self.number);
        let beneficiary = self.environment.block.beneficiary;
        let overlay = self.machine.overlay_mut();
        if fork < Fork::Paris {
            let rewards = rewards(fork, number, ommers);
            for (ommer, reward) in ommers.iter().zip(rewards.ommers) {
                overlay.credit(ommer.beneficiary, U256::from(reward))?;
            }
            overlay.credit(beneficiary, U256::from(rewards.beneficiary))?;
        }
        for withdrawal in withdrawals.unwrap_or_default() {
            overlay.credit(withdrawal.address, withdrawal.amount_wei())?;
        }
        Ok(())
    }

    const fn state_error(&self, source: StateError) -> ExecutionError {
        ExecutionError::State { number: self.number, source }
    }

    fn fatal(&self, error: MachineError) -> ExecutionError {
        fatal(self.number, error)
    }
}

/// An error of the interpreter that is not about the transaction.
pub(super) fn fatal(number: u64, error: MachineError) -> ExecutionError {
    match error {
        EVMError::Database(source) => ExecutionError::State { number, source },
        error => ExecutionError::Interpreter { number, reason: error.to_string() },
    }
}

/// The output of a system call, if it succeeded.
pub(super) fn succeeded(result: ExecutionResult) -> Option<Bytes> {
    match result {
        ExecutionResult::Success { output, .. } => Some(output.into_data()),
        _ => None,
    }
}
