//! Why a transaction is rejected: one enum for all interfaces and for blocks.
//!
//! `Display` returns the text of JSON-RPC, which is geth's if tools match on it. [`Reject::log`] returns the
//! text of the SDK's interfaces, which also return [`Reject::code`].
//!
//! Checks of cosmos/evm that cannot fail here have no variant: amounts are unsigned in their encoding, so none
//! is negative, and prices above 128 bits cannot be decoded ([`Reject::Malformed`]; JSON-RPC determines the
//! reason in that case).

use super::envelope::EnvelopeFault;
use alloy_primitives::{Address, U256};
use chain::Fork;
use transactions::{Code, SidecarError, code, cosmos::Refusal};

/// geth's JSON-RPC code for a rejected transaction.
const SERVER: i32 = -32000;
/// EIP-1474: a limit of this server.
const LIMIT_EXCEEDED: i32 = -32005;

/// Why a transaction was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    // Reasons other than a rule of Ethereum transactions.
    /// The bytes cannot be decoded as a transaction.
    #[error("{0}")]
    Malformed(String),
    /// The transaction is larger than the limit.
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized {
        /// Size in bytes.
        size: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The node is shutting down, or too busy to queue more transactions.
    #[error("node busy: {0}")]
    Busy(&'static str),
    /// The node does not produce blocks, so the transaction would wait forever.
    #[error(
        "this node does not produce blocks, so it does not accept transactions: send the transaction to a \
         node that does, or start this one with mempool.accept-without-production = true"
    )]
    NoProduction,
    /// This node follows others, and the transaction could not be passed to the producer.
    #[error("{0}")]
    NotForwarded(String),
    /// The mempool of another node has rejected the transaction.
    #[error("{}", .0.text)]
    Remote(Box<RemoteReject>),
    /// The SDK envelope around an Ethereum transaction is invalid.
    #[error(transparent)]
    Envelope(#[from] EnvelopeFault),
    /// A Cosmos transaction violates a rule.
    #[error(transparent)]
    Cosmos(#[from] Refusal),
    /// The blobs of a blob transaction are missing, or do not match its hashes.
    #[error(transparent)]
    Sidecar(#[from] SidecarError),

    // Checks of the transaction's own fields.
    /// The chain accepts no transactions of this type: blob transactions, or an unknown type.
    #[error("transaction type not supported")]
    TypeNotSupported,
    /// A later fork introduces this transaction type. The text is geth's.
    #[error("transaction type not supported: type {tx_type} rejected, pool not yet in {fork:?}")]
    TypeNotActive {
        /// The transaction's EIP-2718 type.
        tx_type: u8,
        /// The fork that introduces it.
        fork: Fork,
    },
    /// A legacy transaction without EIP-155 protection.
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    /// The transaction was signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The transaction's chain id.
        have: u64,
        /// The chain id of this chain.
        want: u64,
    },
    /// The signer cannot be recovered, or the signature is malleable (EIP-2).
    #[error("invalid sender")]
    InvalidSender,
    /// EIP-1559: the priority fee exceeds the fee cap.
    #[error(
        "max priority fee per gas higher than max fee per gas: \
         maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
    )]
    TipAboveCap {
        /// `maxPriorityFeePerGas`.
        tip: u128,
        /// `maxFeePerGas`.
        cap: u128,
    },
    /// Init code exceeds the limit of EIP-3860.
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCodeSize {
        /// Size in bytes.
        size: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// EIP-7702: a set-code transaction must have an authorization and a recipient.
    #[error("set code transaction must have at least one authorization and a recipient")]
    EmptySetCode,
    /// EIP-4844: a blob transaction must have at least one blob.
    #[error("blobless blob transaction")]
    Blobless,
    /// The number of blobs exceeds the limit of one transaction (EIP-7840, EIP-7594).
    #[error("too many blobs in transaction: have {have}, permitted {permitted}")]
    TooManyBlobs {
        /// Number of blobs.
        have: u64,
        /// Maximum number of blobs.
        permitted: u64,
    },
    /// The gas limit is below the intrinsic gas.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas {
        /// The transaction's gas limit.
        gas: u64,
        /// The intrinsic gas.
        needed: u64,
    },
    /// The gas limit is below the minimum for the call data (EIP-7623).
    #[error("insufficient gas for floor data gas cost: gas {gas}, minimum needed {needed}")]
    FloorGas {
        /// The transaction's gas limit.
        gas: u64,
        /// The minimum.
        needed: u64,
    },
    /// The gas limit exceeds the maximum of one transaction (EIP-7825).
    #[error("transaction gas limit too high (cap: {cap}, tx: {gas})")]
    TxGasCap {
        /// The transaction's gas limit.
        gas: u64,
        /// The cap.
        cap: u64,
    },

    // Fees and permissions.
    /// The rules have a base fee, but it is unknown.
    #[error("base fee is supported but evm block context value is nil")]
    BaseFeeUnknown,
    /// Before London: the fee is below the minimum of this node's mempool. Both in wei.
    #[error("got: {fee}, minimum required: {required}")]
    MempoolMinimum {
        /// Offered fee.
        fee: U256,
        /// Required fee.
        required: U256,
    },
    /// The fee is below the chain's minimum gas price. Both in wei, truncated.
    #[error(
        "provided fee < minimum global fee ({fee} < {required}). Please increase the priority tip \
         (for EIP-1559 txs) or the gas prices (for access list or legacy txs)"
    )]
    GlobalMinimum {
        /// Offered fee.
        fee: U256,
        /// Required fee.
        required: U256,
    },
    /// Contract creation is disabled.
    #[error("failed to create new contract: EVM create operation is disabled")]
    CreateDisabled,
    /// Contract calls are disabled.
    #[error("failed to perform a call: EVM Call operation is disabled")]
    CallDisabled,
    /// The fee cap is below the base fee. Both in wei per gas.
    #[error("max fee per gas less than block base fee ({cap} < {base_fee})")]
    FeeCapBelowBaseFee {
        /// Fee cap, or gas price.
        cap: u128,
        /// Base fee of the block.
        base_fee: u64,
    },
    /// EIP-4844: the cap is below the price of blob gas. Both in wei per blob gas.
    #[error(
        "max fee per blob gas less than block blob gas fee: \
         blobGasFeeCap: {cap}, blobBaseFee: {base_fee}"
    )]
    BlobFeeCapBelowBaseFee {
        /// `maxFeePerBlobGas`.
        cap: u128,
        /// Price of blob gas in the block.
        base_fee: u128,
    },
    /// The fee cap is below the base fee, detected when the fee is deducted.
    #[error(
        "the tx gasfeecap is lower than the tx baseFee: {cap} (gasfeecap), {base_fee} (basefee) "
    )]
    FeeCapBelowTxBaseFee {
        /// Fee cap, or gas price.
        cap: u128,
        /// Base fee of the block.
        base_fee: u64,
    },
    /// The gas limit is below the intrinsic gas, detected when the fee is deducted.
    #[error("gas limit too low: {gas} (gas limit) < {intrinsic} (intrinsic gas)")]
    GasBelowIntrinsic {
        /// The transaction's gas limit.
        gas: u64,
        /// The intrinsic gas.
        intrinsic: u64,
    },
    /// The sum of the gas limits in a block exceeds the range of the fee market.
    #[error("block gas wanted overflows with a transaction of {gas} gas")]
    GasWantedOverflow {
        /// The transaction's gas limit.
        gas: u64,
    },
    /// The gas limit exceeds that of the block.
    #[error("exceeds block gas limit: tx gas {gas}, block gas limit {limit}")]
    BlockGasLimit {
        /// The transaction's gas limit.
        gas: u64,
        /// Gas limit of the block.
        limit: u64,
    },

    // Checks of the sender's account.
    /// The sender has code other than an EIP-7702 delegation (EIP-3607).
    #[error("sender not an eoa: address {0}")]
    SenderNotEoa(Address),
    /// The balance does not cover the maximum cost: gas and blob gas at their fee caps, and the value. In wei.
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}",
        .cost.saturating_sub(*.balance)
    )]
    InsufficientFunds {
        /// Balance.
        balance: U256,
        /// The maximum cost.
        cost: U256,
    },
    /// The balance does not cover this transaction in addition to the pooled ones. In wei.
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, queued cost {queued}, \
         tx cost {cost}, overshot {}",
        .queued.saturating_add(*.cost).saturating_sub(*.balance)
    )]
    InsufficientFundsQueued {
        /// Balance.
        balance: U256,
        /// Cost of the account's other pooled transactions.
        queued: U256,
        /// Cost of this transaction.
        cost: U256,
    },
    /// The balance does not cover the value, in wei.
    #[error(
        "failed to transfer {value} from address {sender} using the EVM block context transfer \
         function"
    )]
    Transfer {
        /// The value.
        value: U256,
        /// The account that should pay it.
        sender: Address,
    },
    /// The balance does not cover the fee, in wei.
    #[error(
        "failed to deduct transaction costs from user balance: failed to deduct full gas cost \
         {fee} from the user {sender} balance"
    )]
    Deduction {
        /// Gas limit x effective price.
        fee: U256,
        /// The account that should pay it.
        sender: Address,
    },
    /// The nonce has been used.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// The account's next nonce.
        next: u64,
        /// The nonce of the transaction.
        nonce: u64,
    },
    /// The nonce is above the account's next one. A pool accepts such a transaction; a block does not.
    #[error(
        "tx nonce: {nonce}, account accountNonce: {next}: tx nonce is higher than account nonce"
    )]
    NonceTooHigh {
        /// The account's next nonce.
        next: u64,
        /// The nonce of the transaction.
        nonce: u64,
    },
    /// There is no nonce after this one (EIP-2681).
    #[error("nonce has max value: address {0}, nonce: 18446744073709551615")]
    NonceExhausted(Address),

    // The mempool.
    /// The transaction is already in the pool.
    #[error("already known")]
    AlreadyKnown,
    /// The offer is below those of the transactions that a full pool would have to evict for it.
    #[error("transaction underpriced")]
    Underpriced,
    /// The offer is below this node's minimum, in wei per gas.
    #[error("transaction gas price below minimum: gas tip cap {tip}, minimum needed {needed}")]
    BelowMinimum {
        /// Priority fee cap, or gas price.
        tip: u128,
        /// Minimum priority fee cap.
        needed: u128,
    },
    /// A pooled Cosmos transaction cannot be replaced. The text begins like geth's for a used nonce.
    #[error(
        "nonce too low: a pooled Cosmos transaction, which cannot be replaced, has nonce {nonce}"
    )]
    NonceOfCosmos {
        /// The nonce of both transactions.
        nonce: u64,
    },
    /// The replacement does not raise each fee field by `mempool.price-bump` (100 % for a blob transaction).
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    /// A transaction that is not executable may not evict an executable one.
    #[error("future transaction tries to replace pending")]
    FutureReplacesPending,
    /// The pool is full.
    #[error("txpool is full")]
    PoolFull,
    /// The account's share of the pool is full.
    #[error("account limit exceeded: pooled {pooled} txs")]
    AccountLimit {
        /// Transactions of the account in the pool.
        pooled: usize,
    },
    /// A delegated account may have only one transaction in the pool (EIP-7702).
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedInFlight,
    /// A delegated account may not leave a nonce gap (EIP-7702).
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGap,
    /// An authority of this set-code transaction has a transaction of its own in the pool.
    #[error("authority already reserved")]
    AuthorityReserved,
    /// The transaction was queued for too long.
    #[error("transaction expired: queued for more than {lifetime_s} s")]
    Expired {
        /// The queue's lifetime, in seconds.
        lifetime_s: u64,
    },
}

