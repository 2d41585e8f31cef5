//! Creates the sign bytes of Cosmos transactions, and verifies their signatures.
//!
//! The digest is the Keccak-256 of the sign bytes (`eth_secp256k1`). Signatures have no recovery id, so the recover
//! stage tries both parities in its batch. One of the recovered keys must belong to the account that the messages
//! require, and equal the stated key if there is one. Otherwise, a wallet may have signed another form of the same
//! document, such as one of two EIP-712 renderings (see [`super::eip712`]).

use super::{
    CosmosTx, Message, Signatures, amino, eip712,
    error::{Refusal, unauthorized},
};
use alloy_primitives::{Address, B256, Signature, U256, keccak256};
use keys::PUBLIC_KEY_BYTES;
use prost::{Message as _, Name};
use proto::cosmos::{
    evm::crypto::v1::ethsecp256k1::PubKey,
    tx::{
        signing::v1beta1::SignMode as ProtoMode,
        v1beta1::{SignDoc, SignerInfo},
    },
};

/// The account number in every sign document. All accounts of this chain have this number: a signature is already
/// bound to the chain id, the sequence and the key, so the recover stage needs no state to look up a number.
pub const ACCOUNT_NUMBER: u64 = 0;

/// Half the order of secp256k1. For a larger `s`, the signature with the lower `s` is equally valid.
const HALF_ORDER: U256 = U256::from_limbs([
    0xdfe9_2f46_681b_20a0,
    0x5d57_6e73_57a4_501d,
    0xffff_ffff_ffff_ffff,
    0x7fff_ffff_ffff_ffff,
]);

/// The kind of bytes that were signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignMode {
    /// The protobuf `SignDoc`.
    Direct,
    /// The sorted JSON of `StdSignDoc`.
    AminoJson,
}

impl SignMode {
    /// Returns the number of the mode in `SignerInfo`.
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Direct => ProtoMode::Direct as i32,
            Self::AminoJson => ProtoMode::LegacyAminoJson as i32,
        }
    }

    pub(super) fn of(number: i32, signatures: Signatures) -> Option<Self> {
        match ProtoMode::try_from(number).ok()? {
            ProtoMode::Direct => Some(Self::Direct),
            ProtoMode::LegacyAminoJson => Some(Self::AminoJson),
            ProtoMode::Unspecified if signatures == Signatures::Optional => Some(Self::Direct),
            _ => None,
        }
    }
}

impl CosmosTx {
    /// Returns the bytes whose Keccak-256 is signed on the chain with this EIP-155 id. Its Cosmos chain id is
    /// the same number in decimal.
    pub fn sign_bytes(&self, chain_id: u64) -> Vec<u8> {
        if self.mode == SignMode::AminoJson
            && let Some(document) = amino::document(self, chain_id)
        {
            return amino::bytes(&document);
        }
        let document = SignDoc {
            body_bytes: self.body_bytes.clone(),
            auth_info_bytes: self.auth_info_bytes.clone(),
            chain_id: chain_id.to_string(),
            account_number: ACCOUNT_NUMBER,
        };
        document.encode_to_vec()
    }

    /// Returns r and s of the signature.
    pub fn scalars(&self) -> [[u8; 32]; 2] {
        [0, 32].map(|at| self.signature[at..at + 32].try_into().expect("32 bytes were cut"))
    }

    /// Returns whether this key, which has this address, is the signer's, and equals the stated key if there is one.
    pub fn is_signed_by(&self, key: &[u8; PUBLIC_KEY_BYTES], address: Address) -> bool {
        address == self.signer.address && self.public_key.is_none_or(|stated| stated == *key)
    }

    /// Verifies the signature, and records which part of the transaction it does not cover. `signs_bytes` is true if
    /// the sign bytes were signed with the signer's key. Otherwise, the signature may be over another form.
    ///
    /// # Errors
    /// Returns an error if no accepted form was signed, or if the signature does not cover stated default values.
    pub fn verify_signature(&mut self, signs_bytes: bool, chain_id: u64) -> Result<(), Refusal> {
        let signs_other_form = |tx: &Self| {
            tx.other_digests(chain_id).into_iter().any(|digest| tx.signer_key(digest).is_some())
        };
        if !signs_bytes && !signs_other_form(self) {
            return Err(unauthorized(format!(
                "signature verification failed; please verify account number ({ACCOUNT_NUMBER}), \
                 sequence ({}) and chain-id ({chain_id})",
                self.sequence()
            )));
        }
        let signs_document =
            self.mode == SignMode::AminoJson && amino::without_payer(self, chain_id).is_some();
        if signs_bytes && !signs_document {
            // The signature covers every byte of body and `AuthInfo`.
            return Ok(());
        }
        if self.form.defaults {
            return Err(unauthorized("default values may be stated in SIGN_MODE_DIRECT only"));
        }
        self.form.signed_payer = signs_bytes && self.states_payer();
        self.form.unsigned = self.form.unsigned.or_else(|| self.outside_document(signs_bytes));
        Ok(())
    }

