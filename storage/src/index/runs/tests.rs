//! Compares runs with a sorted map, across many flushes of random sizes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::env::Opened;
use crate::kind::Kind;

/// Length of a key in bytes: four for the owner, and four for the time.
const KEY_BYTES: usize = 8;

fn open(folder: &tempfile::TempDir) -> (Environment, Runs) {
    let opened = Environment::open(folder.path(), Kind::OF_TESTS, 256 << 20, ["runs"], false);
    let Opened { env, tables: [table], .. } = opened.unwrap();
    let pages = CheckedTable::new(table, "runs", 1);
    (env, Runs { pages, key_bytes: KEY_BYTES, filtered: false })
}

fn key(owner: u32, time: u32) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&owner.to_be_bytes());
    key[4..].copy_from_slice(&time.to_be_bytes());
    key
}

fn value(owner: u32, time: u32) -> Vec<u8> {
    vec![owner as u8; (time % 40) as usize]
}

/// Advances all merges.
fn advance_merges(runs: Runs, txn: &mut heed::RwTxn<'_>, budget: usize) {
    let mut from = 0;
    while let Some(level) = runs.merge(txn, from, budget).unwrap() {
        from = level + 1;
    }
}

fn check(env: &Environment, runs: Runs, model: &BTreeMap<[u8; 8], Vec<u8>>, owner: u32, time: u32) {
    let txn = env.read().unwrap();
    let (first, last) = (key(owner, 0), key(owner, time));
    let expected = model.range(first..=last).next_back();
    let found = runs.latest(txn.txn(), &first[..4], &last).unwrap();
    let expected = expected.map(|(key, value)| (key.as_slice(), value.as_slice()));
    assert_eq!(found, expected, "the latest of {owner} at {time}");
    let earliest = runs.earliest(txn.txn(), &last, &key(owner, u32::MAX)).unwrap();
    let expected = model.range(last..=key(owner, u32::MAX)).next();
    let expected = expected.map(|(key, value)| (key.as_slice(), value.as_slice()));
    assert_eq!(earliest, expected, "the earliest of {owner} from {time}");
    let mut all = Vec::new();
    runs.each(txn.txn(), &first, &last, |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        Ok(())
    })
    .unwrap();
    let expected = model.range(first..=last).map(|(key, value)| (key.to_vec(), value.clone()));
    assert_eq!(all, expected.collect::<Vec<_>>(), "all of {owner} up to {time}, in order");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn runs_are_a_sorted_map_at_every_stage_of_their_merges(
        flushes in prop::collection::vec((1..400u32, 1..200u32), 1..200),
        budget in 1..3000usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (env, runs) = open(&folder);
        let mut model = BTreeMap::new();
        for (time, (count, stride)) in (1..).zip(&flushes) {
            let mut txn = env.write().unwrap();
            let mut run = runs.begin(&txn, 0).unwrap();
            for owner in (0..*count).map(|n| n * stride % 997).collect::<std::collections::BTreeSet<_>>() {
                run.push(&mut txn, &key(owner, time), &value(owner, time)).unwrap();
                model.insert(key(owner, time), value(owner, time));
            }
            // Merges are so slow that several levels have an unfinished one.
            let _ = run.finish(&mut txn).unwrap();
            advance_merges(runs, &mut txn, budget);
            env.commit(txn).unwrap();
            for owner in [0, 1, *stride, 500, 996] {
                for at in [0, time / 2, time, time + 1] {
                    check(&env, runs, &model, owner, at);
                }
            }
        }
        let txn = env.read().unwrap();
        let mut count = 0;
        runs.each(txn.txn(), &[0; KEY_BYTES], &[0xff; KEY_BYTES], |_, _| { count += 1; Ok(()) }).unwrap();
        prop_assert_eq!(count, model.len());
    }
}

