//! Derives the environment of a block or a call from its header: fork, limits and prices.

use alloy_consensus::Header;
use alloy_primitives::{Address, U256};
use revm::{
    context::{BlockEnv, CfgEnv},
    context_interface::{block::BlobExcessGasAndPrice, cfg::gas_params::GasId},
};

use super::native::NativeRules;
use chain::{ChainSpec, Fork};
use modules::Modules;

/// Price of reading a slot in Constantinople, in gas.
const SLOAD_GAS: u64 = 200;
/// Gas prices of EIP-1283. A write costs as much as a read. The rest of the old price is charged only for the first
/// change of a slot in a transaction, and refunded if the change is undone.
const EIP1283_GAS: [(GasId, u64); 5] = [
    (GasId::sstore_static(), SLOAD_GAS),
    (GasId::sstore_set_without_load_cost(), 20_000 - SLOAD_GAS),
    (GasId::sstore_reset_without_cold_load_cost(), 5_000 - SLOAD_GAS),
    (GasId::sstore_set_refund(), 20_000 - SLOAD_GAS),
    (GasId::sstore_reset_refund(), 5_000 - SLOAD_GAS),
];

/// The environment of the transactions of one block.
#[derive(Clone, Debug)]
pub(super) struct Environment {
    pub(super) fork: Fork,
    pub(super) cfg: CfgEnv,
    pub(super) block: BlockEnv,
    /// Maximum blob gas of the block; zero before Cancun and on native chains.
    pub(super) blob_gas_limit: u64,
    /// The rules of a native chain.
    pub(super) native: Option<NativeRules>,
}

impl Environment {
    /// Derives the environment from a header whose roots may still be unknown. `modules` is set only on a native chain.
    pub(super) fn new(spec: &ChainSpec, modules: Option<&Modules>, header: &Header) -> Self {
        let fork = spec.fork_of(header);
        let blob_params = spec.blob_params(header.timestamp).filter(|_| fork >= Fork::Cancun);
        let mut cfg = CfgEnv::new_with_spec(fork.spec_id()).with_chain_id(spec.chain_id);
        // Clients of a development chain can impersonate contracts. The ante decorator checks all other senders.
        cfg.disable_eip3607 = spec.is_development();
        if let Some(params) = &blob_params {
            cfg.set_max_blobs_per_tx(params.max_blobs_per_tx);
        }
        if fork == Fork::Constantinople {
            cfg.gas_params.override_gas(EIP1283_GAS);
        }
        let blob_excess_gas_and_price = blob_params.map(|params| {
            let excess_blob_gas = header.excess_blob_gas.unwrap_or_default();
            let blob_gasprice = params.calc_blob_fee(excess_blob_gas);
            BlobExcessGasAndPrice { excess_blob_gas, blob_gasprice }
        });
        let block = BlockEnv {
            number: U256::from(header.number),
            beneficiary: header.beneficiary,
            timestamp: U256::from(header.timestamp),
            gas_limit: header.gas_limit,
            basefee: header.base_fee_per_gas.unwrap_or_default(),
            difficulty: header.difficulty,
            prevrandao: (fork >= Fork::Paris).then_some(header.mix_hash),
            blob_excess_gas_and_price,
            slot_num: 0,
        };
        let native = NativeRules::of(spec, modules, header.number, header.beneficiary);
        Self {
            fork,
            cfg,
            block,
            blob_gas_limit: match blob_params {
                Some(params) if native.is_none() => params.max_blob_gas_per_block(),
                _ => 0,
            },
            native,
        }
    }

    /// Returns the account to which the fees of the block move at its end, or `None` if `fee_collector` keeps them.
    pub(super) fn paid_account(&self) -> Option<Address> {
        self.native.as_ref()?.paid_account
    }

    /// Charges transactions for at least a share of their gas limit, as in stored blocks.
    pub(super) fn set_min_gas_multiplier(&mut self, modules: Option<&Modules>) {
        if let Some((native, modules)) = self.native.as_mut().zip(modules) {
            native.min_gas_multiplier = Some(modules.market.params().min_gas_multiplier);
        }
    }
}
