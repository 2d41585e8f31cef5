//! Methods that sign messages (EIP-191), typed data (EIP-712) and transactions with the keys of the node, which an
//! operator must enable. The missing fields of a transaction are filled in as in geth.

use super::{
    call::{estimate, on_block_with},
    fees, observed,
    request::{CallOverrides, Request},
    submit::{submit, submit_impersonated},
    wide_raw,
};
use crate::method::{Answer, Call, json};
use alloy_consensus::{
    EthereumTypedTransaction, SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702,
    TxLegacy,
};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use alloy_rlp::RlpEncodable;
use chain::Fork;
use evm::{Call as Execution, WidePrices};
use keys::{SIGNATURE_BYTES, Signers, message_hash, typed_data_hash};
use rpc_types::{block_id::BlockId, error::Error, object::TransactionObject, params::Param};
use serde::Serialize;
use storage::StateRead;
use transactions::{Transaction, impersonated_signature};

/// A transaction without a signature.
type Unsigned = EthereumTypedTransaction<TxEip4844>;

/// The value that is added to the parity in the signature of a message or of typed data.
const MESSAGE_V: u8 = 27;

/// Signs a hash with the key of an account. It runs on a blocking thread.
pub type Sign =
    Box<dyn FnOnce(&Signers, Address, &B256) -> Result<[u8; SIGNATURE_BYTES], Error> + Send>;

/// Signs with an unlocked key.
pub fn unlocked(
    signers: &Signers,
    by: Address,
    hash: &B256,
) -> Result<[u8; SIGNATURE_BYTES], Error> {
    Ok(signers.sign(by, hash)?)
}

/// Returns the keys of the node, or an error if it has none.
pub fn signers(call: &Call) -> Result<&Signers, Error> {
    let none = "the node has no keys: start it with --json-rpc.keyring to let it sign";
    call.context.signers.as_deref().ok_or_else(|| Error::server(none))
}

/// Implements `eth_accounts`.
pub fn accounts(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&call.context.signers.as_deref().map(Signers::accounts).unwrap_or_default())
}

/// Converts a signature to the format that wallets use, in which `v` is 27 or 28.
pub fn wallet_signature(mut signature: [u8; SIGNATURE_BYTES]) -> Bytes {
    signature[SIGNATURE_BYTES - 1] += MESSAGE_V;
    Bytes::copy_from_slice(&signature)
}

/// Implements `eth_sign`.
pub fn sign_message(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let by: Address = arguments.required()?;
    let message: Bytes = arguments.required()?;
    json(&wallet_signature(signers(call)?.sign(by, &message_hash(&message))?))
}

/// Typed data, passed as an object or as its JSON text.
struct TypedDataText(String);

impl Param for TypedDataText {
    fn read(text: &str, spec: &chain::ChainSpec) -> Result<Self, String> {
        if text.starts_with('"') {
            String::read(text, spec).map(Self)
        } else {
            Ok(Self(text.into()))
        }
    }
}

/// Implements `eth_signTypedData_v4`.
pub fn sign_typed_data(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let by: Address = arguments.required()?;
    let TypedDataText(text) = arguments.required()?;
    let signers = signers(call)?;
    let hash = typed_data_hash(&text).map_err(|error| Error::invalid_params(error.to_string()))?;
    json(&wallet_signature(signers.sign(by, &hash)?))
}

/// The result of `eth_signTransaction`.
#[derive(Serialize)]
struct SignedObject {
    raw: Bytes,
    tx: TransactionObject,
}

/// Implements `eth_signTransaction`.
pub async fn sign_transaction(call: Call) -> Answer {
    let request: Request = call.arguments()?.required()?;
    let (tx, from) = fill_and_sign(&call, request, Box::new(unlocked)).await?;
    let raw = tx.encoded_2718().into();
    json(&SignedObject { raw, tx: TransactionObject::pending(&tx, *tx.tx_hash(), from) })
}

/// Implements `eth_fillTransaction`. As in geth, the signature of the result consists of zeros.
pub fn fill_transaction(call: &Call) -> Answer {
    let request: Request = call.arguments()?.required()?;
    let from = request.execution.from;
    let pooled = call.context.pool.wait_for_nonce(from)?;
    let tx = unsigned(call.context.spec.chain_id, fill(call, request, pooled)?)?;
    json(&filled(tx, from))
}

fn filled(tx: Unsigned, from: Address) -> SignedObject {
    let zero = Signature::new(U256::ZERO, U256::ZERO, false);
    let Unsigned::Legacy(legacy) = tx else {
        let tx = tx.into_envelope(zero);
        let raw = tx.encoded_2718().into();
        return SignedObject { raw, tx: TransactionObject::pending(&tx, *tx.tx_hash(), from) };
    };
    // The library would encode the chain ID in `v`, but geth encodes 0.
    let raw = Bytes::from(alloy_rlp::encode(UnsignedLegacy::of(&legacy)));
    let hash = keccak256(&raw);
    let tx = TransactionObject::unsigned(&legacy.into_signed(zero).into(), hash, from);
    SignedObject { raw, tx }
}

