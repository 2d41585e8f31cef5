//! Checks what a signature covers, and which encodings of a transaction each version of the rules accepts.

use super::served::{FORKING, Served};
use crate::common::{
    CHAIN_ID, GENESIS_TIME, producing,
    signed::{address_of, any, coins, send},
};
use alloy_primitives::{B256, hex};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use keys::PrivateKey;
use prost::Message;
use prost_types::Any;
use proto::cosmos::{
    bank::v1beta1::MsgSend,
    evm::crypto::v1::ethsecp256k1::PubKey,
    gov::{
        v1,
        v1beta1::{MsgDeposit, MsgSubmitProposal, MsgVote, TextProposal},
    },
    tx::v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw, mode_info},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use transactions::cosmos::{CosmosTx, Signatures};

const DIRECT: i32 = 1;
const AMINO: i32 = 127;
const GAS: u64 = 400_000;
const PRICE: u64 = 100_000_000_000;

/// Starts a node on a development chain with the newest rules, or with version 0.
async fn served(newest_rules: bool, block_time: Option<Duration>) -> Served {
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    if !newest_rules {
        genesis["config"]["evmd"].as_object_mut().unwrap().remove("rules");
    }
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home =
        Home::init(folder.path(), &Genesis::from_json(&genesis.to_string()).unwrap()).unwrap();
    home.config.mempool.accept_without_production = true;
    home.config.engine.empty_blocks = block_time.is_some();
    let served = Served::on(folder, home, producing(block_time)).await;
    drop(opening);
    served
}

fn alice() -> PrivateKey {
    PrivateKey::from_bytes(DEV_ACCOUNTS[0].private_key.as_slice()).unwrap()
}

/// A transaction of account 0 that can be changed before or after it is signed.
#[derive(Clone)]
struct Draft {
    body: TxBody,
    auth: AuthInfo,
    /// Encoded default values that are appended to the body and to `AuthInfo`.
    defaults: [Vec<u8>; 2],
    signature: Vec<u8>,
}

impl Draft {
    fn new(mode: i32, sequence: u64, messages: Vec<Any>) -> Self {
        let single = mode_info::Single { mode };
        let key = PubKey { key: alice().public_key().as_bytes().to_vec() };
        let signer = SignerInfo {
            public_key: Some(any(&key)),
            mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
            sequence,
        };
        let fee = Fee { amount: coins(PRICE * GAS), gas_limit: GAS, ..Fee::default() };
        Self {
            body: TxBody { messages, ..TxBody::default() },
            auth: AuthInfo { signer_infos: vec![signer], fee: Some(fee) },
            defaults: [Vec::new(), Vec::new()],
            signature: Vec::new(),
        }
    }

    fn payment(mode: i32, sequence: u64) -> Self {
        Self::new(mode, sequence, vec![send(0, &address_of(9), 7)])
    }

    fn with_payer(mut self) -> Self {
        self.auth.fee.as_mut().unwrap().payer = address_of(0);
        self
    }

    /// Appends an explicit timeout height of 0 to the body.
    fn with_defaults(mut self) -> Self {
        self.defaults[0] = vec![0x18, 0];
        self
    }

    fn raw(&self) -> Vec<u8> {
        let [body, auth] = &self.defaults;
        let raw = TxRaw {
            body_bytes: [self.body.encode_to_vec(), body.clone()].concat(),
            auth_info_bytes: [self.auth.encode_to_vec(), auth.clone()].concat(),
            signatures: vec![self.signature.clone()],
        };
        raw.encode_to_vec()
    }

    fn read(&self) -> CosmosTx {
        CosmosTx::decode(&self.raw(), Signatures::Optional).unwrap()
    }

    fn signed_over(mut self, digest: B256) -> Self {
        self.signature = alice().sign(&digest)[..64].to_vec();
        self
    }

    fn signed(self) -> Self {
        let digest = self.read().digest(CHAIN_ID);
        self.signed_over(digest)
    }

    fn changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }

    /// Returns the transaction with its EIP-2718 type byte. The node does not normalise this form.
    fn envelope(&self) -> String {
        hex::encode_prefixed([&[0x0a][..], &self.raw()].concat())
    }
}

