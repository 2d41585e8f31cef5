//! Simulates blocks on the state of a real block (`eth_simulateV1`).
//!
//! The simulation follows execution-apis and, if it leaves a choice, geth: gaps in block numbers are filled with empty
//! blocks, and unless validation is requested, prices, nonces and the base fee are not checked.

use std::{cell::RefCell, collections::BTreeMap, error::Error};

use alloy_consensus::{
    Header, SignableTransaction, Signed, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    constants::EMPTY_WITHDRAWALS,
};
use alloy_eips::{
    eip2718::Encodable2718, eip4844::DATA_GAS_PER_BLOB, eip4895::Withdrawals,
    eip7685::EMPTY_REQUESTS_HASH,
};
use alloy_primitives::{Address, B256, Bytes, Log, Signature, TxKind, U256, keccak256};
use alloy_rlp::{Encodable, Header as RlpHeader};
use revm::{DatabaseCommit, context_interface::result::InvalidTransaction};
use storage::StateRead;

use super::{
    BlockBuilder, Call, CallError, CallOutcome, CallSite, ExecutionCaches, ExecutionError,
    ExecutionHost, StateError, StateRoot,
    account_override::AccountOverride,
    block::Outcome,
    call::{check_prices, machine_error, outcome, transaction},
    complete_header,
    environment::Environment,
    overlay::Overlay,
    overrides::{self, OverrideError},
    transfers::TransferLogs,
};
use chain::{
    ChainSpec, Fork,
    block::{Block, join},
    next_base_fee, next_excess_blob_gas,
};
use modules::Modules;
use transactions::Transaction;

/// Maximum number of simulated blocks, as in geth.
pub const MAX_SIMULATED_BLOCKS: u64 = 256;
/// Seconds between blocks whose timestamp is not given, as in geth.
const BLOCK_SECONDS: u64 = 12;

/// Overrides of a block. Absent fields are derived from the previous block or, in a call, taken from the call's block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockOverrides {
    /// Number.
    pub number: Option<u64>,
    /// Difficulty.
    pub difficulty: Option<U256>,
    /// Seconds since the epoch.
    pub time: Option<u64>,
    /// Gas limit.
    pub gas_limit: Option<u64>,
    /// Coinbase.
    pub fee_recipient: Option<Address>,
    /// The value that PREVRANDAO returns.
    pub prev_randao: Option<B256>,
    /// Base fee in wei.
    pub base_fee: Option<u64>,
    /// Price of blob gas in wei.
    pub blob_base_fee: Option<u128>,
    /// Parent beacon block root (EIP-4788).
    pub beacon_root: Option<B256>,
    /// Withdrawals.
    pub withdrawals: Option<Withdrawals>,
}

impl BlockOverrides {
    /// Applies the overrides to a header, except for the price of blob gas, which headers do not contain, and the
    /// fields that [`Self::beyond_header`] names.
    pub fn apply(&self, header: &mut Header) {
        header.number = self.number.unwrap_or(header.number);
        header.difficulty = self.difficulty.unwrap_or(header.difficulty);
        header.timestamp = self.time.unwrap_or(header.timestamp);
        header.gas_limit = self.gas_limit.unwrap_or(header.gas_limit);
        header.beneficiary = self.fee_recipient.unwrap_or(header.beneficiary);
        header.mix_hash = self.prev_randao.unwrap_or(header.mix_hash);
        header.base_fee_per_gas = self.base_fee.or(header.base_fee_per_gas);
    }

    /// Returns the name of a field that is set but meaningful only in a simulated block.
    pub const fn beyond_header(&self) -> Option<&'static str> {
        if self.beacon_root.is_some() {
            Some("beaconRoot")
        } else if self.withdrawals.is_some() {
            Some("withdrawals")
        } else {
            None
        }
    }
}

/// A block to simulate.
#[derive(Clone, Debug, Default)]
pub struct SimulateBlock {
    /// Overrides of its header and body.
    pub block: BlockOverrides,
    /// Account overrides applied before it.
    pub accounts: Vec<AccountOverride>,
    /// Its transactions.
    pub calls: Vec<Call>,
}

