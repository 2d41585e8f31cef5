//! Signs Cosmos transactions with the keys of the development accounts.

use super::CHAIN_ID;
use chain::DEV_ACCOUNTS;
use keys::{PrivateKey, bech32};
use prost::{Message, Name};
use prost_types::Any;
use proto::cosmos::{
    bank::v1beta1::MsgSend,
    base::v1beta1::Coin,
    evm::{
        crypto::v1::ethsecp256k1::PubKey,
        feemarket::v1::{MsgUpdateParams, Params},
    },
    gov::v1::MsgSubmitProposal,
    tx::v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw, mode_info},
};
use transactions::cosmos::{CosmosTx, Signatures};

/// Gas limit of each transaction. It suffices for any message that the tests send.
pub const GAS: u64 = 400_000;
/// `SIGN_MODE_DIRECT`.
const DIRECT: i32 = 1;

/// Packs a message into an `Any`.
pub fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Returns the Bech32 address of a development account.
pub fn address_of(account: usize) -> String {
    bech32("cosmos", DEV_ACCOUNTS[account].address)
}

/// Returns coins of the chain's token.
pub fn coins(amount: u64) -> Vec<Coin> {
    vec![Coin { denom: "atest".to_owned(), amount: amount.to_string() }]
}

/// Returns a `MsgSend` of development account `from`.
pub fn send(from: usize, to: &str, amount: u64) -> Any {
    any(&MsgSend {
        from_address: address_of(from),
        to_address: to.to_owned(),
        amount: coins(amount),
    })
}

/// Returns a proposal of development account 0 that halves the speed of the fee market and sets the base fee to
/// `base_fee`, in units of 10^-18 wei.
pub fn slower_market(base_fee: &str) -> MsgSubmitProposal {
    let change = MsgUpdateParams {
        authority: "cosmos10d07y265gmmuvt4z0w9aw880jnsr700j6zn9kn".to_owned(),
        params: Some(Params {
            base_fee_change_denominator: 16,
            elasticity_multiplier: 2,
            base_fee: base_fee.to_owned(),
            min_gas_price: "0".to_owned(),
            min_gas_multiplier: "500000000000000000".to_owned(),
            ..Params::default()
        }),
    };
    MsgSubmitProposal {
        messages: vec![any(&change)],
        initial_deposit: coins(10_000_000),
        proposer: address_of(0),
        title: "Slower".to_owned(),
        summary: "A slower fee market".to_owned(),
        ..MsgSubmitProposal::default()
    }
}

/// Returns a `TxRaw` of development account `from` with this gas price in wei. It includes the public key if
/// `has_public_key` is set; otherwise, the node recovers the key from the signature.
pub fn signed_at(
    price: u64,
    has_public_key: bool,
    from: usize,
    sequence: u64,
    messages: Vec<Any>,
) -> Vec<u8> {
    let key = PrivateKey::from_bytes(DEV_ACCOUNTS[from].private_key.as_slice()).unwrap();
    signed_by(&key, price, has_public_key, sequence, messages)
}

/// Like [`signed_at`], but signs with `key`.
pub fn signed_by(
    key: &PrivateKey,
    price: u64,
    has_public_key: bool,
    sequence: u64,
    messages: Vec<Any>,
) -> Vec<u8> {
    let public_key = any(&PubKey { key: key.public_key().as_bytes().to_vec() });
    let single = mode_info::Single { mode: DIRECT };
    let signer = SignerInfo {
        public_key: has_public_key.then_some(public_key),
        mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
        sequence,
    };
    let fee = Fee { amount: coins(price * GAS), gas_limit: GAS, ..Fee::default() };
    let raw = |signature: Vec<u8>| {
        let raw = TxRaw {
            body_bytes: TxBody { messages: messages.clone(), ..TxBody::default() }.encode_to_vec(),
            auth_info_bytes: AuthInfo {
                signer_infos: vec![signer.clone()],
                fee: Some(fee.clone()),
            }
            .encode_to_vec(),
            signatures: vec![signature],
        };
        raw.encode_to_vec()
    };
    let unsigned = CosmosTx::decode(&raw(Vec::new()), Signatures::Optional).unwrap();
    raw(key.sign(&unsigned.digest(CHAIN_ID))[..64].to_vec())
}

/// Like [`signed_at`], with the public key and a gas price above every base fee of the tests.
pub fn signed(from: usize, sequence: u64, messages: Vec<Any>) -> Vec<u8> {
    signed_at(100_000_000_000, true, from, sequence, messages)
}
