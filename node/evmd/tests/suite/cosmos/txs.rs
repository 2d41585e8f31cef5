//! Parses and signs encoded Cosmos transactions, and checks that no input causes a panic.

use alloy_primitives::{B256, Bytes, U256, b256};
use chain::DEV_ACCOUNTS;
use keys::PrivateKey;
use proptest::prelude::*;
use prost::{Message, Name};
use prost_types::Any;
use proto::cosmos::{
    bank::v1beta1::MsgSend,
    base::v1beta1::Coin,
    evm::{crypto::v1::ethsecp256k1::PubKey, feemarket::v1 as feemarket},
    gov::v1::{MsgSubmitProposal, MsgVote},
    tx::v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw, mode_info},
};
use std::sync::Arc;
use transactions::{
    RecoverError, RecoveredTx, Senders,
    cosmos::{CosmosTx, Signatures, TX_TYPE, cosmos_hash, further_hashes, position},
};
use verify::{Backend, Recoverer};

const CHAIN_ID: u64 = 262_144;
const ALICE: &str = "cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq";
const BOB: &str = "cosmos1wzvhjux9rqfdcwspp37srdgwp5tac7wgtkldlx";
/// `SIGN_MODE_DIRECT` and `SIGN_MODE_LEGACY_AMINO_JSON`.
const MODES: [i32; 2] = [1, 127];

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn coin(amount: &str) -> Vec<Coin> {
    vec![Coin { denom: "atest".to_owned(), amount: amount.to_owned() }]
}

fn send() -> Any {
    any(&MsgSend { from_address: ALICE.to_owned(), to_address: BOB.to_owned(), amount: coin("7") })
}

fn alice() -> PrivateKey {
    PrivateKey::from_bytes(DEV_ACCOUNTS[0].private_key.as_slice()).unwrap()
}

/// The parts of a transaction, which can be changed before it is assembled.
struct Parts {
    body: TxBody,
    auth: AuthInfo,
}

fn parts(messages: Vec<Any>, mode: i32) -> Parts {
    let key = PubKey { key: alice().public_key().as_bytes().to_vec() };
    let single = mode_info::Single { mode };
    let signer = SignerInfo {
        public_key: Some(any(&key)),
        mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
        sequence: 5,
    };
    let fee = Fee { amount: coin("200000000000000"), gas_limit: 200_000, ..Fee::default() };
    Parts {
        body: TxBody { messages, memo: "hi".to_owned(), ..TxBody::default() },
        auth: AuthInfo { signer_infos: vec![signer], fee: Some(fee) },
    }
}

impl Parts {
    fn raw(&self, signature: &[u8]) -> Vec<u8> {
        let raw = TxRaw {
            body_bytes: self.body.encode_to_vec(),
            auth_info_bytes: self.auth.encode_to_vec(),
            signatures: vec![signature.to_vec()],
        };
        raw.encode_to_vec()
    }

    fn read(&self) -> CosmosTx {
        CosmosTx::decode(&self.raw(&[1; 64]), Signatures::Required).unwrap()
    }

    /// Returns codespace and code of the error.
    fn error_code(&self) -> (&'static str, u32) {
        let refusal = CosmosTx::decode(&self.raw(&[1; 64]), Signatures::Required).unwrap_err();
        (refusal.code.space, refusal.code.number)
    }

    fn signed(&self, digest: B256) -> Bytes {
        let signature = alice().sign(&digest);
        [&[TX_TYPE], self.raw(&signature[..64]).as_slice()].concat().into()
    }
}

fn recover(raw: &Bytes, chain_id: u64) -> Result<Arc<RecoveredTx>, RecoverError> {
    let mut senders = Senders::of_chain(Recoverer::new(Backend::detect().unwrap()), chain_id);
    senders.recover(std::slice::from_ref(raw)).next().unwrap()
}

