//! Holds the keys with which a node signs for its clients: those of a keyring, which is read at startup if the
//! operator has enabled it, and those of the development accounts on a development chain. Each key can be locked, and
//! unlocked with the keyring's passphrase. Without a keyring, any passphrase is accepted: development keys are public.
//!
//! Only signatures are returned, never keys. Passphrases are checked by opening the keyring, one check at a
//! time: a check takes some tenths of a second and 128 MiB, which also slows down guessing.

use super::{
    PrivateKey,
    keyring::{Access, Backend, Keyring, KeyringError, Record},
    sign::SIGNATURE_BYTES,
};
use alloy_primitives::{Address, B256};
use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use zeroize::Zeroizing;

/// Why a hash was not signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// There is no such key.
    #[error("unknown account")]
    Unknown,
    /// The key is locked.
    #[error("authentication needed: password or unlock")]
    Locked,
    /// The passphrase is wrong, or the keyring cannot be used.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

/// A key, and whether it can be used without a passphrase.
#[derive(Debug)]
struct HeldKey {
    address: Address,
    key: PrivateKey,
    state: LockState,
}

#[derive(Clone, Copy, Debug)]
enum LockState {
    Unlocked,
    UnlockedUntil(Instant),
    Locked,
}

/// The keys with which the node signs for its clients.
#[derive(Debug)]
pub struct Signers {
    /// The keyring, and its folder.
    keyring: Option<(Backend, PathBuf)>,
    held: Mutex<Vec<HeldKey>>,
    checking: Mutex<()>,
}

/// Ignores poisoning: each change is one operation on the list, so a panic leaves the list consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signers {
    /// Takes the private keys of an opened keyring of `backend` in `folder`. All of them are unlocked.
    pub fn new(backend: Backend, folder: PathBuf, keyring: &Keyring) -> Self {
        let held = keyring.records().iter().filter_map(HeldKey::of).collect();
        Self { keyring: Some((backend, folder)), held: Mutex::new(held), checking: Mutex::new(()) }
    }

    /// Takes the private keys of a development chain, which are public knowledge. New keys are lost at shutdown.
    pub fn of_development(keys: impl Iterator<Item = PrivateKey>) -> Self {
        let held = keys.map(HeldKey::unlocked).collect();
        Self { keyring: None, held: Mutex::new(held), checking: Mutex::new(()) }
    }

    /// Adds the keys of a development chain after those of the keyring, except for keys that it has already.
    #[must_use]
    pub fn with_development(self, keys: impl Iterator<Item = PrivateKey>) -> Self {
        for key in keys {
            let mut held = lock(&self.held);
            if !held.iter().any(|held| held.address == key.address()) {
                held.push(HeldKey::unlocked(key));
            }
        }
        self
    }

    /// Returns the addresses of the keys: first those of the keyring in the order of their names, then those of the
    /// development chain, then new ones.
    pub fn accounts(&self) -> Vec<Address> {
        lock(&self.held).iter().map(|held| held.address).collect()
    }

    /// Returns the addresses, and whether each key is unlocked.
    pub fn states(&self) -> Vec<(Address, bool)> {
        lock(&self.held).iter().map(|held| (held.address, held.is_unlocked())).collect()
    }

    /// Signs a hash with an unlocked key.
    ///
    /// # Errors
    /// If there is no such key, or if it is locked.
    pub fn sign(&self, by: Address, hash: &B256) -> Result<[u8; SIGNATURE_BYTES], SignerError> {
        let key = {
            let held = lock(&self.held);
            let held = held.iter().find(|held| held.address == by).ok_or(SignerError::Unknown)?;
            if !held.is_unlocked() {
                return Err(SignerError::Locked);
            }
            held.key.clone()
        };
        Ok(key.sign(hash))
    }

    /// Checks the passphrase, and signs a hash with a key, which may be locked.
    ///
    /// # Errors
    /// If there is no such key, or the passphrase is wrong.
    pub fn sign_with(
        &self,
        by: Address,
        hash: &B256,
        passphrase: &str,
    ) -> Result<[u8; SIGNATURE_BYTES], SignerError> {
        self.check(passphrase)?;
        let held = lock(&self.held);
        let held = held.iter().find(|held| held.address == by).ok_or(SignerError::Unknown)?;
        Ok(held.key.sign(hash))
    }

    /// Locks a key. Returns whether it exists.
    pub fn lock(&self, address: Address) -> bool {
        self.set(address, LockState::Locked)
    }

    /// Unlocks a key for `time`, or until it is locked if `time` is `None`.
    ///
    /// # Errors
    /// If there is no such key, or the passphrase is wrong.
    pub fn unlock(
        &self,
        address: Address,
        passphrase: &str,
        time: Option<Duration>,
    ) -> Result<(), SignerError> {
        self.check(passphrase)?;
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let state = until.map_or(LockState::Unlocked, LockState::UnlockedUntil);
        if self.set(address, state) { Ok(()) } else { Err(SignerError::Unknown) }
    }

    /// Stores a key in the keyring, if there is one, under a name with its address, and adds it to the signers, locked.
    ///
    /// # Errors
    /// If the passphrase is wrong, or if the keyring has the key already or cannot be written.
    pub fn add(&self, key: PrivateKey, passphrase: &str) -> Result<Address, SignerError> {
        let address = key.address();
        let Some(mut keyring) = self.open(Access::Write, passphrase)? else {
            let mut held = lock(&self.held);
            if !held.iter().any(|held| held.address == address) {
                held.push(HeldKey { state: LockState::Locked, ..HeldKey::unlocked(key) });
            }
            return Ok(address);
        };
        let name = format!("rpc-{}", alloy_primitives::hex::encode(&address[..6]));
        let record = Record::local(name, key);
        let held = HeldKey::of(&record);
        keyring.add(record, false)?;
        lock(&self.held).extend(held.map(|held| HeldKey { state: LockState::Locked, ..held }));
        Ok(address)
    }

    fn set(&self, address: Address, state: LockState) -> bool {
        let mut held = lock(&self.held);
        let found = held.iter_mut().find(|held| held.address == address);
        found.map(|held| held.state = state).is_some()
    }

    fn check(&self, passphrase: &str) -> Result<(), KeyringError> {
        self.open(Access::Read, passphrase).map(drop)
    }

    /// Opens the keyring, if there is one.
    fn open(&self, access: Access, passphrase: &str) -> Result<Option<Keyring>, KeyringError> {
        let Some((backend, folder)) = &self.keyring else { return Ok(None) };
        let _checking = lock(&self.checking);
        let passphrase = Zeroizing::new(passphrase.to_owned());
        Keyring::open(*backend, folder, access, Some(&passphrase)).map(Some)
    }
}

