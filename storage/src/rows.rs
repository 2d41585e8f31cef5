//! Writes rows of one table in bulk.
//!
//! If the rows are a large part of the table, a cursor scans the table in step with the rows and
//! overwrites replaced rows in place. Advancing a cursor takes a tenth of the time of a search from the root.
#![allow(unsafe_code)]

use std::ops::Bound;

use heed::RwTxn;

use crate::table::{KeyRange, Table};
use trie::rows::Rows;

/// Maximum number of table rows per written row for which the table is scanned.
const MAX_SCANNED_ROWS_PER_WRITE: u64 = 8;

/// Key and value; the value is `None` if the row is removed.
type Row<'r> = (&'r [u8], Option<&'r [u8]>);

/// Writes the rows, which must be in ascending order of keys. `total` is an upper limit for the number of rows that
/// this call and related calls write to the table.
pub(crate) fn write(
    rows: &Rows,
    table: Table,
    txn: &mut RwTxn<'_>,
    total: usize,
) -> Result<(), heed::Error> {
    if table.len(txn)? > MAX_SCANNED_ROWS_PER_WRITE.saturating_mul(total as u64) {
        return write_each(table, txn, rows.iter());
    }
    let others = write_over(rows, table, txn)?;
    write_each(table, txn, others.into_iter())
}

/// Overwrites existing rows of the table. Returns the remaining rows: new ones and removals.
fn write_over<'r>(
    rows: &'r Rows,
    table: Table,
    txn: &mut RwTxn<'_>,
) -> Result<Vec<Row<'r>>, heed::Error> {
    let mut others = Vec::new();
    let Some((first, _)) = rows.iter().next() else { return Ok(others) };
    let range: KeyRange<'_> = (Bound::Included(first), Bound::Unbounded);
    let mut walk = table.range_mut(txn, &range)?;
    let mut here = walk.next().transpose()?;
    for (key, value) in rows.iter() {
        while here.is_some_and(|(at, _)| at < key) {
            here = walk.next().transpose()?;
        }
        match value.filter(|_| here.is_some_and(|(at, _)| at == key)) {
            None => others.push((key, value)),
            Some(value) => {
                // SAFETY: key and value belong to `rows`, not to the table. The borrow of the table in `here` is
                // not used again: it is replaced right after this.
                unsafe { walk.put_current(key, value)? };
                here = walk.next().transpose()?;
            }
        }
    }
    Ok(others)
}

fn write_each<'r>(
    table: Table,
    txn: &mut RwTxn<'_>,
    rows: impl Iterator<Item = Row<'r>>,
) -> Result<(), heed::Error> {
    for (key, value) in rows {
        match value {
            Some(value) => table.put(txn, key, value)?,
            None => drop(table.delete(txn, key)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::env::{Environment, Opened};
    use crate::kind::Kind;

    /// Some values have more than 1,000 bytes, so that pages split and merge.
    fn rows() -> impl Strategy<Value = BTreeMap<u16, Option<(u8, usize)>>> {
        let value = prop_oneof![
            1 => Just(None),
            6 => (any::<u8>(), prop_oneof![0..90usize, 0..1500usize]).prop_map(Some),
        ];
        let few = prop::collection::btree_map(0..1000u16, value.clone(), 0..20);
        prop_oneof![few, prop::collection::btree_map(0..1000u16, value, 0..700)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

        #[test]
        fn table_behaves_like_a_map(writes in prop::collection::vec(rows(), 1..12), pieces in 1..400usize) {
            let folder = tempfile::tempdir().unwrap();
            let Opened { env, tables: [table], .. } =
                Environment::open(folder.path(), Kind::OF_TESTS, 64 << 20, ["rows"], false).unwrap();
            let mut model = BTreeMap::new();
            for write in &writes {
                let mut txn = env.write().unwrap();
                let all: Vec<_> = write.iter().collect();
                let mut rows = Rows::default();
                for piece in all.chunks(pieces) {
                    rows.clear();
                    for (key, value) in piece {
                        let put_key = |out: &mut Vec<u8>| out.extend(key.to_be_bytes());
                        match value {
                            Some((byte, count)) => {
                                rows.put(put_key, |out| out.resize(out.len() + count, *byte));
                                model.insert(**key, vec![*byte; *count]);
                            }
                            None => {
                                rows.remove(put_key);
                                model.remove(key);
                            }
                        }
                    }
                    super::write(&rows, table, &mut txn, all.len()).unwrap();
                }
                env.commit(txn).unwrap();
                let txn = env.read().unwrap();
                let found: Vec<_> = table
                    .iter(txn.txn())
                    .unwrap()
                    .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
                    .collect();
                let expected: Vec<_> =
                    model.iter().map(|(key, value)| (key.to_be_bytes().to_vec(), value.clone())).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
