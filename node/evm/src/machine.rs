//! Executes single transactions with `revm`'s mainnet interpreter, plus EIP-1283, EIP-7610 and the native chain's
//! rules.
//!
//! The order of transactions and their accounting within a block are in `block`.

use std::error::Error;

use alloy_primitives::{Address, Bytes, U256};
use revm::{
    Context, Inspector, Journal, MainContext,
    bytecode::opcode::{
        CALL, CALLCODE, DELEGATECALL, GAS, JUMPDEST, KECCAK256, SELFDESTRUCT, SSTORE, STATICCALL,
    },
    context::{
        BlockEnv, CfgEnv, ContextSetters, Evm, FrameStack, TxEnv,
        journaled_state::account::JournaledAccountTr,
    },
    context_interface::{
        Block as _, ContextError, ContextTr, JournalTr, Transaction as _,
        result::{EVMError, ExecutionResult, HaltReason, ResultAndState, ResultGas},
    },
    handler::{
        EthFrame, EvmTr, FrameInitOrResult, FrameResult, FrameTr, Handler, ItemOrResult,
        SystemCallTx,
        evm::{ContextDbError, FrameInitResult},
        instructions::EthInstructions,
        post_execution::build_result_gas,
    },
    inspector::{InspectorEvmTr, InspectorHandler},
    interpreter::{
        Host, InitialAndFloorGas, Instruction, InstructionContext, InstructionResult,
        instructions::{
            host::{selfdestruct, sstore_with_gas_accounting},
            system::{gas, keccak256},
        },
        interpreter::EthInterpreter,
        interpreter_action::{FrameInit, FrameInput},
        interpreter_types::Jumps as _,
    },
    primitives::KECCAK_EMPTY,
};
use storage::StateRead;

use super::{
    ExecutionError, caches::Pair, error::StateError, native::NativeRules, overlay::Overlay,
    precompiles::NodePrecompiles,
};
use chain::{ExtraPrecompiles, Fork};
use keys::is_module_account;

pub(super) type MachineContext<'a, S> =
    Context<BlockEnv, TxEnv, CfgEnv, Overlay<'a, S>, Journal<Overlay<'a, S>>, ()>;
pub(super) type MachineError = EVMError<StateError>;

/// The interpreter's error if the execution was cancelled, or if its result depends on the gas limit.
pub(super) const CANCELLED: &str = "given up";
/// Gas of the instruction JUMPDEST, in every fork.
const JUMPDEST_GAS: u16 = 1;
/// Gas of the instruction GAS, in every fork.
const GAS_GAS: u16 = 2;
/// Gas of KECCAK256 without the gas per word, in every fork.
const KECCAK256_GAS: u16 = 30;
/// Gas of SELFDESTRUCT without the cost of the beneficiary's account, since EIP-150.
const SELFDESTRUCT_GAS: u16 = 5_000;
/// Maximum capacity, in accounts, of a transaction's journal that the next transaction reuses. Emptying the journal
/// iterates over its whole capacity.
const MAX_REUSED_ACCOUNTS: usize = 64;
/// Gas limit of a system call (EIP-4788 and its successors).
const SYSTEM_CALL_GAS: u64 = 30_000_000;

type Inner<'a, S, I> = Evm<
    MachineContext<'a, S>,
    I,
    EthInstructions<EthInterpreter, MachineContext<'a, S>>,
    NodePrecompiles,
    EthFrame<EthInterpreter>,
>;

/// The interpreter on one block's overlay, optionally with an inspector.
pub(super) struct Machine<'a, S, I = ()>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    inner: Inner<'a, S, I>,
    /// Set on a native chain. On other chains, the base fee is burned and the coinbase receives the priority fee.
    native: Option<NativeRules>,
    /// See [`Self::fail_if_gas_matters`].
    fails_if_gas_matters: bool,
}

