//! Tests every backend on known signatures: Wycheproof, mainnet blocks, execution-spec tests, and numbers
//! at the edges of ranges. Small selections are committed under `data/`; the whole collections are
//! read from the folder that `EVMD_FIXTURES` names.

#[path = "../support/mod.rs"]
mod support;

use alloy_consensus::TxEnvelope;
use alloy_eips::eip2718::Decodable2718;
use secp256k1_batch_recovery::{Job, Outcome};
use std::path::Path;
use support::{ORDER, check, expected, fixtures, hex, hex32, recoverers};

fn array(digits: &str) -> [u8; 32] {
    hex(digits).try_into().expect("32 bytes")
}

/// Compares all four recovery ids of each signature with libsecp256k1. If it is valid, one id must recover its key.
fn check_wycheproof(cases: &[(Job, Option<Vec<u8>>)]) {
    let jobs: Vec<_> = cases
        .iter()
        .flat_map(|(job, _)| (0..4).map(|recovery_id| Job { recovery_id, ..*job }))
        .collect();
    let outcomes = expected(&jobs);
    for ((job, key), outcomes) in cases.iter().zip(outcomes.chunks(4)) {
        if let Some(key) = key {
            let found = outcomes.iter().flatten().any(|found| found.public_key[..] == key[..]);
            assert!(found, "no id recovers the key of {job:02x?}");
        }
    }
    for recoverer in &mut recoverers() {
        check(recoverer, &jobs, &outcomes);
    }
}

#[test]
fn wycheproof_selection_recovers_the_valid_keys() {
    let cases: Vec<_> = include_str!("../data/wycheproof.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let columns: Vec<_> = line.split(' ').collect();
            let job = Job {
                digest: array(columns[1]),
                r: array(columns[2]),
                s: array(columns[3]),
                recovery_id: 0,
            };
            (job, (columns[5] == "valid").then(|| hex(columns[4])))
        })
        .collect();
    assert!(cases.len() > 80);
    check_wycheproof(&cases);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn whole_wycheproof_set_recovers_the_valid_keys() {
    let folder = fixtures("wycheproof");
    let path = folder.join("ecdsa_secp256k1_sha256_p1363_test.json");
    let file: serde_json::Value = read(&path);
    let mut cases = Vec::new();
    for group in list(&file["testGroups"]) {
        let key = hex(&text(&group["publicKey"]["uncompressed"])[2..]);
        for test in list(&group["tests"]) {
            let signature = hex(text(&test["sig"]));
            if signature.len() != 64 {
                continue;
            }
            let job = Job {
                digest: sha256(&hex(text(&test["msg"]))),
                r: signature[..32].try_into().expect("32 bytes"),
                s: signature[32..].try_into().expect("32 bytes"),
                recovery_id: 0,
            };
            cases.push((job, (text(&test["result"]) == "valid").then(|| key.clone())));
        }
    }
    println!("{} signatures", cases.len());
    check_wycheproof(&cases);
}

fn sha256(message: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(message).into()
}

fn read(path: &Path) -> serde_json::Value {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().expect("a string")
}

fn list(value: &serde_json::Value) -> &[serde_json::Value] {
    value.as_array().expect("a list")
}

/// Returns the job of a signed transaction, or `None` if the bytes are not one.
fn transaction(raw: &[u8]) -> Option<Job> {
    let transaction = TxEnvelope::decode_2718_exact(raw).ok()?;
    let signature = transaction.signature();
    Some(Job {
        digest: transaction.signature_hash().0,
        r: signature.r().to_be_bytes(),
        s: signature.s().to_be_bytes(),
        recovery_id: signature.v().into(),
    })
}

fn check_senders(senders: &[(Job, Vec<u8>)]) {
    let jobs: Vec<_> = senders.iter().map(|(job, _)| *job).collect();
    let outcomes = expected(&jobs);
    for (outcome, (job, sender)) in outcomes.iter().zip(senders) {
        let address = outcome.map(|key| key.address.to_vec());
        assert_eq!(address.as_ref(), Ok(sender), "{job:02x?}");
    }
    for recoverer in &mut recoverers() {
        check(recoverer, &jobs, &outcomes);
    }
}

#[test]
fn mainnet_selection_recovers_the_senders() {
    let senders: Vec<_> = include_str!("../data/mainnet.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let columns: Vec<_> = line.split(' ').collect();
            (transaction(&hex(columns[2])).expect("a transaction"), hex(columns[3]))
        })
        .collect();
    assert!(senders.len() > 60);
    check_senders(&senders);
}

#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn mainnet_blocks_recover_the_senders() {
    let folder = fixtures("mainnet-blocks-A");
    let mut total = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let block = read(&file.expect("a file").path());
        let senders: Vec<_> = list(&block["txs"])
            .iter()
            .map(|entry| {
                let job = transaction(&hex(text(&entry["raw"]))).expect("a transaction");
                (job, hex(text(&entry["from"])))
            })
            .collect();
        total += senders.len();
        check_senders(&senders);
    }
    println!("{total} transactions");
    assert!(total > 13_000);
}

