//! Decodes transactions and recovers their senders.
//!
//! There are three steps: [`DecodedTx::decode`], the recovery of the signature ([`DecodedTx::job`], executed by
//! `verify`), and [`DecodedTx::finish`]. [`super::Senders`] executes them in batches. Nothing here depends on a
//! fork: whether a high `s`, a transaction type or a chain id is valid is decided when the block is known.
//!
//! A Cosmos transaction (type 0x0a) goes through the same steps. Its signature is in the batch twice, once for each
//! parity, because the signature does not contain the parity.

use alloy_consensus::{
    EthereumTxEnvelope, SignableTransaction, Transaction as _, TxEip4844, TxLegacy, Typed2718 as _,
    transaction::RlpEcdsaDecodableTx,
};
use alloy_eips::{eip2718::Decodable2718, eip7702::SignedAuthorization};
use alloy_primitives::{Address, B256, Bytes, Signature, U256};
use std::sync::{Arc, OnceLock};
use verify::{Job, Key, Outcome, Reason};

use crate::cosmos::{self, CosmosTx, Refusal, Signatures};
use chain::TokenUnit;
use keys::PUBLIC_KEY_BYTES;

/// Half the order of secp256k1: since Homestead, a larger `s` is rejected (EIP-2).
const HALF_ORDER: U256 = U256::from_limbs([
    0xdfe9_2f46_681b_20a0,
    0x5d57_6e73_57a4_501d,
    0xffff_ffff_ffff_ffff,
    0x7fff_ffff_ffff_ffff,
]);

/// A decoded transaction of any Ethereum type. A blob transaction has no sidecar.
pub type Transaction = EthereumTxEnvelope<TxEip4844>;

/// Returns the address of the contract that a transaction of `sender` creates if it succeeds; `None` for a call.
pub fn created_contract(tx: &Transaction, sender: Address) -> Option<Address> {
    tx.is_create().then(|| sender.create(tx.nonce()))
}

/// Returns the participants of a transaction in addition to its sender: the recipient, the contract that it creates,
/// and the recipients of the messages of `cosmos`. An address may occur repeatedly.
pub fn participants<'a>(
    tx: &Transaction,
    sender: Address,
    cosmos: Option<&'a CosmosTx>,
) -> impl Iterator<Item = Address> + use<'a> {
    let paid = cosmos.into_iter().flat_map(CosmosTx::recipients);
    tx.to().into_iter().chain(created_contract(tx, sender)).chain(paid)
}

/// Why bytes are not a transaction.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input is empty, or consists of only a type.
    #[error("typed transaction too short")]
    Short,
    /// The first byte is not a known type.
    #[error("transaction type {0:#04x} is unknown")]
    UnknownType(u8),
    /// The RLP is malformed or not canonical.
    #[error("rlp: {0}")]
    Rlp(alloy_rlp::Error),
    /// Bytes follow the transaction.
    #[error("{0} bytes follow the transaction")]
    Trailing(usize),
    /// The Cosmos transaction is malformed or invalid.
    #[error(transparent)]
    Cosmos(Box<Refusal>),
}

/// Why a transaction has no sender.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecoverError {
    /// The bytes are not a transaction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// No public key can be recovered from the signature.
    #[error("invalid signature: {}", signature_reason(*.0))]
    Signature(Reason),
    /// The signature of a Cosmos transaction is not valid for its signer and its content.
    #[error(transparent)]
    Cosmos(Box<Refusal>),
}

const fn signature_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::ScalarOutOfRange => "r or s is out of range",
        Reason::RecoveryId => "the recovery id is out of range",
        _ => "no public key recovers",
    }
}

/// A decoded transaction whose sender is not known yet.
#[derive(Clone, Debug)]
pub struct DecodedTx {
    /// EIP-2718 bytes as received.
    pub raw: Bytes,
    /// The decoded transaction; the [`CosmosTx::ethereum_form`] of a Cosmos transaction.
    pub tx: Transaction,
    /// Keccak-256 of `raw`.
    pub hash: B256,
    /// The Cosmos transaction, if it is one.
    pub cosmos: Option<Arc<CosmosTx>>,
}

