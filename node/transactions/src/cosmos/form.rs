//! Checks the features of a transaction's encoding that only some rules versions accept.

use super::error::{Refusal, tx_decode, unauthorized};
use chain::RulesVersion;

/// The features of a transaction's encoding that rules versions treat differently. A transaction states neither the
/// version nor the height, so decoding and verification record the features, which are checked later for a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Some fields state a default value explicitly.
    pub(super) defaults: bool,
    /// The transaction has messages of `cosmos.gov.v1beta1`.
    pub(super) v1beta1_messages: bool,
    /// The fee payer is stated in the Amino document that was signed.
    pub(super) signed_payer: bool,
    /// A part that the signature does not cover. Anyone could change the part, which changes the transaction's hash.
    pub(super) unsigned: Option<&'static str>,
}

impl Form {
    /// Checks the encoding. Version 0 rejects the features that version 1 added, and later versions reject parts that
    /// are not signed.
    ///
    /// # Errors
    /// Returns the reason why these rules reject the encoding.
    pub(super) fn check(self, rules: RulesVersion) -> Result<(), Refusal> {
        if rules >= RulesVersion::V1 {
            return match self.unsigned {
                Some(what) => Err(unauthorized(format!("the signature does not cover {what}"))),
                None => Ok(()),
            };
        }
        let later = |what: &str| format!("{what} from version 1 of the consensus rules on only");
        if self.defaults {
            return Err(tx_decode(later("default values may be stated")));
        }
        if self.v1beta1_messages {
            return Err(tx_decode(later("messages of cosmos.gov.v1beta1 are accepted")));
        }
        if self.signed_payer {
            return Err(unauthorized(later("the Amino document contains fee.payer")));
        }
        Ok(())
    }
}
