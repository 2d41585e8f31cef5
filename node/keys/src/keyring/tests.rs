use super::*;
use crate::PrivateKey;
use std::{fs, os::unix::fs::PermissionsExt};

const PASSPHRASE: &str = "correct horse";

fn record(name: &str) -> Record {
    Record::local(name.to_owned(), PrivateKey::random().unwrap())
}

#[test]
fn encrypted_keys_can_be_read_only_with_the_passphrase() {
    let folder = tempfile::tempdir().unwrap();
    let open = |access, passphrase| Keyring::open(Backend::File, folder.path(), access, passphrase);
    assert_eq!(passphrase_need(Backend::File, folder.path()), PassphraseNeed::New);
    assert!(open(Access::Read, None).unwrap().records().is_empty());
    assert!(matches!(open(Access::Write, Some("short")), Err(KeyringError::ShortPassphrase)));
    let alice = record("alice");
    let mut keyring = open(Access::Write, Some(PASSPHRASE)).unwrap();
    keyring.add(alice.clone(), false).unwrap();
    drop(keyring);
    assert_eq!(passphrase_need(Backend::File, folder.path()), PassphraseNeed::Existing);
    let keyring = open(Access::Read, Some(PASSPHRASE)).unwrap();
    let found = keyring.by_name("alice").unwrap();
    assert_eq!(found.private_key().unwrap().to_bytes(), alice.private_key().unwrap().to_bytes());
    assert!(matches!(open(Access::Read, Some("wrong horse")), Err(KeyringError::WrongPassphrase)));
    assert!(matches!(open(Access::Read, None), Err(KeyringError::NoPassphrase)));

    let path = folder.path().join("keyring-file/keyring.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("alice"));
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(matches!(open(Access::Read, Some(PASSPHRASE)), Err(KeyringError::Damaged { .. })));
    fs::write(&path, text.replace("\"sealed\":\"", "\"sealed\":\"AAAA")).unwrap();
    assert!(matches!(open(Access::Read, Some(PASSPHRASE)), Err(KeyringError::WrongPassphrase)));
}

#[test]
fn names_and_keys_stay_unique() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Keyring::open(Backend::Test, folder.path(), Access::Write, None).unwrap();
    let (alice, bob) = (record("alice"), record("bob"));
    let mut keyring = open();
    keyring.add(bob, false).unwrap();
    keyring.add(alice.clone(), false).unwrap();
    assert!(matches!(keyring.add(record("alice"), false), Err(KeyringError::Exists(_))));
    let twin = Record { name: "twin".to_owned(), ..alice.clone() };
    assert!(matches!(keyring.add(twin, false), Err(KeyringError::Duplicate(_))));
    for name in ["", " ", " alice", "a\nb", &"x".repeat(129)] {
        assert!(matches!(keyring.add(record(name), false), Err(KeyringError::Name(_))), "{name}");
    }
    keyring.rename("alice", "carol").unwrap();
    assert!(matches!(keyring.rename("carol", "bob"), Err(KeyringError::Exists(_))));
    assert!(matches!(keyring.rename("alice", "x"), Err(KeyringError::Unknown(_))));
    drop(keyring);

    let mut keyring = open();
    let names: Vec<_> = keyring.records().iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["bob", "carol"]);
    assert_eq!(keyring.by_address(alice.address()).unwrap().name, "carol");
    let names = ["bob".to_owned(), "unknown".to_owned()];
    assert!(matches!(keyring.remove(&names), Err(KeyringError::Unknown(_))));
    keyring.remove(&names[..1]).unwrap();
    keyring.add(record("carol"), true).unwrap();
    assert_eq!(keyring.records().len(), 1);
    assert!(keyring.by_address(alice.address()).is_none());
}

#[test]
fn offline_records_have_no_private_key() {
    let key = PrivateKey::random().unwrap().public_key();
    let record = Record::offline("watch".to_owned(), key);
    assert_eq!(record.kind(), "offline");
    assert!(matches!(record.private_key(), Err(KeyringError::Offline(_))));
}

#[test]
fn other_backends_are_refused_with_their_names() {
    for name in ["kwallet", "pass"] {
        assert!(name.parse::<Backend>().unwrap_err().to_string().contains(name));
    }
}