impl HeldKey {
    /// Returns the unlocked key of a record; `None` if the record has no private key.
    fn of(record: &Record) -> Option<Self> {
        let key = record.private_key().ok()?.clone();
        Some(Self { address: record.address(), key, state: LockState::Unlocked })
    }

    fn unlocked(key: PrivateKey) -> Self {
        Self { address: key.address(), key, state: LockState::Unlocked }
    }

    fn is_unlocked(&self) -> bool {
        match self.state {
            LockState::Unlocked => true,
            LockState::UnlockedUntil(end) => Instant::now() < end,
            LockState::Locked => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    const PASSPHRASE: &str = "correct horse";

    #[test]
    fn key_signs_only_while_unlocked_or_with_the_passphrase() {
        let folder = tempfile::tempdir().unwrap();
        let open =
            |access| Keyring::open(Backend::File, folder.path(), access, Some(PASSPHRASE)).unwrap();
        let key = PrivateKey::random().unwrap();
        open(Access::Write).add(Record::local("alice".to_owned(), key.clone()), false).unwrap();
        let signers = Signers::new(Backend::File, folder.path().to_owned(), &open(Access::Read));
        let (alice, hash) = (key.address(), keccak256("x"));
        assert_eq!(signers.accounts(), [alice]);
        assert_eq!(signers.sign(alice, &hash).unwrap(), key.sign(&hash));
        let unknown = Address::repeat_byte(1);
        assert!(matches!(signers.sign(unknown, &hash), Err(SignerError::Unknown)));
        assert!(signers.lock(alice) && !signers.lock(unknown));
        assert!(matches!(signers.sign(alice, &hash), Err(SignerError::Locked)));
        assert!(signers.sign_with(alice, &hash, "wrong horse").is_err());
        assert_eq!(signers.sign_with(alice, &hash, PASSPHRASE).unwrap(), key.sign(&hash));
        assert!(signers.unlock(alice, "wrong horse", None).is_err());
        signers.unlock(alice, PASSPHRASE, Some(Duration::ZERO)).unwrap();
        assert!(matches!(signers.sign(alice, &hash), Err(SignerError::Locked)));
        signers.unlock(alice, PASSPHRASE, Some(Duration::from_secs(600))).unwrap();
        signers.sign(alice, &hash).unwrap();

        let other = PrivateKey::random().unwrap();
        assert!(signers.add(other.clone(), "wrong horse").is_err());
        let bob = signers.add(other, PASSPHRASE).unwrap();
        assert_eq!(signers.states(), [(alice, true), (bob, false)]);
        assert!(open(Access::Read).by_address(bob).is_some());
    }
}