impl<'a, S, I> Machine<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    pub(super) fn new(
        overlay: Overlay<'a, S>,
        cfg: CfgEnv,
        block: BlockEnv,
        fork: Fork,
        native: Option<NativeRules>,
        inspector: I,
    ) -> Self {
        let spec = *cfg.spec();
        let context = Context::mainnet().with_db(overlay).with_cfg(cfg).with_block(block);
        let mut instruction = EthInstructions::new_mainnet_with_spec(spec);
        if fork == Fork::Constantinople {
            instruction.insert_instruction(SSTORE, Instruction::new(sstore_eip1283), 0);
        }
        if context.journaled_state.database.is_cancellable() {
            instruction.insert_instruction(
                JUMPDEST,
                Instruction::new(watched_jumpdest),
                JUMPDEST_GAS,
            );
        }
        if native.as_ref().is_some_and(NativeRules::blocks_module_accounts) {
            let gas = if fork >= Fork::Tangerine { SELFDESTRUCT_GAS } else { 0 };
            let guarded = Instruction::new(selfdestruct_to_others);
            instruction.insert_instruction(SELFDESTRUCT, guarded, gas);
        }
        let none = ExtraPrecompiles::default();
        let extra = native.as_ref().map_or(&none, |native| &native.precompiles);
        let precompiles = NodePrecompiles::new(spec, extra);
        // Frames are allocated as calls nest; most calls have a depth of one or two.
        let frame_stack = FrameStack::new();
        let inner = Evm { ctx: context, inspector, instruction, precompiles, frame_stack };
        Self { inner, native, fails_if_gas_matters: false }
    }

    /// Makes later executions fail if more gas might change their result: if a frame runs out of gas, or if anything
    /// but a call follows the instruction GAS.
    pub(super) fn fail_if_gas_matters(&mut self) {
        self.fails_if_gas_matters = true;
        self.inner.instruction.insert_instruction(GAS, Instruction::new(gas_before_call), GAS_GAS);
    }

    /// Makes KECCAK256 use the hashes that the overlay knows, from now on, instead of computing them.
    pub(super) fn use_known_hashes(&mut self) {
        let instruction = Instruction::new(cached_keccak256);
        self.inner.instruction.insert_instruction(KECCAK256, instruction, KECCAK256_GAS);
    }

    /// Returns the environment of the block.
    pub(super) const fn block(&self) -> &BlockEnv {
        &self.inner.ctx.block
    }

    pub(super) const fn inspector_mut(&mut self) -> &mut I {
        &mut self.inner.inspector
    }

    /// Returns the overlay and the precompiles, for overrides that change both.
    pub(super) fn overlay_and_precompiles(
        &mut self,
    ) -> (&mut Overlay<'a, S>, &mut NodePrecompiles) {
        (&mut self.inner.ctx.journaled_state.database, &mut self.inner.precompiles)
    }

    /// Returns the overlay and the inspector, for tracers that read the state.
    pub(super) const fn overlay_and_inspector(&mut self) -> (&mut Overlay<'a, S>, &mut I) {
        (&mut self.inner.ctx.journaled_state.database, &mut self.inner.inspector)
    }

    /// Returns the addresses of the precompiles, regardless of moves.
    pub(super) fn precompiles(&self) -> impl Iterator<Item = Address> {
        self.inner.precompiles.fork_addresses()
    }

    pub(super) fn into_overlay(self) -> Overlay<'a, S> {
        self.inner.ctx.journaled_state.database
    }

    pub(super) fn overlay(&self) -> &Overlay<'a, S> {
        &self.inner.ctx.journaled_state.database
    }

    pub(super) fn overlay_mut(&mut self) -> &mut Overlay<'a, S> {
        &mut self.inner.ctx.journaled_state.database
    }

    /// Executes one transaction and commits its changes. After an error the overlay is unchanged.
    pub(super) fn transact(&mut self, tx: TxEnv) -> Result<ExecutionResult, MachineError> {
        self.inner.ctx.set_tx(tx);
        let result = NodeRules::default().run(self);
        self.settle(result)
    }

    /// Executes a system call (EIP-4788, 2935, 7002, 7251) and commits its changes.
    pub(super) fn system_call(
        &mut self,
        contract: Address,
        data: Bytes,
    ) -> Result<ExecutionResult, MachineError> {
        let gas_limit = SYSTEM_CALL_GAS;
        self.inner.ctx.set_tx(TxEnv { gas_limit, ..TxEnv::new_system_tx(contract, data) });
        let result = NodeRules::default().run_system_call(self);
        self.settle(result)
    }

    fn settle(
        &mut self,
        result: Result<ExecutionResult, MachineError>,
    ) -> Result<ExecutionResult, MachineError> {
        let mut state = self.inner.ctx.journaled_state.finalize();
        let result = result?;
        self.overlay_mut().commit_all(state.drain());
        if state.capacity() <= MAX_REUSED_ACCOUNTS {
            self.inner.ctx.journaled_state.inner.state = state;
        }
        Ok(result)
    }

    /// Executes one transaction with the inspector, without committing its changes. The caller commits them to the
    /// overlay, or discards them.
    pub(super) fn inspect(&mut self, tx: TxEnv) -> Result<ResultAndState, MachineError>
    where
        I: Inspector<MachineContext<'a, S>>,
    {
        self.inner.ctx.set_tx(tx);
        let result = NodeRules::default().inspect_run(self);
        let state = self.inner.ctx.journaled_state.finalize();
        Ok(ResultAndState { result: result?, state })
    }

    /// Returns the address at which a creation would collide because it has storage, but neither code nor nonce
    /// (EIP-7610). `revm` checks code and nonce itself.
    fn storage_collision(&mut self, input: &FrameInput) -> Result<Option<Address>, StateError> {
        let FrameInput::Create(create) = input else { return Ok(None) };
        let journal = &mut self.inner.ctx.journaled_state;
        let nonce = journal.load_account(create.caller())?.data.info.nonce;
        let target = create.created_address(nonce);
        let bare = |nonce, code_hash| nonce == 0 && code_hash == KECCAK_EMPTY;
        let suspect = match journal.inner.state.get(&target) {
            Some(account) => bare(account.info.nonce, account.info.code_hash),
            None => journal
                .database
                .account(target)?
                .is_some_and(|account| bare(account.nonce, account.code_hash)),
        };
        let found = suspect && journal.database.has_storage(target)?;
        Ok(found.then_some(target))
    }
}

