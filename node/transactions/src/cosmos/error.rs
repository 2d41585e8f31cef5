//! Creates the errors of rejected or failed Cosmos transactions, with codespaces, codes and texts as in the SDK.

use crate::{Code, code};
use std::fmt;

/// A rejection with a registered error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The registered error.
    pub code: Code,
    /// The reason in this case.
    pub detail: String,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    /// Writes the SDK's `<detail>: <registered text>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.description {
            "" => f.write_str(&self.detail),
            text if self.detail.is_empty() => f.write_str(text),
            text => write!(f, "{}: {text}", self.detail),
        }
    }
}

macro_rules! refusals {
    ($($name:ident = $code:ident;)*) => {
        $(
            #[doc = concat!("A refusal with the code [`", stringify!($code), "`](code::", stringify!($code), ").")]
            pub fn $name(detail: impl Into<String>) -> Refusal {
                Refusal { code: code::$code, detail: detail.into() }
            }
        )*
    };
}

refusals! {
    plain = PLAIN;
    tx_decode = TX_DECODE;
    unauthorized = UNAUTHORIZED;
    insufficient_funds = INSUFFICIENT_FUNDS;
    invalid_address = INVALID_ADDRESS;
    invalid_public_key = INVALID_PUBLIC_KEY;
    invalid_coins = INVALID_COINS;
    out_of_gas = OUT_OF_GAS;
    memo_too_large = MEMO_TOO_LARGE;
    insufficient_fee = INSUFFICIENT_FEE;
    no_signatures = NO_SIGNATURES;
    invalid_request = INVALID_REQUEST;
    invalid_type = INVALID_TYPE;
    timeout_height = TIMEOUT_HEIGHT;
    unknown_option = UNKNOWN_OPTION;
    wrong_sequence = WRONG_SEQUENCE;
    not_supported = NOT_SUPPORTED;
    gov_inactive = GOV_INACTIVE;
    gov_invalid_content = GOV_INVALID_CONTENT;
    gov_invalid_vote = GOV_INVALID_VOTE;
    gov_no_handler = GOV_NO_HANDLER;
    gov_unroutable = GOV_UNROUTABLE;
    gov_invalid_message = GOV_INVALID_MESSAGE;
    gov_invalid_signer = GOV_INVALID_SIGNER;
    gov_metadata_too_long = GOV_METADATA_TOO_LONG;
    gov_min_deposit_too_small = GOV_MIN_DEPOSIT_TOO_SMALL;
    gov_invalid_proposal = GOV_INVALID_PROPOSAL;
    gov_summary_too_long = GOV_SUMMARY_TOO_LONG;
    gov_invalid_deposit_denom = GOV_INVALID_DEPOSIT_DENOM;
}
