//! Decodes Cosmos transactions, and computes their gas, their charge and their Ethereum form.

use super::{
    GAS_PER_BYTE, GAS_PER_SIGNATURE, coin,
    error::{
        Refusal, invalid_public_key, invalid_request, memo_too_large, no_signatures, not_supported,
        out_of_gas, unauthorized, unknown_option,
    },
    form::Form,
    message::{Message, MessageAccount, one_signer},
    price::{Charge, FeePrice},
    sign::SignMode,
    wire::{Reader, canonical},
};
use crate::Transaction;
use alloy_consensus::{SignableTransaction, TxEip1559};
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256};
use chain::{RulesVersion, Token, TokenUnit};
use feemarket::LegacyDec;
use keys::PUBLIC_KEY_BYTES;
use prost::{Message as _, Name};
use prost_types::Any;
use proto::cosmos::{
    evm::{
        crypto::v1::ethsecp256k1::PubKey, types::v1::ExtensionOptionDynamicFeeTx,
        vm::v1::ExtensionOptionsEthereumTx,
    },
    tx::v1beta1::{
        AuthInfo, ModeInfo, SignerInfo, TxBody, TxRaw,
        mode_info::{self, Sum},
    },
};

/// Maximum length of a memo, in bytes (the SDK's `max_memo_characters`).
pub const MAX_MEMO_CHARS: usize = 256;
/// Maximum number of messages in a transaction. It limits the work of decoding, before the gas limit can be checked.
const MAX_MESSAGES: usize = 64;
/// Key type of Ethermint, the predecessor of cosmos/evm. Some wallets still state it.
pub(super) const ETHERMINT_KEY: &str = "/ethermint.crypto.v1.ethsecp256k1.PubKey";
/// Key type of other SDK chains. No account of this chain has such a key.
const COSMOS_KEY: &str = "/cosmos.crypto.secp256k1.PubKey";

/// Whether signatures are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signatures {
    /// Required, as in all transactions that are broadcast.
    Required,
    /// For simulation: the signature and the public key may be empty.
    Optional,
}

/// A decoded Cosmos transaction. It has the canonical encoding, except that default values may be stated if the
/// signature covers them.
#[derive(Clone, Debug, PartialEq)]
pub struct CosmosTx {
    /// The bytes of the `TxBody` as they were signed.
    pub body_bytes: Vec<u8>,
    /// The bytes of the `AuthInfo` as they were signed.
    pub auth_info_bytes: Vec<u8>,
    /// The decoded `TxBody`.
    pub body: TxBody,
    /// The decoded `AuthInfo`.
    pub auth_info: AuthInfo,
    /// The messages.
    pub messages: Vec<Message>,
    /// The account that must sign, and that pays the fee.
    pub signer: MessageAccount,
    /// The stated public key. It may be missing, because it can be recovered from the signature.
    pub public_key: Option<[u8; PUBLIC_KEY_BYTES]>,
    /// The kind of bytes that were signed.
    pub mode: SignMode,
    /// r and s; zero without a signature.
    pub signature: [u8; 64],
    /// The offered fee.
    pub price: FeePrice,
    /// Size of the `TxRaw` in bytes. In a simulation, it includes the signature and the key that the signed
    /// transaction will have.
    pub size: usize,
    pub(super) form: Form,
    unit: TokenUnit,
}

