//! The market's state and how a block moves it.
//!
//! Holds valid parameters only: they are checked wherever they enter. The state is small and
//! cheap to clone; a caller that abandons a block keeps the clone.

use super::{
    dec::LegacyDec,
    event::Event,
    formula::{Inputs, TokenDecimals, gas_target, next_base_fee},
    gas::{GasOverflow, block_gas},
    genesis::Genesis,
    params::{Params, ParamsError},
};
use thiserror::Error;

/// Greatest base fee, in wei: a block header has 64 bits for it. Above it the fee stays; a transfer
/// costs 387,000 tokens then.
pub const MAX_BASE_FEE_WEI: u64 = u64::MAX;

/// Why there is no such market.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MarketError {
    /// Parameters that are not valid.
    #[error(transparent)]
    Params(#[from] ParamsError),
    /// A price that no block header can carry. A scaled integer read as a decimal ends here.
    #[error("{field} {value} is more than {max}, the greatest base fee a block header carries")]
    AboveHeader {
        /// Which price.
        field: &'static str,
        /// What was given, in the token's base unit.
        value: LegacyDec,
        /// [`MAX_BASE_FEE_WEI`] in the token's base unit.
        max: LegacyDec,
    },
}

/// The fee market of a chain, after some block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Market {
    decimals: TokenDecimals,
    params: Params,
    block_gas: u64,
}

impl Market {
    /// The market a chain starts with, or goes on with after a restart.
    ///
    /// # Errors
    /// [`MarketError`] for parameters that must not be used.
    pub fn new(genesis: Genesis, decimals: TokenDecimals) -> Result<Self, MarketError> {
        let Genesis { params, block_gas } = genesis;
        Ok(Self { decimals, params: accept(params, decimals)?, block_gas })
    }

    /// Replaces the parameters, base fee included; they hold from the next block.
    ///
    /// # Errors
    /// [`MarketError`]; nothing has changed then.
    pub fn update(&mut self, params: Params) -> Result<(), MarketError> {
        self.params = accept(params, self.decimals)?;
        Ok(())
    }

    /// Begins block `height` of this gas limit: moves the base fee. `None` where there is no base
    /// fee or it is not enabled yet.
    pub fn begin_block(&mut self, height: u64, gas_limit: u64) -> Option<Event> {
        let base_fee = self.next_base_fee(height, gas_limit)?;
        self.params.base_fee = base_fee;
        Some(Event::FeeMarket { base_fee })
    }

    /// Sets the base fee of the block that has begun, whatever the formula says: for a development chain. Returns it in
    /// the token's base unit.
    pub fn set_base_fee_wei(&mut self, wei: u64) -> LegacyDec {
        self.params.base_fee = self.decimals.from_wei(wei);
        self.params.base_fee
    }

    /// The base fee that [`Self::begin_block`] would set, in the token's base unit.
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
        .expect("a 64-bit fee times 64-bit gas is in range, a valid denominator is not zero");
        // The floor once more: with a gas target of zero the formula forgets it.
        Some(next.min(greatest_base_fee(self.decimals)).max(params.min_gas_price))
    }

    /// The base fee of block `height` of this gas limit in wei, as its header will have it.
    pub fn next_base_fee_wei(&self, height: u64, gas_limit: u64) -> u64 {
        match self.next_base_fee(height, gas_limit) {
            Some(base_fee) => self.whole_wei(base_fee),
            None => self.base_fee_wei(),
        }
    }

    /// The event of the EVM's side at the beginning of every block.
    pub fn evm_event(&self) -> Event {
        Event::EvmFeeMarket { base_fee: self.base_fee_wei() }
    }

    /// Ends a block: keeps the gas that the next base fee follows from, and returns it. Runs in
    /// every block, with or without a base fee.
    ///
    /// # Errors
    /// [`GasOverflow`] for an amount past 2^63 - 1; nothing has changed then.
    pub fn end_block(&mut self, gas_wanted: u64, consumed: u64) -> Result<u64, GasOverflow> {
        self.block_gas = block_gas(gas_wanted, consumed, self.params.min_gas_multiplier)?;
        Ok(self.block_gas)
    }

    /// Whether transactions of block `height` add to the gas wanted.
    pub const fn counts_gas(&self, height: u64) -> bool {
        !self.params.no_base_fee && height >= self.enable_height()
    }

    /// The parameters, current base fee included.
    pub const fn params(&self) -> &Params {
        &self.params
    }

    /// Gas that the last block reported.
    pub const fn block_gas(&self) -> u64 {
        self.block_gas
    }

    /// Decimals of the token that prices are in.
    pub const fn decimals(&self) -> TokenDecimals {
        self.decimals
    }

    /// The current base fee in the token's base unit; `None` where there is none. Before its enable
    /// height it holds too, unmoved.
    pub const fn base_fee(&self) -> Option<LegacyDec> {
        if self.params.no_base_fee { None } else { Some(self.params.base_fee) }
    }

    /// The base fee as the EVM, headers and clients see it: whole wei, zero where there is none.
    pub fn base_fee_wei(&self) -> u64 {
        self.whole_wei(self.base_fee().unwrap_or_default())
    }

    /// The base fee in wei, fraction kept; zero where there is none.
    pub fn base_fee_in_wei(&self) -> LegacyDec {
        self.wei(self.base_fee().unwrap_or_default())
    }

    /// The same of block `height` of this gas limit.
    pub fn next_base_fee_in_wei(&self, height: u64, gas_limit: u64) -> LegacyDec {
        let next = self.next_base_fee(height, gas_limit);
        next.map_or_else(|| self.base_fee_in_wei(), |next| self.wei(next))
    }

    /// The least price of gas in wei, fraction kept.
    pub fn min_gas_price_wei(&self) -> LegacyDec {
        self.wei(self.params.min_gas_price)
    }

    fn whole_wei(&self, base_fee: LegacyDec) -> u64 {
        self.wei(base_fee).truncate_u64().expect("capped to 64 bits")
    }

    fn wei(&self, price: LegacyDec) -> LegacyDec {
        self.decimals.to_wei(price).expect("accepted prices are at most 64 bits of wei")
    }

    const fn enable_height(&self) -> u64 {
        // Valid parameters have no negative one.
        self.params.enable_height.unsigned_abs()
    }
}

fn greatest_base_fee(decimals: TokenDecimals) -> LegacyDec {
    decimals.from_wei(MAX_BASE_FEE_WEI)
}

/// Checks parameters from outside, and lifts the base fee to the least price of gas: nothing could
/// be mined below it, and no formula lifts it on the way up.
fn accept(mut params: Params, decimals: TokenDecimals) -> Result<Params, MarketError> {
    params.validate()?;
    let max = greatest_base_fee(decimals);
    let prices = [("base_fee", params.base_fee), ("min_gas_price", params.min_gas_price)];
    for (field, value) in prices {
        if value > max {
            return Err(MarketError::AboveHeader { field, value, max });
        }
    }
    params.base_fee = params.base_fee.max(params.min_gas_price);
    Ok(params)
}
