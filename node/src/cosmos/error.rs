//! Why a Cosmos transaction is turned away, or has no effect: codespace, code and text as the SDK
//! gives them.

use crate::decorator::Code;
use std::fmt;

/// A refusal under a registered error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The registered error.
    pub code: Code,
    /// What is wrong in this case.
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
            pub(crate) fn $name(detail: impl Into<String>) -> Refusal {
                let code = Code { space: $space, number: $number, description: $text };
                Refusal { code, detail: detail.into() }
            }
        )*
    };
}

registered! {
    /// An error nobody registered.
    plain = "undefined" 1 "";
    tx_decode = "sdk" 2 "tx parse error";
    unauthorized = "sdk" 4 "unauthorized";
    insufficient_funds = "sdk" 5 "insufficient funds";
    invalid_address = "sdk" 7 "invalid address";
    invalid_public_key = "sdk" 8 "invalid pubkey";
    invalid_coins = "sdk" 10 "invalid coins";
    out_of_gas = "sdk" 11 "out of gas";
    memo_too_large = "sdk" 12 "memo too large";
    insufficient_fee = "sdk" 13 "insufficient fee";
    no_signatures = "sdk" 15 "no signatures supplied";
    invalid_request = "sdk" 18 "invalid request";
    invalid_type = "sdk" 29 "invalid type";
    timeout_height = "sdk" 30 "tx timeout height";
    unknown_option = "sdk" 31 "unknown extension options";
    wrong_sequence = "sdk" 32 "incorrect account sequence";
    not_supported = "sdk" 37 "feature not supported";
    gov_inactive = "gov" 3 "inactive proposal";
    gov_invalid_content = "gov" 5 "invalid proposal content";
    gov_invalid_vote = "gov" 7 "invalid vote option";
    gov_no_handler = "gov" 9 "no handler exists for proposal type";
    gov_unroutable = "gov" 10 "proposal message not recognized by router";
    gov_invalid_message = "gov" 12 "invalid proposal message";
    gov_invalid_signer = "gov" 13 "expected gov account as only signer for proposal message";
    gov_metadata_too_long = "gov" 15 "metadata too long";
    gov_min_deposit_too_small = "gov" 16 "minimum deposit is too small";
    gov_invalid_proposal = "gov" 21 "invalid proposal";
    gov_summary_too_long = "gov" 22 "summary too long";
    gov_invalid_deposit_denom = "gov" 23 "invalid deposit denom";
}