/// The digests that @tharsis/eip712 0.0 with @metamask/eth-sig-util, and ethers 6, compute for the same
/// transaction in the two EIP-712 formats.
#[test]
fn signed_documents_equal_those_of_other_libraries() {
    let tx = parts(vec![send()], 127).read();
    let known = [
        b256!("d1b82f44f481e03a3dbd61e233bed90fdb685e96bc9e3a58ea5862913d06e7aa"),
        b256!("63eb53731ec05d07add536ca5a93a740f495f452e13c6430314947bfa8143704"),
    ];
    assert_eq!(tx.wallet_digests(CHAIN_ID), known);
    let expected = concat!(
        r#"{"account_number":"0","chain_id":"262144","fee":{"amount":[{"amount":"200000000000000","#,
        r#""denom":"atest"}],"gas":"200000"},"memo":"hi","msgs":[{"type":"cosmos-sdk/MsgSend","#,
        r#""value":{"amount":[{"amount":"7","denom":"atest"}],"from_address":"#,
        r#""cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq","to_address":"#,
        r#""cosmos1wzvhjux9rqfdcwspp37srdgwp5tac7wgtkldlx"}}],"sequence":"5"}"#
    );
    assert_eq!(String::from_utf8(tx.sign_bytes(CHAIN_ID)).unwrap(), expected);
}

#[test]
fn signer_is_recovered_in_every_sign_mode() {
    for mode in MODES {
        let parts = parts(vec![send()], mode);
        let tx = parts.read();
        let digests = [vec![tx.digest(CHAIN_ID)], tx.wallet_digests(CHAIN_ID)].concat();
        assert_eq!(digests.len(), 3);
        for digest in digests {
            let raw = parts.signed(digest);
            let recovered = recover(&raw, CHAIN_ID).unwrap();
            assert_eq!(recovered.sender, DEV_ACCOUNTS[0].address);
            assert_eq!(recovered.ty(), TX_TYPE);
            assert!(matches!(recover(&raw, CHAIN_ID + 1), Err(RecoverError::Cosmos(_))));
        }
    }
}

#[test]
fn wrong_signer_is_refused_and_missing_key_is_recovered() {
    let mut parts = parts(vec![send()], 1);
    let digest = parts.read().digest(CHAIN_ID);
    let stranger = PrivateKey::from_bytes(DEV_ACCOUNTS[1].private_key.as_slice()).unwrap();
    let signature = stranger.sign(&digest);
    let raw: Bytes = [&[TX_TYPE], parts.raw(&signature[..64]).as_slice()].concat().into();
    let Err(RecoverError::Cosmos(refusal)) = recover(&raw, CHAIN_ID) else { panic!("no refusal") };
    assert_eq!((refusal.code.space, refusal.code.number), ("sdk", 4));
    // With a high s, the same signature would produce another transaction hash, so it is refused.
    let own = alice().sign(&digest);
    let order = U256::from_str_radix(
        "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141",
        16,
    );
    let twin = order.unwrap() - U256::from_be_slice(&own[32..64]);
    let twin = [&own[..32], &twin.to_be_bytes::<32>()].concat();
    let raw: Bytes = [&[TX_TYPE], parts.raw(&twin).as_slice()].concat().into();
    assert!(matches!(recover(&raw, CHAIN_ID), Err(RecoverError::Cosmos(_))));
    // The transaction names a key that did not sign it.
    parts.auth.signer_infos[0].public_key =
        Some(any(&PubKey { key: stranger.public_key().as_bytes().to_vec() }));
    let raw = parts.signed(parts.read().digest(CHAIN_ID));
    assert!(matches!(recover(&raw, CHAIN_ID), Err(RecoverError::Cosmos(_))));
    parts.auth.signer_infos[0].public_key = None;
    let raw = parts.signed(parts.read().digest(CHAIN_ID));
    assert_eq!(recover(&raw, CHAIN_ID).unwrap().sender, DEV_ACCOUNTS[0].address);
}