impl CosmosTx {
    /// Decodes the bytes of a `TxRaw`. Trailing bytes are an error.
    ///
    /// # Errors
    /// Returns the first fault that is found, with the error code that the SDK uses.
    pub fn decode(bytes: &[u8], signatures: Signatures) -> Result<Self, Refusal> {
        // The signature covers at most the body and `AuthInfo`, so only one encoding of the rest is accepted.
        let raw: TxRaw = canonical(bytes)?;
        let mut reader = Reader::default();
        let body: TxBody = reader.read(&raw.body_bytes)?;
        let auth_info: AuthInfo = reader.read(&raw.auth_info_bytes)?;
        if body.memo.len() > MAX_MEMO_CHARS {
            let length = body.memo.len();
            return Err(memo_too_large(format!(
                "maximum number of characters is {MAX_MEMO_CHARS} but received {length} characters"
            )));
        }
        if body.messages.len() > MAX_MESSAGES {
            let count = body.messages.len();
            return Err(invalid_request(format!("{count} messages: at most {MAX_MESSAGES}")));
        }
        let messages: Vec<_> = body
            .messages
            .iter()
            .map(|any| Message::read(any, &mut reader))
            .collect::<Result<_, _>>()?;
        let signer = one_signer(&messages)?;
        let price = price(&body, &auth_info, &signer, signatures, &mut reader)?;
        let [info] = auth_info.signer_infos.as_slice() else {
            return Err(wrong_signers(auth_info.signer_infos.len()));
        };
        let signature = match raw.signatures.as_slice() {
            [] if signatures == Signatures::Required => return Err(no_signatures("")),
            [] => [0; 64],
            [signature] => self::signature(signature, signatures)?,
            several => return Err(wrong_signers(several.len())),
        };
        let recovery_id = raw.signatures.iter().any(|signature| signature.len() > 64);
        let is_unsigned = signature == [0; 64] && signatures == Signatures::Optional;
        let size = if is_unsigned { signed_size(&raw, &auth_info) } else { bytes.len() };
        let tx = Self {
            public_key: public_key(info, signatures, &mut reader)?,
            mode: mode(info, signatures)?,
            size,
            form: Form {
                defaults: reader.defaults,
                v1beta1_messages: messages.iter().any(Message::is_v1beta1),
                unsigned: (recovery_id && signatures == Signatures::Required)
                    .then_some("its 65th byte: leave it out"),
                ..Form::default()
            },
            body_bytes: raw.body_bytes,
            auth_info_bytes: raw.auth_info_bytes,
            body,
            auth_info,
            messages,
            signer,
            signature,
            price,
            unit: TokenUnit::WEI,
        };
        let overflow = || invalid_request("the sum of the amounts exceeds 2^256 - 1");
        let value = tx.value().ok_or_else(overflow)?;
        value.checked_add(price.fee).ok_or_else(overflow)?;
        tx.check_gas_limit(signatures)?;
        Ok(tx)
    }

    /// Returns the unit of the amounts: [`TokenUnit::WEI`] until [`Self::in_unit`] sets it. The bytes do not
    /// contain the unit, which depends on the chain and on the height of the block.
    pub const fn unit(&self) -> TokenUnit {
        self.unit
    }

    /// Returns the transaction with its stated amounts interpreted in this unit. The numbers do not change.
    #[must_use]
    pub fn in_unit(self, unit: TokenUnit) -> Self {
        Self { unit, ..self }
    }

    /// Checks that these rules accept the transaction's encoding.
    ///
    /// # Errors
    /// Returns the reason why they reject it.
    pub fn check_form(&self, rules: RulesVersion) -> Result<(), Refusal> {
        self.form.check(rules)
    }

    /// Returns the sequence of the transaction, which is the account's Ethereum nonce.
    pub fn sequence(&self) -> u64 {
        self.auth_info.signer_infos.first().map_or(0, |info| info.sequence)
    }

    /// Returns the charge in a block with this base fee, which is in wei; `denom` is the token's name.
    ///
    /// # Errors
    /// See [`FeePrice::charge`].
    pub fn charge(&self, base_fee: LegacyDec, denom: &str) -> Result<Charge, Refusal> {
        self.price.charge(base_fee, Token { denom, unit: self.unit })
    }

    /// Returns the gas limit.
    pub const fn gas_limit(&self) -> u64 {
        self.price.gas
    }

    /// Returns the gas that the transaction uses: for its bytes, its signature and its messages.
    pub fn gas_used(&self) -> u64 {
        let size = GAS_PER_BYTE.saturating_mul(self.size as u64);
        let messages: u64 = self.messages.iter().map(Message::gas).sum();
        size.saturating_add(GAS_PER_SIGNATURE).saturating_add(messages)
    }