/// Options of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulateOptions {
    /// Whether ether transfers are added to the logs.
    pub trace_transfers: bool,
    /// Whether transactions must follow the rules of real transactions, except for signature and sender code.
    pub validation: bool,
    /// Maximum gas of all calls together.
    pub gas_cap: u64,
}

/// A simulated transaction.
#[derive(Clone, Debug)]
pub struct SimulatedCall {
    /// The transaction, without a valid signature.
    pub tx: Transaction,
    /// Its hash.
    pub hash: B256,
    /// The assumed sender.
    pub sender: Address,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Gas used.
    pub gas_used: u64,
    /// Gas used before refunds, or the floor of EIP-7623 if it is larger.
    pub max_used_gas: u64,
    /// Logs with their positions in the block, and ether transfers if requested.
    pub logs: Vec<(usize, Log)>,
}

/// A simulated block.
#[derive(Clone, Debug)]
pub struct SimulatedBlock {
    /// The block.
    pub block: Block,
    /// Its transactions.
    pub calls: Vec<SimulatedCall>,
}

/// Why blocks cannot be simulated.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// There are more blocks than [`MAX_SIMULATED_BLOCKS`], including those that fill gaps.
    #[error("too many blocks")]
    TooManyBlocks,
    /// Block numbers must increase.
    #[error("block numbers must be in order: {number} <= {previous}")]
    Number {
        /// The number of the block.
        number: u64,
        /// The number of the previous block.
        previous: u64,
    },
    /// Timestamps must increase.
    #[error("block timestamps must be in order: {time} <= {previous}")]
    Time {
        /// The timestamp of the block.
        time: u64,
        /// The timestamp of the previous block.
        previous: u64,
    },
    /// The gas limit of a call exceeds the gas left in the block.
    #[error("block gas limit reached: {used} >= {limit}")]
    BlockGas {
        /// Gas used so far.
        used: u64,
        /// The block's limit.
        limit: u64,
    },
    /// A call is not a valid transaction.
    #[error("{reason}")]
    Invalid {
        /// The reason.
        reason: InvalidTransaction,
        /// The sender of the call.
        sender: Address,
        /// The gas limit of the call.
        gas: u64,
    },
    /// The overrides are invalid.
    #[error(transparent)]
    Override(OverrideError),
    /// A block cannot be executed.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// A read failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The interpreter failed.
    #[error("interpreter: {0}")]
    Interpreter(String),
}

/// Hashes of simulated blocks, on top of those of real ones.
struct SimulatedHashes<'a> {
    below: &'a dyn ExecutionHost,
    new: RefCell<BTreeMap<u64, B256>>,
}

impl ExecutionHost for SimulatedHashes<'_> {
    fn block_hash(&self, number: u64) -> Result<Option<B256>, StateError> {
        let new = self.new.borrow();
        if let Some(hash) = new.get(&number) {
            return Ok(Some(*hash));
        }
        // The first entry is the real block on which the simulation builds.
        match new.first_key_value() {
            Some((base, _)) if number > *base => Ok(None),
            _ => self.below.block_hash(number),
        }
    }

    fn is_cancellable(&self) -> bool {
        self.below.is_cancellable()
    }

    fn is_cancelled(&self) -> bool {
        self.below.is_cancelled()
    }

    fn caches(&self) -> Option<&ExecutionCaches> {
        self.below.caches()
    }
}