impl<'a, S, I> EvmTr for Machine<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    type Context = MachineContext<'a, S>;
    type Instructions = EthInstructions<EthInterpreter, MachineContext<'a, S>>;
    type Precompiles = NodePrecompiles;
    type Frame = EthFrame<EthInterpreter>;

    fn all(
        &self,
    ) -> (&Self::Context, &Self::Instructions, &Self::Precompiles, &FrameStack<Self::Frame>) {
        self.inner.all()
    }

    fn all_mut(
        &mut self,
    ) -> (
        &mut Self::Context,
        &mut Self::Instructions,
        &mut Self::Precompiles,
        &mut FrameStack<Self::Frame>,
    ) {
        self.inner.all_mut()
    }

    fn frame_init(
        &mut self,
        input: FrameInit,
    ) -> Result<FrameInitResult<'_, Self::Frame>, ContextDbError<Self::Context>> {
        if let Some(native) = &self.native
            && let Some(end) = native.forbidden(self.inner.ctx.tx.caller, &input.frame_input)
        {
            if let (0, FrameInput::Create(create)) = (input.depth, &input.frame_input) {
                // A creation increments the nonce when its frame begins, but this frame does not begin.
                let journal = &mut self.inner.ctx.journaled_state;
                journal.load_account_mut(create.caller())?.bump_nonce();
            }
            return Ok(ItemOrResult::Result(end));
        }
        let Some(target) = self.storage_collision(&input.frame_input)? else {
            return self.inner.frame_init(input);
        };
        // If the address has a nonce, `revm` reports the collision itself, with the right gas.
        let set_nonce = |machine: &mut Self, nonce| {
            let journal = &mut machine.inner.ctx.journaled_state;
            journal.load_account(target)?;
            if let Some(account) = journal.inner.state.get_mut(&target) {
                account.info.nonce = nonce;
            }
            Ok::<(), StateError>(())
        };
        set_nonce(self, 1)?;
        let result = match self.inner.frame_init(input)? {
            ItemOrResult::Result(result) => result,
            ItemOrResult::Item(_) => unreachable!("revm reports the collision with a nonce"),
        };
        set_nonce(self, 0)?;
        Ok(ItemOrResult::Result(result))
    }

    fn frame_run(
        &mut self,
    ) -> Result<FrameInitOrResult<Self::Frame>, ContextDbError<Self::Context>> {
        self.inner.frame_run()
    }

    fn frame_return_result(
        &mut self,
        result: <Self::Frame as FrameTr>::FrameResult,
    ) -> Result<Option<<Self::Frame as FrameTr>::FrameResult>, ContextDbError<Self::Context>> {
        if self.fails_if_gas_matters && is_out_of_gas(result.instruction_result()) {
            return Err(cancelled());
        }
        self.inner.frame_return_result(result)
    }
}

