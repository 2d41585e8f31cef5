//! Transactions from bytes to a known sender.
//!
//! There are three steps: [`DecodedTx::decode`], the recovery of the signature ([`DecodedTx::job`], done by
//! `verify`), and [`DecodedTx::finish`]. [`super::Senders`] does them in batches. Nothing here depends on a
//! fork: whether a high `s`, a type or a chain id is valid is decided when the block is known.
//!
//! A Cosmos transaction (type 0x0a) takes the same steps. Its signature is in the same batch twice, once for
//! each possible recovery id.

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

/// Half the order of secp256k1: EIP-2 refuses an `s` above it since Homestead.
const HALF_ORDER: U256 = U256::from_limbs([
    0xdfe9_2f46_681b_20a0,
    0x5d57_6e73_57a4_501d,
    0xffff_ffff_ffff_ffff,
    0x7fff_ffff_ffff_ffff,
]);

/// A decoded transaction of any Ethereum type, blob transactions without their sidecar.
pub type Transaction = EthereumTxEnvelope<TxEip4844>;

/// The address of the contract that a transaction of `sender` creates, if it does not fail.
pub fn created_contract(tx: &Transaction, sender: Address) -> Option<Address> {
    tx.is_create().then(|| sender.create(tx.nonce()))
}

/// The participants of a transaction in addition to its sender: the recipient, the contract it creates, and
/// the recipients of its messages.
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
    /// No bytes at all, or a type with nothing after it.
    #[error("typed transaction too short")]
    Short,
    /// A first byte that no known type has.
    #[error("transaction type {0:#04x} is unknown")]
    UnknownType(u8),
    /// The RLP is malformed or not canonical.
    #[error("rlp: {0}")]
    Rlp(alloy_rlp::Error),
    /// Bytes follow the transaction.
    #[error("{0} bytes follow the transaction")]
    Trailing(usize),
    /// A Cosmos transaction that is none, or not valid in itself.
    #[error(transparent)]
    Cosmos(Box<Refusal>),
}

/// Why a transaction has no sender.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RecoverError {
    /// The bytes are no transaction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The signature belongs to no key.
    #[error("invalid signature: {}", signature_reason(*.0))]
    Signature(Reason),
    /// The signature of a Cosmos transaction is not its signer's.
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
    /// Accounts that its authorizations delegate (EIP-7702), once they have been recovered: see
    /// [`Self::authorities`].
    pub authorities: OnceLock<Box<[Address]>>,
    /// The Cosmos transaction, if it is one.
    pub cosmos: Option<Arc<CosmosTx>>,
}

impl DecodedTx {
    /// Decodes EIP-2718 bytes, all of them: trailing bytes are an error, and so are integers with
    /// leading zeros, a type 0 prefix and a blob sidecar.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(raw: Bytes) -> Result<Self, DecodeError> {
        let hash = B256::from(verify::keccak256(&raw));
        Self::decode_hashed(raw, hash)
    }

    /// [`Self::decode`] with the Keccak-256 of `raw` known, for callers that hash in batches.
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
        let wrong = |refusal| DecodeError::Cosmos(Box::new(refusal));
        let tx = CosmosTx::decode(&raw[1..], Signatures::Required).map_err(wrong)?;
        Ok(Self { raw, tx: tx.ethereum_form(), hash, cosmos: Some(Arc::new(tx)) })
    }

    /// The transaction with the amounts of a Cosmos one read in this unit.
    #[must_use]
    pub fn in_unit(mut self, unit: TokenUnit) -> Self {
        if let Some(cosmos) = self.cosmos.take_if(|cosmos| cosmos.unit() != unit) {
            let cosmos = Arc::unwrap_or_clone(cosmos).in_unit(unit);
            self.tx = cosmos.ethereum_form();
            self.cosmos = Some(Arc::new(cosmos));
        }
        self
    }

    /// What `verify` needs to find the sender: signing hash, r, s and parity.
    pub fn job(&self) -> Job {
        self.job_hashed(self.tx.signature_hash().0)
    }

    /// [`Self::job`] with the signing hash known, for callers that hash in batches.
    pub(super) fn job_hashed(&self, digest: [u8; 32]) -> Job {
        let signature = self.signature();
        Job {
            digest,
            r: signature.r().to_be_bytes(),
            s: signature.s().to_be_bytes(),
            recovery_id: u8::from(signature.v()),
        }
    }

    /// [`Self::job_hashed`] with the other parity, for signatures that do not say theirs.
    pub(super) fn second_job(&self, digest: [u8; 32]) -> Option<Job> {
        self.cosmos.as_ref().map(|_| Job { recovery_id: 1, ..self.job_hashed(digest) })
    }

    /// Appends the bytes that were hashed and signed; `chain_id` is that of Cosmos transactions, which
    /// do not say it themselves.
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

    /// Completes the transaction with what `verify` found for [`Self::job`].
    ///
    /// # Errors
    /// [`RecoverError::Signature`] when there is no key.
    pub fn finish(self, outcome: &Outcome) -> Result<RecoveredTx, RecoverError> {
        let key = outcome.as_ref().map_err(|reason| RecoverError::Signature(*reason))?;
        let high_s = self.signature().s() > HALF_ORDER;
        let Self { raw, tx, hash, cosmos } = self;
        let (sender, authorities) = (Address::from(key.address), OnceLock::new());
        Ok(RecoveredTx { raw, tx, hash, sender, high_s, authorities, cosmos })
    }

    /// [`Self::finish`] for a Cosmos transaction: either key may be the signer's.
    ///
    /// # Errors
    /// [`RecoverError::Cosmos`] when none is, and no wallet's rendering was signed.
    pub(super) fn finish_cosmos(
        self,
        outcomes: [&Outcome; 2],
        chain_id: u64,
    ) -> Result<RecoveredTx, RecoverError> {
        let Self { raw, tx, hash, cosmos } = self;
        let mut cosmos = cosmos.expect("only called for a Cosmos transaction");
        let wrong = |refusal| RecoverError::Cosmos(Box::new(refusal));
        cosmos.check_signature_form().map_err(wrong)?;
        let signed = |key: &Key| cosmos.is_signed_by(&compressed(key), key.address.into());
        let of_sign_bytes = outcomes.into_iter().flatten().any(signed);
        Arc::make_mut(&mut cosmos).verify_signature(of_sign_bytes, chain_id).map_err(wrong)?;
        let sender = cosmos.signer.address;
        let (authorities, cosmos) = (OnceLock::new(), Some(cosmos));
        Ok(RecoveredTx { raw, tx, hash, sender, high_s: false, authorities, cosmos })
    }

    fn signature(&self) -> &Signature {
        self.tx.signature()
    }
}

