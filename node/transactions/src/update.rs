//! New parameters of a module in a governance message.

use chain::{DistributionParams, EvmParams};
use feemarket::Params;

/// New parameters of a module. As in cosmos/evm's `MsgUpdateParams`, all of them are stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Parameters of the fee market, including the current base fee.
    FeeMarket(Params),
    /// Parameters of the EVM.
    Evm(EvmParams),
    /// Who receives the fees, from rules version 2 on.
    Distribution(DistributionParams),
}