/// The parts of the machine that inspection needs.
type InspectedParts<'m, 'a, S, I> = (
    &'m mut MachineContext<'a, S>,
    &'m mut EthInstructions<EthInterpreter, MachineContext<'a, S>>,
    &'m mut NodePrecompiles,
    &'m mut FrameStack<EthFrame<EthInterpreter>>,
    &'m mut I,
);

impl<'a, S, I> InspectorEvmTr for Machine<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
    I: Inspector<MachineContext<'a, S>>,
{
    type Inspector = I;

    fn all_inspector(
        &self,
    ) -> (
        &Self::Context,
        &Self::Instructions,
        &Self::Precompiles,
        &FrameStack<Self::Frame>,
        &Self::Inspector,
    ) {
        self.inner.all_inspector()
    }

    fn all_mut_inspector(&mut self) -> InspectedParts<'_, 'a, S, I> {
        self.inner.all_mut_inspector()
    }
}

/// Executes SSTORE with the net gas metering of EIP-1283, which is EIP-2200 (Istanbul) without the stipend sentry. The
/// prices are in [`super::environment`].
fn sstore_eip1283<S>(
    context: InstructionContext<'_, MachineContext<'_, S>, EthInterpreter>,
) -> Result<(), InstructionResult>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    sstore_with_gas_accounting(context, |context, _, load| {
        let params = context.host.gas_params();
        let gas = params.sstore_dynamic_gas(true, &load.data, load.is_cold);
        let refund = params.sstore_refund(true, &load.data);
        if !context.interpreter.gas.record_regular_cost(gas) {
            return Err(InstructionResult::OutOfGas);
        }
        context.interpreter.gas.record_refund(refund);
        Ok(())
    })
}

/// Executes JUMPDEST, which is part of every loop, and checks for cancellation.
fn watched_jumpdest<S>(
    context: InstructionContext<'_, MachineContext<'_, S>, EthInterpreter>,
) -> Result<(), InstructionResult>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    if context.host.journaled_state.database.count_jump() {
        return Ok(());
    }
    context.host.error = Err(cancelled());
    Err(InstructionResult::FatalExternalError)
}

/// Executes GAS, and fails unless a call follows and uses the value as the gas limit of the callee. If the callee needs
/// more gas, its frame runs out of gas, which fails too.
fn gas_before_call<S>(
    context: InstructionContext<'_, MachineContext<'_, S>, EthInterpreter>,
) -> Result<(), InstructionResult>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    if matches!(context.interpreter.bytecode.opcode(), CALL | CALLCODE | DELEGATECALL | STATICCALL)
    {
        return gas(context);
    }
    context.host.error = Err(cancelled());
    Err(InstructionResult::FatalExternalError)
}

/// Executes SELFDESTRUCT, but reverts if the beneficiary is a module account: see [`NativeRules::refuses_ether`].
fn selfdestruct_to_others<S>(
    context: InstructionContext<'_, MachineContext<'_, S>, EthInterpreter>,
) -> Result<(), InstructionResult>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let beneficiary = context.interpreter.stack.peek(0).ok();
    if beneficiary.is_some_and(|word| is_module_account(Address::from_word(word.into()))) {
        return Err(InstructionResult::Revert);
    }
    selfdestruct(context)
}