    /// Returns the amount that leaves the signer's account in addition to the fee, in base units; `None` on overflow.
    fn value(&self) -> Option<U256> {
        self.messages.iter().try_fold(U256::ZERO, |sum, message| sum.checked_add(message.value()))
    }

    fn check_gas_limit(&self, signatures: Signatures) -> Result<(), Refusal> {
        let (wanted, used) = (self.gas_limit(), self.gas_used());
        if signatures == Signatures::Required && wanted < used {
            return Err(out_of_gas(format!(
                "out of gas in location: ante; gasWanted: {wanted}, gasUsed: {used}"
            )));
        }
        Ok(())
    }

    /// Returns the recipient of each message. It is the governance account if the message is not a transfer.
    pub fn recipients(&self) -> impl Iterator<Item = Address> {
        self.messages.iter().map(Message::recipient)
    }

    /// Returns the transaction in the form that the pool, the fee market and JSON-RPC use: a type 2 transfer to the
    /// first recipient. It has the same nonce, gas limit and price, and its value is the sum over all messages.
    /// Amounts are in wei. Those above the range of their type saturate: no account can pay them.
    pub fn ethereum_form(&self) -> Transaction {
        let cap = self.price.cap().ok().and_then(|cap| self.unit.price_to_wei(cap).ok());
        let cap = cap.and_then(LegacyDec::truncate_u256);
        let cap = cap.map_or(u128::MAX, |cap| cap.saturating_to());
        let priority_fee = self.price.tip.map(|fee| self.unit.to_wei(fee).unwrap_or(U256::MAX));
        let priority_fee = priority_fee.map_or(cap, |fee| fee.saturating_to::<u128>().min(cap));
        let [r, s] = [0, 32].map(|at| U256::from_be_slice(&self.signature[at..at + 32]));
        let to = self.messages.first().map(Message::recipient).unwrap_or_default();
        let transfer = TxEip1559 {
            nonce: self.sequence(),
            gas_limit: self.gas_limit(),
            max_fee_per_gas: cap,
            max_priority_fee_per_gas: priority_fee,
            to: TxKind::Call(to),
            value: self.value().and_then(|value| self.unit.to_wei(value)).unwrap_or(U256::MAX),
            input: Bytes::new(),
            ..TxEip1559::default()
        };
        transfer.into_signed(Signature::new(r, s, false)).into()
    }
}

/// Returns the size that an unsigned transaction will have with its signature, because gas is charged for all bytes.
fn signed_size(raw: &TxRaw, auth: &AuthInfo) -> usize {
    let mut auth = auth.clone();
    for info in &mut auth.signer_infos {
        let has_key = |any: &Any| any.type_url != COSMOS_KEY && any.value.len() > PUBLIC_KEY_BYTES;
        if !info.public_key.as_ref().is_some_and(has_key) {
            let key = PubKey { key: vec![2; PUBLIC_KEY_BYTES] };
            info.public_key =
                Some(Any { type_url: PubKey::type_url(), value: key.encode_to_vec() });
        }
        let single = mode_info::Single { mode: SignMode::AminoJson.number() };
        info.mode_info = Some(ModeInfo { sum: Some(Sum::Single(single)) });
    }
    let body_bytes = raw.body_bytes.clone();
    let signatures = vec![vec![0; 64]];
    TxRaw { body_bytes, auth_info_bytes: auth.encode_to_vec(), signatures }.encoded_len()
}

