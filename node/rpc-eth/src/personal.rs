//! `personal_`: methods for the accounts in the keyring of the node, as in earlier versions of geth. They are available
//! if the operator enables the namespace. `personal_listAccounts` is also enabled by the namespace `eth`. All keys of a
//! keyring have the same passphrase.

use crate::{
    eth::{Request, sign},
    method::{Answer, Call, Method, QueueClass, Run, json},
};
use alloy_primitives::{Address, B256, Bytes, Signature};
use keys::{PrivateKey, Signers, message_hash};
use rpc_types::{error::Error, params::Number};
use serde::Serialize;
use std::time::Duration;
use zeroize::Zeroizing;

/// Default duration of unlocking an account in seconds, as in geth.
const UNLOCK_SECONDS: u64 = 300;

/// The methods of the namespace.
pub const METHODS: &[Method] = &[
    Method {
        name: "personal_listAccounts",
        parameters: &[],
        help: "The accounts in the keyring of the node, if one is configured. Also available with the namespace `eth`.",
        run: Run::Inline(sign::accounts),
    },
    Method {
        name: "personal_listWallets",
        parameters: &[],
        help: "The accounts, each with its key file and whether it is unlocked.",
        run: Run::Inline(list_wallets),
    },
    Method {
        name: "personal_newAccount",
        parameters: &["passphrase"],
        help: "Creates a locked key in the keyring. The passphrase is that of the keyring.",
        run: Run::Queued(QueueClass::Long, new_account),
    },
    Method {
        name: "personal_importRawKey",
        parameters: &["key", "passphrase"],
        help: "Adds a private key, as 64 hex digits, to the keyring, locked.",
        run: Run::Queued(QueueClass::Long, import_raw_key),
    },
    Method {
        name: "personal_lockAccount",
        parameters: &["address"],
        help: "Locks an account. False if it does not exist.",
        run: Run::Inline(lock_account),
    },
    Method {
        name: "personal_unlockAccount",
        parameters: &["address", "passphrase", "seconds = 300"],
        help: "Unlocks an account for a time. 0 seconds unlock it until the node stops.",
        run: Run::Queued(QueueClass::Long, unlock_account),
    },
    Method {
        name: "personal_sign",
        parameters: &["data", "address", "passphrase = null"],
        help: "Like eth_sign. With its passphrase, the account may be locked.",
        run: Run::Queued(QueueClass::Long, sign_message),
    },
    Method {
        name: "personal_ecRecover",
        parameters: &["data", "signature"],
        help: "The account that signed data with eth_sign or personal_sign.",
        run: Run::Inline(recover),
    },
    Method {
        name: "personal_sendTransaction",
        parameters: &["transaction", "passphrase"],
        help: "Like eth_sendTransaction, but the account may be locked.",
        run: Run::Waiting(|call| Box::pin(send_transaction(call))),
    },
];

/// An account in the format of geth's wallets.
#[derive(Serialize)]
struct Wallet {
    url: String,
    status: &'static str,
    accounts: [WalletAccount; 1],
}

#[derive(Serialize)]
struct WalletAccount {
    address: Address,
    url: String,
}

fn list_wallets(call: &Call) -> Answer {
    call.no_arguments()?;
    let states = call.context.signers.as_deref().map(Signers::states).unwrap_or_default();
    let wallets = states.into_iter().map(|(address, is_open)| {
        let url = format!("keyring://{address:#x}");
        let status = if is_open { "Unlocked" } else { "Locked" };
        Wallet { url: url.clone(), status, accounts: [WalletAccount { address, url }] }
    });
    json(&wallets.collect::<Vec<_>>())
}

fn new_account(call: &Call) -> Answer {
    let passphrase = Zeroizing::new(call.arguments()?.required::<String>()?);
    let key = PrivateKey::random().map_err(Error::internal)?;
    json(&sign::signers(call)?.add(key, &passphrase)?)
}

fn import_raw_key(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let key = Zeroizing::new(arguments.required::<String>()?);
    let passphrase = Zeroizing::new(arguments.required::<String>()?);
    let key =
        PrivateKey::from_hex(&key).map_err(|error| Error::invalid_params(error.to_string()))?;
    json(&sign::signers(call)?.add(key, &passphrase)?)
}

fn lock_account(call: &Call) -> Answer {
    let address: Address = call.arguments()?.required()?;
    json(&sign::signers(call)?.lock(address))
}

fn unlock_account(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let address: Address = arguments.required()?;
    let passphrase = Zeroizing::new(arguments.required::<String>()?);
    let seconds = arguments.optional::<Number>()?.map_or(UNLOCK_SECONDS, |Number(seconds)| seconds);
    let time = (seconds > 0).then(|| Duration::from_secs(seconds));
    sign::signers(call)?.unlock(address, &passphrase, time)?;
    json(&true)
}

fn sign_message(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let message: Bytes = arguments.required()?;
    let by: Address = arguments.required()?;
    let passphrase = arguments.optional::<String>()?.map(Zeroizing::new);
    let (signers, hash) = (sign::signers(call)?, message_hash(&message));
    let signature = match passphrase {
        Some(passphrase) => signers.sign_with(by, &hash, &passphrase)?,
        // Wallets and their libraries send no passphrase.
        None => signers.sign(by, &hash)?,
    };
    json(&sign::wallet_signature(signature))
}

fn recover(call: &Call) -> Answer {
    let mut arguments = call.arguments()?;
    let message: Bytes = arguments.required()?;
    let signature: Bytes = arguments.required()?;
    let invalid = |reason: &str| Error::invalid_params(format!("invalid signature: {reason}"));
    if signature.len() != 65 {
        return Err(invalid("want 65 bytes"));
    }
    if ![27, 28].contains(&signature[64]) {
        return Err(invalid("want 27 or 28 as its last byte"));
    }
    let signature = Signature::from_raw(&signature).map_err(|_| invalid("malformed"))?;
    let by = signature.recover_address_from_prehash(&message_hash(&message));
    json(&by.map_err(|_| invalid("it is of no key"))?)
}

async fn send_transaction(call: Call) -> Answer {
    let (request, passphrase) = {
        let mut arguments = call.arguments()?;
        let request: Request = arguments.required()?;
        (request, Zeroizing::new(arguments.required::<String>()?))
    };
    let sign = move |signers: &Signers, by: Address, hash: &B256| {
        Ok(signers.sign_with(by, hash, &passphrase)?)
    };
    sign::send(&call, request, Box::new(sign)).await
}
