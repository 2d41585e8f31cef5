//! Implements the native chain's fee market: the price of gas in the next block, and the charge of a transaction.
//!
//! One [`Market`] is part of the state at the head. The execution of a block calls [`Market::begin_block`] before the
//! first transaction, adds the gas limit of every transaction that passes its checks to [`GasWanted`], and calls
//! [`Market::end_block`] after the last one. [`store`] encodes the market for storage and the commitment in headers.
//!
//! The rules are those of the `feemarket` module of cosmos/evm v0.4.1, with two additional guarantees: the base fee
//! fits into a block header, and is not below `min_gas_price` unless [`Market::set_base_fee_wei`] sets it.
//!
//! There is no I/O, no clock, no floating point, and no arithmetic that could wrap. All results are part of the
//! consensus: any change of a result is a hard fork.

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
