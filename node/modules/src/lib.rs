//! The state of a native chain's modules after a block, in addition to accounts: the fee market, the parameters of
//! the EVM and of the distribution of fees, and governance. [`Modules`] is part of the chain's head.
//!
//! An [`Update`] changes parameters. One that is decided in block `h` is applied at the end of the block, before the
//! fee market ends the block: its `min_gas_multiplier` applies to the gas that block `h` reports, and everything
//! else from block `h + 1` on, as in cosmos/evm. All transactions of a block have the same parameters.
//!
//! Apart from reads of the sender's account in [`decorator`], only [`gov::store`] performs I/O. The storage of modules
//! and the commitment of a header to them are defined in [`feemarket::store`].

pub mod decorator;
pub mod gov;

use alloy_primitives::Address;
use chain::{
    DistributionParams, EvmParams, Native,
    module_row::{self, DistributionRowError, EvmRowError},
};
use feemarket::{
    Market, MarketError,
    store::{self, Pairs, Record, RowError, StoredEvent},
};
use gov::Governance;
use transactions::Update;

/// State of the modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modules {
    /// The fee market.
    pub market: Market,
    /// The parameters of the EVM.
    pub evm: EvmParams,
    /// The recipients of the fees of a block. `None`, if genesis and governance set none, stands for `fee_collector`.
    pub distribution: Option<DistributionParams>,
    /// Proposals and votes.
    pub gov: Governance,
}

/// Why parameters are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The parameters of the fee market are invalid.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// The token of all balances would be renamed, which is not possible.
    #[error("evm_denom is {old} since genesis and stays so, found {new}")]
    Denom {
        /// The denomination of the chain.
        old: String,
        /// The requested denomination.
        new: String,
    },
}

/// Why a stored row is not a valid state of modules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModulesError {
    /// The row, or the fee market in it, is invalid.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The parameters of the EVM in the row are invalid.
    #[error(transparent)]
    Evm(#[from] EvmRowError),
    /// The parameters of the distribution of fees in the row are invalid.
    #[error(transparent)]
    Distribution(#[from] DistributionRowError),
}

impl Modules {
    /// The modules at genesis.
    pub fn genesis(native: &Native) -> Self {
        let (market, evm) = (native.market.clone(), native.evm.clone());
        let distribution = native.distribution;
        Self { market, evm, distribution, gov: Governance::default() }
    }

    /// Replaces the parameters of one module.
    ///
    /// # Errors
    /// [`UpdateError`]. In that case the modules are unchanged.
    pub fn update(&mut self, update: Update) -> Result<(), UpdateError> {
        match update {
            Update::FeeMarket(params) => Ok(self.market.update(params)?),
            Update::Evm(params) if params.evm_denom != self.evm.evm_denom => {
                Err(UpdateError::Denom { old: self.evm.evm_denom.clone(), new: params.evm_denom })
            }
            Update::Evm(params) => {
                self.evm = params;
                Ok(())
            }
            Update::Distribution(params) => {
                self.distribution = Some(params);
                Ok(())
            }
        }
    }

    /// Returns the key-value pairs of the modules for storage.
    pub fn pairs(&self) -> Pairs {
        let mut pairs = store::pairs(&self.market);
        pairs.extend([module_row::evm_pair(&self.evm)]);
        pairs.extend(self.distribution.map(module_row::distribution_pair));
        pairs.extend(gov::store::pair(&self.gov));
        pairs
    }

    /// Returns the modules in these pairs; missing pairs are as in genesis. Keys of other spaces are skipped.
    /// For governance, a row contains only a reference to the stored state: see [`gov::store::load`].
    ///
    /// # Errors
    /// [`ModulesError`].
    pub fn from_pairs(pairs: &Pairs, native: &Native) -> Result<Self, ModulesError> {
        let market = store::market(pairs, native.market.decimals())?;
        let evm = module_row::evm_params(pairs, native)?;
        let distribution = module_row::distribution_params(pairs, native)?;
        Ok(Self { market, evm, distribution, gov: Governance::default() })
    }

    /// Returns the record to store with block `height`, after which the modules have this state.
    pub fn record(
        &self,
        native: &Native,
        height: u64,
        senders: impl Iterator<Item = Address>,
        events: Vec<StoredEvent>,
    ) -> Record {
        let mut pairs = self.pairs();
        pairs.extend(module_row::version_pairs(native, height));
        pairs.extend(module_row::content_pairs(native, height, senders, &events));
        Record { row: store::encode(&pairs), events, gov: None }
    }

    /// Returns the modules in a stored record.
    ///
    /// # Errors
    /// [`ModulesError`].
    pub fn of_record(record: &Record, native: &Native) -> Result<Self, ModulesError> {
        Self::from_pairs(&store::decode(&record.row)?, native)
    }

    /// Returns the modules in the bytes of a stored record.
    ///
    /// # Errors
    /// [`ModulesError`].
    pub fn of_bytes(record: &[u8], native: &Native) -> Result<Self, ModulesError> {
        Self::of_record(&Record::from_bytes(record)?, native)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::{AccessRule, AccessType, Genesis};
    use feemarket::Params;
    use std::iter::empty;

    fn native() -> Native {
        Genesis::native_dev(0).spec.native().unwrap().clone()
    }

    fn closed() -> EvmParams {
        let mut evm = EvmParams::default();
        evm.allow_unprotected_txs = true;
        let list = vec![Address::repeat_byte(0xab), Address::ZERO];
        let rule = |access_type| AccessRule { access_type, access_control_list: list.clone() };
        evm.access_control.create = rule(AccessType::Permissioned);
        evm.access_control.call = rule(AccessType::Permissionless);
        evm
    }

    #[test]
    fn stored_modules_are_read_back() {
        let native = native();
        let mut modules = Modules::genesis(&native);
        modules.update(Update::Evm(closed())).unwrap();
        let params = Params { base_fee_change_denominator: 5, ..Params::default() };
        modules.update(Update::FeeMarket(params)).unwrap();
        modules.market.end_block(7, 7).unwrap();
        let record = modules.record(&native, 1, empty(), Vec::new());
        assert_eq!(Modules::of_bytes(&record.to_bytes(), &native), Ok(modules.clone()));
        assert_ne!(
            record.root(),
            Modules::genesis(&native).record(&native, 1, empty(), Vec::new()).root()
        );
        let pairs = modules.pairs();
        let keys: Vec<&[u8]> = pairs.keys().map(|key| key.as_ref()).collect();
        assert_eq!(keys, [&b"evm/\x03"[..], b"feemarket/\x00", b"feemarket/\x01"]);
        assert_eq!(Modules::from_pairs(&Pairs::new(), &native).unwrap().evm, native.evm);
    }

    #[test]
    fn refused_update_changes_nothing() {
        let mut gold = closed();
        gold.evm_denom = "gold".to_owned();
        let mut modules = Modules::genesis(&native());
        let before = modules.clone();
        for (update, reason) in [
            (
                Update::FeeMarket(Params { elasticity_multiplier: 0, ..Params::default() }),
                "elasticity multiplier cannot be zero: 0",
            ),
            (
                Update::FeeMarket(Params { base_fee_change_denominator: 0, ..Params::default() }),
                "base fee change denominator cannot be 0",
            ),
            (Update::Evm(gold), "evm_denom is atest since genesis and stays so, found gold"),
        ] {
            assert_eq!(modules.update(update).unwrap_err().to_string(), reason);
            assert_eq!(modules, before);
        }
    }
}