impl<S> CallSite<'_, S>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    /// Executes blocks on top of this site's block, whose hash is `base_hash`. `state_root` computes the state root
    /// after changes to the site's state.
    ///
    /// # Errors
    /// If a block or a call is not valid, or a read fails. A revert is not an error.
    pub fn simulate(
        &self,
        base_hash: B256,
        state_root: &StateRoot<'_>,
        blocks: Vec<SimulateBlock>,
        options: SimulateOptions,
    ) -> Result<Vec<SimulatedBlock>, SimulateError> {
        let blocks = fill_gaps(self.header, blocks)?;
        let host = SimulatedHashes {
            below: self.host,
            new: RefCell::new(BTreeMap::from([(self.header.number, base_hash)])),
        };
        let mut overlay = Overlay::new(self.state, &host, false);
        let (mut parent, mut parent_hash) = (self.header.clone(), base_hash);
        let mut gas_left = options.gas_cap;
        let mut simulated = Vec::with_capacity(blocks.len());
        for wanted in &blocks {
            let header = draft(self.spec, &parent, parent_hash, &wanted.block, options.validation);
            let run =
                BlockRun { spec: self.spec, modules: self.modules, wanted, options, state_root };
            let (block, after) = run.run(overlay, header, &mut gas_left)?;
            overlay = after;
            parent = block.block.header.clone();
            parent_hash = block.block.hash;
            host.new.borrow_mut().insert(parent.number, parent_hash);
            simulated.push(block);
        }
        Ok(simulated)
    }
}

/// Sets the number and timestamp of every block, and inserts empty blocks for omitted numbers.
fn fill_gaps(
    base: &Header,
    blocks: Vec<SimulateBlock>,
) -> Result<Vec<SimulateBlock>, SimulateError> {
    let mut filled = Vec::with_capacity(blocks.len());
    let (mut previous, mut time) = (base.number, base.timestamp);
    for mut block in blocks {
        let number = block.block.number.unwrap_or(previous.saturating_add(1));
        if number <= previous {
            return Err(SimulateError::Number { number, previous });
        }
        if number - base.number > MAX_SIMULATED_BLOCKS {
            return Err(SimulateError::TooManyBlocks);
        }
        for gap in previous + 1..number {
            time = time.saturating_add(BLOCK_SECONDS);
            let block =
                BlockOverrides { number: Some(gap), time: Some(time), ..BlockOverrides::default() };
            filled.push(SimulateBlock { block, ..SimulateBlock::default() });
        }
        let next = block.block.time.unwrap_or(time.saturating_add(BLOCK_SECONDS));
        if next <= time {
            return Err(SimulateError::Time { time: next, previous: time });
        }
        (block.block.number, block.block.time) = (Some(number), Some(next));
        (previous, time) = (number, next);
        filled.push(block);
    }
    Ok(filled)
}

/// Returns the header of a simulated block, with the fields that are known before execution.
fn draft(
    spec: &ChainSpec,
    parent: &Header,
    parent_hash: B256,
    wanted: &BlockOverrides,
    validation: bool,
) -> Header {
    let mut header = Header {
        parent_hash,
        beneficiary: parent.beneficiary,
        difficulty: parent.difficulty,
        gas_limit: parent.gas_limit,
        ..Header::default()
    };
    wanted.apply(&mut header);
    let fork = spec.fork(header.number, header.timestamp, header.difficulty.is_zero());
    if fork > Fork::Paris && wanted.difficulty.is_none() {
        header.difficulty = U256::ZERO;
    }
    if fork >= Fork::London && header.base_fee_per_gas.is_none() {
        // Without validation, the default is 0 as in geth, because calls may have a price of 0.
        header.base_fee_per_gas = Some(if validation { next_base_fee(parent) } else { 0 });
    }
    header.withdrawals_root = (fork >= Fork::Shanghai).then_some(EMPTY_WITHDRAWALS);
    if fork >= Fork::Cancun {
        header.blob_gas_used = Some(0);
        let params = spec.blob_params(header.timestamp);
        let excess = params.map(|params| next_excess_blob_gas(&params, fork, parent));
        header.excess_blob_gas = Some(excess.unwrap_or_default());
        header.parent_beacon_block_root = Some(wanted.beacon_root.unwrap_or_default());
    }
    header.requests_hash = (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH);
    header
}

/// A block to simulate, and the data that all blocks of the simulation share.
struct BlockRun<'b> {
    spec: &'b ChainSpec,
    modules: Option<&'b Modules>,
    wanted: &'b SimulateBlock,
    options: SimulateOptions,
    state_root: &'b StateRoot<'b>,
}

type Builder<'a, S> = BlockBuilder<'a, S, TransferLogs>;

