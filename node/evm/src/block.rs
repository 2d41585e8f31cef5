//! One block, transaction by transaction.
//!
//! [`execute_block`] runs a given block and refuses it at the first transaction that is not valid;
//! [`BlockBuilder`] tries transactions and keeps those that are. Both are the same engine, so a
//! block that was built executes the same.

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
    access_predictor::{Foresight, Words},
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

/// Transactions between asking for one's memory and executing it.
const TXS_AHEAD: usize = 8;

/// A block as the executor takes it: decoded, its senders known, its header checked.
#[derive(Clone, Copy, Debug)]
pub struct BlockInput<'a, T> {
    /// The header, all of it.
    pub header: &'a Header,
    /// The transactions in order.
    pub transactions: &'a [T],
    /// Headers of the ommers, for their rewards.
    pub ommers: &'a [Header],
    /// Withdrawals; absent before Shanghai.
    pub withdrawals: Option<&'a [Withdrawal]>,
}

/// What a block did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// One receipt a transaction, in order.
    pub receipts: Vec<StoredReceipt>,
    /// Gas used by each transaction.
    pub tx_gas: Vec<u64>,
    /// Sender of each transaction.
    pub senders: Vec<Address>,
    /// Whom the transactions name, see [`named`].
    pub named: Vec<Address>,
    /// Gas used by all transactions.
    pub gas_used: u64,
    /// Gas limits of all transactions, as far as the fee market counts them.
    pub gas_wanted: u64,
    /// Blob gas used by all transactions.
    pub blob_gas_used: u64,
    /// Requests to the consensus layer (EIP-7685); empty before Prague.
    pub requests: Requests,
    /// What changed against the parent's state.
    pub changes: StateChanges,
    /// New parameters of modules that were decided in the block, in order. Each is one that
    /// [`Modules::update`] accepts.
    pub updates: Vec<Update>,
    /// Governance after the block and the rows to store of it, if the block changed it.
    pub gov: Option<(Governance, Vec<GovernanceRow>)>,
    /// Events of Cosmos transactions and of governance, in order.
    pub events: Vec<StoredEvent>,
}

/// Gives the state root after `changes` to the parent's state.
pub type StateRoot<'a> = dyn Fn(&StateChanges) -> Result<B256, StateError> + 'a;

/// Executes a whole block on its parent's state.
///
/// `state_root` is asked after each transaction before Byzantium, whose receipts carry roots, and
/// never later. `modules` as in [`BlockBuilder::start`]. The result is not compared with the
/// header; see [`super::validate_executed`].
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

/// Executes one transaction alone on `state`, without what a block does before and after.
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
    // No receipt leaves this function with its root, which would be that of a block.
    Ok(block.push(tx, &|_| Ok(B256::ZERO))?.map(|_| block.into_executed()))
}

/// Sender and recipient; where there is none, the sender twice.
fn ends_of(tx: &RecoveredTx) -> [Address; 2] {
    [tx.sender, tx.tx.to().unwrap_or(tx.sender)]
}

/// What a transaction's call brings along.
fn words(tx: &RecoveredTx) -> Words<'_> {
    Words { sender: tx.sender, input: tx.tx.input() }
}

/// Has a transaction brought into the caches, if there is one at `at`.
fn prefetch_tx<T: Borrow<RecoveredTx>>(txs: &[T], at: usize) {
    if let Some(tx) = txs.get(at) {
        prefetch(tx.borrow());
    }
}

/// A block being put together.
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
    /// Places of the accounts at both ends of the transactions expected.
    ends: Vec<[u32; 2]>,
    /// Slots they will ask for.
    foresight: Foresight,
    /// Nothing goes the short way.
    interpret_all: bool,
}

/// What became of a transaction.
struct Done {
    gas: u64,
    success: bool,
    logs: Vec<Log>,
}

