//! Errors of the SDK envelope around an Ethereum transaction: rows 0a, 0c, 1, 3, 7c and 15. These checks run when an
//! envelope is opened. The transaction inside is then checked like any other.

use alloy_primitives::Address;

/// Type of the only message in an envelope.
const MESSAGE_TYPE: &str = "/cosmos.evm.vm.v1.MsgEthereumTx";

/// Why an envelope is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// The message contains no transaction bytes.
    #[error("raw transaction is required")]
    RawMissing,
    /// The message has no sender, or one that is not 20 bytes long.
    #[error("sender address is missing")]
    FromMissing,
    /// The body has a memo, a timeout height, or a non-critical extension option.
    #[error("for eth tx body Memo TimeoutHeight NonCriticalExtensionOptions should be empty")]
    BodyNotEmpty,
    /// The number of extension options is not one.
    #[error("for eth tx length of ExtensionOptions should be 1")]
    ExtensionOptions,
    /// There are signer infos, although the signature is inside the transaction.
    #[error("for eth tx AuthInfo SignerInfos should be empty")]
    SignerInfos,
    /// There is a fee payer or granter, although the sender pays.
    #[error("for eth tx AuthInfo Fee payer and granter should be empty")]
    FeePayer,
    /// There are signatures, although the signature is inside the transaction.
    #[error("for eth tx Signatures should be empty")]
    Signatures,
    /// There is no fee, so the transaction could not pay.
    #[error("invalid transaction type: the envelope states no fee")]
    NoFee,
    /// The number of messages is not one.
    #[error("expected 1 message, got {0}")]
    MessageCount(usize),
    /// The message has another type.
    #[error("invalid message type {0}, expected {MESSAGE_TYPE}")]
    MessageType(String),
    /// The transaction was signed by another account than the stated one.
    #[error("signature verification failed: sender {recovered}, expected {from}")]
    Sender {
        /// The stated account.
        from: Address,
        /// The account that signed.
        recovered: Address,
    },
    /// The stated fee is not that of the transaction.
    #[error("invalid AuthInfo Fee Amount ({stated} != {actual})")]
    FeeAmount {
        /// Coins in the envelope.
        stated: String,
        /// Gas limit x fee cap, in the EVM's denomination; empty if that is zero.
        actual: String,
    },
    /// The stated gas limit is not that of the transaction.
    #[error("invalid AuthInfo Fee GasLimit ({stated} != {actual})")]
    FeeGasLimit {
        /// Gas limit in the envelope.
        stated: u64,
        /// Gas limit of the transaction.
        actual: u64,
    },
}
