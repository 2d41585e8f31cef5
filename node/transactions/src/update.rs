//! The parameters that a governance message can change.

use chain::{DistributionParams, EvmParams};
use feemarket::Params;

/// New parameters of a module. As in cosmos/evm's `MsgUpdateParams`, every parameter is stated, changed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Parameters of the fee market, including the current base fee.
    FeeMarket(Params),
    /// Parameters of the EVM.
    Evm(EvmParams),
    /// The distribution of fees, since rules version 2.
    Distribution(DistributionParams),
}
