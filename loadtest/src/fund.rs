//! Funds the senders with ether and tokens from the development accounts.

use crate::{
    keys::{self, Key, Signer},
    options::Node,
    rng::Rng,
    tx_template::{Load, TxTemplate},
};
use alloy_primitives::{Address, U256, hex};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Wei in a gwei.
pub(crate) const GWEI: f64 = 1e9;
/// Maximum wait until funding transactions are mined.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Token units per sender.
const TOKENS: u64 = 1_000_000_000_000;
/// Maximum pooled transactions per funder. Every node accepts this number from one account.
const MAX_FUNDER_TXS: usize = 16;
/// The maximum if the funder delegates to code (EIP-7702): that code may empty the account, so nodes accept only one.
const MAX_DELEGATED_TXS: usize = 1;
/// Each funder keeps this fraction of its balance: the balance divided by this number.
const RESERVE_DIVISOR: u64 = 10;

/// Funded accounts and the template of their transactions.
#[derive(Clone, Debug)]
pub(crate) struct Senders {
    pub(crate) keys: Arc<[Key]>,
    pub(crate) template: TxTemplate,
    pub(crate) recipients: Recipients,
}

/// The receiving accounts.
#[derive(Clone, Debug)]
pub(crate) enum Recipients {
    /// This many generated accounts, in turn.
    Generated(u64),
    /// A random one of these accounts for each transaction.
    Among(Arc<[Key]>),
}

impl Senders {
    /// Returns the recipient of the transaction with this index.
    pub(crate) fn recipient(&self, seed: u64, index: u64) -> Address {
        match &self.recipients {
            Recipients::Generated(count) => keys::recipient(seed, index % count),
            Recipients::Among(keys) => {
                let mut rng = Rng::new(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
                keys[rng.below(keys.len() as u64) as usize].address
            }
        }
    }
}

/// Number of senders, and what they must be able to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SenderSpec {
    pub(crate) load: Load,
    pub(crate) senders: usize,
    /// Transactions per sender.
    pub(crate) txs_each: u64,
    /// In wei per gas.
    pub(crate) fee_cap: u128,
    /// In wei per gas.
    pub(crate) priority_fee: u128,
    pub(crate) seed: u64,
    /// Number of recipients, unless the senders themselves receive.
    pub(crate) recipients: u64,
    /// Whether the senders have ether from genesis: see [`crate::genesis`].
    pub(crate) prefunded: bool,
}

impl SenderSpec {
    /// Specifies accounts that transfer ether to each other and are funded by a genesis with the same
    /// seed (`loadtest genesis`). `fee_cap` is in gwei per gas.
    pub(crate) const fn of_genesis(accounts: usize, fee_cap: f64, seed: u64) -> Self {
        Self {
            load: Load::Transfer,
            senders: accounts,
            txs_each: 1,
            fee_cap: (fee_cap * GWEI) as u128,
            priority_fee: GWEI as u128,
            seed,
            recipients: 0,
            prefunded: true,
        }
    }
}

/// Funds the senders whose balance is too low, and creates the token if the load needs one.
pub(crate) fn prepare(node: &Node, wanted: SenderSpec) -> anyhow::Result<Senders> {
    let mut senders = without_funding(wanted, node.rpc.chain_id()?);
    if !wanted.prefunded {
        fund_with_ether(node, &senders, wanted)?;
    }
    if wanted.load != Load::Transfer {
        fund_with_tokens(node, &mut senders)?;
    }
    Ok(senders)
}

/// Returns the senders without funding them and without contacting a node.
pub(crate) fn without_funding(wanted: SenderSpec, chain_id: u64) -> Senders {
    let signer = Signer::new(wanted.seed);
    let fee_cap = wanted.fee_cap;
    let priority_fee = wanted.priority_fee.min(fee_cap);
    let template = TxTemplate { chain_id, fee_cap, priority_fee, token: Address::ZERO, signer };
    let keys: Arc<[Key]> = keys::senders(wanted.seed, wanted.senders).into();
    let recipients = match wanted.prefunded {
        true => Recipients::Among(Arc::clone(&keys)),
        false => Recipients::Generated(wanted.recipients),
    };
    Senders { keys, template, recipients }
}