/// Sends the transaction in its envelope; returns whether the pool accepts it.
async fn is_accepted(served: &Served, draft: &Draft) -> bool {
    let response = served.node.response("eth_sendRawTransaction", json!([draft.envelope()])).await;
    response.get("result").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn fee_payer_is_part_of_the_amino_document() {
    let served = served(true, None).await;
    let stated = Draft::payment(AMINO, 0).with_payer();
    let text = String::from_utf8(stated.read().sign_bytes(CHAIN_ID)).unwrap();
    let payer = format!(r#""gas":"400000","payer":"{}"}},"memo""#, address_of(0));
    assert!(text.contains(&payer), "{text}");
    let absent = String::from_utf8(Draft::payment(AMINO, 0).read().sign_bytes(CHAIN_ID)).unwrap();
    assert!(!absent.contains("payer"), "{absent}");
    assert_eq!(served.broadcast(&stated.signed().raw()).await, (0, String::new()));
    // A third party can neither add a payer to the signed content nor remove the payer from it.
    let signed = Draft::payment(AMINO, 1).signed();
    assert_eq!(served.broadcast(&signed.clone().with_payer().raw()).await.0, 4);
    let stated = Draft::payment(AMINO, 1).with_payer().signed();
    let removed = stated.changed(|draft| draft.auth.fee.as_mut().unwrap().payer.clear());
    assert_eq!(served.broadcast(&removed.raw()).await.0, 4);
    // The EIP-712 formats of wallets do not contain the payer.
    for digest in Draft::payment(AMINO, 1).read().wallet_digests(CHAIN_ID) {
        let rendered = Draft::payment(AMINO, 1).signed_over(digest);
        assert_eq!(served.broadcast(&rendered.clone().with_payer().raw()).await.0, 4);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_content_cannot_be_changed() {
    let served = served(true, None).await;
    let mut sequence = 0;
    for rendering in [None, Some(0), Some(1)] {
        let draft = Draft::payment(AMINO, sequence);
        let digest = match rendering {
            None => draft.read().digest(CHAIN_ID),
            Some(at) => draft.read().wallet_digests(CHAIN_ID)[at],
        };
        let signed = draft.signed_over(digest);
        let info = |draft: &mut Draft| draft.auth.signer_infos[0].clone();
        let changes: [&dyn Fn(&mut Draft); 8] = [
            &|draft| draft.auth.signer_infos[0].public_key = None,
            &|draft| {
                let mut key = info(draft).public_key.unwrap();
                key.type_url = "/ethermint.crypto.v1.ethsecp256k1.PubKey".to_owned();
                draft.auth.signer_infos[0].public_key = Some(key);
            },
            &|draft| {
                let single = mode_info::Single { mode: DIRECT };
                let mode = ModeInfo { sum: Some(mode_info::Sum::Single(single)) };
                draft.auth.signer_infos[0].mode_info = Some(mode);
            },
            &|draft| draft.auth.fee.as_mut().unwrap().payer = address_of(0),
            &|draft| draft.signature.push(0),
            &|draft| draft.defaults[0] = vec![0x18, 0],
            &|draft| draft.body.messages = vec![send(0, &address_of(9).to_uppercase(), 7)],
            &|draft| {
                let coins = coins(7);
                let (from, to) = (address_of(0).to_uppercase(), address_of(9));
                let send = MsgSend { from_address: from, to_address: to, amount: coins };
                draft.body.messages = vec![any(&send)];
            },
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let changed = signed.changed(change);
            assert!(!is_accepted(&served, &changed).await, "{rendering:?} {at}");
        }
        assert!(is_accepted(&served, &signed).await, "{rendering:?}");
        sequence += 1;
    }
    // In SIGN_MODE_DIRECT, the signature covers everything except itself.
    let signed = Draft::payment(DIRECT, sequence).signed();
    let longer = signed.changed(|draft| draft.signature.push(1));
    assert!(!is_accepted(&served, &longer).await);
    assert!(!is_accepted(&served, &signed.clone().with_defaults()).await);
    // A transaction that is broadcast over REST is normalised before it is hashed.
    let (code, _) = served.broadcast(&longer.raw()).await;
    assert_eq!(code, 0);
    assert!(!is_accepted(&served, &signed).await, "the normalised transaction is known");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explicit_default_values_are_accepted() {
    let served = served(true, Some(Duration::from_millis(5))).await;
    // The signature covers the default values, so they are kept, and the hash also covers them.
    let direct = Draft::payment(DIRECT, 0).with_defaults().signed();
    let mined = served.mined(&direct.raw()).await;
    let hash = |draft: &Draft| hex::encode_upper(Sha256::digest(draft.raw()));
    assert_eq!((&mined["code"], &mined["txhash"]), (&json!(0), &json!(hash(&direct))));
    // This signature does not cover the default values, so they are removed before the transaction is hashed.
    let plain = Draft::payment(AMINO, 1).signed();
    let mined = served.mined(&plain.clone().with_defaults().raw()).await;
    assert_eq!((&mined["code"], &mined["txhash"]), (&json!(0), &json!(hash(&plain))));
    // This transaction has empty metadata in its message, and an empty payer and granter in AuthInfo.
    let vote =
        v1::MsgVote { proposal_id: 9, voter: address_of(0), option: 1, ..Default::default() };
    let mut message = any(&vote);
    message.value.extend([0x22, 0]);
    let mut stated = Draft::new(DIRECT, 2, vec![message]);
    // The fee is the last field of AuthInfo, and payer and granter are the last fields of the fee.
    let fee = stated.auth.fee.take().unwrap().encode_to_vec();
    let length = u8::try_from(fee.len() + 4).unwrap();
    stated.defaults[1] = [&[0x12, length][..], &fee, &[0x1a, 0, 0x22, 0]].concat();
    let stated = stated.signed();
    let mined = served.mined(&stated.raw()).await;
    assert_eq!(mined["codespace"], "gov", "decoded, but proposal 9 does not exist: {mined}");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn former_messages_of_governance_have_the_same_effect() {
    let served = served(true, Some(Duration::from_millis(5))).await;
    let content = TextProposal { title: "Text".to_owned(), description: "A text".to_owned() };
    let proposal = MsgSubmitProposal {
        content: Some(any(&content)),
        initial_deposit: coins(1),
        proposer: address_of(0),
    };
    let deposit =
        MsgDeposit { proposal_id: 1, depositor: address_of(0), amount: coins(10_000_000) };
    let vote = MsgVote { proposal_id: 1, voter: address_of(0), option: 3 };
    let messages = [any(&proposal), any(&deposit), any(&vote)];
    let documents = [
        r#"[{"type":"cosmos-sdk/MsgSubmitProposal","value":{"content":{"type":"cosmos-sdk/TextProposal","value":{"#,
        r#"[{"type":"cosmos-sdk/MsgDeposit","value":{"amount":[{"amount":"10000000","#,
        r#"[{"type":"cosmos-sdk/MsgVote","value":{"option":3,"proposal_id":"1","voter":"#,
    ];
    for (sequence, (message, document)) in (0..).zip(messages.into_iter().zip(documents)) {
        let draft = Draft::new(AMINO, sequence, vec![message.clone()]);
        let text = String::from_utf8(draft.read().sign_bytes(CHAIN_ID)).unwrap();
        assert!(text.contains(document), "{text}");
        let mined = served.mined(&draft.signed().raw()).await;
        assert_eq!(mined["code"], 0, "{mined}");
        assert_eq!(mined["tx"]["body"]["messages"][0]["@type"], json!(message.type_url));
        let events = mined["events"].to_string();
        assert!(events.contains(&message.type_url), "{events}");
    }
    let found = served.get("/cosmos/gov/v1/proposals/1").await;
    let found = &found["proposal"];
    assert_eq!((&found["title"], &found["summary"]), (&json!("Text"), &json!("A text")));
    assert_eq!(found["total_deposit"][0]["amount"], "10000001");
    let votes = served.get("/cosmos/gov/v1/proposals/1/votes").await;
    assert_eq!(votes["votes"][0]["options"][0]["option"], "VOTE_OPTION_NO", "{votes}");
    // This chain does not support any other content.
    let other = Any {
        type_url: "/cosmos.params.v1beta1.ParameterChangeProposal".to_owned(),
        value: vec![],
    };
    let other = MsgSubmitProposal { content: Some(other), ..proposal };
    let raw = Draft::new(DIRECT, 3, vec![any(&other)]);
    let refused = CosmosTx::decode(&raw.raw(), Signatures::Optional).unwrap_err();
    assert_eq!((refused.code.space, refused.code.number), ("gov", 9));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_version_0_is_unchanged() {
    let served = served(false, None).await;
    let vote = MsgVote { proposal_id: 1, voter: address_of(0), option: 1 };
    let refused = [
        (Draft::payment(AMINO, 0).with_payer().signed(), 4),
        (Draft::payment(DIRECT, 0).with_defaults().signed(), 2),
        (Draft::new(DIRECT, 0, vec![any(&vote)]).signed(), 2),
    ];
    for (draft, code) in refused {
        assert_eq!(served.broadcast(&draft.raw()).await.0, code);
    }
    let accepted = [
        Draft::payment(AMINO, 0).signed().with_payer(),
        Draft::payment(AMINO, 1).signed().changed(|draft| draft.signature.push(0)),
        Draft::payment(AMINO, 2)
            .signed()
            .changed(|draft| draft.auth.signer_infos[0].public_key = None),
    ];
    for draft in accepted {
        assert!(is_accepted(&served, &draft).await);
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_gas_includes_signature_and_key() {
    let served = Served::start().await;
    let signed = Draft::payment(DIRECT, 0).signed();
    let simulate = async |raw: Vec<u8>| {
        use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
        let body = json!({ "tx_bytes": BASE64.encode(raw) }).to_string();
        let (status, response) = served.post("/cosmos/tx/v1beta1/simulate", &body).await;
        assert_eq!(status, 200, "{response}");
        response["gas_info"]["gas_used"].as_str().unwrap().parse::<u64>().unwrap()
    };
    let whole = simulate(signed.raw()).await;
    let unsigned = signed.changed(|draft| draft.signature.clear());
    assert!(signed.raw().len() > unsigned.raw().len() + 60);
    let without = unsigned.read();
    let none = TxRaw {
        body_bytes: without.body_bytes,
        auth_info_bytes: without.auth_info_bytes,
        signatures: Vec::new(),
    };
    let keyless = unsigned.changed(|draft| draft.auth.signer_infos[0].public_key = None);
    for raw in [unsigned.raw(), none.encode_to_vec(), keyless.raw()] {
        assert_eq!(simulate(raw).await, whole);
    }
    let mined = served.mined(&signed.raw()).await;
    assert_eq!(mined["gas_used"], json!(whole.to_string()));
    served.stop().await;
}
