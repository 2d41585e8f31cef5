//! New parameters of a module, as a message of governance carries them.

use chain::EvmParams;
use feemarket::Params;

/// New parameters of a module: all of them, as the reference's `MsgUpdateParams` has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Of the fee market, the current base fee among them.
    FeeMarket(Params),
    /// Of the EVM.
    Evm(EvmParams),
}