/// Reads the offered fee. The payer must be the signer.
fn price(
    body: &TxBody,
    auth: &AuthInfo,
    signer: &MessageAccount,
    signatures: Signatures,
    reader: &mut Reader,
) -> Result<FeePrice, Refusal> {
    let mut priority_fee = None;
    if let Some(option) = body.non_critical_extension_options.first() {
        // The node would ignore such options, so they could contain anything.
        return Err(unknown_option(option.type_url.clone()));
    }
    for option in &body.extension_options {
        if option.type_url == ExtensionOptionsEthereumTx::type_url() {
            return Err(invalid_request(
                "an Ethereum transaction must be submitted without its envelope",
            ));
        }
        if option.type_url != ExtensionOptionDynamicFeeTx::type_url() || priority_fee.is_some() {
            return Err(unknown_option(format!(
                "rejecting tx with unsupported extension option: {}",
                option.type_url
            )));
        }
        let option: ExtensionOptionDynamicFeeTx = reader.read(&option.value)?;
        let price = U256::from_str_radix(&option.max_priority_price, 10).ok();
        let price = price.filter(|_| option.max_priority_price.bytes().all(|b| b.is_ascii_digit()));
        priority_fee = Some(price.ok_or_else(|| {
            let text = &option.max_priority_price;
            invalid_request(format!("max priority price {text:?} is not an amount"))
        })?);
    }
    let fee = auth.fee.as_ref().ok_or_else(|| invalid_request("the transaction states no fee"))?;
    if !fee.granter.is_empty() {
        return Err(not_supported("fee grants are not enabled"));
    }
    if !fee.payer.is_empty() && MessageAccount::read(&fee.payer)? != *signer {
        return Err(not_supported("a fee payer other than the signer"));
    }
    // Larger gas limits would not fit into the signed integers of the interfaces.
    let is_zero = fee.gas_limit == 0 && signatures == Signatures::Required;
    if is_zero || i64::try_from(fee.gas_limit).is_err() {
        return Err(invalid_request(format!("invalid gas limit {}", fee.gas_limit)));
    }
    Ok(FeePrice { fee: coin::total(&fee.amount)?, gas: fee.gas_limit, tip: priority_fee })
}

fn wrong_signers(got: usize) -> Refusal {
    unauthorized(format!("wrong number of signers; expected 1, got {got}"))
}

/// Reads r and s from 64 bytes, or from 65 bytes with a redundant recovery id. In simulations, they may be missing.
fn signature(bytes: &[u8], signatures: Signatures) -> Result<[u8; 64], Refusal> {
    match (bytes, signatures) {
        ([], Signatures::Optional) => Ok([0; 64]),
        (bytes, _) if matches!(bytes.len(), 64 | 65) => {
            Ok(bytes[..64].try_into().expect("64 bytes were cut"))
        }
        (other, _) => Err(unauthorized(format!("a signature of {} bytes", other.len()))),
    }
}

fn public_key(
    info: &SignerInfo,
    signatures: Signatures,
    reader: &mut Reader,
) -> Result<Option<[u8; PUBLIC_KEY_BYTES]>, Refusal> {
    let Some(any) = &info.public_key else { return Ok(None) };
    if signatures == Signatures::Optional && any.type_url == COSMOS_KEY {
        // cosmjs simulates with this key type for any kind of signing key. The address identifies the signer.
        return Ok(None);
    }
    if any.type_url != PubKey::type_url() && any.type_url != ETHERMINT_KEY {
        return Err(invalid_public_key(format!(
            "{}: keys are of type {}",
            any.type_url,
            PubKey::type_url()
        )));
    }
    let key: PubKey = reader.read(&any.value)?;
    if key.key.is_empty() {
        // Clients send an empty key in simulations. It always means the same as a missing key.
        return Ok(None);
    }
    let length = key.key.len();
    let key =
        key.key.try_into().map_err(|_| invalid_public_key(format!("{length} bytes, want 33")))?;
    Ok(Some(key))
}

fn mode(info: &SignerInfo, signatures: Signatures) -> Result<SignMode, Refusal> {
    let mode = info.mode_info.as_ref().and_then(|mode| mode.sum.as_ref());
    let Some(Sum::Single(single)) = mode else {
        return match signatures {
            Signatures::Optional => Ok(SignMode::Direct),
            Signatures::Required => {
                Err(not_supported("a sign mode for several keys, or no sign mode"))
            }
        };
    };
    SignMode::of(single.mode, signatures)
        .ok_or_else(|| not_supported(format!("sign mode {}", single.mode)))
}
