//! Keys, and the formats of addresses.
//!
//! - [`parse_address`] parses an address in any format; [`Bech32Kind`] encodes the Bech32 formats.
//! - [`PublicKey`] and [`PrivateKey`] are keys of the only supported algorithm, [`ALGORITHM`].
//! - [`HdPath`] and [`mnemonic`] derive keys from phrases; [`keystore`] and [`armor`] read and write key files
//!   of other programs; [`keyring`] stores named keys.
//! - [`Signers`] are the keys with which a node may sign for its clients.
//! - [`message_hash`] and [`typed_data_hash`] are hashes that wallets sign in addition to transactions.
//!
//! Private keys are zeroed when dropped, have no readable `Debug`, and are never logged. All ciphers, hashes and
//! key derivation functions come from maintained crates.

mod address;
mod algorithm;
pub mod armor;
mod bech32_form;
mod eth_account;
mod hd_path;
mod key;
pub mod keyring;
pub mod keystore;
pub mod mnemonic;
mod module_account;
mod secret_file;
mod sign;
mod signers;

pub use address::{AddressError, parse_address, parse_address_in_any_case, validator_address};
pub use algorithm::{ALGORITHM, UnknownAlgorithm, check_algorithm};
pub use bech32_form::{
    BECH32_KINDS, Bech32Error, Bech32Kind, bech32, decode_any, decode_public_key, encode_any,
};
pub use eth_account::EthAccount;
pub use hd_path::{COIN_TYPE, HdPath, PathError};
pub use key::{KeyError, PRIVATE_KEY_BYTES, PUBLIC_KEY_BYTES, PrivateKey, PublicKey};
pub use module_account::{MODULE_ACCOUNTS, is_module_account, module_address};
pub use secret_file::{read_secret, write_secret};
pub use sign::{SIGNATURE_BYTES, TypedDataError, message_hash, typed_data_hash};
pub use signers::{SignerError, Signers};