/// The 33 bytes of a key: the parity of y, and x.
fn compressed(key: &Key) -> [u8; PUBLIC_KEY_BYTES] {
    let mut bytes = [0; PUBLIC_KEY_BYTES];
    bytes[0] = 2 + (key.public_key[63] & 1);
    bytes[1..].copy_from_slice(&key.public_key[..32]);
    bytes
}

impl RecoveredTx {
    /// The transaction with the amounts of a Cosmos one read in this unit: that of the block it is checked
    /// for. Recovering it needs no chain, so it is read in wei at first.
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

    /// Its EIP-2718 type.
    pub fn ty(&self) -> u8 {
        if self.cosmos.is_some() { cosmos::TX_TYPE } else { self.tx.ty() }
    }

    /// Accounts that its authorizations delegate, as far as they can be valid on this chain (EIP-7702): those
    /// for another one delegate nothing. What [`super::Senders::recover_authorities`] has not recovered is
    /// recovered now, one by one.
    pub fn authorities(&self, chain_id: u64) -> &[Address] {
        self.authorities.get_or_init(|| {
            let ours = authorizations(&self.tx, chain_id);
            ours.filter_map(|auth| auth.recover_authority().ok()).collect()
        })
    }

    /// Blob gas this transaction uses; zero without blobs.
    pub fn blob_gas(&self) -> u64 {
        self.tx.blob_gas_used().unwrap_or_default()
    }
}

/// The authorizations of a transaction that are for this chain, or for any.
fn authorizations(tx: &Transaction, chain_id: u64) -> impl Iterator<Item = &SignedAuthorization> {
    let list = tx.authorization_list().unwrap_or_default().iter();
    list.filter(move |auth| auth.chain_id.is_zero() || auth.chain_id == chain_id)
}

/// What `verify` needs to find who signed each authorization that can be valid (EIP-7702: a parity of 0 or 1
/// and a low `s`).
pub(super) fn authority_jobs(tx: &Transaction, chain_id: u64) -> impl Iterator<Item = Job> {
    let valid = |auth: &&SignedAuthorization| auth.y_parity() <= 1 && auth.s() <= HALF_ORDER;
    authorizations(tx, chain_id).filter(valid).map(|auth| Job {
        digest: auth.signature_hash().0,
        r: auth.r().to_be_bytes(),
        s: auth.s().to_be_bytes(),
        recovery_id: auth.y_parity(),
    })
}

/// The first byte of an RLP list, and so of a legacy transaction, is at least this (EIP-2718).
const LIST_START: u8 = 0xc0;

/// The greatest transaction type (EIP-2718); 1 to 4 are those of EIP-2930, 1559, 4844 and 7702.
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
