//! Creates the JSON of `StdSignDoc`, which is signed in `SIGN_MODE_LEGACY_AMINO_JSON` and rendered by EIP-712.
//!
//! Messages that contain other messages (proposals of `cosmos.gov.v1`) have no Amino form here. They are signed
//! in `SIGN_MODE_DIRECT`.

use super::{ACCOUNT_NUMBER, CosmosTx, message::Message};
use proto::cosmos::base::v1beta1::Coin;
use serde_json::{Map, Value, json};

/// Returns the document; `None` if a message has no Amino form or the transaction has extension options. The document
/// contains the fee payer if the transaction states one, as in the SDK's `AminoSignFee`. There are no fee granters.
pub(super) fn document(tx: &CosmosTx, chain_id: u64) -> Option<Value> {
    let mut document = without_payer(tx, chain_id)?;
    let payer = tx.auth_info.fee.as_ref().map_or("", |fee| &fee.payer);
    if !payer.is_empty() {
        document["fee"]["payer"] = payer.into();
    }
    Some(document)
}

/// Returns the document without the fee payer, as version 0 of the consensus rules expects it.
pub(super) fn without_payer(tx: &CosmosTx, chain_id: u64) -> Option<Value> {
    let messages: Vec<_> = tx.messages.iter().map(message).collect::<Option<_>>()?;
    let fee = tx.auth_info.fee.as_ref()?;
    // The document cannot contain options, so the signer did not agree to them.
    if !tx.body.extension_options.is_empty() || !tx.body.non_critical_extension_options.is_empty() {
        return None;
    }
    let mut document = json!({
        "account_number": ACCOUNT_NUMBER.to_string(),
        "chain_id": chain_id.to_string(),
        "fee": { "amount": coins(&fee.amount), "gas": fee.gas_limit.to_string() },
        "memo": tx.body.memo,
        "msgs": messages,
        "sequence": tx.sequence().to_string(),
    });
    if tx.body.timeout_height != 0 {
        document["timeout_height"] = tx.body.timeout_height.to_string().into();
    }
    Some(document)
}

/// Encodes the document as it is signed: with sorted keys, without white space, with the escapes of Go's JSON encoder.
pub(super) fn bytes(document: &Value) -> Vec<u8> {
    let mut text = String::new();
    write_sorted(document, &mut text);
    let escapes = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    for (character, escape) in escapes {
        if text.contains(character) {
            text = text.replace(character, escape);
        }
    }
    text.into_bytes()
}

/// Appends JSON with the keys in ascending order. The order of `Map` depends on the features of serde_json.
fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_sorted(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write_sorted(value, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

fn coins(coins: &[Coin]) -> Value {
    coins.iter().map(|coin| json!({ "amount": coin.amount, "denom": coin.denom })).collect()
}

fn message(message: &Message) -> Option<Value> {
    let (kind, value) = match message {
        Message::Send(send) => (
            "cosmos-sdk/MsgSend",
            json!({
                "amount": coins(&send.coins),
                "from_address": send.from.text(),
                "to_address": send.to.text(),
            }),
        ),
        Message::Deposit(deposit) => (
            if deposit.is_v1beta1 { "cosmos-sdk/MsgDeposit" } else { "cosmos-sdk/v1/MsgDeposit" },
            json!({
                "amount": coins(&deposit.coins),
                "depositor": deposit.depositor.text(),
                "proposal_id": deposit.proposal.to_string(),
            }),
        ),
        Message::Vote(vote) => {
            let mut value = json!({
                "option": vote.option as i32,
                "proposal_id": vote.proposal.to_string(),
                "voter": vote.voter.text(),
            });
            if !vote.metadata.is_empty() {
                value["metadata"] = vote.metadata.as_str().into();
            }
            (if vote.is_v1beta1 { "cosmos-sdk/MsgVote" } else { "cosmos-sdk/v1/MsgVote" }, value)
        }
        Message::Submit(submission) if submission.is_v1beta1 => {
            let message = &submission.message;
            let content = json!({ "description": message.summary, "title": message.title });
            (
                "cosmos-sdk/MsgSubmitProposal",
                json!({
                    "content": { "type": "cosmos-sdk/TextProposal", "value": content },
                    "initial_deposit": coins(&message.initial_deposit),
                    "proposer": submission.proposer.text(),
                }),
            )
        }
        Message::Submit(_) => return None,
    };
    let mut object = Map::new();
    object.insert("type".to_owned(), kind.into());
    object.insert("value".to_owned(), value);
    Some(object.into())
}
