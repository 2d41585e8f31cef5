//! Why a Cosmos transaction is refused, or has no effect: codespace, code and text as in the SDK.

use crate::Code;
use std::fmt;

/// A refusal under a registered error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The registered error.
    pub code: Code,
    /// The reason in this case.
    pub detail: String,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    /// The SDK's `<detail>: <registered text>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.description {
            "" => f.write_str(&self.detail),
            text if self.detail.is_empty() => f.write_str(text),
            text => write!(f, "{}: {text}", self.detail),
        }
    }
}

macro_rules! registered {
    ($($(#[$doc:meta])* $name:ident = $space:literal $number:literal $text:literal;)*) => {
        $(
            $(#[$doc])*
            pub fn $name(detail: impl Into<String>) -> Refusal {
                let code = Code { space: $space, number: $number, description: $text };
                Refusal { code, detail: detail.into() }
            }
        )*
    };
}

registered! {
    /// An unregistered error.
    plain = "undefined" 1 "";
    /// `sdk` 2: tx parse error.
    tx_decode = "sdk" 2 "tx parse error";
    /// `sdk` 4: unauthorized.
    unauthorized = "sdk" 4 "unauthorized";
    /// `sdk` 5: insufficient funds.
    insufficient_funds = "sdk" 5 "insufficient funds";
    /// `sdk` 7: invalid address.
    invalid_address = "sdk" 7 "invalid address";
    /// `sdk` 8: invalid pubkey.
    invalid_public_key = "sdk" 8 "invalid pubkey";
    /// `sdk` 10: invalid coins.
    invalid_coins = "sdk" 10 "invalid coins";
    /// `sdk` 11: out of gas.
    out_of_gas = "sdk" 11 "out of gas";
    /// `sdk` 12: memo too large.
    memo_too_large = "sdk" 12 "memo too large";
    /// `sdk` 13: insufficient fee.
    insufficient_fee = "sdk" 13 "insufficient fee";
    /// `sdk` 15: no signatures supplied.
    no_signatures = "sdk" 15 "no signatures supplied";
    /// `sdk` 18: invalid request.
    invalid_request = "sdk" 18 "invalid request";
    /// `sdk` 29: invalid type.
    invalid_type = "sdk" 29 "invalid type";
    /// `sdk` 30: tx timeout height.
    timeout_height = "sdk" 30 "tx timeout height";
    /// `sdk` 31: unknown extension options.
    unknown_option = "sdk" 31 "unknown extension options";
    /// `sdk` 32: incorrect account sequence.
    wrong_sequence = "sdk" 32 "incorrect account sequence";
    /// `sdk` 37: feature not supported.
    not_supported = "sdk" 37 "feature not supported";
    /// `gov` 3: inactive proposal.
    gov_inactive = "gov" 3 "inactive proposal";
    /// `gov` 5: invalid proposal content.
    gov_invalid_content = "gov" 5 "invalid proposal content";
    /// `gov` 7: invalid vote option.
    gov_invalid_vote = "gov" 7 "invalid vote option";
    /// `gov` 9: no handler exists for proposal type.
    gov_no_handler = "gov" 9 "no handler exists for proposal type";
    /// `gov` 10: proposal message not recognized by router.
    gov_unroutable = "gov" 10 "proposal message not recognized by router";
    /// `gov` 12: invalid proposal message.
    gov_invalid_message = "gov" 12 "invalid proposal message";
    /// `gov` 13: expected gov account as only signer for proposal message.
    gov_invalid_signer = "gov" 13 "expected gov account as only signer for proposal message";
    /// `gov` 15: metadata too long.
    gov_metadata_too_long = "gov" 15 "metadata too long";
    /// `gov` 16: minimum deposit is too small.
    gov_min_deposit_too_small = "gov" 16 "minimum deposit is too small";
    /// `gov` 21: invalid proposal.
    gov_invalid_proposal = "gov" 21 "invalid proposal";
    /// `gov` 22: summary too long.
    gov_summary_too_long = "gov" 22 "summary too long";
    /// `gov` 23: invalid deposit denom.
    gov_invalid_deposit_denom = "gov" 23 "invalid deposit denom";
}
