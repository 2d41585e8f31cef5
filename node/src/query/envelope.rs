//! The SDK envelope of an Ethereum transaction: taken apart and held to its rules on the way in,
//! made on the way out.

use super::proto::cosmos::{
    base::v1beta1::Coin,
    evm::vm::v1::{ExtensionOptionsEthereumTx, MsgEthereumTx},
    tx::v1beta1::{AuthInfo, Fee, Tx, TxBody, TxRaw},
};
use crate::{
    cosmos::{CosmosTx, TX_TYPE},
    decorator::{EnvelopeFault, Reject},
    execution::{DecodedTx, Transaction},
};
use alloy_consensus::{Transaction as _, transaction::SignerRecoverable};
use alloy_primitives::{Address, Bytes, U256};
use prost::{Message, Name};
use prost_types::Any;

/// First byte of an SDK transaction: the tag of its first field. An Ethereum one begins with its
/// type or with the head of an RLP list, and no type of theirs has this number.
const BODY_TAG: u8 = 0x0a;

/// Whether bytes are an SDK transaction, and not an Ethereum one.
pub(super) fn is_sdk(bytes: &[u8]) -> bool {
    bytes.first() == Some(&BODY_TAG)
}

/// What the pool takes of what is broadcast: the bytes themselves, those in the one message of an
/// envelope, or a Cosmos transaction under its type.
pub(super) fn open(bytes: Vec<u8>) -> Result<Bytes, Reject> {
    if !is_sdk(&bytes) {
        return Ok(bytes.into());
    }
    let malformed = |error: prost::DecodeError| Reject::Malformed(error.to_string());
    let tx = TxRaw::decode(bytes.as_slice()).map_err(malformed)?;
    let body = TxBody::decode(tx.body_bytes.as_slice()).map_err(malformed)?;
    let option = ExtensionOptionsEthereumTx::type_url();
    let ethereum = |any: &Any| any.type_url == option;
    let alone = body.messages.iter().all(|any| any.type_url == MsgEthereumTx::type_url());
    if !body.extension_options.iter().any(ethereum) && (!alone || body.messages.is_empty()) {
        return Ok([&[TX_TYPE], bytes.as_slice()].concat().into());
    }
    let auth = AuthInfo::decode(tx.auth_info_bytes.as_slice()).map_err(malformed)?;
    let [message] = body.messages.as_slice() else {
        return Err(EnvelopeFault::MessageCount(body.messages.len()).into());
    };
    if message.type_url != MsgEthereumTx::type_url() {
        return Err(EnvelopeFault::MessageType(message.type_url.clone()).into());
    }
    let message = MsgEthereumTx::decode(message.value.as_slice()).map_err(malformed)?;
    if message.raw.is_empty() {
        return Err(EnvelopeFault::RawMissing.into());
    }
    let from = Address::try_from(message.from.as_slice());
    let from = from.map_err(|_| EnvelopeFault::FromMissing)?;
    let fee = check_frame(&body, &auth, &tx.signatures)?;
    let raw = Bytes::from(message.raw);
    let decoded = DecodedTx::decode(raw.clone());
    let decoded = decoded.map_err(|error| Reject::Malformed(error.to_string()))?;
    check_fee(fee, &decoded.tx)?;
    match decoded.tx.recover_signer() {
        Ok(recovered) if recovered == from => Ok(raw),
        Ok(recovered) => Err(EnvelopeFault::Sender { from, recovered }.into()),
        Err(_) => Err(Reject::InvalidSender),
    }
}

/// What is around the message says nothing but the fee.
fn check_frame<'a>(
    body: &TxBody,
    auth: &'a AuthInfo,
    signatures: &[Vec<u8>],
) -> Result<&'a Fee, EnvelopeFault> {
    let spare = &body.non_critical_extension_options;
    if !body.memo.is_empty() || body.timeout_height != 0 || !spare.is_empty() {
        return Err(EnvelopeFault::BodyNotEmpty);
    }
    let option = ExtensionOptionsEthereumTx::type_url();
    if body.extension_options.len() != 1 || body.extension_options[0].type_url != option {
        return Err(EnvelopeFault::ExtensionOptions);
    }
    if !auth.signer_infos.is_empty() {
        return Err(EnvelopeFault::SignerInfos);
    }
    let fee = auth.fee.as_ref().ok_or(EnvelopeFault::NoFee)?;
    if !fee.payer.is_empty() || !fee.granter.is_empty() {
        return Err(EnvelopeFault::FeePayer);
    }
    if signatures.is_empty() { Ok(fee) } else { Err(EnvelopeFault::Signatures) }
}

/// The fee is that of the transaction inside.
fn check_fee(fee: &Fee, tx: &Transaction) -> Result<(), EnvelopeFault> {
    let actual = cost(tx);
    let stated = match fee.amount.as_slice() {
        [] => Some(U256::ZERO),
        [coin] => coin.amount.parse().ok(),
        _ => None,
    };
    let stated = stated.unwrap_or(U256::MAX);
    if stated != actual {
        return Err(EnvelopeFault::FeeAmount { stated, actual });
    }
    if fee.gas_limit != tx.gas_limit() {
        let (stated, actual) = (fee.gas_limit, tx.gas_limit());
        return Err(EnvelopeFault::FeeGasLimit { stated, actual });
    }
    Ok(())
}

/// The most that the gas of a transaction may cost, in wei.
fn cost(tx: &Transaction) -> U256 {
    U256::from(tx.gas_limit()) * U256::from(tx.max_fee_per_gas())
}

/// A Cosmos transaction as it is shown.
pub(super) fn shown(cosmos: &CosmosTx) -> Tx {
    let (body, auth_info) = (Some(cosmos.body.clone()), Some(cosmos.auth_info.clone()));
    Tx { body, auth_info, signatures: vec![cosmos.signature.to_vec()] }
}

