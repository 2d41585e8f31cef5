//! Defines the events that the fee market emits for a block.

use super::dec::LegacyDec;

/// An event. [`Self::kind`] and [`Self::attributes`] return its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Emitted at the beginning of a block.
    FeeMarket {
        /// Base fee of the block in the token's base unit.
        base_fee: LegacyDec,
    },
    /// Emitted at the beginning of a block.
    EvmFeeMarket {
        /// Base fee of the block in wei, as the EVM uses it.
        base_fee: u64,
    },
    /// Emitted at the end of a block.
    BlockGas {
        /// Number of the block.
        height: u64,
        /// The gas from which the next base fee is calculated.
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

    /// Returns the attributes in the order of cosmos/evm.
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
