//! Holds the market's state, which every block updates.
//!
//! Parameters are checked wherever they enter, so the state contains only valid ones. It is small: a caller that may
//! abandon a block keeps a clone of the state before it.

use super::{
    dec::LegacyDec,
    event::Event,
    formula::{Inputs, TokenDecimals, gas_target, next_base_fee},
    gas::{GasOverflow, block_gas},
    genesis::Genesis,
    params::{Params, ParamsError},
};
use thiserror::Error;

/// Maximum base fee in wei, which a block header stores in 64 bits. The fee does not rise above it. A transfer costs
/// 387,000 tokens at this fee.
pub const MAX_BASE_FEE_WEI: u64 = u64::MAX;

/// Why parameters of a market are rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MarketError {
    /// The parameters are not valid.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A price above the maximum base fee of a block header, such as a scaled integer that was read as a decimal.
    #[error("{field} {value} is more than {max}, the greatest base fee a block header carries")]
    AboveHeader {
        /// The name of the price.
        field: &'static str,
        /// The price in the token's base unit.
        value: LegacyDec,
        /// [`MAX_BASE_FEE_WEI`] in the token's base unit.
        max: LegacyDec,
    },
}

/// The fee market of a chain after a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Market {
    decimals: TokenDecimals,
    params: Params,
    block_gas: u64,
}

impl Market {
    /// Creates the market of a new chain, or restores that of an existing chain.
    ///
    /// # Errors
    /// [`MarketError`] for invalid parameters.
    pub fn new(genesis: Genesis, decimals: TokenDecimals) -> Result<Self, MarketError> {
        let Genesis { params, block_gas } = genesis;
        Ok(Self { decimals, params: accept(params, decimals)?, block_gas })
    }

    /// Replaces the parameters, including the base fee. They apply from the next block.
    ///
    /// # Errors
    /// [`MarketError`] for invalid parameters. The market is unchanged then.
    pub fn update(&mut self, params: Params) -> Result<(), MarketError> {
        self.params = accept(params, self.decimals)?;
        Ok(())
    }

    /// Begins block `height` with this gas limit: updates the base fee. Returns `None` if the base fee is turned off
    /// or not enabled yet.
    pub fn begin_block(&mut self, height: u64, gas_limit: u64) -> Option<Event> {
        let base_fee = self.next_base_fee(height, gas_limit)?;
        self.params.base_fee = base_fee;
        Some(Event::FeeMarket { base_fee })
    }

    /// Sets the base fee of the block that has begun, independently of the formula, for development chains. Returns the
    /// base fee in the token's base unit.
    pub fn set_base_fee_wei(&mut self, wei: u64) -> LegacyDec {
        self.params.base_fee = self.decimals.from_wei(wei);
        self.params.base_fee
    }

    /// The base fee that [`Self::begin_block`] would set, in the token's base unit; `None` if it would set none.
    pub fn next_base_fee(&self, height: u64, gas_limit: u64) -> Option<LegacyDec> {
        if !self.counts_gas(height) {
            return None;
        }
        let params = &self.params;
        if height == self.enable_height() {
            return Some(params.base_fee);
        }
        let target = gas_target(gas_limit, params.elasticity_multiplier);
        let next = next_base_fee(&Inputs {
            used: self.block_gas,
            target: target.expect("a valid elasticity is not zero"),
            denominator: params.base_fee_change_denominator.into(),
            base: params.base_fee,
            unit: self.decimals.unit(),
            floor: params.min_gas_price,
        })
        .expect("a 64-bit fee times 64-bit gas is in range, and a valid denominator is not zero");
        // The floor is applied again, because the formula does not apply it if the gas target is zero.
        Some(next.min(max_base_fee(self.decimals)).max(params.min_gas_price))
    }

