//! Tests keys, mnemonics, addresses and key files against third-party vectors in the folder `keys` of `EVMD_FIXTURES`.
//! This project's own vectors are in unit tests.

use crate::common::fixtures;
use alloy_primitives::hex;
use bip32::{DerivationPath, ExtendedPrivateKey, Prefix};
use flate2::bufread::GzDecoder;
use keys::{Bech32Error, PrivateKey, decode_any, keystore, mnemonic::Phrase, typed_data_hash};
use serde_json::{Value, json};
use std::{fs, io::BufReader};

fn text(name: &str) -> String {
    fs::read_to_string(fixtures("keys").join(name)).unwrap()
}

/// Reads the list in a gzip-compressed JSON file.
fn list(name: &str) -> Vec<Value> {
    let file = fs::File::open(fixtures("keys").join(name)).unwrap();
    let list: Vec<Value> = serde_json::from_reader(GzDecoder::new(BufReader::new(file))).unwrap();
    assert!(!list.is_empty(), "{name}");
    list
}

fn hex_text(value: &Value) -> String {
    String::from_utf8(hex::decode(value.as_str().unwrap()).unwrap()).unwrap()
}

fn private_extended(seed: &[u8], path: &str) -> String {
    let path: DerivationPath = path.parse().unwrap();
    let key = ExtendedPrivateKey::<k256::SecretKey>::derive_from_path(seed, &path).unwrap();
    key.to_string(Prefix::XPRV).to_string()
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn mnemonics_in_every_language_have_the_expected_seeds() {
    let text = text("bip39-trezor-vectors.json");
    let languages: serde_json::Map<String, Value> = serde_json::from_str(&text).unwrap();
    for (language, cases) in languages {
        for case in cases.as_array().unwrap() {
            let [entropy, words, seed, xprv] =
                [0, 1, 2, 3].map(|index| case[index].as_str().unwrap());
            let parsed = Phrase::parse(words);
            // These two word lists are not part of BIP-39.
            if matches!(language.as_str(), "russian" | "turkish") {
                assert!(parsed.is_err(), "{language}");
                continue;
            }
            let parsed = parsed.unwrap();
            let derived = parsed.seed("TREZOR");
            assert_eq!(hex::encode(*derived), seed, "{language}");
            assert_eq!(private_extended(derived.as_slice(), "m"), xprv, "{language}");
            let entropy = hex::decode(entropy).unwrap();
            let made = Phrase::from_entropy(&entropy, &language.replace('_', "-")).unwrap();
            assert_eq!(made.seed("TREZOR"), derived, "{language}");
        }
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn keys_are_derived_from_mnemonics() {
    for case in list("ethers-mnemonics.json.gz") {
        let phrase = Phrase::parse(&hex_text(&case["phrase"])).unwrap();
        let seed = phrase.seed(&hex_text(&case["password"]));
        assert_eq!(hex::encode_prefixed(*seed), case["seed"].as_str().unwrap());
        for node in case["nodes"].as_array().unwrap() {
            let xprv = private_extended(seed.as_slice(), node["path"].as_str().unwrap());
            assert_eq!(xprv, node["xpriv"].as_str().unwrap(), "{}", case["name"]);
        }
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn derivation_follows_bip_32() {
    let text = text("bip-0032.mediawiki");
    let (mut seed, mut path, mut checked) = (Vec::new(), String::new(), 0);
    for line in text.lines() {
        if let Some(digits) = line.strip_prefix("Seed (hex): ") {
            seed = hex::decode(digits).unwrap();
        } else if let Some(chain) = line.strip_prefix("* Chain ") {
            path = chain.trim().replace("<sub>H</sub>", "'");
        } else if let Some(xprv) = line.strip_prefix("** ext prv: ") {
            assert_eq!(private_extended(&seed, &path), xprv.trim(), "{path}");
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked}");
}

/// Returns the strings of the list after the line that starts with `after`.
fn listed<'t>(text: &'t str, after: &str) -> Vec<&'t str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(after)).skip(1);
    let items = lines.skip_while(|line| line.is_empty()).take_while(|line| line.starts_with('*'));
    // Items in a different form, which contain a byte in hex, are skipped.
    let string = |line: &'t str| line.strip_prefix("* <tt>")?.split_once("</tt>").map(|(s, _)| s);
    items.filter_map(string).collect()
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn bech32_follows_bip_173() {
    let bech32 = text("bip-0173.mediawiki");
    let valid = listed(&bech32, "The following strings are valid Bech32:");
    assert!(valid.len() > 4, "{valid:?}");
    for string in valid {
        assert!(decode_any(string).is_ok(), "{string}");
    }
    let bech32m = text("bip-0350.mediawiki");
    for string in listed(&bech32m, "The following strings are valid Bech32m:") {
        assert_eq!(decode_any(string), Err(Bech32Error::Checksum), "{string}");
    }
    for string in listed(&bech32, "The following string are not valid Bech32") {
        // This string is invalid only because it is longer than 90 characters, which Cosmos chains allow.
        if !string.starts_with("an84characters") {
            assert!(decode_any(string).is_err(), "{string}");
        }
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn addresses_of_keys_have_the_expected_checksum() {
    for case in list("ethers-accounts.json.gz") {
        let Some(key) = case["privateKey"].as_str() else { continue };
        let key = PrivateKey::from_hex(key).unwrap();
        assert_eq!(key.address().to_checksum(None), case["address"].as_str().unwrap());
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn keystores_of_other_wallets_are_decrypted() {
    for case in list("ethers-wallets.json.gz") {
        let content = case["content"].as_str().unwrap();
        // The wallets of the 2014 Ethereum presale have a different format.
        if case["type"] != "keystore" {
            let refused = keystore::decrypt(content, "").unwrap_err().to_string();
            assert_eq!(refused, "not a keystore file: no version");
            continue;
        }
        let key = keystore::decrypt(content, &hex_text(&case["password"])).unwrap();
        let address = key.address().to_checksum(None);
        assert_eq!(address, case["address"].as_str().unwrap(), "{}", case["name"]);
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn keystores_of_geth_are_decrypted() {
    let vectors = text("geth-keystore/v3_test_vector.json");
    let vectors: serde_json::Map<String, Value> = serde_json::from_str(&vectors).unwrap();
    for (name, case) in vectors {
        let file = case["json"].to_string();
        let password = case["password"].as_str().unwrap();
        let key = keystore::decrypt(&file, password).unwrap();
        let private = format!("{:0>64}", case["priv"].as_str().unwrap());
        assert_eq!(hex::encode(*key.to_bytes()), private, "{name}");
        assert_eq!(
            keystore::decrypt(&file, "wrong").unwrap_err(),
            keystore::KeystoreError::WrongPassphrase
        );
    }
    let old = text("geth-keystore/v1_test_vector.json");
    let old: Value = serde_json::from_str(&old).unwrap();
    let refused = keystore::decrypt(&old["test1"]["json"].to_string(), "g").unwrap_err();
    assert_eq!(refused.to_string(), "keystore version \"1\" is not supported, want 3");
    let open = |name: &str| {
        let bytes = fs::read(fixtures("keys").join("geth-keystore/keystore").join(name)).unwrap();
        keystore::decrypt(&String::from_utf8_lossy(&bytes), "foobar")
    };
    let valid = [
        ("aaa", "f466859ead1932d743d622cb74fc058882e8648a"),
        ("zzz", "289d485d9771714cce91d3393d764e1311907acc"),
    ];
    for (name, address) in valid {
        assert_eq!(hex::encode(open(name).unwrap().address()), address);
    }
    assert!(open("no-address").is_ok());
    for name in ["empty", "garbage", "zero"] {
        assert!(open(name).is_err(), "{name}");
    }
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn typed_data_follows_eip_712() {
    for case in list("ethers-typed-data.json.gz") {
        let data = json!({
            "types": case["types"],
            "primaryType": case["primaryType"],
            "domain": case["domain"],
            "message": case["data"],
        });
        let hash = typed_data_hash(&data.to_string());
        assert_eq!(hash.unwrap().to_string(), case["digest"].as_str().unwrap(), "{}", case["name"]);
    }
}