/// A transaction with its sender.
#[derive(Clone, Debug)]
pub struct RecoveredTx {
    /// EIP-2718 bytes as received.
    pub raw: Bytes,
    /// The decoded transaction; the [`CosmosTx::ethereum_form`] of a Cosmos transaction.
    pub tx: Transaction,
    /// Keccak-256 of `raw`.
    pub hash: B256,
    /// The account that signed it.
    pub sender: Address,
    /// The signature's `s` is in the upper half: invalid since Homestead (EIP-2).
    pub high_s: bool,
    /// The authorities of its authorizations (EIP-7702), once they have been recovered. See
    /// [`Self::authorities`].
    pub authorities: OnceLock<Box<[Address]>>,
    /// The Cosmos transaction, if it is one.
    pub cosmos: Option<Arc<CosmosTx>>,
}

/// Returns the signature of a transaction that a client of a development chain sends on behalf of `sender` without
/// its key: `r` and `s` are the address. No key is known to produce such a signature for its own address.
pub fn impersonated_signature(sender: Address) -> Signature {
    let number = U256::from_be_bytes(sender.into_word().0);
    Signature::new(number, number, false)
}

impl DecodedTx {
    /// Decodes a complete EIP-2718 transaction. Trailing bytes, integers with leading zeros, a type 0 prefix and
    /// a blob sidecar are errors.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(raw: Bytes) -> Result<Self, DecodeError> {
        let hash = B256::from(verify::keccak256(&raw));
        Self::decode_hashed(raw, hash)
    }

    /// Does the same as [`Self::decode`] with a known Keccak-256 of `raw`, for callers that hash in batches.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode_hashed(raw: Bytes, hash: B256) -> Result<Self, DecodeError> {
        if raw.is_empty() || (raw.len() == 1 && raw[0] <= MAX_TYPE) {
            return Err(DecodeError::Short);
        }
        if cosmos::is_cosmos(&raw) {
            return Self::decode_cosmos(raw, hash);
        }
        let mut rest = raw.as_ref();
        let tx = decode(&mut rest)?;
        if !rest.is_empty() {
            return Err(DecodeError::Trailing(rest.len()));
        }
        Ok(Self { raw, tx, hash, cosmos: None })
    }

    fn decode_cosmos(raw: Bytes, hash: B256) -> Result<Self, DecodeError> {
        let to_error = |refusal| DecodeError::Cosmos(Box::new(refusal));
        let tx = CosmosTx::decode(&raw[1..], Signatures::Required).map_err(to_error)?;
        Ok(Self { raw, tx: tx.ethereum_form(), hash, cosmos: Some(Arc::new(tx)) })
    }

    /// Returns the transaction. The stated amounts of a Cosmos transaction are interpreted in this unit.
    #[must_use]
    pub fn in_unit(mut self, unit: TokenUnit) -> Self {
        if let Some(cosmos) = self.cosmos.take_if(|cosmos| cosmos.unit() != unit) {
            let cosmos = Arc::unwrap_or_clone(cosmos).in_unit(unit);
            self.tx = cosmos.ethereum_form();
            self.cosmos = Some(Arc::new(cosmos));
        }
        self
    }

    /// Returns the input of `verify` for the recovery of the sender: signing hash, r, s and parity.
    pub fn job(&self) -> Job {
        self.job_hashed(self.tx.signature_hash().0)
    }

    /// Does the same as [`Self::job`] with a known signing hash, for callers that hash in batches.
    pub(super) fn job_hashed(&self, digest: [u8; 32]) -> Job {
        let signature = self.signature();
        Job {
            digest,
            r: signature.r().to_be_bytes(),
            s: signature.s().to_be_bytes(),
            recovery_id: u8::from(signature.v()),
        }
    }

    /// Does the same as [`Self::job_hashed`] with the other parity for a Cosmos transaction; `None` for others.
    pub(super) fn second_job(&self, digest: [u8; 32]) -> Option<Job> {
        self.cosmos.as_ref().map(|_| Job { recovery_id: 1, ..self.job_hashed(digest) })
    }

    /// Appends the signing payload. Only Cosmos transactions use `chain_id`, which they sign but do not contain.
    pub(super) fn encode_for_signing(&self, chain_id: u64, out: &mut Vec<u8>) {
        if let Some(cosmos) = &self.cosmos {
            out.extend(cosmos.sign_bytes(chain_id));
            return;
        }
        match &self.tx {
            Transaction::Legacy(tx) => tx.tx().encode_for_signing(out),
            Transaction::Eip2930(tx) => tx.tx().encode_for_signing(out),
            Transaction::Eip1559(tx) => tx.tx().encode_for_signing(out),
            Transaction::Eip4844(tx) => tx.tx().encode_for_signing(out),
            Transaction::Eip7702(tx) => tx.tx().encode_for_signing(out),
        }
    }

    /// Completes the transaction with a known sender. The signature is not verified. The sender of a Cosmos transaction
    /// is the signer that it states.
    pub(super) fn with_sender(self, sender: Address) -> RecoveredTx {
        let Self { raw, tx, hash, cosmos } = self;
        let sender = cosmos.as_ref().map_or(sender, |cosmos| cosmos.signer.address);
        RecoveredTx { raw, tx, hash, sender, high_s: false, authorities: OnceLock::new(), cosmos }
    }

    /// Completes the transaction with the result of `verify` for [`Self::job`].
    ///
    /// # Errors
    /// Returns [`RecoverError::Signature`] if no key was recovered.
    pub fn finish(self, outcome: &Outcome) -> Result<RecoveredTx, RecoverError> {
        let key = outcome.as_ref().map_err(|reason| RecoverError::Signature(*reason))?;
        let high_s = self.signature().s() > HALF_ORDER;
        let Self { raw, tx, hash, cosmos } = self;
        let (sender, authorities) = (Address::from(key.address), OnceLock::new());
        Ok(RecoveredTx { raw, tx, hash, sender, high_s, authorities, cosmos })
    }

    /// Does the same as [`Self::finish`] for a Cosmos transaction. Either recovered key may be the signer's.
    ///
    /// # Errors
    /// Returns the error of [`CosmosTx::check_signature_form`] or [`CosmosTx::verify_signature`].
    pub(super) fn finish_cosmos(
        self,
        outcomes: [&Outcome; 2],
        chain_id: u64,
    ) -> Result<RecoveredTx, RecoverError> {
        let Self { raw, tx, hash, cosmos } = self;
        let mut cosmos = cosmos.expect("only called for a Cosmos transaction");
        let to_error = |refusal| RecoverError::Cosmos(Box::new(refusal));
        cosmos.check_signature_form().map_err(to_error)?;
        let is_signer = |key: &Key| cosmos.is_signed_by(&compressed(key), key.address.into());
        let signs_bytes = outcomes.into_iter().flatten().any(is_signer);
        Arc::make_mut(&mut cosmos).verify_signature(signs_bytes, chain_id).map_err(to_error)?;
        let sender = cosmos.signer.address;
        let (authorities, cosmos) = (OnceLock::new(), Some(cosmos));
        Ok(RecoveredTx { raw, tx, hash, sender, high_s: false, authorities, cosmos })
    }

    fn signature(&self) -> &Signature {
        self.tx.signature()
    }
}

