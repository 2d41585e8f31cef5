//! Checks and unpacks incoming SDK envelopes of Ethereum transactions, and builds outgoing ones. The rows in comments
//! are those of [`modules::decorator`].

use super::proto::cosmos::{
    base::v1beta1::Coin,
    evm::vm::v1::{ExtensionOptionsEthereumTx, MsgEthereumTx},
    tx::v1beta1::{AuthInfo, Fee, Tx, TxBody, TxRaw},
};
use alloy_consensus::{Transaction as _, transaction::SignerRecoverable};
use alloy_primitives::{Address, Bytes, U256};
use modules::decorator::{EnvelopeFault, Reject};
use prost::{Message, Name};
use prost_types::Any;
use transactions::{
    DecodedTx, Transaction,
    cosmos::{CosmosTx, TX_TYPE, normalised},
};

/// The first byte of an SDK transaction: the tag of its first field. An Ethereum transaction begins with its type or
/// with an RLP list header, and no Ethereum transaction type has this number.
const BODY_TAG: u8 = 0x0a;

/// Returns whether these bytes are an SDK transaction and not an Ethereum one.
pub(super) fn is_sdk(bytes: &[u8]) -> bool {
    bytes.first() == Some(&BODY_TAG)
}

/// Returns the bytes for the pool: an Ethereum transaction without its envelope, if it has one, or a Cosmos
/// transaction with its type byte.
pub(super) fn open(bytes: Vec<u8>, denom: &str) -> Result<Bytes, Reject> {
    if !is_sdk(&bytes) {
        return Ok(bytes.into());
    }
    let malformed = |error: prost::DecodeError| Reject::Malformed(error.to_string());
    let tx = TxRaw::decode(bytes.as_slice()).map_err(malformed)?;
    let body = TxBody::decode(tx.body_bytes.as_slice()).map_err(malformed)?;
    let option = ExtensionOptionsEthereumTx::type_url();
    let ethereum = |any: &Any| any.type_url == option;
    let eth_only = body.messages.iter().all(|any| any.type_url == MsgEthereumTx::type_url());
    if !body.extension_options.iter().any(ethereum) && (!eth_only || body.messages.is_empty()) {
        return Ok([&[TX_TYPE], normalised(bytes).as_slice()].concat().into());
    }
    let auth = AuthInfo::decode(tx.auth_info_bytes.as_slice()).map_err(malformed)?;
    let messages = body.messages.iter().filter(|any| any.type_url == MsgEthereumTx::type_url());
    let messages = messages.map(|any| MsgEthereumTx::decode(any.value.as_slice()));
    let messages = messages.collect::<Result<Vec<_>, _>>().map_err(malformed)?;
    check_messages(&messages)?;
    let fee = check_frame(&body, &auth, &tx.signatures)?;
    let message = only_message(&body, messages)?;
    let raw = Bytes::from(message.raw);
    let decoded = DecodedTx::decode(raw.clone());
    let decoded = decoded.map_err(|error| Reject::Malformed(error.to_string()))?;
    let recovered = decoded.tx.recover_signer().map_err(|_| Reject::InvalidSender)?;
    if *recovered != *message.from {
        let from = Address::from_slice(&message.from);
        return Err(EnvelopeFault::Sender { from, recovered }.into());
    }
    check_fee(fee, &decoded.tx, denom)?;
    Ok(raw)
}

/// Row 0a: each message has a transaction and an address.
fn check_messages(messages: &[MsgEthereumTx]) -> Result<(), EnvelopeFault> {
    for message in messages {
        if message.raw.is_empty() {
            return Err(EnvelopeFault::RawMissing);
        }
        if message.from.len() != Address::len_bytes() {
            return Err(EnvelopeFault::FromMissing);
        }
    }
    Ok(())
}

/// Rows 0c and 1: apart from its messages, the envelope contains only the extension option and the fee.
fn check_frame<'a>(
    body: &TxBody,
    auth: &'a AuthInfo,
    signatures: &[Vec<u8>],
) -> Result<&'a Fee, EnvelopeFault> {
    let refuse = |wrong: bool, fault: EnvelopeFault| if wrong { Err(fault) } else { Ok(()) };
    let has_options = !body.non_critical_extension_options.is_empty();
    let is_set = !body.memo.is_empty() || body.timeout_height != 0 || has_options;
    refuse(is_set, EnvelopeFault::BodyNotEmpty)?;
    let option = ExtensionOptionsEthereumTx::type_url();
    let options = body.extension_options.iter().map(|any| &any.type_url);
    refuse(!options.eq([&option]), EnvelopeFault::ExtensionOptions)?;
    refuse(!auth.signer_infos.is_empty(), EnvelopeFault::SignerInfos)?;
    let payer = auth.fee.as_ref().is_some_and(|fee| !fee.payer.is_empty());
    let granter = auth.fee.as_ref().is_some_and(|fee| !fee.granter.is_empty());
    refuse(payer || granter, EnvelopeFault::FeePayer)?;
    refuse(!signatures.is_empty(), EnvelopeFault::Signatures)?;
    auth.fee.as_ref().ok_or(EnvelopeFault::NoFee)
}

