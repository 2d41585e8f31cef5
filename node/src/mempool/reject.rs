//! Why a submitted transaction is turned away. One enum for every way in; the texts are those
//! geth's users match on.

use alloy_primitives::{Address, U256};

/// Why a transaction was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reject {
    /// Not a transaction in its EIP-2718 form.
    #[error("{0}")]
    Malformed(String),
    /// More bytes than a transaction may have.
    #[error("oversized data: transaction size {size}, limit {limit}")]
    Oversized {
        /// Bytes given.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// A blob transaction where blobs are not carried, or a type nobody knows.
    #[error("transaction type not supported")]
    TypeNotSupported,
    /// The signature recovers to nobody, or is malleable (EIP-2).
    #[error("invalid sender")]
    InvalidSender,
    /// Signed for another chain.
    #[error("invalid chain id for signer: have {have} want {want}")]
    ChainId {
        /// The transaction's chain id.
        have: u64,
        /// Ours.
        want: u64,
    },
    /// A legacy transaction without EIP-155 protection.
    #[error("only replay-protected (EIP-155) transactions allowed over RPC")]
    Unprotected,
    /// In the pool already.
    #[error("already known")]
    AlreadyKnown,
    /// The account has used this nonce.
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow {
        /// The account's next nonce.
        next: u64,
        /// The transaction's.
        nonce: u64,
    },
    /// The account cannot pay for gas at the fee cap and for the value. In wei.
    #[error(
        "insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}",
        .cost.saturating_sub(*.balance)
    )]
    InsufficientFunds {
        /// Balance.
        balance: U256,
        /// Gas limit x fee cap + value.
        cost: U256,
    },
    /// The account cannot pay for this beside what it has pooled. In wei.
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
        /// Cost of this one.
        cost: U256,
    },
    /// There is no nonce after this one (EIP-2681).
    #[error("nonce has max value: address {0}, nonce: 18446744073709551615")]
    NonceExhausted(Address),
    /// More gas than a block has.
    #[error("exceeds block gas limit: tx gas {gas}, block gas limit {limit}")]
    BlockGasLimit {
        /// The transaction's gas limit.
        gas: u64,
        /// The block's.
        limit: u64,
    },
    /// Less gas than the transaction needs before it runs.
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas {
        /// The transaction's gas limit.
        gas: u64,
        /// What it needs.
        needed: u64,
    },
    /// EIP-1559: the tip may not exceed the cap.
    #[error(
        "max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
    )]
    TipAboveCap {
        /// `maxPriorityFeePerGas`.
        tip: u128,
        /// `maxFeePerGas`.
        cap: u128,
    },
    /// Offers less than what a full pool would have to drop for it.
    #[error("transaction underpriced")]
    Underpriced,
    /// Offers less than this node takes, in wei per gas.
    #[error("transaction gas price below minimum: gas tip cap {tip}, minimum needed {needed}")]
    BelowMinimum {
        /// Tip cap, or gas price.
        tip: u128,
        /// Least tip cap.
        needed: u128,
    },
    /// A transaction that cannot run yet may not push out one that can.
    #[error("future transaction tries to replace pending")]
    FutureReplacesPending,
    /// The account's share of the pool is full.
    #[error("account limit exceeded: pooled {pooled} txs")]
    AccountLimit {
        /// Transactions of the account in the pool.
        pooled: usize,
    },
    /// A delegated account may have a single transaction in flight (EIP-7702).
    #[error("in-flight transaction limit reached for delegated accounts")]
    DelegatedInFlight,
    /// A delegated account may not leave a nonce gap (EIP-7702).
    #[error("gapped-nonce tx from delegated accounts")]
    DelegatedGap,
    /// An authority of this set-code transaction has a transaction of its own in the pool.
    #[error("authority already reserved")]
    AuthorityReserved,
    /// A replacement must raise both fee fields by a tenth.
    #[error("replacement transaction underpriced")]
    ReplacementUnderpriced,
    /// The pool, or the account's share of it, is full.
    #[error("txpool is full")]
    PoolFull,
    /// The sender has code that is no EIP-7702 delegation (EIP-3607).
    #[error("sender not an eoa: address {0}")]
    SenderNotEoa(Address),
    /// Init code above the limit of EIP-3860.
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCodeSize {
        /// Bytes given.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// EIP-7702: a set-code transaction must carry an authorization and a recipient.
    #[error("set code transaction must have at least one authorization and a recipient")]
    EmptySetCode,
    /// The node is stopping, or too busy to queue more.
    #[error("node busy: {0}")]
    Busy(&'static str),
}

impl Reject {
    /// The label of this reason in metrics.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Oversized { .. } => "oversized",
            Self::TypeNotSupported => "type_not_supported",
            Self::InvalidSender => "invalid_sender",
            Self::ChainId { .. } => "chain_id",
            Self::Unprotected => "unprotected",
            Self::AlreadyKnown => "already_known",
            Self::NonceTooLow { .. } => "nonce_too_low",
            Self::InsufficientFunds { .. } => "insufficient_funds",
            Self::BlockGasLimit { .. } => "block_gas_limit",
            Self::IntrinsicGas { .. } => "intrinsic_gas",
            Self::TipAboveCap { .. } => "tip_above_cap",
            Self::ReplacementUnderpriced => "replacement_underpriced",
            Self::InsufficientFundsQueued { .. } => "insufficient_funds",
            Self::NonceExhausted(_) => "nonce_exhausted",
            Self::Underpriced => "underpriced",
            Self::BelowMinimum { .. } => "below_minimum",
            Self::FutureReplacesPending => "future_replaces_pending",
            Self::AccountLimit { .. } => "account_limit",
            Self::DelegatedInFlight => "delegated_in_flight",
            Self::DelegatedGap => "delegated_gap",
            Self::AuthorityReserved => "authority_reserved",
            Self::PoolFull => "pool_full",
            Self::SenderNotEoa(_) => "sender_not_eoa",
            Self::InitCodeSize { .. } => "init_code_size",
            Self::EmptySetCode => "empty_set_code",
            Self::Busy(_) => "busy",
        }
    }
}
