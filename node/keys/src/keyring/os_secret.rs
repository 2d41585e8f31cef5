//! Stores the secret that encrypts an `os` keyring in the secret service of the operating system, for the user that
//! is logged in. On Linux the service is the Secret Service (GNOME Keyring, KWallet, KeePassXC) over D-Bus, on macOS
//! the Keychain.

use super::KeyringError;
use alloy_primitives::hex;
use keyring::{Entry, Error};
use std::path::Path;
use zeroize::Zeroizing;

/// The name under which the service lists the secrets.
const SERVICE: &str = "evmd";
/// Number of random bytes of a secret, which is stored as hex text.
const SECRET_BYTES: usize = 32;

/// Succeeds, because this build supports the service.
pub(super) const fn check() -> Result<(), KeyringError> {
    Ok(())
}

/// Returns the secret of the keyring file `path`. It is an error if there is none.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, KeyringError> {
    entry(path)?.get_password().map(Zeroizing::new).map_err(|error| match error {
        Error::NoEntry => {
            KeyringError::OsSecret(format!("it has no secret for {}", path.display()))
        }
        error => service_error(&error),
    })
}

/// Returns the secret for a new keyring file: the existing one, or a new one.
pub(super) fn read_or_create(path: &Path) -> Result<Zeroizing<String>, KeyringError> {
    let entry = entry(path)?;
    match entry.get_password() {
        Ok(secret) => return Ok(Zeroizing::new(secret)),
        Err(Error::NoEntry) => {}
        Err(error) => return Err(service_error(&error)),
    }
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    getrandom::fill(bytes.as_mut())?;
    let secret = Zeroizing::new(hex::encode(bytes.as_ref()));
    entry.set_password(&secret).map_err(|error| service_error(&error))?;
    Ok(secret)
}

/// Returns the entry of a keyring, which is identified by its path.
fn entry(path: &Path) -> Result<Entry, KeyringError> {
    let folder = path.parent().unwrap_or(path);
    let folder = std::path::absolute(folder)
        .map_err(|source| KeyringError::Io { path: folder.to_owned(), source })?;
    if let Err(error) = Entry::store_status() {
        return Err(service_error(error));
    }
    Entry::new(SERVICE, &folder.display().to_string()).map_err(|error| service_error(&error))
}

fn service_error(error: &Error) -> KeyringError {
    KeyringError::OsSecret(error.to_string())
}
