//! Runs the checks in their order.

use super::{
    Reject, account,
    account::{Sender, Standing},
    cosmos::check_cosmos,
    stateless, steps,
};
use crate::Modules;
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::U256;
use chain::{ChainSpec, EvmParams, Fork, RulesVersion, TokenUnit, next_excess_blob_gas};
use feemarket::{GasWanted, LegacyDec, Market, Price};
use std::sync::LazyLock;
use storage::StateRead;
use transactions::{RecoveredTx, cosmos};

/// The purpose of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The transaction is new to this node and may enter the pool.
    Check,
    /// The transaction is pooled and the chain has advanced. Its own fields have not changed and are not
    /// checked again.
    Recheck,
    /// The transaction is about to be executed in a block.
    Deliver,
    /// A client simulates the transaction.
    Simulate,
}

impl Mode {
    /// Returns whether the transaction is for this node's pool, and not for a block or a simulation.
    pub(super) const fn is_in_pool(self) -> bool {
        matches!(self, Self::Check | Self::Recheck)
    }
}

/// An Ethereum chain has no parameters of its own, so access is not restricted.
static ETHEREUM: LazyLock<EvmParams> = LazyLock::new(EvmParams::default);

/// The limits of blob transactions in one block (EIP-4844, EIP-7840).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRules {
    /// Maximum number of blobs per transaction.
    pub per_tx: u64,
    /// Maximum blob gas of the block.
    pub block_gas: u64,
    /// Price of blob gas, in wei.
    pub base_fee: u128,
}

impl BlobRules {
    /// The limits for the block with this header; `None` if it cannot contain blobs.
    fn of_block(spec: &ChainSpec, fork: Fork, header: &Header) -> Option<Self> {
        let takes_blobs = fork >= Fork::Cancun && spec.native().is_none();
        let params = spec.blob_params(header.timestamp).filter(|_| takes_blobs)?;
        Some(Self {
            per_tx: params.max_blobs_per_tx,
            block_gas: params.max_blob_gas_per_block(),
            base_fee: params.calc_blob_fee(header.excess_blob_gas.unwrap_or_default()),
        })
    }
}

/// The rules and fees of one block against which transactions are checked.
#[derive(Clone, Debug)]
pub struct CheckContext<'a> {
    /// The chain id.
    pub chain_id: u64,
    /// Prefix of Bech32 addresses.
    pub bech32_prefix: &'a str,
    /// Height of the block.
    pub height: u64,
    /// Fork of the block.
    pub fork: Fork,
    /// Whether the fork is London or later.
    pub london: bool,
    /// Whether legacy transactions need the protection of EIP-155. Blocks before that fork reject protected
    /// ones.
    pub replay_protection: bool,
    /// Parameters of the EVM.
    pub evm: &'a EvmParams,
    /// The rules version of the block.
    pub rules: RulesVersion,
    /// The unit of amounts in the Cosmos transactions of the block.
    pub token_unit: TokenUnit,
    /// Gas limit of the block.
    pub block_gas_limit: u64,
    /// Base fee of the block in wei; `None` before London, and if it is unknown.
    pub base_fee: Option<u64>,
    /// Base fee of the block for Cosmos transactions in wei, which may have a fraction.
    pub cosmos_base_fee: LegacyDec,
    /// The limits of blob transactions; `None` if blob transactions are rejected.
    pub blobs: Option<BlobRules>,
    /// Whether the base fee changes, so that gas wanted is counted.
    pub base_fee_enabled: bool,
    /// The chain's minimum gas price, in wei.
    pub min_gas_price: LegacyDec,
    /// The minimum gas price of this node's mempool, in wei. It applies to Cosmos transactions, and to Ethereum
    /// transactions before London. It never applies to a transaction that is about to be executed in a block.
    pub mempool_min_gas_price: LegacyDec,
    /// Sum of the gas limits of the block's transactions that have passed so far.
    pub gas_wanted: GasWanted,
}

/// The minimum gas price of a block, in wei. A client of a development chain may set a lower base fee, which is then
/// the minimum.
fn min_gas_price(spec: &ChainSpec, market: Option<&Market>, base_fee: Option<u64>) -> LegacyDec {
    let minimum = market.map(Market::min_gas_price_wei).unwrap_or_default();
    match base_fee {
        Some(base_fee) if spec.is_development() => minimum.min(LegacyDec::from(base_fee)),
        _ => minimum,
    }
}