    /// Does the same as [`Self::verify_signature`] for a transaction whose key has not been recovered yet.
    ///
    /// # Errors
    /// Returns the errors of [`Self::verify_signature`].
    pub fn with_verified_signature(mut self, chain_id: u64) -> Result<Self, Refusal> {
        let signs_bytes = self.signer_key(self.digest(chain_id)).is_some();
        self.verify_signature(signs_bytes, chain_id)?;
        Ok(self)
    }

    /// Returns a part that a signature over the Amino document, or over a rendering of it, does not cover
    /// although it could be encoded differently.
    fn outside_document(&self, signs_bytes: bool) -> Option<&'static str> {
        let has_other_key_type = |info: &SignerInfo| {
            info.public_key.as_ref().is_some_and(|any| any.type_url != PubKey::type_url())
        };
        if !signs_bytes && self.states_payer() {
            Some("the fee payer: leave it out")
        } else if !signs_bytes && self.mode != SignMode::AminoJson {
            Some("the sign mode: state SIGN_MODE_LEGACY_AMINO_JSON")
        } else if self.public_key.is_none() {
            Some("the absence of a public key: state the key")
        } else if self.auth_info.signer_infos.iter().any(has_other_key_type) {
            Some("the type of the public key: state ethsecp256k1 of cosmos.evm")
        } else if self.messages.iter().any(Message::has_upper_case_address) {
            Some("the case of an address: use lower case")
        } else {
            None
        }
    }

    fn states_payer(&self) -> bool {
        self.auth_info.fee.as_ref().is_some_and(|fee| !fee.payer.is_empty())
    }

    /// Returns the digests that may have been signed instead of the sign bytes' digest: the digests of the wallet
    /// renderings, and the digest of the document without the fee payer, which version 0 of the rules accepts.
    fn other_digests(&self, chain_id: u64) -> Vec<B256> {
        let mut digests = self.wallet_digests(chain_id);
        if self.mode == SignMode::AminoJson
            && self.states_payer()
            && let Some(document) = amino::without_payer(self, chain_id)
        {
            digests.push(keccak256(amino::bytes(&document)));
        }
        digests
    }

    /// Returns the key of a transaction with a verified signature: the stated key, or else the recovered one.
    pub fn signing_key(&self, chain_id: u64) -> Option<[u8; PUBLIC_KEY_BYTES]> {
        let recovered = || {
            let mut digests =
                [self.digest(chain_id)].into_iter().chain(self.other_digests(chain_id));
            digests.find_map(|digest| self.signer_key(digest))
        };
        self.public_key.or_else(recovered)
    }

    /// Returns the signer's key if the signature is valid for this digest.
    fn signer_key(&self, digest: B256) -> Option<[u8; PUBLIC_KEY_BYTES]> {
        let [r, s] = self.scalars().map(U256::from_be_bytes);
        [false, true].into_iter().find_map(|parity| {
            let key = Signature::new(r, s, parity).recover_from_prehash(&digest).ok()?;
            let point = key.to_encoded_point(true);
            let bytes = point.as_bytes().try_into().ok()?;
            self.is_signed_by(&bytes, Address::from_public_key(&key)).then_some(bytes)
        })
    }

    /// Returns the digests that a wallet which supports only EIP-712 may sign: first for cosmos/evm's rendering, then
    /// for Ethermint's. Not every transaction has these renderings.
    pub fn wallet_digests(&self, chain_id: u64) -> Vec<B256> {
        let Some(document) = amino::without_payer(self, chain_id) else { return Vec::new() };
        let newer = eip712::digest(&document, chain_id);
        newer.into_iter().chain(eip712::legacy_digest(self, &document, chain_id)).collect()
    }

    /// Checks that `s` is in the lower half of the order. The check does not depend on the sign bytes.
    ///
    /// # Errors
    /// Returns an error if `s` is in the upper half. The signature with the lower `s` would be valid as well, so one of
    /// them must be rejected.
    pub fn check_signature_form(&self) -> Result<(), Refusal> {
        let [_, s] = self.scalars().map(U256::from_be_bytes);
        if s > HALF_ORDER {
            return Err(unauthorized("signature verification failed; s is in the upper half"));
        }
        Ok(())
    }

    /// Returns the digest that an `eth_secp256k1` key signs.
    pub fn digest(&self, chain_id: u64) -> B256 {
        keccak256(self.sign_bytes(chain_id))
    }
}
