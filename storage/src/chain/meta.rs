//! Values that belong to the chain but not to a block, such as its genesis.
//!
//! The rows are in the table `meta`. If the row with the adopted rules versions were lost, it would look as if it had
//! never been written, and the node would execute blocks under the wrong rules. Therefore, the table also contains a
//! list of the keys of all these rows, which is compared with the rows when the environment is opened.

use alloy_primitives::Bytes;
use heed::RwTxn;

use super::ChainDb;
use crate::error::{DecodeError, ReadError, WriteError};
use trie::primitive::put_counted_bytes;

/// Prefix of the keys of callers, which separates them from the keys of this crate.
pub(super) const CALLER_KEY_PREFIX: &[u8] = b"user.";
/// Key in `meta`: the list of the keys of callers.
const KEYS_KEY: &[u8] = b"meta.keys";

impl ChainDb {
    /// Stores `value` durably under `key`. This is for values that belong to the chain but not to a block, such
    /// as the genesis file.
    ///
    /// # Errors
    /// If the map or disk is full, or if `key` is longer than 506 bytes.
    pub fn put_meta(&self, key: &str, value: &[u8]) -> Result<(), WriteError> {
        let mut txn = self.env.write()?;
        self.write_meta(&mut txn, key, value)?;
        self.env.commit(txn)
    }

    /// Writes a value and the list of keys.
    pub(super) fn write_meta(
        &self,
        txn: &mut RwTxn<'_>,
        key: &str,
        value: &[u8],
    ) -> Result<(), WriteError> {
        let written = self.tables.meta.put(txn, &caller_key(key), value);
        let written = written.and_then(|()| self.put_meta_keys(txn));
        written.map_err(|error| self.env.write_error(error))
    }

    /// Returns the value that [`Self::put_meta`] stored under `key`.
    ///
    /// # Errors
    /// If the environment cannot be read.
    pub fn meta(&self, key: &str) -> Result<Option<Bytes>, ReadError> {
        let txn = self.env.read()?;
        let (meta, key) = (self.tables.meta, caller_key(key));
        let Some(row) = txn.get(meta.table, &key)? else { return Ok(None) };
        let payload = meta.rows.payload(&key, row);
        let payload = payload.map_err(|why| txn.corrupt(meta.name, &key, why))?;
        Ok(Some(Bytes::copy_from_slice(payload)))
    }

    /// Writes the list of the callers' keys.
    pub(super) fn put_meta_keys(&self, txn: &mut RwTxn<'_>) -> Result<(), heed::Error> {
        let meta = self.tables.meta;
        let mut list = Vec::new();
        for row in meta.table.prefix_iter(txn, CALLER_KEY_PREFIX)? {
            put_counted_bytes(&mut list, row?.0);
        }
        meta.put(txn, KEYS_KEY, &list)
    }

    /// Compares the list of the callers' keys with the rows.
    pub(super) fn check_meta_keys(&self) -> Result<(), ReadError> {
        let txn = self.env.read()?;
        let meta = self.tables.meta;
        let corrupt = |why| txn.corrupt(meta.name, KEYS_KEY, why);
        let mut found = Vec::new();
        let rows = meta.table.prefix_iter(txn.txn(), CALLER_KEY_PREFIX);
        for row in rows.map_err(|error| txn.error(error))? {
            let (key, _) = row.map_err(|error| txn.error(error))?;
            put_counted_bytes(&mut found, key);
        }
        let list = match txn.get(meta.table, KEYS_KEY)? {
            Some(row) => meta.rows.payload(KEYS_KEY, row).map_err(corrupt)?,
            None => &[],
        };
        if list == found.as_slice() {
            return Ok(());
        }
        Err(corrupt(DecodeError { what: "the keys differ from the list of keys", at: 0 }))
    }
}

fn caller_key(key: &str) -> Vec<u8> {
    [CALLER_KEY_PREFIX, key.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ChainOptions;
    use crate::error::OpenError;

    const OPTIONS: ChainOptions = ChainOptions { map_bytes: 1 << 20 };

    #[test]
    fn lost_or_renamed_row_is_reported_as_damage() {
        let keys: [&[u8]; 3] = [b"user.genesis", b"user.rules", KEYS_KEY];
        for (key, renamed) in keys.iter().flat_map(|key| [(key, false), (key, true)]) {
            let folder = tempfile::tempdir().unwrap();
            let chain = ChainDb::open(folder.path(), OPTIONS).unwrap();
            chain.put_meta("genesis", b"{}").unwrap();
            chain.put_meta("rules", b"[]").unwrap();
            chain.put_meta("rules", b"[1]").unwrap();
            drop(chain);
            let chain = ChainDb::open(folder.path(), OPTIONS).unwrap();
            assert_eq!(chain.meta("rules").unwrap(), Some(Bytes::from_static(b"[1]")));
            let mut txn = chain.env.write().unwrap();
            let table = chain.tables.meta.table;
            let row = table.get(&txn, key).unwrap().unwrap().to_vec();
            table.delete(&mut txn, key).unwrap();
            if renamed {
                let mut key = key.to_vec();
                key[6] ^= 1;
                table.put(&mut txn, &key, &row).unwrap();
            }
            chain.env.commit(txn).unwrap();
            drop(chain);
            let error = ChainDb::open(folder.path(), OPTIONS).unwrap_err();
            assert!(
                matches!(error, OpenError::Read(ReadError::Corrupt { table: "meta", .. })),
                "{error}"
            );
        }
    }
}