/// Row 3: there is exactly one message, which has the required type.
fn only_message(
    body: &TxBody,
    mut messages: Vec<MsgEthereumTx>,
) -> Result<MsgEthereumTx, EnvelopeFault> {
    let [any] = body.messages.as_slice() else {
        return Err(EnvelopeFault::MessageCount(body.messages.len()));
    };
    messages.pop().ok_or_else(|| EnvelopeFault::MessageType(any.type_url.clone()))
}

/// Row 15: the fee equals that of the Ethereum transaction.
fn check_fee(fee: &Fee, tx: &Transaction, denom: &str) -> Result<(), EnvelopeFault> {
    let stated: Vec<_> = fee.amount.iter().map(text).collect();
    let (stated, actual) = (stated.join(","), coins(cost(tx), denom));
    let actual: Vec<_> = actual.iter().map(text).collect();
    let actual = actual.join(",");
    if stated != actual {
        return Err(EnvelopeFault::FeeAmount { stated, actual });
    }
    if fee.gas_limit != tx.gas_limit() {
        let (stated, actual) = (fee.gas_limit, tx.gas_limit());
        return Err(EnvelopeFault::FeeGasLimit { stated, actual });
    }
    Ok(())
}

/// Writes a coin in the SDK's text format. An amount that is not a number is quoted.
fn text(coin: &Coin) -> String {
    match coin.amount.parse::<U256>() {
        Ok(amount) => format!("{amount}{}", coin.denom),
        Err(_) => format!("{:?} {}", coin.amount, coin.denom),
    }
}

/// Returns a list with one coin, or an empty list if the amount is zero.
fn coins(amount: U256, denom: &str) -> Vec<Coin> {
    let coin = || Coin { denom: denom.to_owned(), amount: amount.to_string() };
    if amount.is_zero() { Vec::new() } else { vec![coin()] }
}

/// Returns the maximum gas cost of a transaction, in wei.
fn cost(tx: &Transaction) -> U256 {
    U256::from(tx.gas_limit()) * U256::from(tx.max_fee_per_gas())
}

/// Converts a Cosmos transaction to the API's form.
pub(super) fn sdk_tx(cosmos: &CosmosTx) -> Tx {
    let (body, auth_info) = (Some(cosmos.body.clone()), Some(cosmos.auth_info.clone()));
    Tx { body, auth_info, signatures: vec![cosmos.signature.to_vec()] }
}