#[test]
fn many_flushes_leave_few_runs_and_no_pages_of_merged_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (env, runs) = open(&folder);
    for time in 0..500 {
        let mut txn = env.write().unwrap();
        let mut run = runs.begin(&txn, 0).unwrap();
        (0..300).for_each(|owner| run.push(&mut txn, &key(owner, time), &[]).unwrap());
        let added = run.finish(&mut txn).unwrap();
        env.commit(txn).unwrap();
        // Every fifth time, the process dies before the merge.
        if time % 5 > 0 {
            added.merge(&env).unwrap();
        }
    }
    let txn = env.read().unwrap();
    let directory = runs.directory(txn.txn()).unwrap();
    let ids: Vec<u32> = directory.sources().map(|source| source.id).collect();
    assert!(ids.len() < 3 * FAN_IN, "{} runs", ids.len());
    let entries: u64 =
        directory.levels.iter().flat_map(|level| &level.runs).map(|run| run.entries).sum();
    assert_eq!(entries, 500 * 300);
    for row in runs.pages.table.iter(txn.txn()).unwrap() {
        let (at, _) = row.unwrap();
        let id = u32::from_be_bytes(at[..4].try_into().unwrap());
        assert!(id == 0 || ids.contains(&id), "a page of run {id}, which was removed");
    }
}

/// Returns the results of all lookups of some keys.
fn lookups(
    runs: Runs,
    txn: &heed::RoTxn<'_, heed::AnyTls>,
    keys: &[Vec<u8>],
) -> Vec<Result<Vec<u8>, &'static str>> {
    fn kind(error: RunError) -> &'static str {
        match error {
            RunError::Corrupt(..) => "corrupt",
            RunError::Lmdb(_) => "lmdb",
        }
    }
    fn entry(entry: Option<read::Entry<'_>>) -> Vec<u8> {
        entry.map_or_else(Vec::new, |(key, value)| [key, b"=", value].concat())
    }
    let mut results = Vec::new();
    for key in keys {
        results.push(runs.latest(txn, &key[..4], key).map(entry).map_err(kind));
        let last = vec![0xff; key.len()];
        results.push(runs.earliest(txn, key, &last).map(entry).map_err(kind));
        let exact = runs.exact(txn, key).map(|value| value.unwrap_or(b"none").to_vec());
        results.push(exact.map_err(kind));
        let mut all = Vec::new();
        let each = runs.each(txn, &vec![0; key.len()], key, |key, value| {
            all.extend_from_slice(key);
            all.extend_from_slice(value);
            Ok(())
        });
        results.push(each.map(|()| all).map_err(kind));
    }
    results
}

#[test]
fn damaged_rows_are_never_read_as_other_values() {
    const HASH_BYTES: usize = 32;
    let folder = tempfile::tempdir().unwrap();
    let (env, plain) = open(&folder);
    let runs = Runs { key_bytes: HASH_BYTES, filtered: true, ..plain };
    let mut hashes: Vec<Vec<u8>> =
        (0..90u64).map(|n| alloy_primitives::keccak256(n.to_be_bytes()).to_vec()).collect();
    let unknown = hashes.split_off(80);
    let mut txn = env.write().unwrap();
    for part in hashes.chunks_mut(40) {
        part.sort_unstable();
        let mut run = runs.begin(&txn, part.len() as u64).unwrap();
        for key in &*part {
            run.push(&mut txn, key, &key[..12]).unwrap();
        }
        let _ = run.finish(&mut txn).unwrap();
    }
    let keys: Vec<_> = [&hashes[0], &hashes[45], &unknown[0], &unknown[9]].map(Clone::clone).into();
    let expected = lookups(runs, &txn, &keys);
    assert!(expected.iter().all(Result::is_ok));
    let rows = runs.pages.table.iter(&txn).unwrap();
    let rows: Vec<_> =
        rows.map(|row| row.map(|(key, row)| (key.to_vec(), row.to_vec())).unwrap()).collect();
    assert!(rows.len() >= 5, "the directory, and a filter and a page of each run");
    let mut damages: Vec<(usize, Vec<u8>)> = Vec::new();
    for (at, (_, row)) in rows.iter().enumerate() {
        // Changes every bit of small rows, and one bit of each byte of large rows.
        let all_bits = row.len() < 256;
        for byte in 0..row.len() {
            let bits = if all_bits { 0..8 } else { byte % 8..byte % 8 + 1 };
            for bit in bits {
                let mut damaged = row.clone();
                damaged[byte] ^= 1 << bit;
                damages.push((at, damaged));
            }
        }
        damages
            .extend([0, 3, 7, row.len() / 2, row.len() - 1].map(|end| (at, row[..end].to_vec())));
        damages.push((at, [row.as_slice(), &[0]].concat()));
        // Replaces a row with one that is valid under another key.
        damages.push((at, rows[(at + 1) % rows.len()].1.clone()));
    }
    let mut found = 0;
    for (at, damaged) in damages {
        let (key, row) = &rows[at];
        runs.pages.table.put(&mut txn, key, &damaged).unwrap();
        for (result, expected) in lookups(runs, &txn, &keys).iter().zip(&expected) {
            assert!(
                result == expected || *result == Err("corrupt"),
                "{key:?}: {result:?}, not {expected:?}"
            );
            found += usize::from(result.is_err());
        }
        runs.pages.table.put(&mut txn, key, row).unwrap();
    }
    assert!(found > 1000, "{found} errors");
}