    /// The base fee of block `height` with this gas limit, in whole wei, as in its header.
    pub fn next_base_fee_wei(&self, height: u64, gas_limit: u64) -> u64 {
        match self.next_base_fee(height, gas_limit) {
            Some(base_fee) => self.whole_wei(base_fee),
            None => self.base_fee_wei(),
        }
    }

    /// The event with the base fee in wei, which every block emits at its beginning.
    pub fn evm_event(&self) -> Event {
        Event::EvmFeeMarket { base_fee: self.base_fee_wei() }
    }

    /// Ends a block: stores the gas from which the next base fee is calculated, and returns it. Must be called in
    /// every block, with or without a base fee.
    ///
    /// # Errors
    /// [`GasOverflow`] if an amount exceeds 2^63 - 1. The market is unchanged then.
    pub fn end_block(&mut self, gas_wanted: u64, consumed: u64) -> Result<u64, GasOverflow> {
        self.block_gas = block_gas(gas_wanted, consumed, self.params.min_gas_multiplier)?;
        Ok(self.block_gas)
    }

    /// Returns whether the base fee is enabled in block `height`, so that its transactions add to the gas wanted.
    pub const fn counts_gas(&self, height: u64) -> bool {
        !self.params.no_base_fee && height >= self.enable_height()
    }

    /// The parameters, including the current base fee.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Returns the gas that the last block reported.
    pub const fn block_gas(&self) -> u64 {
        self.block_gas
    }

    /// The decimals of the chain's token.
    pub const fn decimals(&self) -> TokenDecimals {
        self.decimals
    }

    /// The current base fee in the token's base unit; `None` if it is turned off. It also applies before its enable
    /// height, but does not change there.
    pub const fn base_fee(&self) -> Option<LegacyDec> {
        if self.params.no_base_fee { None } else { Some(self.params.base_fee) }
    }

    /// The base fee as the EVM, headers and clients see it: in whole wei, and zero if it is turned off.
    pub fn base_fee_wei(&self) -> u64 {
        self.whole_wei(self.base_fee().unwrap_or_default())
    }

    /// The base fee in wei with its fraction; zero if it is turned off.
    pub fn base_fee_in_wei(&self) -> LegacyDec {
        self.wei(self.base_fee().unwrap_or_default())
    }

    /// The base fee of block `height` with this gas limit, in wei with its fraction.
    pub fn next_base_fee_in_wei(&self, height: u64, gas_limit: u64) -> LegacyDec {
        let next = self.next_base_fee(height, gas_limit);
        next.map_or_else(|| self.base_fee_in_wei(), |next| self.wei(next))
    }

    /// The minimum gas price in wei with its fraction.
    pub fn min_gas_price_wei(&self) -> LegacyDec {
        self.wei(self.params.min_gas_price)
    }

    fn whole_wei(&self, base_fee: LegacyDec) -> u64 {
        self.wei(base_fee).truncate_u64().expect("the base fee in wei fits into 64 bits")
    }

    fn wei(&self, price: LegacyDec) -> LegacyDec {
        self.decimals.to_wei(price).expect("accepted prices are at most 64 bits of wei")
    }

    const fn enable_height(&self) -> u64 {
        // Valid parameters have no negative enable height.
        self.params.enable_height.unsigned_abs()
    }
}

fn max_base_fee(decimals: TokenDecimals) -> LegacyDec {
    decimals.from_wei(MAX_BASE_FEE_WEI)
}

/// Checks parameters, and raises the base fee to the minimum gas price. A lower base fee would otherwise remain until
/// the block after the enable height, because no earlier block calculates it.
fn accept(mut params: Params, decimals: TokenDecimals) -> Result<Params, MarketError> {
    params.validate()?;
    let max = max_base_fee(decimals);
    let prices = [("base_fee", params.base_fee), ("min_gas_price", params.min_gas_price)];
    for (field, value) in prices {
        if value > max {
            return Err(MarketError::AboveHeader { field, value, max });
        }
    }
    params.base_fee = params.base_fee.max(params.min_gas_price);
    Ok(params)
}
