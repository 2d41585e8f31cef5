//! The native chain's fee market: what a unit of gas costs in the next block, and what a
//! transaction is charged.
//!
//! One [`Market`] travels with the chain. A block calls [`Market::begin_block`] before its first
//! transaction, adds the gas limit of every transaction that passes its checks to [`GasWanted`],
//! and calls [`Market::end_block`] after the last. [`store`] says what is kept of it and how the
//! header commits to it.
//!
//! The rules are those of the `feemarket` module of cosmos/evm v0.4.1, with two promises it does
//! not make: the base fee is never below `min_gas_price`, and always fits a block header.
//!
//! Pure: no I/O, no clock, no floating point, and no arithmetic that could wrap or panic. All of
//! it is consensus: a changed digit here is another chain.

#![deny(clippy::arithmetic_side_effects)]

mod dec;
mod event;
mod formula;
mod gas;
mod genesis;
mod market;
mod params;
mod price;
pub mod query;
pub mod store;
mod wire;

pub use dec::{DecError, LegacyDec};
pub use event::Event;
pub use formula::{
    DecimalsError, Inputs, InvalidMaxGas, TokenDecimals, block_gas_limit, gas_target, next_base_fee,
};
pub use gas::{GasOverflow, GasWanted, block_gas, charge};
pub use genesis::Genesis;
pub use market::{MAX_BASE_FEE_WEI, Market, MarketError};
pub use params::optional_integer;
pub use params::{Params, ParamsError, Scaled};
pub use price::{Price, fee};
pub use wire::WireError;
