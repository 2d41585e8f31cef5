//! Checks the features of a transaction's encoding that only some rules versions accept.

use super::error::{Refusal, tx_decode, unauthorized};
use chain::RulesVersion;

/// The features of a transaction's encoding that rules versions treat differently. Its bytes state neither the
/// version nor the height, so they are recorded while it is decoded and checked for a block later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Some fields state a default value explicitly.
    pub(super) defaults: bool,
    /// It has messages of `cosmos.gov.v1beta1`.
    pub(super) v1beta1_messages: bool,
    /// The fee payer is stated in the Amino document that was signed.
    pub(super) signed_payer: bool,
    /// A part that the signature does not cover, so that anyone could change it and with it the transaction's hash.
    pub(super) unsigned: Option<&'static str>,
}

impl Form {
    /// Checks the encoding. Version 0 rejects what version 1 added, and version 1 rejects parts that are not
    /// signed.
    ///
    /// # Errors
    /// The reason for which these rules reject the encoding.
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
