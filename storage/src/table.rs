//! Tables of an LMDB environment.

use std::ops::Bound;

use heed::types::Bytes as RawBytes;
use heed::{Database, RwTxn};

/// A table of byte strings in lexicographic order.
pub(crate) type Table = Database<'static, RawBytes, RawBytes>;

/// A range of keys.
pub(crate) type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Removes every key that starts with `prefix`.
pub(crate) fn delete_prefix(
    table: Table,
    txn: &mut RwTxn<'_>,
    prefix: &[u8],
) -> Result<(), heed::Error> {
    let mut end = prefix.to_vec();
    while end.last() == Some(&0xff) {
        end.pop();
    }
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end.as_slice())
        }
        None => Bound::Unbounded,
    };
    let range: KeyRange<'_> = (Bound::Included(prefix), end);
    table.delete_range(txn, &range)?;
    Ok(())
}