/// The reason for which another node has rejected a transaction, as that node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteReject {
    /// The error code of JSON-RPC.
    pub json_rpc_code: i32,
    /// The message of JSON-RPC.
    pub text: String,
    /// The codespace and code in the SDK's interfaces.
    pub code: Code,
    /// The message of the SDK's interfaces.
    pub log: String,
}

impl Reject {
    /// Returns the label of this reason in metrics.
    pub const fn label(&self) -> &'static str {
        self.row().0
    }

    /// Returns the codespace and code in the SDK's interfaces.
    pub const fn code(&self) -> Code {
        self.row().1
    }

    /// Returns the error code of the JSON-RPC response.
    pub const fn json_rpc_code(&self) -> i32 {
        match self {
            Self::Busy(_) => LIMIT_EXCEEDED,
            Self::Remote(reject) => reject.json_rpc_code,
            _ => SERVER,
        }
    }

    /// Returns the message of the SDK's interfaces: `<detail>: <registered text>`.
    pub fn log(&self) -> String {
        if let Self::Remote(reject) = self {
            return reject.log.clone();
        }
        let (detail, description) = (self.detail(), self.code().description);
        match (detail.as_str(), description) {
            (_, "") => detail,
            ("", _) => description.to_owned(),
            _ => format!("{detail}: {description}"),
        }
    }

    /// Returns the detail of cosmos/evm, which may differ from the text of JSON-RPC.
    fn detail(&self) -> String {
        match self {
            Self::Unprotected => "rejected unprotected ethereum transaction; please sign your \
                                  transaction according to EIP-155 to protect it against \
                                  replay-attacks"
                .to_owned(),
            Self::ChainId { have, want } => format!(
                "rejected ethereum transaction with incorrect chain-id; expected {want}, got {have}"
            ),
            Self::InvalidSender => {
                "signature verification failed: invalid transaction v, r, s values".to_owned()
            }
            Self::CreateDisabled => "failed to create new contract".to_owned(),
            Self::CallDisabled => "failed to perform a call".to_owned(),
            Self::SenderNotEoa(address) => format!("the sender is not EOA: address {address}"),
            Self::InsufficientFunds { balance, cost } => format!(
                "failed to check sender balance: sender balance < tx cost ({balance} < {cost})"
            ),
            Self::NonceTooLow { next, nonce } => {
                format!("invalid nonce; got {nonce}, expected {next}")
            }
            Self::BlockGasLimit { gas, limit } => {
                format!("tx gas ({gas}) exceeds block gas limit ({limit})")
            }
            Self::Cosmos(refusal) => refusal.detail.clone(),
            same => same.to_string(),
        }
    }

    /// Returns the metric label and the code of this variant.
    const fn row(&self) -> (&'static str, Code) {
        match self {
            Self::Malformed(_) => ("malformed", code::TX_DECODE),
            Self::Oversized { .. } => ("oversized", code::TX_TOO_LARGE),
            Self::Busy(_) => ("busy", code::PLAIN),
            Self::NoProduction => ("no_production", code::NOT_SUPPORTED),
            Self::NotForwarded(_) => ("not_forwarded", code::PLAIN),
            Self::Remote(reject) => ("remote", reject.code),
            Self::Cosmos(refusal) => ("cosmos", refusal.code),
            Self::Envelope(fault) => ("envelope", envelope_code(fault)),
            Self::TypeNotSupported | Self::TypeNotActive { .. } => {
                ("type_not_supported", code::INVALID_TYPE)
            }
            Self::Sidecar(_) => ("sidecar", code::INVALID_REQUEST),
            Self::Blobless => ("blobless", code::INVALID_REQUEST),
            Self::TooManyBlobs { .. } => ("too_many_blobs", code::INVALID_REQUEST),
            Self::BlobFeeCapBelowBaseFee { .. } => ("blob_fee_cap_too_low", code::INSUFFICIENT_FEE),
            Self::Unprotected => ("unprotected", code::NOT_SUPPORTED),
            Self::ChainId { .. } => ("chain_id", code::INVALID_CHAIN_ID),
            Self::InvalidSender => ("invalid_sender", code::INVALID_SIGNER),
            Self::TipAboveCap { .. } => ("tip_above_cap", code::INVALID_REQUEST),
            Self::InitCodeSize { .. } => ("init_code_size", code::INVALID_REQUEST),
            Self::EmptySetCode => ("empty_set_code", code::INVALID_REQUEST),
            Self::IntrinsicGas { .. } => ("intrinsic_gas", code::INVALID_REQUEST),
            Self::FloorGas { .. } => ("floor_gas", code::INVALID_REQUEST),
            Self::TxGasCap { .. } => ("tx_gas_cap", code::INVALID_REQUEST),
            Self::BaseFeeUnknown => ("base_fee_unknown", code::INVALID_BASE_FEE),
            Self::MempoolMinimum { .. } => ("mempool_minimum", code::INSUFFICIENT_FEE),
            Self::GlobalMinimum { .. } => ("global_minimum", code::INSUFFICIENT_FEE),
            Self::CreateDisabled => ("create_disabled", code::CREATE_DISABLED),
            Self::CallDisabled => ("call_disabled", code::CALL_DISABLED),
            Self::FeeCapBelowBaseFee { .. } => ("fee_cap_too_low", code::INSUFFICIENT_FEE),
            Self::FeeCapBelowTxBaseFee { .. } => ("fee_cap_too_low", code::INSUFFICIENT_FEE),
            Self::GasBelowIntrinsic { .. } => ("intrinsic_gas", code::OUT_OF_GAS),
            Self::GasWantedOverflow { .. } => ("gas_wanted", code::GAS_OVERFLOW),
            Self::BlockGasLimit { .. } => ("block_gas_limit", code::OUT_OF_GAS),
            Self::SenderNotEoa(_) => ("sender_not_eoa", code::INVALID_TYPE),
            Self::InsufficientFunds { .. } => ("insufficient_funds", code::INSUFFICIENT_FUNDS),
            Self::InsufficientFundsQueued { .. } => {
                ("insufficient_funds", code::INSUFFICIENT_FUNDS)
            }
            Self::Transfer { .. } => ("insufficient_funds", code::INSUFFICIENT_FUNDS),
            Self::Deduction { .. } => ("insufficient_funds", code::INSUFFICIENT_FUNDS),
            Self::NonceTooLow { .. } => ("nonce_too_low", code::INVALID_SEQUENCE),
            Self::NonceTooHigh { .. } => ("nonce_too_high", code::PLAIN),
            Self::NonceExhausted(_) => ("nonce_exhausted", code::INVALID_SEQUENCE),
            Self::AlreadyKnown => ("already_known", code::TX_IN_MEMPOOL),
            Self::Underpriced => ("underpriced", code::INSUFFICIENT_FEE),
            Self::BelowMinimum { .. } => ("below_minimum", code::INSUFFICIENT_FEE),
            Self::NonceOfCosmos { .. } => ("nonce_of_cosmos", code::INVALID_SEQUENCE),
            Self::ReplacementUnderpriced => ("replacement_underpriced", code::INSUFFICIENT_FEE),
            Self::FutureReplacesPending => ("future_replaces_pending", code::MEMPOOL_FULL),
            Self::PoolFull => ("pool_full", code::MEMPOOL_FULL),
            Self::AccountLimit { .. } => ("account_limit", code::MEMPOOL_FULL),
            Self::DelegatedInFlight => ("delegated_in_flight", code::MEMPOOL_FULL),
            Self::DelegatedGap => ("delegated_gap", code::WRONG_SEQUENCE),
            Self::AuthorityReserved => ("authority_reserved", code::INVALID_REQUEST),
            Self::Expired { .. } => ("expired", code::PLAIN),
        }
    }
}

const fn envelope_code(fault: &EnvelopeFault) -> Code {
    match fault {
        EnvelopeFault::NoFee => code::INVALID_TYPE,
        EnvelopeFault::MessageType(_) => code::UNKNOWN_REQUEST,
        EnvelopeFault::Sender { .. } => code::INVALID_SIGNER,
        _ => code::INVALID_REQUEST,
    }
}