impl<'b> BlockRun<'b> {
    fn run<'a, S>(
        &self,
        mut overlay: Overlay<'a, S>,
        mut header: Header,
        gas_left: &mut u64,
    ) -> Result<(SimulatedBlock, Overlay<'a, S>), SimulateError>
    where
        'b: 'a,
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        let mut environment = Environment::new(self.spec, self.modules, &header);
        let cfg = &mut environment.cfg;
        cfg.disable_nonce_check = !self.options.validation;
        cfg.disable_base_fee = !self.options.validation;
        cfg.disable_eip3607 = true;
        cfg.disable_block_gas_limit = true;
        cfg.tx_gas_limit_cap = Some(u64::MAX);
        if let Some((blob, price)) = environment
            .block
            .blob_excess_gas_and_price
            .as_mut()
            .zip(self.wanted.block.blob_base_fee)
        {
            blob.blob_gasprice = price;
        }
        overlay.keep_empty(environment.fork < Fork::SpuriousDragon);
        let inspector = TransferLogs::new(self.options.trace_transfers);
        let mut block =
            BlockBuilder::over(self.spec, overlay, environment, header.number, inspector);
        let (overlay, precompiles) = block.machine_mut().overlay_and_precompiles();
        overrides::apply(&self.wanted.accounts, overlay, precompiles)
            .map_err(SimulateError::Override)?;
        block.begin(&header)?;
        let mut calls = Vec::with_capacity(self.wanted.calls.len());
        let mut raw = Vec::with_capacity(self.wanted.calls.len());
        for call in &self.wanted.calls {
            let (call, bytes) = self.call(&mut block, &header, call, gas_left)?;
            calls.push(call);
            raw.push(bytes);
        }
        let withdrawals = self.wanted.block.withdrawals.clone().unwrap_or_default();
        let withdrawals = header.withdrawals_root.map(|_| withdrawals);
        let (executed, overlay) =
            block.finish_with_overlay(withdrawals.as_ref().map(|list| list.as_slice()))?;
        let mut block = Block { transactions: raw, withdrawals, ..Block::default() };
        let root = (self.state_root)(&executed.changes)?;
        complete_header(&mut header, &executed, root, &block.body());
        block.hash = header.hash_slow();
        block.rlp_bytes = join(&alloy_rlp::encode(&header), &block.encode_body()).len();
        block.header = header;
        Ok((SimulatedBlock { block, calls }, overlay))
    }

    fn call<S>(
        &self,
        block: &mut Builder<'_, S>,
        header: &Header,
        call: &Call,
        gas_left: &mut u64,
    ) -> Result<(SimulatedCall, Bytes), SimulateError>
    where
        S: StateRead<Error: Error + Send + Sync + 'static>,
    {
        let mut call = call.clone();
        let used = header.gas_limit - block.gas_left();
        let gas = call.gas.unwrap_or(block.gas_left());
        if used.saturating_add(gas) > header.gas_limit {
            return Err(SimulateError::BlockGas { used, limit: header.gas_limit });
        }
        let gas = gas.min(*gas_left);
        if call.nonce.is_none() {
            let account = block.machine_mut().overlay_mut().account(call.from)?;
            call.nonce = Some(account.unwrap_or_default().nonce);
        }
        let nonce_zero = AccountOverride { nonce: Some(0), ..AccountOverride::default() };
        let overflows = call.nonce == Some(u64::MAX);
        if overflows && self.options.validation {
            let reason = InvalidTransaction::NonceOverflowInTransaction;
            return Err(SimulateError::Invalid { reason, sender: call.from, gas });
        }
        call.is_legacy |= header.base_fee_per_gas.is_none();
        if !call.is_legacy {
            call.max_priority_fee_per_gas.get_or_insert(0);
        }
        let (tx, raw, hash) = unsigned(self.spec, &call, gas);
        let sender = call.from;
        let failed = |error| match error {
            CallError::Invalid(reason) => SimulateError::Invalid { reason, sender, gas },
            CallError::State(error) => SimulateError::State(error),
            error => SimulateError::Interpreter(error.to_string()),
        };
        check_prices(&call, gas, block.machine_mut().overlay_mut()).map_err(failed)?;
        let mut env = transaction(self.spec, &call, gas);
        if overflows {
            // The nonce check is disabled, but the interpreter would still refuse the maximum nonce.
            env.nonce = 0;
            block.machine_mut().overlay_mut().replace(sender, &nonce_zero, None)?;
        }
        let result = block.machine_mut().inspect(env).map_err(machine_error).map_err(failed)?;
        let machine = block.machine_mut();
        machine.overlay_mut().commit(result.state);
        if overflows {
            // The nonce wraps to 0, as in geth.
            machine.overlay_mut().replace(sender, &nonce_zero, None)?;
        }
        let mut logs = machine.inspector_mut().take();
        let result = result.result;
        if !result.is_success() {
            logs.clear();
        }
        let max_used_gas = result.gas().total_gas_spent().max(result.gas().floor_gas());
        let blob_gas = DATA_GAS_PER_BLOB * call.blob_hashes.len() as u64;
        let gas_used = block.record(
            Outcome::interpreted(tx.tx_type().into(), blob_gas, result.clone()),
            self.state_root,
        )?;
        *gas_left = gas_left.saturating_sub(gas_used);
        let outcome = outcome(result).outcome;
        Ok((SimulatedCall { tx, hash, sender, outcome, gas_used, max_used_gas, logs }, raw))
    }
}