/// The encoding of an unsigned legacy transaction.
#[derive(RlpEncodable)]
struct UnsignedLegacy<'a> {
    nonce: u64,
    gas_price: u128,
    gas_limit: u64,
    to: TxKind,
    value: U256,
    input: &'a Bytes,
    v: u8,
    r: u8,
    s: u8,
}

impl<'a> UnsignedLegacy<'a> {
    fn of(tx: &'a TxLegacy) -> Self {
        let TxLegacy { nonce, gas_price, gas_limit, to, value, input, .. } = tx;
        let (nonce, gas_price, gas_limit) = (*nonce, *gas_price, *gas_limit);
        Self { nonce, gas_price, gas_limit, to: *to, value: *value, input, v: 0, r: 0, s: 0 }
    }
}

/// Implements `eth_sendTransaction`.
pub async fn send_transaction(call: Call) -> Answer {
    let request: Request = call.arguments()?.required()?;
    let from = request.execution.from;
    let is_impersonated =
        call.context.development.as_ref().is_some_and(|development| development.impersonates(from));
    let has_key = call.context.signers.as_ref().is_some_and(|keys| keys.accounts().contains(&from));
    match is_impersonated && !has_key {
        true => send_impersonated(&call, request).await,
        false => send(&call, request, Box::new(unlocked)).await,
    }
}

/// Implements `eth_sendUnsignedTransaction`.
pub async fn send_unsigned_transaction(call: Call) -> Answer {
    let request: Request = call.arguments()?.required()?;
    if call.context.development.is_none() {
        return Err(Error::server(
            "this is not a development chain: create one with `evmd init --dev`",
        ));
    }
    send_impersonated(&call, request).await
}

/// Fills in the missing fields of a transaction from an account without a key, and submits it.
async fn send_impersonated(call: &Call, request: Request) -> Answer {
    let from = request.execution.from;
    let pooled = call.context.pool.nonce(from).await?;
    let filling = call.clone();
    let work = move || {
        let tx = fill(&filling, request, pooled)?;
        unsigned(filling.context.spec.chain_id, tx)
    };
    let tx = tokio::task::spawn_blocking(work).await.map_err(Error::internal)??;
    let tx: Transaction = tx.into_envelope(impersonated_signature(from));
    json(&submit_impersonated(call, tx, from).await?)
}

/// Fills in the missing fields of a transaction, signs it and submits it.
pub async fn send(call: &Call, request: Request, sign: Sign) -> Answer {
    let (tx, _) = fill_and_sign(call, request, sign).await?;
    json(&submit(call, tx.encoded_2718().into()).await?)
}

/// Fills in the missing fields of a transaction and signs it.
pub async fn fill_and_sign(
    call: &Call,
    request: Request,
    sign: Sign,
) -> Result<(Transaction, Address), Error> {
    let from = request.execution.from;
    let has_key = signers(call)?.accounts().contains(&from);
    if !has_key {
        return Err(keys::SignerError::Unknown.into());
    }
    let pooled = call.context.pool.nonce(from).await?;
    // This runs on a blocking thread: an estimate may be slow, and opening the keyring takes some tenths of a second.
    let call = call.clone();
    let work = move || signed(&call, fill(&call, request, pooled)?, sign);
    let tx = tokio::task::spawn_blocking(work).await.map_err(Error::internal)??;
    Ok((tx, from))
}