/// Executes KECCAK256, but does not compute the hash of two words if the overlay knows it.
fn cached_keccak256<S>(
    context: InstructionContext<'_, MachineContext<'_, S>, EthInterpreter>,
) -> Result<(), InstructionResult>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    let interpreter = &mut *context.interpreter;
    let known = || {
        let (from, length) = (interpreter.stack.peek(0).ok()?, interpreter.stack.peek(1).ok()?);
        let (from, length) = (usize::try_from(from).ok()?, usize::try_from(length).ok()?);
        let is_pair = length == size_of::<Pair>()
            && from.checked_add(length).is_some_and(|end| end <= interpreter.memory.len());
        let bytes = is_pair.then(|| interpreter.memory.slice_len(from, length))?;
        context.host.journaled_state.database.hints().known_hash(&bytes)
    };
    let Some(hash) = known() else { return keccak256(context) };
    let gas = context.host.gas_params().keccak256_cost(size_of::<Pair>());
    if !interpreter.gas.record_regular_cost(gas) {
        return Err(InstructionResult::OutOfGas);
    }
    interpreter.stack.pop()?;
    interpreter.stack.set(0, hash)
}

const fn is_out_of_gas(result: InstructionResult) -> bool {
    matches!(
        result,
        InstructionResult::OutOfGas
            | InstructionResult::MemoryOOG
            | InstructionResult::MemoryLimitOOG
            | InstructionResult::PrecompileOOG
            | InstructionResult::InvalidOperandOOG
            | InstructionResult::ReentrancySentryOOG
    )
}

fn cancelled() -> ContextError<StateError> {
    ContextError::Custom(CANCELLED.to_owned())
}

/// Mainnet's transaction rules. On a native chain, the minimum charge applies and the fees go to the fee
/// collector.
struct NodeRules<'a, S, I>(std::marker::PhantomData<fn(&'a S, I)>);

impl<S, I> Default for NodeRules<'_, S, I> {
    fn default() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<'a, S, I> InspectorHandler for NodeRules<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
    I: Inspector<MachineContext<'a, S>>,
{
    type IT = EthInterpreter;
}

impl<'a, S, I> Handler for NodeRules<'a, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    type Evm = Machine<'a, S, I>;
    type Error = MachineError;
    type HaltReason = HaltReason;

    /// Does the same as the provided method, with the native chain's minimum charge as an additional floor.
    fn post_execution(
        &self,
        evm: &mut Self::Evm,
        result: &mut FrameResult,
        mut initial: InitialAndFloorGas,
        eip7702_refund: i64,
    ) -> Result<ResultGas, Self::Error> {
        if let Some(native) = &evm.native {
            let min = native.min_charge(evm.inner.ctx.tx.gas_limit);
            initial.set_floor_gas(initial.floor_gas().max(min));
        }
        self.refund(evm, result, eip7702_refund)?;
        let is_halt = result.instruction_result().is_halt();
        let gas = build_result_gas(is_halt, result.gas(), initial);
        self.eip7623_check_gas_floor(evm, result, initial);
        self.reimburse_caller(evm, result)?;
        self.reward_beneficiary(evm, result)?;
        Ok(gas)
    }

    fn reward_beneficiary(
        &self,
        evm: &mut Self::Evm,
        result: &mut FrameResult,
    ) -> Result<(), Self::Error> {
        let Some(collector) = evm.native.as_ref().map(|native| native.fee_collector) else {
            return Ok(revm::handler::post_execution::reward_beneficiary(evm.ctx(), result.gas())?);
        };
        let context = evm.ctx();
        let price = context.tx().effective_gas_price(u128::from(context.block().basefee()));
        let fee = U256::from(price).saturating_mul(U256::from(result.gas().used()));
        if !fee.is_zero() {
            context.journal_mut().balance_incr(collector, fee)?;
        }
        Ok(())
    }
}

impl<S, I> std::fmt::Debug for Machine<'_, S, I>
where
    S: StateRead<Error: Error + Send + Sync + 'static>,
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("block", &self.inner.ctx.block).finish_non_exhaustive()
    }
}

/// Converts an error of the interpreter that does not concern the transaction.
pub(super) fn fatal(number: u64, error: MachineError) -> ExecutionError {
    match error {
        EVMError::Database(source) => ExecutionError::State { number, source },
        error => ExecutionError::Interpreter { number, reason: error.to_string() },
    }
}

/// Returns the output of a system call, if it succeeded.
pub(super) fn success_output(result: ExecutionResult) -> Option<Bytes> {
    match result {
        ExecutionResult::Success { output, .. } => Some(output.into_data()),
        _ => None,
    }
}
