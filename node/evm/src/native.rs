//! Implements the native chain's rules in the interpreter: the recipient of the fees, the minimum charge, and the
//! permissions to create and call contracts.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes};
use revm::{
    handler::{FrameResult, SYSTEM_ADDRESS},
    interpreter::{
        CallOutcome, CreateOutcome, Gas, InstructionResult, InterpreterResult,
        interpreter_action::FrameInput,
    },
};

use chain::{AccessControl, ChainSpec, ExtraPrecompiles, FEE_COLLECTOR, Rules, RulesVersion};
use feemarket::{self, LegacyDec};
use keys::is_module_account;
use modules::Modules;

/// The native chain's rules within one transaction.
#[derive(Clone, Debug)]
pub(super) struct NativeRules {
    /// The recipient of the fees of each transaction.
    pub(super) fee_collector: Address,
    /// The account to which the fees of the block move at its end; `None` if `fee_collector` keeps them.
    pub(super) paid_account: Option<Address>,
    /// Minimum share of the gas limit that is charged; `None` in calls, estimates and simulations, which return the
    /// gas that is actually used.
    pub(super) min_gas_multiplier: Option<LegacyDec>,
    /// Precompiles in addition to those of the fork.
    pub(super) precompiles: ExtraPrecompiles,
    /// The permissions to create and call contracts; `None` if access is not restricted.
    access: Option<Arc<AccessControl>>,
    /// Whether module accounts receive ether only as fees and deposits. True from version 1 of the rules on.
    blocks_module_accounts: bool,
}

impl NativeRules {
    /// Returns the rules of a chain, without a minimum charge, or `None` on an Ethereum chain. Without modules, access
    /// is not restricted, and there are no precompiles in addition to those of the fork.
    pub(super) fn of(
        spec: &ChainSpec,
        modules: Option<&Modules>,
        number: u64,
        miner: Address,
    ) -> Option<Self> {
        let access = modules.map(|modules| &modules.evm.access_control);
        let access = access.filter(|access| !access.is_open());
        let extra = modules.map(|modules| &modules.evm.active_static_precompiles);
        let distribution = modules.and_then(|modules| modules.distribution);
        (spec.rules == Rules::Native).then(|| Self {
            fee_collector: FEE_COLLECTOR,
            paid_account: distribution.and_then(|params| params.paid_account(miner)),
            min_gas_multiplier: None,
            precompiles: extra.cloned().unwrap_or_default(),
            access: access.map(|access| Arc::new(access.clone())),
            blocks_module_accounts: spec.rules_version(number) >= RulesVersion::V1,
        })
    }

    /// Returns the minimum gas charged for a transaction with this gas limit (`min_gas_multiplier` of cosmos/evm).
    pub(super) fn min_charge(&self, gas_limit: u64) -> u64 {
        let multiplier = self.min_gas_multiplier;
        multiplier.map_or(0, |multiplier| feemarket::charge(0, gas_limit, multiplier))
    }

    /// Returns whether calls are unrestricted.
    pub(super) const fn is_open(&self) -> bool {
        self.access.is_none()
    }

    /// Returns whether transfers to this address fail. Module accounts have no keys, so the ether would be lost.
    pub(super) fn refuses_ether(&self, address: Address) -> bool {
        self.blocks_module_accounts && is_module_account(address)
    }

    /// Returns whether [`Self::refuses_ether`] returns true for any address.
    pub(super) const fn blocks_module_accounts(&self) -> bool {
        self.blocks_module_accounts
    }

    /// Returns the result of a frame that would send ether to a module account, or that the access rules forbid:
    /// nothing is executed, its gas is returned, and the caller sees a failed call. Returns `None` for all other
    /// frames.
    pub(super) fn forbidden(&self, signer: Address, frame: &FrameInput) -> Option<FrameResult> {
        if let FrameInput::Call(call) = frame
            && call.transfers_value()
            && self.refuses_ether(call.target_address)
        {
            let result = reverted(call.gas_limit);
            let memory = call.return_memory_offset.clone();
            return Some(FrameResult::Call(CallOutcome::new(result, memory)));
        }
        // The access rules do not apply to system calls (EIP-4788 and its successors).
        let access = self.access.as_deref().filter(|_| signer != SYSTEM_ADDRESS)?;
        match frame {
            FrameInput::Create(create) if !access.create.allows(signer, create.caller()) => {
                let result = reverted(create.gas_limit());
                Some(FrameResult::Create(CreateOutcome::new(result, None)))
            }
            FrameInput::Call(call) if !access.call.allows(signer, call.caller) => {
                let memory = call.return_memory_offset.clone();
                Some(FrameResult::Call(CallOutcome::new(reverted(call.gas_limit), memory)))
            }
            _ => None,
        }
    }
}

/// Returns the result of a frame that reverts before it is executed.
fn reverted(gas_limit: u64) -> InterpreterResult {
    InterpreterResult::new(InstructionResult::Revert, Bytes::new(), Gas::new(gas_limit))
}