#[test]
fn filters_accept_every_key_and_are_removed_with_their_runs() {
    const HASH_BYTES: usize = 32;
    const FLUSHES: u64 = 150;
    let folder = tempfile::tempdir().unwrap();
    let (env, plain) = open(&folder);
    let runs = Runs { key_bytes: HASH_BYTES, filtered: true, ..plain };
    let hash = |number: u64| alloy_primitives::keccak256(number.to_be_bytes());
    let each = |flush: u64| flush * 1000..flush * 1000 + 1 + flush % 7 * 100;
    for flush in 0..FLUSHES {
        let mut hashes: Vec<_> = each(flush).map(|number| (hash(number), number)).collect();
        hashes.sort_unstable();
        let mut txn = env.write().unwrap();
        let mut run = runs.begin(&txn, hashes.len() as u64).unwrap();
        for (key, number) in &hashes {
            run.push(&mut txn, key.as_slice(), &number.to_be_bytes()).unwrap();
        }
        // Merges are so slow that they continue partial chunks.
        let _ = run.finish(&mut txn).unwrap();
        advance_merges(runs, &mut txn, 700);
        env.commit(txn).unwrap();
    }
    let txn = env.read().unwrap();
    for number in (0..FLUSHES).flat_map(each) {
        let found = runs.exact(txn.txn(), hash(number).as_slice()).unwrap();
        assert_eq!(found, Some(&number.to_be_bytes()[..]), "{number}");
    }
    let directory = runs.directory(txn.txn()).unwrap();
    assert!(directory.levels.len() > 1, "runs have been merged");
    let sources: Vec<_> = directory.sources().collect();
    let (mut false_positives, mut others) = (0, 0);
    for number in (0..FLUSHES).map(|flush| flush * 1000 + 999) {
        assert_eq!(runs.exact(txn.txn(), hash(number).as_slice()).unwrap(), None);
        for source in &sources {
            let key = hash(number);
            others += 1;
            let may = runs.may_hold(txn.txn(), source.id, source.lines, key.as_slice()).unwrap();
            false_positives += u32::from(may);
        }
    }
    assert!(false_positives < others / 20, "{false_positives} of {others}");
    let ids: Vec<u32> = sources.iter().map(|source| source.id).collect();
    let filters = runs.pages.table.prefix_iter(txn.txn(), &DIRECTORY).unwrap();
    let filters: Vec<_> = filters.map(|row| row.unwrap().0).filter(|at| at.len() > 4).collect();
    assert!(filters.len() >= ids.len() / 2);
    for at in filters {
        let id = u32::from_be_bytes(at[4..8].try_into().unwrap());
        assert!(ids.contains(&id), "a filter of run {id}, which was removed");
    }
}
