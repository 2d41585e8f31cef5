//! The events that the fee market emits for a block.

use super::dec::LegacyDec;

/// An event. [`Self::kind`] and [`Self::attributes`] return its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// At the beginning of a block: its base fee in the token's base unit.
    FeeMarket {
        /// Base fee.
        base_fee: LegacyDec,
    },
    /// At the beginning of a block: its base fee in wei, as the EVM uses it.
    EvmFeeMarket {
        /// Base fee.
        base_fee: u64,
    },
    /// At the end of a block: the gas from which the next base fee is calculated.
    BlockGas {
        /// The block.
        height: u64,
        /// Gas.
        amount: u64,
    },
}

impl Event {
    /// The type of [`Self::BlockGas`].
    pub const BLOCK_GAS: &'static str = "block_gas";

    /// Returns the type of the event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FeeMarket { .. } => "fee_market",
            Self::EvmFeeMarket { .. } => "evm_fee_market",
            Self::BlockGas { .. } => Self::BLOCK_GAS,
        }
    }

    /// Returns the attributes in the reference's order.
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::FeeMarket { base_fee } => vec![("base_fee", base_fee.to_string())],
            Self::EvmFeeMarket { base_fee } => vec![("base_fee", base_fee.to_string())],
            Self::BlockGas { height, amount } => {
                vec![("height", height.to_string()), ("amount", amount.to_string())]
            }
        }
    }
}