/// Encodes a key in 33 bytes: the parity of y, and x.
fn compressed(key: &Key) -> [u8; PUBLIC_KEY_BYTES] {
    let mut bytes = [0; PUBLIC_KEY_BYTES];
    bytes[0] = 2 + (key.public_key[63] & 1);
    bytes[1..].copy_from_slice(&key.public_key[..32]);
    bytes
}

impl RecoveredTx {
    /// Returns the transaction. The stated amounts of a Cosmos transaction are interpreted in this unit, which depends
    /// on the chain and the block. Recovery knows neither, and interprets the amounts as wei.
    #[must_use]
    pub fn in_unit(self: Arc<Self>, unit: TokenUnit) -> Arc<Self> {
        match &self.cosmos {
            Some(cosmos) if cosmos.unit() != unit => {
                let cosmos = CosmosTx::clone(cosmos).in_unit(unit);
                let tx = cosmos.ethereum_form();
                Arc::new(Self { tx, cosmos: Some(Arc::new(cosmos)), ..Self::clone(&self) })
            }
            _ => self,
        }
    }

    /// Returns whether the transaction has an [`impersonated_signature`].
    pub fn is_impersonated(&self) -> bool {
        let sender = U256::from_be_bytes(self.sender.into_word().0);
        let signature = self.tx.signature();
        self.cosmos.is_none() && signature.r() == sender && signature.s() == sender
    }