/// Builds the envelope of an Ethereum transaction.
pub(super) fn close(tx: &Transaction, raw: &[u8], from: Address, denom: &str) -> Tx {
    let message = MsgEthereumTx { from: from.to_vec(), raw: raw.to_vec() };
    let fee = cost(tx);
    let fee = Fee { amount: coins(fee, denom), gas_limit: tx.gas_limit(), ..Fee::default() };
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

/// Packs a message into an `Any`.
pub(super) fn any<M: Name>(message: &M) -> Any {
    Any::from_msg(message).expect("writing to a vector cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{SignableTransaction, TxEip1559};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::{Signature, TxKind};

    const DENOM: &str = "atest";

    /// A change to an envelope.
    type Change<'a> = &'a dyn Fn(&mut TxBody, &mut AuthInfo, &mut Vec<Vec<u8>>);

    /// Returns a transaction signed by the key whose 32 bytes are all 1, its sender, and its envelope.
    fn wrapped() -> (Bytes, Address, Tx) {
        let key = keys::PrivateKey::from_bytes(&[1; 32]).unwrap();
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
        let envelope = close(&tx, &raw, key.address(), DENOM);
        (raw, key.address(), envelope)
    }

    fn encode(tx: Tx) -> Vec<u8> {
        let body_bytes = tx.body.unwrap_or_default().encode_to_vec();
        let auth_info_bytes = tx.auth_info.unwrap_or_default().encode_to_vec();
        TxRaw { body_bytes, auth_info_bytes, signatures: tx.signatures }.encode_to_vec()
    }

    #[test]
    fn transactions_with_and_without_an_envelope_are_unpacked() {
        let (raw, _, envelope) = wrapped();
        assert_eq!(open(encode(envelope), DENOM), Ok(raw.clone()));
        assert_eq!(open(raw.to_vec(), DENOM), Ok(raw));
    }

    /// Returns the code and the log of the error for an envelope with this change.
    fn error_of(change: Change<'_>) -> (u32, String) {
        let (_, _, mut envelope) = wrapped();
        let (mut body, mut auth) = (envelope.body.unwrap(), envelope.auth_info.unwrap());
        change(&mut body, &mut auth, &mut envelope.signatures);
        let (body, auth_info) = (Some(body), Some(auth));
        let changed = encode(Tx { body, auth_info, signatures: envelope.signatures });
        let reject = open(changed, DENOM).unwrap_err();
        assert_eq!(reject.code().space, "sdk");
        (reject.code().number, reject.log())
    }

    #[test]
    fn violated_rules_have_their_codes_and_logs() {
        let message = |from: &[u8], raw: &[u8]| {
            vec![any(&MsgEthereumTx { from: from.to_vec(), raw: raw.to_vec() })]
        };
        let (raw, from, _) = wrapped();
        let body_log = "for eth tx body Memo TimeoutHeight NonCriticalExtensionOptions should be empty: \
                        invalid request";
        let options = "for eth tx length of ExtensionOptions should be 1: invalid request";
        let cases: &[(Change<'_>, u32, &str)] = &[
            (&|body, _, _| body.memo = "x".to_owned(), 18, body_log),
            (&|body, _, _| body.timeout_height = 1, 18, body_log),
            (&|body, _, _| body.non_critical_extension_options.push(Any::default()), 18, body_log),
            (&|body, _, _| body.extension_options.clear(), 18, options),
            (&|body, _, _| body.extension_options.push(Any::default()), 18, options),
            (
                &|_, auth, _| auth.signer_infos.push(Default::default()),
                18,
                "for eth tx AuthInfo SignerInfos should be empty: invalid request",
            ),
            (
                &|_, auth, _| auth.fee = None,
                29,
                "invalid transaction type: the envelope states no fee: invalid type",
            ),
            (
                &|_, _, signatures| signatures.push(vec![1]),
                18,
                "for eth tx Signatures should be empty: invalid request",
            ),
            (&|body, _, _| body.messages.clear(), 18, "expected 1 message, got 0: invalid request"),
            (
                &|body, _, _| body.messages.push(body.messages[0].clone()),
                18,
                "expected 1 message, got 2: invalid request",
            ),
            (
                &|body, _, _| body.messages[0].type_url = "/bank".to_owned(),
                6,
                "invalid message type /bank, expected /cosmos.evm.vm.v1.MsgEthereumTx: \
                 unknown request",
            ),
            (
                &|body, _, _| body.messages = message(from.as_slice(), &[]),
                18,
                "raw transaction is required: invalid request",
            ),
            (
                &|body, _, _| body.messages = message(&[1; 19], &raw),
                18,
                "sender address is missing: invalid request",
            ),
            (
                &|body, _, _| body.messages = message(&[1; 20], &raw),
                24,
                "signature verification failed: sender 0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1, \
                 expected 0x0101010101010101010101010101010101010101: \
                 tx intended signer does not match the given signer",
            ),
        ];
        for (change, code, log) in cases {
            assert_eq!(error_of(*change), (*code, (*log).to_owned()));
        }
        assert!(matches!(open(vec![BODY_TAG, 0xff], DENOM), Err(Reject::Malformed(_))));
    }

    #[test]
    fn fee_that_differs_from_the_transaction_is_refused() {
        let fee =
            |change: &dyn Fn(&mut Fee)| error_of(&|_, auth, _| change(auth.fee.as_mut().unwrap()));
        let payer = "for eth tx AuthInfo Fee payer and granter should be empty: invalid request";
        assert_eq!(fee(&|fee| fee.payer = "x".to_owned()), (18, payer.to_owned()));
        assert_eq!(fee(&|fee| fee.granter = "x".to_owned()), (18, payer.to_owned()));
        let amount = |stated: &str| {
            let log = format!("invalid AuthInfo Fee Amount ({stated} != 147000atest)");
            (18, format!("{log}: invalid request"))
        };
        let coin =
            |amount: &str, denom: &str| Coin { denom: denom.to_owned(), amount: amount.to_owned() };
        assert_eq!(fee(&|fee| fee.amount.clear()), amount(""));
        assert_eq!(fee(&|fee| fee.amount = vec![coin("1", DENOM)]), amount("1atest"));
        assert_eq!(fee(&|fee| fee.amount = vec![coin("147000", "stake")]), amount("147000stake"));
        assert_eq!(fee(&|fee| fee.amount = vec![coin("x", DENOM)]), amount("\"x\" atest"));
        let two = |fee: &mut Fee| fee.amount.push(coin("1", "stake"));
        assert_eq!(fee(&two), amount("147000atest,1stake"));
        let gas = "invalid AuthInfo Fee GasLimit (1 != 21000): invalid request";
        assert_eq!(fee(&|fee| fee.gas_limit = 1), (18, gas.to_owned()));
    }
}
