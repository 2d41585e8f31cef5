//! Rewrites bytes that no signature covers into the form that the rules require, before a transaction is hashed.
//! The rules accept only one encoding, so that the signed content determines the hash. Wallets may use others.

use super::{
    sign::SignMode,
    tx::ETHERMINT_KEY,
    wire::{Reader, canonical, value_without_defaults},
};
use prost::{Message, Name};
use proto::cosmos::{
    evm::crypto::v1::ethsecp256k1::PubKey,
    gov::v1::MsgSubmitProposal,
    tx::v1beta1::{AuthInfo, TxBody, TxRaw, mode_info::Sum},
};

/// Length of a signature without its recovery id, in bytes.
const SIGNATURE_BYTES: usize = 64;

/// Returns the bytes of a `TxRaw` in the form that the rules require. Bytes that cannot be decoded are returned
/// unchanged, so that they are rejected later with a reason.
pub fn normalised(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut raw) = canonical::<TxRaw>(&bytes) else { return bytes };
    for signature in &mut raw.signatures {
        if signature.len() == SIGNATURE_BYTES + 1 {
            signature.truncate(SIGNATURE_BYTES);
        }
    }
    if let Some((body, auth)) = document_parts(&raw) {
        raw.body_bytes = body;
        raw.auth_info_bytes = auth;
    }
    raw.encode_to_vec()
}

/// Returns the rewritten body and `AuthInfo` of a transaction whose signature covers a document derived from them
/// instead of their bytes; `None` for other transactions.
fn document_parts(raw: &TxRaw) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::default();
    let mut body: TxBody = reader.read(&raw.body_bytes).ok()?;
    let mut auth: AuthInfo = reader.read(&raw.auth_info_bytes).ok()?;
    let [info] = auth.signer_infos.as_mut_slice() else { return None };
    match info.mode_info.as_ref()?.sum.as_ref()? {
        Sum::Single(single) if single.mode == SignMode::AminoJson.number() => {}
        _ => return None,
    }
    // A transaction with extension options or a proposal of `gov.v1` has no document: the signature covers its bytes.
    let has_document = body.extension_options.is_empty()
        && body.messages.iter().all(|any| any.type_url != MsgSubmitProposal::type_url());
    if !has_document {
        return None;
    }
    for any in &mut body.messages {
        any.value = value_without_defaults(any)?;
    }
    if let Some(key) = info.public_key.as_mut().filter(|key| key.type_url == ETHERMINT_KEY) {
        key.type_url = PubKey::type_url();
    }
    Some((body.encode_to_vec(), auth.encode_to_vec()))
}