/// Returns the transaction that represents a call, with its bytes and its hash.
fn unsigned(spec: &ChainSpec, call: &Call, gas_limit: u64) -> (Transaction, Bytes, B256) {
    let signature = Signature::new(U256::ZERO, U256::ZERO, false);
    let chain_id = spec.chain_id;
    let nonce = call.nonce.unwrap_or_default();
    let (max_fee_per_gas, input, value) = (call.max_fee_per_gas, call.input.clone(), call.value);
    let max_priority_fee_per_gas = call.max_priority_fee_per_gas.unwrap_or_default();
    let access_list = call.access_list.clone().unwrap_or_default();
    let to = call.to.to().copied().unwrap_or_default();
    let tx: Transaction = if call.is_legacy {
        let gas_price = max_fee_per_gas;
        let to = call.to;
        if call.access_list.is_some() {
            let tx =
                TxEip2930 { chain_id, nonce, gas_price, gas_limit, to, value, access_list, input };
            tx.into_signed(signature).into()
        } else {
            let tx = TxLegacy { chain_id: None, nonce, gas_price, gas_limit, to, value, input };
            let raw = legacy(&tx);
            let hash = keccak256(&raw);
            return (Signed::new_unchecked(tx, signature, hash).into(), raw, hash);
        }
    } else if !call.authorizations.is_empty() {
        TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            authorization_list: call.authorizations.clone(),
            input,
        }
        .into_signed(signature)
        .into()
    } else if !call.blob_hashes.is_empty() {
        TxEip4844 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            blob_versioned_hashes: call.blob_hashes.clone(),
            max_fee_per_blob_gas: call.max_fee_per_blob_gas.unwrap_or_default(),
            input,
        }
        .into_signed(signature)
        .into()
    } else {
        TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to: call.to,
            value,
            access_list,
            input,
        }
        .into_signed(signature)
        .into()
    };
    let raw = Bytes::from(tx.encoded_2718());
    let hash = keccak256(&raw);
    (tx, raw, hash)
}

/// Encodes a legacy transaction with zeros as v, r and s, which are never a valid signature.
fn legacy(tx: &TxLegacy) -> Bytes {
    let TxKind::Call(to) = tx.to else { return legacy_fields(tx, &Bytes::new()) };
    legacy_fields(tx, &to)
}

fn legacy_fields(tx: &TxLegacy, to: &dyn Encodable) -> Bytes {
    let fields: [&dyn Encodable; 9] =
        [&tx.nonce, &tx.gas_price, &tx.gas_limit, to, &tx.value, &tx.input, &0u8, &0u8, &0u8];
    let payload_length = fields.iter().map(|field| field.length()).sum();
    let mut out = Vec::new();
    RlpHeader { list: true, payload_length }.encode(&mut out);
    for field in fields {
        field.encode(&mut out);
    }
    out.into()
}
