//! Converts transactions between their bytes and their decoded form. The bytes come from untrusted clients, so limits
//! are checked here before a transaction is written as JSON.

use super::{
    QueryError, Snapshot, envelope,
    proto::{
        DESCRIPTORS,
        cosmos::tx::v1beta1::{AuthInfo, Tx, TxBody, TxDecodeResponse, TxEncodeResponse, TxRaw},
    },
};
use alloy_consensus::transaction::SignerRecoverable;
use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use prost_types::Any;
use std::sync::LazyLock;
use transactions::DecodedTx;

/// Maximum nesting of messages. The parameters of a proposal are at the second level. Each level needs several stack
/// frames, and a request could nest thousands of levels.
const MAX_NESTING: usize = 8;

/// The descriptors of all messages that can be decoded.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the built-in descriptors are well-formed")
});

impl Snapshot {
    /// Decodes a transaction. A raw Ethereum transaction is shown in its envelope. Signatures are not checked.
    ///
    /// # Errors
    /// If the bytes are not a transaction, or contain an unknown message.
    pub fn tx_decode(&self, bytes: Vec<u8>) -> Result<TxDecodeResponse, QueryError> {
        if bytes.is_empty() {
            return Err(QueryError::invalid("invalid empty tx bytes"));
        }
        let tx = if envelope::is_sdk(&bytes) { parsed(&bytes)? } else { self.enveloped(bytes)? };
        Ok(TxDecodeResponse { tx: Some(tx) })
    }

    fn enveloped(&self, raw: Vec<u8>) -> Result<Tx, QueryError> {
        let decoded = DecodedTx::decode(raw.into()).map_err(malformed)?;
        let from = decoded.tx.recover_signer().map_err(malformed)?;
        Ok(envelope::close(&decoded.tx, &decoded.raw, from, &self.extended_denom(self.number)))
    }
}

/// Encodes a transaction.
///
/// # Errors
/// If the transaction is missing.
pub fn tx_encode(tx: Option<Tx>) -> Result<TxEncodeResponse, QueryError> {
    let tx = tx.ok_or_else(|| QueryError::invalid("invalid empty tx"))?;
    Ok(TxEncodeResponse { tx_bytes: tx_bytes(tx) })
}

/// Returns the bytes of a transaction, as clients broadcast it.
pub fn tx_bytes(tx: Tx) -> Vec<u8> {
    let raw = TxRaw {
        body_bytes: tx.body.unwrap_or_default().encode_to_vec(),
        auth_info_bytes: tx.auth_info.unwrap_or_default().encode_to_vec(),
        signatures: tx.signatures,
    };
    raw.encode_to_vec()
}

/// Parses an SDK transaction, which must have the canonical encoding.
fn parsed(bytes: &[u8]) -> Result<Tx, QueryError> {
    let raw: TxRaw = canonical(bytes)?;
    let body: TxBody = canonical(&raw.body_bytes)?;
    let auth_info: AuthInfo = canonical(&raw.auth_info_bytes)?;
    let tx = Tx { body: Some(body), auth_info: Some(auth_info), signatures: raw.signatures };
    let kind =
        POOL.get_message_by_name(&Tx::full_name()).ok_or_else(|| malformed("no such type"))?;
    let whole = DynamicMessage::decode(kind, tx.encode_to_vec().as_slice()).map_err(malformed)?;
    check_inside(&whole, 0)?;
    Ok(tx)
}

fn canonical<M: Message + Name + Default>(bytes: &[u8]) -> Result<M, QueryError> {
    let message = M::decode(bytes).map_err(malformed)?;
    if message.encode_to_vec() != bytes {
        let reason = "has unknown fields, or another encoding than the canonical one";
        return Err(malformed(format_args!("{} {reason}", M::NAME)));
    }
    Ok(message)
}

/// Checks that all messages inside a message are known and have no unknown fields.
fn check_inside(message: &DynamicMessage, depth: usize) -> Result<(), QueryError> {
    if message.descriptor().full_name() == Any::full_name() {
        return check_any(&message.transcode_to().map_err(malformed)?, depth + 1);
    }
    if message.unknown_fields().next().is_some() {
        let name = message.descriptor().full_name().to_owned();
        return Err(malformed(format_args!("{name} has unknown fields")));
    }
    for (_, value) in message.fields() {
        let items = match value {
            Value::List(items) => items.as_slice(),
            single => std::slice::from_ref(single),
        };
        items.iter().filter_map(Value::as_message).try_for_each(|m| check_inside(m, depth))?;
    }
    Ok(())
}

fn check_any(any: &Any, depth: usize) -> Result<(), QueryError> {
    let url = any.type_url.as_str();
    if depth > MAX_NESTING {
        return Err(malformed(format_args!("{url} is nested deeper than {MAX_NESTING} messages")));
    }
    let kind = url.rsplit_once('/').and_then(|(_, name)| POOL.get_message_by_name(name));
    let kind = kind.ok_or_else(|| malformed(format_args!("unable to resolve type URL {url}")))?;
    let inner = DynamicMessage::decode(kind, any.value.as_slice()).map_err(malformed)?;
    check_inside(&inner, depth)
}

fn malformed(reason: impl std::fmt::Display) -> QueryError {
    QueryError::invalid(format!("tx parse error: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::cosmos::{bank::v1beta1::MsgSend, gov::v1::MsgSubmitProposal};

    fn encoded(message: Any) -> Vec<u8> {
        let body = Some(TxBody { messages: vec![message], ..TxBody::default() });
        tx_encode(Some(Tx { body, ..Tx::default() })).unwrap().tx_bytes
    }

    /// Nests a message in `depth` proposals.
    fn nested(depth: usize) -> Any {
        (0..depth).fold(envelope::any(&MsgSend::default()), |inner, _| {
            envelope::any(&MsgSubmitProposal { messages: vec![inner], ..Default::default() })
        })
    }

    #[test]
    fn decoded_transactions_are_encoded_to_the_same_bytes() {
        let bytes = encoded(nested(1));
        assert_eq!(tx_encode(Some(parsed(&bytes).unwrap())).unwrap().tx_bytes, bytes);
        assert!(tx_encode(None).is_err());
    }

    #[test]
    fn transactions_that_cannot_be_decoded_are_error_of() {
        let error = |bytes: &[u8]| parsed(bytes).unwrap_err().message;
        assert!(parsed(&encoded(nested(MAX_NESTING - 1))).is_ok());
        for depth in [MAX_NESTING, 1000] {
            assert!(error(&encoded(nested(depth))).contains("deeper than 8"), "{depth}");
        }
        let any = |url: &str, value| Any { type_url: url.to_owned(), value };
        assert!(error(&encoded(any("/x.Y", vec![]))).contains("unable to resolve type URL /x.Y"));
        assert!(error(&encoded(any(&MsgSend::type_url(), vec![0xff]))).starts_with("tx parse"));
        let unknown = any(&MsgSend::type_url(), vec![0x78, 1]);
        assert!(error(&encoded(unknown)).contains("MsgSend has unknown fields"));
        let mut trailing = encoded(nested(0));
        trailing.extend([0x78, 1]);
        assert!(error(&trailing).contains("TxRaw has unknown fields"));
    }
}