impl<'a, S> BlockBuilder<'a, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Starts a block: what the header says before its first transaction happens here (system
    /// calls of EIP-4788 and EIP-2935, the DAO fork). Of the header only what transactions can see
    /// matters, not gas used, roots or bloom.
    ///
    /// `modules` are a native chain's at the beginning of the block: with them, transactions pass
    /// the chain's checks and are charged by its rules; without, they run as if alone.
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

    /// [`Self::start`] before the parent's hash is known; the header has [`PARENT_UNKNOWN`] in its
    /// place, and `hashes` fail when asked for it. Then [`put_parent_hash`] completes the changes.
    ///
    /// # Errors
    /// [`ParentUnknown`] where the history contract is not that of EIP-2935; or as [`Self::start`].
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

    /// Nobody may see the hash that the history contract was just told.
    fn hide_parent_hash(&mut self) -> Result<(), StateError> {
        let overlay = self.machine.overlay_mut();
        let Some(contract) = overlay.account(HISTORY_STORAGE_ADDRESS)? else { return Ok(()) };
        if has_code(&contract) && !is_history_code(contract.code_hash) {
            return Err(ParentUnknown.into());
        }
        overlay.hide(HISTORY_STORAGE_ADDRESS, parent_slot(self.number));
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
    /// A block on what an overlay holds, under an inspector.
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
            foresight: Foresight::default(),
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

    /// A system call whose failure, or lack of a contract, means nothing (EIP-4788, EIP-2935).
    fn silent_call(&mut self, contract: Address, data: B256) -> Result<(), ExecutionError> {
        if self.number == 0 {
            return Ok(());
        }
        let data = Bytes::copy_from_slice(data.as_slice());
        self.machine.system_call(contract, data).map_err(|error| self.fatal(error))?;
        Ok(())
    }

    /// Makes room for transactions that will probably be pushed, and reads at once the accounts at both
    /// ends of all of them, and the slots that calls of contracts are known to ask for.
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
            prefetch_tx(txs, at + TXS_AHEAD);
            ends.extend(ends_of(tx));
            if tx.tx.to().is_some() && !tx.tx.input().is_empty() {
                prefetch(tx.tx.input().as_ref());
                calls.push(at as u32);
            }
        }
        let places =
            self.machine.overlay_mut().expect(&ends).map_err(|source| self.state_error(source))?;
        self.ends = places.as_chunks().0.to_vec();
        self.foresee(txs, &calls).map_err(|source| self.state_error(source))
    }

    /// Reads the slots that these transactions, which call something, will ask for.
    fn foresee<T: Borrow<RecoveredTx>>(
        &mut self,
        txs: &[T],
        calls: &[u32],
    ) -> Result<(), StateError> {
        let call = |at: u32| {
            let tx: &RecoveredTx = txs[at as usize].borrow();
            let [_, place] = self.ends[at as usize];
            (place, tx.tx.to().unwrap_or_default(), words(tx))
        };
        for foreseen in self.foresight.of(calls, call) {
            self.machine.know_hashes();
            let (address, place) = foreseen.contract;
            let overlay = self.machine.overlay_mut();
            let places = overlay.expect_slots(address, place, &foreseen.slots)?;
            self.foresight.found(txs.len(), &foreseen, &places);
        }
        Ok(())
    }

    /// Of the transactions expected, the one at `at` will be pushed next: what it needs is made ready,
    /// and those after it are brought into the caches.
    pub fn approach<T: Borrow<RecoveredTx>>(&mut self, txs: &[T], at: usize) {
        let overlay = self.machine.overlay_mut();
        let met = overlay.met();
        if let Some(ends) = self.ends.get(at + TXS_AHEAD) {
            prefetch_tx(txs, at + TXS_AHEAD);
            ends.iter().for_each(|place| met.prefetch(*place));
            let slots = self.foresight.places(at + TXS_AHEAD);
            if let Some(met) = met.at(ends[1]).slots_met().filter(|_| !slots.is_empty()) {
                slots.iter().for_each(|place| met.prefetch(*place));
            }
        }
        if let Some(tx) = txs.get(at + TXS_AHEAD / 2) {
            prefetch(tx.borrow().tx.input().as_ref());
        }
        if let Some([sender, to]) = self.ends.get(at) {
            let [from, receiver] = ends_of(txs[at].borrow());
            met.bring_near([(from, *sender), (receiver, *to)]);
            overlay.bring_slots_near(*to, &self.foresight, at, words(txs[at].borrow()));
        }
    }

    /// Gas that no transaction has used yet.
    pub const fn gas_left(&self) -> u64 {
        self.environment.block.gas_limit.saturating_sub(self.executed.gas_used)
    }

    /// Gas that the transactions taken so far have used.
    pub const fn gas_used(&self) -> u64 {
        self.executed.gas_used
    }

    /// Transactions taken so far.
    pub const fn len(&self) -> usize {
        self.executed.receipts.len()
    }

    /// Whether no transaction was taken so far.
    pub const fn is_empty(&self) -> bool {
        self.executed.receipts.is_empty()
    }

    /// Takes a transaction, giving its gas, or says why it is not valid here and now; the block is
    /// then as before.
    ///
    /// `state_root` as in [`execute_block`].
    ///
    /// # Errors
    /// The outer error is fatal: a read failed, the block cannot go on.
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

    /// Learns which slots calls like this one ask for, if it asked for some that nobody expected.
    fn learn(&mut self, tx: &RecoveredTx) {
        let asked = self.machine.overlay().asked();
        if let Some(contract) = tx.tx.to().filter(|_| !asked.is_empty()) {
            self.foresight.learn(contract, words(tx), asked);
        }
    }

    /// Remembers whom a transaction names, which is in the near caches now and not later.
    fn name(&mut self, tx: &RecoveredTx) {
        self.executed.senders.push(tx.sender);
        self.executed.named.extend(named(&tx.tx, tx.sender, tx.cosmos.as_deref()));
    }

    /// Tries the messages of a Cosmos transaction whose signature, fee and sequence do not matter;
    /// gives the gas it would use, and its events.
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

    /// [`Self::push`] of a Cosmos transaction that was admitted.
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

    /// Has the interpreter run every transaction, plain transfers too: the oracle of the short way.
    #[must_use]
    pub fn interpreted(self) -> Self {
        Self { interpret_all: true, ..self }
    }

    /// Runs a plain transfer the short way; `None` when the interpreter must.
    fn transfer(&mut self, tx: &RecoveredTx) -> Result<Option<u64>, StateError> {
        if self.interpret_all {
            return Ok(None);
        }
        transfer_fast_path::transfer(self.machine.overlay_mut(), &self.environment, tx)
    }

    /// Takes the outcome of a transaction into the block; gives its gas.
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

    /// The rules that the interpreter does not know: signatures and the block's limits.
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

    /// The native chain's checks, on the state as the block has it now; `None` elsewhere.
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

    /// [`Self::finish`] for a block that another one follows on the same overlay; the changes are
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

/// Whether a system call came to a good end, and with which output.
pub(super) fn succeeded(result: ExecutionResult) -> Option<Bytes> {
    match result {
        ExecutionResult::Success { output, .. } => Some(output.into_data()),
        _ => None,
    }
}
