//! Errors of the SDK envelope around an Ethereum transaction: rows 0a, 0c, 1, 3, 7c and 15 of the table of
//! checks. They are checked when an envelope is opened, before the transaction inside is checked like any
//! other.

use alloy_primitives::Address;

/// Type of the one message.
const MESSAGE_TYPE: &str = "/cosmos.evm.vm.v1.MsgEthereumTx";

/// Why an envelope is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// The message carries no transaction bytes.
    #[error("raw transaction is required")]
    RawMissing,
    /// The message names no sender, or not with 20 bytes.
    #[error("sender address is missing")]
    FromMissing,
    /// A memo, a timeout height, or an option that is not critical.
    #[error("for eth tx body Memo TimeoutHeight NonCriticalExtensionOptions should be empty")]
    BodyNotEmpty,
    /// Not exactly one extension option.
    #[error("for eth tx length of ExtensionOptions should be 1")]
    ExtensionOptions,
    /// Signer infos, though the signature is inside.
    #[error("for eth tx AuthInfo SignerInfos should be empty")]
    SignerInfos,
    /// A payer or granter, though the sender pays.
    #[error("for eth tx AuthInfo Fee payer and granter should be empty")]
    FeePayer,
    /// Signatures, though the signature is inside.
    #[error("for eth tx Signatures should be empty")]
    Signatures,
    /// No fee, so not a transaction that could pay.
    #[error("invalid transaction type: the envelope states no fee")]
    NoFee,
    /// Not exactly one message.
    #[error("expected 1 message, got {0}")]
    MessageCount(usize),
    /// A message of another type.
    #[error("invalid message type {0}, expected {MESSAGE_TYPE}")]
    MessageType(String),
    /// The signature is another account's than the one named.
    #[error("signature verification failed: sender {recovered}, expected {from}")]
    Sender {
        /// The account named.
        from: Address,
        /// The account that signed.
        recovered: Address,
    },
    /// The fee stated is not the transaction's.
    #[error("invalid AuthInfo Fee Amount ({stated} != {actual})")]
    FeeAmount {
        /// Coins in the envelope.
        stated: String,
        /// Gas limit x fee cap, in the EVM's denom; nothing if that is zero.
        actual: String,
    },
    /// The gas limit stated is not the transaction's.
    #[error("invalid AuthInfo Fee GasLimit ({stated} != {actual})")]
    FeeGasLimit {
        /// In the envelope.
        stated: u64,
        /// In the transaction.
        actual: u64,
    },
}