/// Sets the missing prices, nonce and gas. `pooled` is the next nonce after the pooled transactions.
fn fill(call: &Call, request: Request, pooled: Option<u64>) -> Result<Execution, Error> {
    let mut tx = request.check_to_sign(&call.context.spec)?;
    if !tx.blob_hashes.is_empty() {
        return Err(Error::server("transaction type not supported"));
    }
    if tx.to == TxKind::Create && tx.input.is_empty() {
        return Err(Error::server("contract creation without any data provided"));
    }
    let head = &call.view.head.header;
    if !tx.is_legacy && call.context.spec.fork_after(head, head.timestamp) < Fork::London {
        if tx.max_fee_per_gas > 0 || tx.max_priority_fee_per_gas.is_some() {
            return Err(Error::server(
                "maxFeePerGas and maxPriorityFeePerGas are not valid before London is active",
            ));
        }
        (tx.is_legacy, tx.max_fee_per_gas) = (true, fees::suggested_tip(call)?);
    }
    if !tx.is_legacy {
        let tip = match tx.max_priority_fee_per_gas.filter(|tip| *tip > 0) {
            Some(tip) => tip,
            None => fees::suggested_tip(call)?,
        };
        let cap_given = tx.max_fee_per_gas > 0;
        let doubled = u128::from(call.next_base_fee()).saturating_mul(2);
        let cap = if cap_given { tx.max_fee_per_gas } else { doubled.saturating_add(tip) };
        if tip > cap && tx.max_priority_fee_per_gas.unwrap_or_default() > 0 {
            let tip = tx.wide_prices.map_or(U256::from(tip), |wide| wide.tip);
            return Err(tip_above_cap(U256::from(cap), tip));
        }
        (tx.max_fee_per_gas, tx.max_priority_fee_per_gas) = (cap, Some(tip.min(cap)));
    }
    if tx.nonce.is_none() {
        let account = call.view.state.reader()?.account(tx.from)?;
        let on_chain = account.unwrap_or_default().nonce;
        tx.nonce = Some(pooled.map_or(on_chain, |pooled| pooled.max(on_chain)));
    }
    if tx.gas.is_none() {
        // The estimate ignores prices, because the cost is unknown until the gas is known.
        let unpriced = Execution {
            max_fee_per_gas: 0,
            max_priority_fee_per_gas: None,
            wide_prices: None,
            ..tx.clone()
        };
        let request = Request::of(unpriced);
        let gas = on_block_with(
            call,
            request,
            BlockId::LATEST,
            CallOverrides::default(),
            |site, execution| {
                let gas = estimate(call, site, execution);
                // After a successful estimate, the messages are printed when the transaction is mined.
                if let Err(error) = &gas {
                    observed::observe(call, site, execution, Some(error));
                }
                gas
            },
        )?;
        tx.gas = Some(gas);
    }
    match tx.wide_prices {
        Some(prices) => Err(unaffordable(call, &tx, &prices)?),
        None => Ok(tx),
    }
}

/// Returns the error for a transaction with prices above 128 bits, which no sender can pay for.
fn unaffordable(call: &Call, tx: &Execution, prices: &WidePrices) -> Result<Error, Error> {
    let WidePrices { mut fee_cap, tip, .. } = *prices;
    if fee_cap.is_zero() {
        fee_cap = tip.saturating_add(U256::from(2) * U256::from(call.next_base_fee()));
    }
    if tip > fee_cap {
        return Ok(tip_above_cap(fee_cap, tip));
    }
    let account = call.view.state.reader()?.account(tx.from)?.unwrap_or_default();
    let cost = wide_raw::cost(tx.gas.unwrap_or_default(), fee_cap, tx.value);
    Ok(wide_raw::unaffordable(account.balance, cost))
}

fn tip_above_cap(cap: U256, tip: U256) -> Error {
    Error::server(format!("maxFeePerGas ({cap}) < maxPriorityFeePerGas ({tip})"))
}

/// Signs a transaction with complete fields.
fn signed(call: &Call, tx: Execution, sign: Sign) -> Result<Transaction, Error> {
    let from = tx.from;
    let tx = unsigned(call.context.spec.chain_id, tx)?;
    let bytes = sign(signers(call)?, from, &tx.signature_hash())?;
    let signature = Signature::from_raw_array(&bytes).map_err(Error::internal)?;
    Ok(tx.into_envelope(signature))
}

/// Converts an execution with complete fields to an unsigned transaction.
fn unsigned(chain_id: u64, tx: Execution) -> Result<Unsigned, Error> {
    let (nonce, gas_limit) = (tx.nonce.unwrap_or_default(), tx.gas.unwrap_or_default());
    let (to, value, input) = (tx.to, tx.value, tx.input);
    let max_fee_per_gas = tx.max_fee_per_gas;
    let max_priority_fee_per_gas = tx.max_priority_fee_per_gas.unwrap_or_default();
    let gas_price = max_fee_per_gas;
    let has_access_list = tx.access_list.is_some();
    let access_list = tx.access_list.unwrap_or_default();
    if !tx.authorizations.is_empty() {
        let to = to.to().copied().ok_or_else(|| {
            Error::server("EIP-7702 transaction cannot be used to create contract")
        })?;
        let authorization_list = tx.authorizations;
        return Ok(TxEip7702 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            authorization_list,
            input,
        }
        .into());
    }
    if !tx.is_legacy {
        return Ok(TxEip1559 {
            chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas,
            max_priority_fee_per_gas,
            to,
            value,
            access_list,
            input,
        }
        .into());
    }
    if has_access_list {
        return Ok(TxEip2930 {
            chain_id,
            nonce,
            gas_price,
            gas_limit,
            to,
            value,
            access_list,
            input,
        }
        .into());
    }
    let chain_id = Some(chain_id);
    Ok(TxLegacy { chain_id, nonce, gas_price, gas_limit, to, value, input }.into())
}