fn fund_with_ether(node: &Node, senders: &Senders, wanted: SenderSpec) -> anyhow::Result<()> {
    let gas = U256::from(wanted.load.max_gas()) * U256::from(wanted.txs_each + 1);
    let need = gas * U256::from(wanted.fee_cap) + U256::from(wanted.txs_each);
    let addresses: Vec<_> = senders.keys.iter().map(|key| key.address).collect();
    let balances = node.rpc.balances(&addresses)?;
    let poor = addresses.iter().zip(&balances).filter(|(_, balance)| **balance < need);
    let poor: Vec<_> = poor.map(|(address, _)| *address).collect();
    if poor.is_empty() {
        return Ok(());
    }
    let funders = keys::dev_keys();
    let funder_addresses: Vec<_> = funders.iter().map(|key| key.address).collect();
    let funds = node.rpc.balances(&funder_addresses)?.into_iter();
    let mut left: Vec<_> = funds.map(|wei| wei - wei / U256::from(RESERVE_DIVISOR)).collect();
    let available: U256 = left.iter().sum();
    if available < need * U256::from(poor.len()) {
        bail!(
            "{} senders need {need} wei each, and the development accounts of this chain have \
             {available} wei to spend: use fewer transactions, a lower --fee-cap, or a genesis that funds \
             them (`loadtest genesis`)",
            poor.len()
        );
    }
    // Each sender is assigned to the next funder whose remaining balance suffices.
    let mut shares: Vec<Vec<Address>> = vec![Vec::new(); funders.len()];
    for (number, address) in poor.iter().enumerate() {
        let indices = (0..funders.len()).map(|step| (number + step) % funders.len());
        let funder = indices.into_iter().find(|index| left[*index] >= need);
        let funder = funder.context("no development account has enough for another sender")?;
        left[funder] -= need;
        shares[funder].push(*address);
    }
    let nonces = node.rpc.nonces(&funder_addresses)?;
    let txs_by_funder = funders.iter().zip(nonces).zip(&shares).map(|((key, nonce), share)| {
        let txs = share.iter().zip(nonce..);
        let txs = txs.map(|(to, nonce)| senders.template.transfer(key, nonce, *to, need)).collect();
        FunderTxs { from: key.address, nonce, txs }
    });
    send_in_parts(node, &txs_by_funder.collect::<Vec<_>>())
}

fn fund_with_tokens(node: &Node, senders: &mut Senders) -> anyhow::Result<()> {
    let funders = keys::dev_keys();
    let addresses: Vec<_> = funders.iter().map(|key| key.address).collect();
    let delegated = node.rpc.are_delegated(&addresses)?;
    // An account that is not delegated can send several transactions at a time.
    let owner = delegated.iter().position(|delegated| !delegated).unwrap_or_default();
    let owner = &funders[owner];
    let mut nonce = node.rpc.nonces(&[owner.address])?[0];
    senders.template.token = owner.address.create(nonce);
    let creation = senders.template.creation(owner, nonce);
    send_in_parts(node, &[FunderTxs { from: owner.address, nonce, txs: vec![creation] }])?;
    let code = node.rpc.call("eth_getCode", json!([senders.template.token, "latest"]))?;
    if code.as_str().is_none_or(|code| code.len() <= 2) {
        bail!("{}: the token's creation failed (is Shanghai active?)", node.url.text);
    }
    nonce += 1;
    let keys = senders.keys.iter().zip(nonce..);
    let txs: Vec<_> = keys
        .map(|(key, nonce)| senders.template.token_transfer(owner, nonce, key.address, TOKENS))
        .collect();
    send_in_parts(node, &[FunderTxs { from: owner.address, nonce, txs }])
}

/// Transactions of one funder, from its next nonce on.
struct FunderTxs {
    from: Address,
    nonce: u64,
    txs: Vec<Vec<u8>>,
}

/// Sends the transactions of all funders, a few per funder at a time, and waits until they are mined.
fn send_in_parts(node: &Node, txs_by_funder: &[FunderTxs]) -> anyhow::Result<()> {
    let accounts: Vec<_> = txs_by_funder.iter().map(|funder| funder.from).collect();
    let delegated = node.rpc.are_delegated(&accounts)?;
    let mut sent = vec![0; txs_by_funder.len()];
    while sent.iter().zip(txs_by_funder).any(|(sent, funder)| *sent < funder.txs.len()) {
        let mut part = Vec::new();
        for ((sent, funder), delegated) in sent.iter_mut().zip(txs_by_funder).zip(&delegated) {
            let max_txs = if *delegated { MAX_DELEGATED_TXS } else { MAX_FUNDER_TXS };
            let end = (*sent + max_txs).min(funder.txs.len());
            part.extend_from_slice(&funder.txs[*sent..end]);
            *sent = end;
        }
        send(node, &part)?;
        let mined =
            txs_by_funder.iter().zip(&sent).map(|(funder, sent)| funder.nonce + *sent as u64);
        wait_for_nonces(node, &accounts, &mined.collect::<Vec<_>>(), TIMEOUT)?;
    }
    Ok(())
}

/// Sends transactions in batches.
pub(crate) fn send(node: &Node, txs: &[Vec<u8>]) -> anyhow::Result<()> {
    let params: Vec<Value> = txs.iter().map(|raw| json!([hex::encode_prefixed(raw)])).collect();
    node.rpc.call_all("eth_sendRawTransaction", &params).map(drop)
}

/// Waits until the nonce of every account has reached the given value.
pub(crate) fn wait_for_nonces(
    node: &Node,
    accounts: &[Address],
    wanted: &[u64],
    timeout: Duration,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let nonces = node.rpc.nonces(accounts)?;
        let mut behind = accounts.iter().zip(&nonces).zip(wanted);
        let Some(((account, nonce), want)) = behind.find(|((_, nonce), want)| nonce < want) else {
            return Ok(());
        };
        if begun.elapsed() > timeout {
            bail!("{account} has {nonce} transactions mined of {want} after {timeout:.0?}");
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
}