impl<'a> CheckContext<'a> {
    /// Creates the context of the block with this header. `modules` are those at the beginning of the block, and
    /// `None` on an Ethereum chain.
    pub fn of_block(spec: &'a ChainSpec, modules: Option<&'a Modules>, header: &Header) -> Self {
        Self::of_fork(spec, modules, header, spec.fork_of(header))
    }

    fn of_fork(
        spec: &'a ChainSpec,
        modules: Option<&'a Modules>,
        header: &Header,
        fork: Fork,
    ) -> Self {
        let market = modules.map(|modules| &modules.market);
        Self {
            chain_id: spec.chain_id,
            bech32_prefix: &spec.bech32_prefix,
            height: header.number,
            fork,
            london: fork >= Fork::London,
            // The fork heights of a native chain never allow unprotected transactions; only its parameters do.
            replay_protection: spec.native().is_some() || spec.replay_protection(header.number),
            evm: modules.map_or(&ETHEREUM, |modules| &modules.evm),
            rules: spec.rules_version(header.number),
            token_unit: spec.token_unit(header.number),
            block_gas_limit: header.gas_limit,
            base_fee: header.base_fee_per_gas,
            cosmos_base_fee: cosmos::base_fee(
                spec,
                header.number,
                header.base_fee_per_gas.unwrap_or_default(),
                market,
            ),
            blobs: BlobRules::of_block(spec, fork, header),
            base_fee_enabled: market.is_some_and(|market| market.counts_gas(header.number)),
            min_gas_price: min_gas_price(spec, market, header.base_fee_per_gas),
            mempool_min_gas_price: LegacyDec::ZERO,
            gas_wanted: GasWanted::default(),
        }
    }

    /// Creates the context of the block after `parent`, for pooled transactions. Its rules are those of the fork
    /// that a block with this timestamp has. `base_fee` is that of the block, in wei, and `modules` are those
    /// after the parent.
    pub fn after(
        spec: &'a ChainSpec,
        parent: &Header,
        timestamp: u64,
        base_fee: u64,
        modules: Option<&'a Modules>,
    ) -> Self {
        let fork = spec.fork_after(parent, timestamp);
        let blobs = spec.blob_params(timestamp);
        let header = Header {
            number: parent.number.saturating_add(1),
            timestamp,
            gas_limit: parent.gas_limit,
            base_fee_per_gas: Some(base_fee),
            excess_blob_gas: blobs.map(|params| next_excess_blob_gas(&params, fork, parent)),
            ..Header::default()
        };
        let context = Self::of_fork(spec, modules, &header, fork);
        match spec.native().zip(modules) {
            Some((native, modules)) if context.rules >= RulesVersion::V1 => {
                let next = modules.market.next_base_fee_in_wei(header.number, native.max_gas);
                Self { cosmos_base_fee: next, ..context }
            }
            _ => context,
        }
    }

    /// Adds a minimum gas price for this node's mempool, in the token's base unit.
    #[must_use]
    pub fn with_mempool_minimum(self, price: LegacyDec) -> Self {
        // No fee can reach a price above the maximum.
        let wei = self.token_unit.price_to_wei(price).unwrap_or(LegacyDec::MAX);
        Self { mempool_min_gas_price: wei, ..self }
    }
}

/// A transaction that passed, with the results of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The sender's account before the transaction.
    pub sender: Sender,
    /// Its position among the sender's transactions.
    pub standing: Standing,
    /// Effective price in wei per gas.
    pub effective_price: u128,
    /// Its priority: the effective priority fee in wei per gas, divided by 10^6.
    pub priority: i64,
    /// Its maximum cost in wei: see [`cost`](account::cost()).
    pub cost: U256,
    /// Fee that is deducted before the execution, in wei: gas limit x effective price.
    pub escrow: U256,
    /// [`CheckContext::gas_wanted`] including this transaction.
    pub gas_wanted: GasWanted,
}