/// Checks every `txbytes` of the state tests that is a well-formed transaction for which no exception is expected: the
/// backends must agree with libsecp256k1, and the sender must be that of the test.
#[test]
#[ignore = "needs EVMD_FIXTURES: run .ci/fixtures"]
fn execution_spec_transactions_recover_the_senders() {
    let folder = fixtures("eest-v5.4.0");
    let mut folders = vec![folder.join("state_tests")];
    let mut senders = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "json") {
                collect_state_tests(&read(&path), &mut senders);
            }
        }
    }
    println!("{} transactions", senders.len());
    assert!(senders.len() > 20_000);
    check_senders(&senders);
}

fn collect_state_tests(file: &serde_json::Value, senders: &mut Vec<(Job, Vec<u8>)>) {
    for test in file.as_object().expect("tests by name").values() {
        let Some(sender) = test["transaction"]["sender"].as_str() else { continue };
        for posts in test["post"].as_object().expect("posts by fork").values() {
            for post in list(posts) {
                if !post["expectException"].is_null() {
                    continue;
                }
                if let Some(job) = post["txbytes"].as_str().and_then(|raw| transaction(&hex(raw))) {
                    senders.push((job, hex(sender)));
                }
            }
        }
    }
}

/// Returns adversarial signatures: x of points of order 7 on another curve, a recovered point at infinity, and every
/// boundary of the ranges.
fn attacks() -> Vec<Job> {
    let z = hex32("000000deadbeef0000000000000000000000000000000000000000000000004d");
    let infinity = Job {
        digest: z,
        r: hex32("f973a0b87062c389d125d8199e803b832b6ac6bf7867a4f6cd87506060fc4c58"),
        s: hex32("4f26e38e39f1773f6e24664ab76a15ebb77b6979168598218e990f688b1262fc"),
        recovery_id: 1,
    };
    let small = |value: u8| {
        let mut bytes = [0; 32];
        bytes[31] = value;
        bytes
    };
    let mut order_less_one = ORDER;
    order_less_one[31] -= 1;
    let rs = [
        hex32("25a7dfc85dc3d159f8eaead25755dd5147acdf1d5b789b1ef7e4383ee1e47529"),
        hex32("58d02dcabcbd0eebdeffbc020bd970a57c24ffb3735411d2fd1e15b7511c4790"),
        infinity.r,
        hex32("000000000000000000000000000000014551231950b75fc4402da1722fc9baed"),
        hex32("000000000000000000000000000000014551231950b75fc4402da1722fc9baee"),
        order_less_one,
        ORDER,
        [0xff; 32],
    ];
    let mut jobs = vec![infinity];
    for r in rs.into_iter().chain((0..=8).map(small)) {
        for s in [infinity.s, small(1), order_less_one, ORDER, small(0)] {
            for digest in [z, small(0), order_less_one, ORDER, [0xff; 32]] {
                jobs.extend((0..=4).map(|recovery_id| Job { digest, r, s, recovery_id }));
            }
        }
    }
    jobs
}

#[test]
fn attacks_match_libsecp256k1() {
    let jobs = attacks();
    let outcomes = expected(&jobs);
    assert!(outcomes[0].is_err(), "the first job recovers infinity");
    for recoverer in &mut recoverers() {
        check(recoverer, &jobs, &outcomes);
    }
}

/// Tests each attack of a sample at several positions of a batch of honest signatures.
#[test]
fn attacks_do_not_change_other_results() {
    let mut stream = support::Stream(6);
    let honest: Vec<_> = (0..512).map(|_| stream.job()).collect();
    let honest_outcomes = expected(&honest);
    let sample: Vec<_> = attacks().into_iter().step_by(23).collect();
    for recoverer in &mut recoverers()[1..] {
        for (i, attack) in sample.iter().enumerate() {
            let mut jobs = honest.clone();
            let mut outcomes: Vec<Outcome> = honest_outcomes.clone();
            for position in [0, 5, 77, 255, 256, 300, 511] {
                let position = (position + i * usize::from(i > 4)) % jobs.len();
                jobs[position] = *attack;
                outcomes[position] = expected(&[*attack])[0];
            }
            check(recoverer, &jobs, &outcomes);
        }
    }
}

/// Tests batches of at most one vector, for which the engine has separate code, and of one job more.
#[test]
fn attacks_in_short_batches_match_libsecp256k1() {
    let mut stream = support::Stream(7);
    let jobs: Vec<_> =
        attacks().into_iter().step_by(7).flat_map(|attack| [attack, stream.job()]).collect();
    let outcomes = expected(&jobs);
    for recoverer in &mut recoverers()[1..] {
        for length in 1..=9 {
            for (jobs, outcomes) in jobs.chunks(length).zip(outcomes.chunks(length)) {
                check(recoverer, jobs, outcomes);
            }
        }
    }
}

#[test]
fn batches_of_points_at_infinity_match_libsecp256k1() {
    let jobs = vec![attacks()[0]; 300];
    let outcomes = expected(&jobs);
    for recoverer in &mut recoverers() {
        for length in [1, 2, 3, 8, 9, 300] {
            check(recoverer, &jobs[..length], &outcomes[..length]);
        }
    }
}
