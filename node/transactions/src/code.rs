//! The numbers of refusals in the SDK's interfaces: codespace, code, and the registered text.

/// A registered error, which gRPC, REST and the command line show together with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Codespace: `sdk`, `evm`, or `undefined` for unregistered errors.
    pub space: &'static str,
    /// Number within the codespace.
    pub number: u32,
    /// The registered text; empty for unregistered errors.
    pub description: &'static str,
}

const fn sdk(number: u32, description: &'static str) -> Code {
    Code { space: "sdk", number, description }
}

const fn evm(number: u32, description: &'static str) -> Code {
    Code { space: "evm", number, description }
}

/// An unregistered error.
pub const PLAIN: Code = Code { space: "undefined", number: 1, description: "" };

/// The SDK's registered error of this name.
pub const TX_DECODE: Code = sdk(2, "tx parse error");
/// The SDK's registered error of this name.
pub const INVALID_SEQUENCE: Code = sdk(3, "invalid sequence");
/// The SDK's registered error of this name.
pub const INSUFFICIENT_FUNDS: Code = sdk(5, "insufficient funds");
/// The SDK's registered error of this name.
pub const UNKNOWN_REQUEST: Code = sdk(6, "unknown request");
/// The SDK's registered error of this name.
pub const OUT_OF_GAS: Code = sdk(11, "out of gas");
/// The SDK's registered error of this name.
pub const INSUFFICIENT_FEE: Code = sdk(13, "insufficient fee");
/// The SDK's registered error of this name.
pub const INVALID_REQUEST: Code = sdk(18, "invalid request");
/// The SDK's registered error of this name.
pub const TX_IN_MEMPOOL: Code = sdk(19, "tx already in mempool");
/// The SDK's registered error of this name.
pub const MEMPOOL_FULL: Code = sdk(20, "mempool is full");
/// The SDK's registered error of this name.
pub const TX_TOO_LARGE: Code = sdk(21, "tx too large");
/// The SDK's registered error of this name.
pub const INVALID_SIGNER: Code = sdk(24, "tx intended signer does not match the given signer");
/// The SDK's registered error of this name.
pub const INVALID_CHAIN_ID: Code = sdk(28, "invalid chain-id");
/// The SDK's registered error of this name.
pub const INVALID_TYPE: Code = sdk(29, "invalid type");
/// The SDK's registered error of this name.
pub const WRONG_SEQUENCE: Code = sdk(32, "incorrect account sequence");
/// The SDK's registered error of this name.
pub const NOT_SUPPORTED: Code = sdk(37, "feature not supported");
/// The registered error of this name of cosmos-evm.
pub const CREATE_DISABLED: Code = evm(5, "EVM create operation is disabled");
/// The registered error of this name of cosmos-evm.
pub const CALL_DISABLED: Code = evm(6, "EVM Call operation is disabled");
/// The registered error of this name of cosmos-evm.
pub const INVALID_BASE_FEE: Code = evm(13, "invalid base fee");
/// The registered error of this name of cosmos-evm.
pub const GAS_OVERFLOW: Code = evm(14, "gas overflow");