/// Checks a transaction. The account of an Ethereum transaction's sender is read only if the checks that do not
/// need it have passed.
///
/// # Errors
/// The outer error is a failed read; the inner one is the reason for the rejection.
pub fn check<S: StateRead>(
    tx: &RecoveredTx,
    context: &CheckContext<'_>,
    state: &S,
    mode: Mode,
) -> Result<Result<Admitted, Reject>, S::Error> {
    if let Some(cosmos) = &tx.cosmos {
        let sender = Sender::read(state, tx.sender)?;
        return Ok(check_cosmos(tx, cosmos, context, &sender, mode));
    }
    let offer = match check_offer(tx, context, mode) {
        Ok(offer) => offer,
        Err(reject) => return Ok(Err(reject)),
    };
    let sender = Sender::read(state, tx.sender)?;
    Ok(check_account(tx, context, &sender, &offer, mode))
}

/// Does the same as [`check`] with the sender's account, which the caller has read.
///
/// # Errors
/// Why the transaction is refused.
pub fn check_sender(
    tx: &RecoveredTx,
    context: &CheckContext<'_>,
    sender: &Sender,
    mode: Mode,
) -> Result<Admitted, Reject> {
    if let Some(cosmos) = &tx.cosmos {
        return check_cosmos(tx, cosmos, context, sender, mode);
    }
    let offer = check_offer(tx, context, mode)?;
    check_account(tx, context, sender, &offer, mode)
}

/// The price that a transaction offers at the base fee of the block.
#[derive(Clone, Copy, Debug)]
struct Offer {
    price: Price,
    base_fee: u64,
    effective_price: u128,
}

/// Executes all checks that need no account: the cheap ones first, then rows 2 to 6.
fn check_offer(tx: &RecoveredTx, context: &CheckContext<'_>, mode: Mode) -> Result<Offer, Reject> {
    let envelope = &tx.tx;
    if mode != Mode::Recheck {
        check_rules(tx, context)?;
    }
    let base_fee = stateless::known_base_fee(context)?;
    let (price, gas) = (Price::of(envelope), envelope.gas_limit());
    steps::mempool_minimum(price, gas, context, mode)?;
    let effective_price = steps::effective_price(price, base_fee);
    steps::global_minimum(effective_price, gas, context)?;
    stateless::permission(envelope, context)?;
    Ok(Offer { price, base_fee, effective_price })
}

/// Executes all checks that depend only on the transaction and the fork of the block. A pooled transaction that
/// passed may fail after another fork has started.
///
/// # Errors
/// Why a block of this fork cannot contain the transaction.
pub fn check_rules(tx: &RecoveredTx, context: &CheckContext<'_>) -> Result<(), Reject> {
    if tx.cosmos.is_some() {
        // The checks of a Cosmos transaction do not depend on the fork.
        return Ok(());
    }
    let envelope = &tx.tx;
    stateless::supported_type(envelope, context)?;
    stateless::protected(envelope, context)?;
    stateless::chain_id(envelope, context)?;
    stateless::signature(tx)?;
    stateless::self_check(envelope, context)
}

/// Rows 8 to 16.
fn check_account(
    tx: &RecoveredTx,
    context: &CheckContext<'_>,
    sender: &Sender,
    offer: &Offer,
    mode: Mode,
) -> Result<Admitted, Reject> {
    let (envelope, account) = (&tx.tx, &sender.account);
    let Offer { price, base_fee, effective_price } = *offer;
    // A development chain accepts impersonated transactions, whose sender may be a contract.
    if !tx.is_impersonated() {
        account::externally_owned(sender, tx.sender)?;
    }
    let cost = account::cost(envelope);
    account::covers_cost(account, cost)?;
    account::reaches_base_fee(price, base_fee)?;
    account::reaches_blob_base_fee(envelope, context)?;
    account::owns_value(account, envelope.value(), tx.sender)?;
    let escrow = account::deduct_fee(tx, price, base_fee, account, context.fork, mode)?;
    let priority = price.priority(u128::from(base_fee)).unwrap_or_default();
    let standing = account::nonce_order(envelope.nonce(), account, tx.sender, mode)?;
    stateless::within_block(envelope, context)?;
    let gas_wanted = steps::gas_wanted(envelope.gas_limit(), context)?;
    Ok(Admitted { sender: *sender, standing, effective_price, priority, cost, escrow, gas_wanted })
}