    /// Returns the EIP-2718 type.
    pub fn ty(&self) -> u8 {
        if self.cosmos.is_some() { cosmos::TX_TYPE } else { self.tx.ty() }
    }

    /// Returns the authorities of those authorizations that can be valid on this chain (EIP-7702). Recovers them one
    /// by one, unless they are stored because of an earlier call or [`super::Senders::recover_authorities`].
    pub fn authorities(&self, chain_id: u64) -> &[Address] {
        self.authorities.get_or_init(|| {
            let for_chain = authorizations(&self.tx, chain_id);
            for_chain.filter_map(|auth| auth.recover_authority().ok()).collect()
        })
    }

    /// Returns the blob gas that this transaction uses; zero without blobs.
    pub fn blob_gas(&self) -> u64 {
        self.tx.blob_gas_used().unwrap_or_default()
    }
}

/// Returns the authorizations of a transaction that are for this chain, or for any chain.
fn authorizations(tx: &Transaction, chain_id: u64) -> impl Iterator<Item = &SignedAuthorization> {
    let list = tx.authorization_list().unwrap_or_default().iter();
    list.filter(move |auth| auth.chain_id.is_zero() || auth.chain_id == chain_id)
}

/// Returns the input of `verify` for each authorization that can be valid on this chain (EIP-7702: a parity of 0
/// or 1 and a low `s`).
pub(super) fn authority_jobs(tx: &Transaction, chain_id: u64) -> impl Iterator<Item = Job> {
    let valid = |auth: &&SignedAuthorization| auth.y_parity() <= 1 && auth.s() <= HALF_ORDER;
    authorizations(tx, chain_id).filter(valid).map(|auth| Job {
        digest: auth.signature_hash().0,
        r: auth.r().to_be_bytes(),
        s: auth.s().to_be_bytes(),
        recovery_id: auth.y_parity(),
    })
}

/// Minimum first byte of an RLP list, and so of a legacy transaction (EIP-2718).
const LIST_START: u8 = 0xc0;

/// Maximum transaction type (EIP-2718). Types 1 to 4 are those of EIP-2930, 1559, 4844 and 7702.
const MAX_TYPE: u8 = 0x7f;

fn decode(rest: &mut &[u8]) -> Result<Transaction, DecodeError> {
    if rest.first().is_some_and(|first| *first >= LIST_START) {
        let tx = TxLegacy::rlp_decode_signed(rest).map_err(DecodeError::Rlp)?;
        return Ok(Transaction::Legacy(tx));
    }
    // The decoder reports an unknown type as malformed RLP.
    if let Some(kind @ (0 | 5..=MAX_TYPE)) = rest.first() {
        return Err(DecodeError::UnknownType(*kind));
    }
    Transaction::decode_2718(rest).map_err(|error| DecodeError::Rlp(error.into()))
}