#[test]
fn stateless_checks_have_the_codes_of_the_sdk() {
    let with = |change: &dyn Fn(&mut Parts)| {
        let mut parts = parts(vec![send()], 1);
        change(&mut parts);
        parts.error_code()
    };
    let vote = |voter: &str, option| {
        any(&MsgVote { proposal_id: 1, voter: voter.to_owned(), option, ..MsgVote::default() })
    };
    let ethereum = Any { type_url: "/cosmos.evm.vm.v1.MsgEthereumTx".to_owned(), value: vec![] };
    let update = any(&feemarket::MsgUpdateParams::default());
    let proposal = |messages| {
        any(&MsgSubmitProposal {
            messages,
            proposer: ALICE.to_owned(),
            title: "t".to_owned(),
            summary: "s".to_owned(),
            ..MsgSubmitProposal::default()
        })
    };
    let params = |denominator| feemarket::Params {
        base_fee_change_denominator: denominator,
        elasticity_multiplier: 2,
        base_fee: "1".to_owned(),
        min_gas_price: "0".to_owned(),
        min_gas_multiplier: "0".to_owned(),
        ..feemarket::Params::default()
    };
    let gov = "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn";
    let change = |authority: &str, denominator| {
        let authority = authority.to_owned();
        let params = Some(params(denominator));
        any(&feemarket::MsgUpdateParams { authority, params })
    };
    let message = |any: Any| with(&move |p| p.body.messages = vec![any.clone()]);
    assert_eq!(with(&|p| p.body.messages.clear()), ("sdk", 18));
    assert_eq!(with(&|p| p.body.messages = vec![send(), vote(BOB, 1)]), ("sdk", 37));
    assert_eq!(with(&|p| p.body.memo = "m".repeat(257)), ("sdk", 12));
    assert_eq!(with(&|p| p.auth.fee = None), ("sdk", 18));
    assert_eq!(with(&|p| p.auth.fee.as_mut().unwrap().gas_limit = 21_000), ("sdk", 11));
    assert_eq!(with(&|p| p.auth.fee.as_mut().unwrap().amount = coin("-1")), ("sdk", 10));
    assert_eq!(with(&|p| p.auth.fee.as_mut().unwrap().granter = BOB.to_owned()), ("sdk", 37));
    assert_eq!(with(&|p| p.auth.signer_infos.clear()), ("sdk", 4));
    assert_eq!(with(&|p| p.auth.signer_infos[0].mode_info = None), ("sdk", 37));
    assert_eq!(with(&|p| p.body.extension_options = vec![update.clone()]), ("sdk", 31));
    assert_eq!(message(ethereum), ("sdk", 29));
    assert_eq!(message(update), ("gov", 13));
    assert_eq!(message(Any { type_url: "/x".to_owned(), value: vec![] }), ("sdk", 2));
    assert_eq!(message(vote("cosmos1x", 1)), ("sdk", 7));
    assert_eq!(message(vote(ALICE, 5)), ("gov", 7));
    assert_eq!(message(proposal(vec![send()])), ("gov", 10));
    assert_eq!(message(proposal(vec![change(ALICE, 8)])), ("gov", 13));
    assert_eq!(message(proposal(vec![change(gov, 0)])), ("gov", 12));
    parts(vec![proposal(vec![change(gov, 8)])], 1).read();
    let mut unknown = parts(vec![send()], 1).raw(&[1; 64]);
    unknown.extend([0x22, 0x00]);
    assert_eq!(CosmosTx::decode(&unknown, Signatures::Required).unwrap_err().code.number, 2);
}

#[test]
fn blocks_are_searched_by_both_hashes() {
    let (cosmos, other) = (Bytes::from_static(&[TX_TYPE, 1]), Bytes::from_static(&[2, 1]));
    let block = [other.clone(), cosmos.clone(), other, cosmos.clone()];
    let further: Vec<_> = further_hashes(&block).collect();
    assert_eq!(further, [cosmos_hash(&cosmos); 2]);
    assert_eq!(
        [0, 3, 4, 5].map(|index| position(&block, index)),
        [Some(0), Some(3), Some(1), Some(3)]
    );
    assert_eq!(position(&block, 6), None);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any_byte(), 0..300)) {
        drop(CosmosTx::decode(&bytes, Signatures::Required));
        drop(CosmosTx::decode(&bytes, Signatures::Optional));
        let raw: Bytes = [&[TX_TYPE], bytes.as_slice()].concat().into();
        prop_assert!(recover(&raw, CHAIN_ID).is_err());
    }

    #[test]
    fn mutated_transactions_neither_panic_nor_pass(
        at in 0..10_000_usize,
        bits in 1..=255_u8,
        cut in 0..10_000_usize,
        mode in prop::sample::select(MODES.to_vec()),
    ) {
        let parts = parts(vec![send()], mode);
        let raw = parts.signed(parts.read().digest(CHAIN_ID));
        let mut changed = raw.to_vec();
        let at = 1 + at % (changed.len() - 1);
        changed[at] ^= bits;
        prop_assert!(recover(&changed.into(), CHAIN_ID).is_err(), "byte {at}");
        drop(recover(&raw.slice(..1 + cut % (raw.len() - 1)), CHAIN_ID));
    }
}

fn any_byte() -> impl Strategy<Value = u8> {
    proptest::prelude::any::<u8>()
}
