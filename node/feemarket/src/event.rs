//! What the fee market tells about a block.

use super::dec::LegacyDec;

/// One event, as data; [`Self::kind`] and [`Self::attributes`] are its text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// At the beginning of a block: the fee that holds in it, in the token's base unit.
    FeeMarket {
        /// Base fee.
        base_fee: LegacyDec,
    },
    /// At the beginning of a block: the fee as the EVM sees it, in wei.
    EvmFeeMarket {
        /// Base fee.
        base_fee: u64,
    },
    /// At the end of a block: the gas that the next base fee follows from.
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

    /// Event type.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::FeeMarket { .. } => "fee_market",
            Self::EvmFeeMarket { .. } => "evm_fee_market",
            Self::BlockGas { .. } => Self::BLOCK_GAS,
        }
    }

    /// Attributes, in order.
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
