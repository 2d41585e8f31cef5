//! The SDK envelope around an Ethereum transaction: rows 0a, 0c, 1, 3, 7c and 15 of the table of
//! checks.
//!
//! An envelope says nothing that the transaction inside does not say: it must be empty where it could,
//! and agree where it must. Knows no protobuf: whoever decodes one fills in an [`Envelope`].

use crate::{execution::RecoveredTx, feemarket::fee};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256};

/// Type of the one message.
pub const MESSAGE_TYPE: &str = "/cosmos.evm.vm.v1.MsgEthereumTx";

/// What an envelope says, beside the bytes of the transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope<'a> {
    /// Type URLs of the messages.
    pub messages: &'a [&'a str],
    /// `raw` of the message: the transaction.
    pub raw: &'a [u8],
    /// `from` of the message.
    pub from: &'a [u8],
    /// Memo of the body.
    pub memo: &'a str,
    /// Timeout height of the body.
    pub timeout_height: u64,
    /// Extension options, critical and not.
    pub options: (usize, usize),
    /// Signer infos.
    pub signer_infos: usize,
    /// Signatures.
    pub signatures: usize,
    /// Fee payer and granter.
    pub payers: (&'a str, &'a str),
    /// Fee amount in wei and gas limit; `None` where there is no fee at all.
    pub fee: Option<(U256, u64)>,
}

impl Envelope<'_> {
    /// What can be checked before the transaction is decoded.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), EnvelopeFault> {
        let refuse = |wrong: bool, fault: EnvelopeFault| if wrong { Err(fault) } else { Ok(()) };
        let [message] = self.messages else {
            return Err(EnvelopeFault::MessageCount(self.messages.len()));
        };
        if *message != MESSAGE_TYPE {
            return Err(EnvelopeFault::MessageType((*message).to_owned()));
        }
        refuse(self.raw.is_empty(), EnvelopeFault::RawMissing)?;
        refuse(self.from.len() != Address::len_bytes(), EnvelopeFault::FromMissing)?;
        let (critical, others) = self.options;
        let body = !self.memo.is_empty() || self.timeout_height != 0 || others != 0;
        refuse(body, EnvelopeFault::BodyNotEmpty)?;
        refuse(critical != 1, EnvelopeFault::ExtensionOptions)?;
        refuse(self.signer_infos != 0, EnvelopeFault::SignerInfos)?;
        let (payer, granter) = self.payers;
        refuse(!payer.is_empty() || !granter.is_empty(), EnvelopeFault::FeePayer)?;
        refuse(self.signatures != 0, EnvelopeFault::Signatures)?;
        refuse(self.fee.is_none(), EnvelopeFault::NoFee)
    }

    /// What can be checked once the transaction is known. The fee stated is gas limit x fee cap.
    ///
    /// # Errors
    /// The first fault.
    pub fn agrees(&self, tx: &RecoveredTx) -> Result<(), EnvelopeFault> {
        let (stated, gas) = self.fee.ok_or(EnvelopeFault::NoFee)?;
        let from = Address::try_from(self.from).map_err(|_| EnvelopeFault::FromMissing)?;
        if from != tx.sender {
            return Err(EnvelopeFault::Sender { from, recovered: tx.sender });
        }
        let actual = fee(tx.tx.gas_limit(), tx.tx.max_fee_per_gas());
        if stated != actual {
            return Err(EnvelopeFault::FeeAmount { stated, actual });
        }
        if gas != tx.tx.gas_limit() {
            return Err(EnvelopeFault::FeeGasLimit { stated: gas, actual: tx.tx.gas_limit() });
        }
        Ok(())
    }
}

/// What is wrong with an envelope.
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
    /// The fee stated is not the transaction's, in wei.
    #[error("invalid AuthInfo Fee Amount ({stated} != {actual})")]
    FeeAmount {
        /// In the envelope.
        stated: U256,
        /// Gas limit x fee cap.
        actual: U256,
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