/// The SDK transaction that carries an Ethereum one.
pub(super) fn close(tx: &Transaction, raw: &[u8], from: Address, denom: &str) -> Tx {
    let message = MsgEthereumTx { from: from.to_vec(), raw: raw.to_vec() };
    let fee = cost(tx);
    let coin = Coin { denom: denom.to_owned(), amount: fee.to_string() };
    let fee = Fee {
        amount: if fee.is_zero() { Vec::new() } else { vec![coin] },
        gas_limit: tx.gas_limit(),
        ..Fee::default()
    };
    Tx {
        body: Some(TxBody {
            messages: vec![any(&message)],
            extension_options: vec![any(&ExtensionOptionsEthereumTx {})],
            ..TxBody::default()
        }),
        auth_info: Some(AuthInfo { signer_infos: Vec::new(), fee: Some(fee) }),
        signatures: Vec::new(),
    }
}

/// A message in the wrapping that names its type.
pub(super) fn any<M: Name>(message: &M) -> Any {
    Any::from_msg(message).expect("a buffer that grows takes any message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxEip1559};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::{Signature, TxKind};

    /// A change to an envelope.
    type Change<'a> = &'a dyn Fn(&mut TxBody, &mut AuthInfo, &mut Vec<Vec<u8>>);

    /// A transaction of the key of 32 bytes 1, its address, and its envelope.
    fn wrapped() -> (Bytes, Address, Tx) {
        let key = crate::account::PrivateKey::from_bytes(&[1; 32]).unwrap();
        let tx = TxEip1559 {
            chain_id: 1,
            gas_limit: 21_000,
            max_fee_per_gas: 7,
            to: TxKind::Call(Address::ZERO),
            ..TxEip1559::default()
        };
        let signature = Signature::from_raw_array(&key.sign(&tx.signature_hash())).unwrap();
        let tx = Transaction::from(tx.into_signed(signature));
        let raw = Bytes::from(tx.encoded_2718());
        let envelope = close(&tx, &raw, key.address(), "atest");
        (raw, key.address(), envelope)
    }

    fn encode(tx: Tx) -> Vec<u8> {
        let body_bytes = tx.body.unwrap_or_default().encode_to_vec();
        let auth_info_bytes = tx.auth_info.unwrap_or_default().encode_to_vec();
        TxRaw { body_bytes, auth_info_bytes, signatures: tx.signatures }.encode_to_vec()
    }

    #[test]
    fn what_is_closed_opens() {
        let (raw, _, envelope) = wrapped();
        assert_eq!(open(encode(envelope)), Ok(raw.clone()));
        assert_eq!(open(raw.to_vec()), Ok(raw));
    }

    #[test]
    fn each_rule_has_its_fault() {
        let fault = |change: Change<'_>| {
            let (_, _, mut envelope) = wrapped();
            let (mut body, mut auth) = (envelope.body.unwrap(), envelope.auth_info.unwrap());
            change(&mut body, &mut auth, &mut envelope.signatures);
            let (body, auth_info) = (Some(body), Some(auth));
            match open(encode(Tx { body, auth_info, signatures: envelope.signatures })) {
                Err(Reject::Envelope(fault)) => fault,
                other => panic!("{other:?}"),
            }
        };
        let message = |from: Vec<u8>, raw: Vec<u8>| vec![any(&MsgEthereumTx { from, raw })];
        let (raw, from, _) = wrapped();
        assert_eq!(fault(&|body, _, _| body.memo = "x".to_owned()), EnvelopeFault::BodyNotEmpty);
        assert_eq!(fault(&|body, _, _| body.timeout_height = 1), EnvelopeFault::BodyNotEmpty);
        let no_options = fault(&|body, _, _| body.extension_options.clear());
        assert_eq!(no_options, EnvelopeFault::ExtensionOptions);
        let signers = fault(&|_, auth, _| auth.signer_infos.push(Default::default()));
        assert_eq!(signers, EnvelopeFault::SignerInfos);
        assert_eq!(fault(&|_, auth, _| auth.fee = None), EnvelopeFault::NoFee);
        let fee =
            |change: &dyn Fn(&mut Fee)| fault(&|_, auth, _| change(auth.fee.as_mut().unwrap()));
        assert_eq!(fee(&|fee| fee.payer = "x".to_owned()), EnvelopeFault::FeePayer);
        assert!(matches!(fee(&|fee| fee.amount.clear()), EnvelopeFault::FeeAmount { .. }));
        assert!(matches!(fee(&|fee| fee.gas_limit = 1), EnvelopeFault::FeeGasLimit { .. }));
        assert_eq!(fault(&|_, _, signed| signed.push(vec![1])), EnvelopeFault::Signatures);
        assert_eq!(fault(&|body, _, _| body.messages.clear()), EnvelopeFault::MessageCount(0));
        let other = fault(&|body, _, _| body.messages[0].type_url = "/x".to_owned());
        assert_eq!(other, EnvelopeFault::MessageType("/x".to_owned()));
        let no_raw = fault(&|body, _, _| body.messages = message(from.to_vec(), vec![]));
        assert_eq!(no_raw, EnvelopeFault::RawMissing);
        let no_from = fault(&|body, _, _| body.messages = message(vec![], raw.to_vec()));
        assert_eq!(no_from, EnvelopeFault::FromMissing);
        let not_from = fault(&|body, _, _| body.messages = message(vec![9; 20], raw.to_vec()));
        let claimed = Address::repeat_byte(9);
        assert_eq!(not_from, EnvelopeFault::Sender { from: claimed, recovered: from });
        assert!(matches!(open(vec![BODY_TAG, 0xff]), Err(Reject::Malformed(_))));
    }
}
