//! What of a transaction's form only some versions of the consensus rules accept.

use super::error::{Refusal, tx_decode, unauthorized};
use chain::RulesVersion;

/// The forms of a transaction that versions of the rules tell apart. Its bytes say neither the version nor the
/// height, so the form is noted when it is read and checked for a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Fields state their default values.
    pub(super) defaults: bool,
    /// It has messages of `cosmos.gov.v1beta1`.
    pub(super) v1beta1_messages: bool,
    /// The fee payer is stated in the Amino document that was signed.
    pub(super) signed_payer: bool,
    /// What could be changed without the signer: the hash of the transaction would be another one.
    pub(super) unsigned: Option<&'static str>,
}

impl Form {
    /// Version 0 does not accept what version 1 added, and version 1 nothing that is not signed.
    ///
    /// # Errors
    /// Why these rules do not accept the form.
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
