//! Defines the Cosmos SDK's registered errors: their codespaces, codes and texts.

/// A registered error, which gRPC, REST and the command line return together with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Codespace: `sdk`, `evm`, `gov`, or `undefined` for unregistered errors.
    pub space: &'static str,
    /// Number within the codespace.
    pub number: u32,
    /// The registered text; empty for unregistered errors.
    pub description: &'static str,
}

/// An unregistered error.
pub const PLAIN: Code = Code { space: "undefined", number: 1, description: "" };

macro_rules! registered {
    ($($name:ident = $space:literal $number:literal $text:literal;)*) => {
        $(
            #[doc = concat!("`", $space, "` ", $number, ": ", $text, ".")]
            pub const $name: Code = Code { space: $space, number: $number, description: $text };
        )*

        /// The errors above, for [`find`].
        const REGISTERED: &[Code] = &[$($name),*];
    };
}

registered! {
    TX_DECODE = "sdk" 2 "tx parse error";
    INVALID_SEQUENCE = "sdk" 3 "invalid sequence";
    UNAUTHORIZED = "sdk" 4 "unauthorized";
    INSUFFICIENT_FUNDS = "sdk" 5 "insufficient funds";
    UNKNOWN_REQUEST = "sdk" 6 "unknown request";
    INVALID_ADDRESS = "sdk" 7 "invalid address";
    INVALID_PUBLIC_KEY = "sdk" 8 "invalid pubkey";
    INVALID_COINS = "sdk" 10 "invalid coins";
    OUT_OF_GAS = "sdk" 11 "out of gas";
    MEMO_TOO_LARGE = "sdk" 12 "memo too large";
    INSUFFICIENT_FEE = "sdk" 13 "insufficient fee";
    NO_SIGNATURES = "sdk" 15 "no signatures supplied";
    INVALID_REQUEST = "sdk" 18 "invalid request";
    TX_IN_MEMPOOL = "sdk" 19 "tx already in mempool";
    MEMPOOL_FULL = "sdk" 20 "mempool is full";
    TX_TOO_LARGE = "sdk" 21 "tx too large";
    INVALID_SIGNER = "sdk" 24 "tx intended signer does not match the given signer";
    INVALID_CHAIN_ID = "sdk" 28 "invalid chain-id";
    INVALID_TYPE = "sdk" 29 "invalid type";
    TIMEOUT_HEIGHT = "sdk" 30 "tx timeout height";
    UNKNOWN_OPTION = "sdk" 31 "unknown extension options";
    WRONG_SEQUENCE = "sdk" 32 "incorrect account sequence";
    NOT_SUPPORTED = "sdk" 37 "feature not supported";
    CREATE_DISABLED = "evm" 5 "EVM create operation is disabled";
    CALL_DISABLED = "evm" 6 "EVM Call operation is disabled";
    INVALID_BASE_FEE = "evm" 13 "invalid base fee";
    GAS_OVERFLOW = "evm" 14 "gas overflow";
    GOV_INACTIVE = "gov" 3 "inactive proposal";
    GOV_INVALID_CONTENT = "gov" 5 "invalid proposal content";
    GOV_INVALID_VOTE = "gov" 7 "invalid vote option";
    GOV_NO_HANDLER = "gov" 9 "no handler exists for proposal type";
    GOV_UNROUTABLE = "gov" 10 "proposal message not recognized by router";
    GOV_INVALID_MESSAGE = "gov" 12 "invalid proposal message";
    GOV_INVALID_SIGNER = "gov" 13 "expected gov account as only signer for proposal message";
    GOV_METADATA_TOO_LONG = "gov" 15 "metadata too long";
    GOV_MIN_DEPOSIT_TOO_SMALL = "gov" 16 "minimum deposit is too small";
    GOV_INVALID_PROPOSAL = "gov" 21 "invalid proposal";
    GOV_SUMMARY_TOO_LONG = "gov" 22 "summary too long";
    GOV_INVALID_DEPOSIT_DENOM = "gov" 23 "invalid deposit denom";
}

/// Returns the error of this module with this codespace and code, or [`PLAIN`] if there is none.
pub fn find(space: &str, number: u32) -> Code {
    let mut registered = REGISTERED.iter();
    registered.find(|code| code.space == space && code.number == number).copied().unwrap_or(PLAIN)
}
