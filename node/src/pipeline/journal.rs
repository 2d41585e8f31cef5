//! The mempool's journal: pooled transactions kept in a file from an orderly stop to the next
//! start. One RLP list of EIP-2718 byte strings.

use crate::mempool::Mempool;
use alloy_primitives::Bytes;
use alloy_rlp::{Decodable, Encodable};
use std::{io, path::Path};

/// Writes the pool's transactions; a failure is logged, for the pool is not the chain.
pub(super) fn save(path: &Path, pool: &Mempool) {
    let txs: Vec<Bytes> = pool.all().map(|pooled| pooled.tx.raw.clone()).collect();
    if let Err(error) = replace(path, &txs) {
        tracing::error!(path = %path.display(), %error, "the mempool could not be saved");
    }
}

/// Writes beside the file and renames, so that a crash leaves the old one or the new one.
fn replace(path: &Path, txs: &Vec<Bytes>) -> io::Result<()> {
    if txs.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let mut bytes = Vec::with_capacity(txs.length());
    txs.encode(&mut bytes);
    let beside = path.with_extension("new");
    std::fs::write(&beside, &bytes)?;
    std::fs::File::open(&beside)?.sync_all()?;
    std::fs::rename(&beside, path)
}

/// Reads the transactions saved at the last stop, and none where there is no file.
pub(super) fn load(path: &Path) -> io::Result<Vec<Bytes>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let decoded = Vec::<Bytes>::decode(&mut bytes.as_slice());
    decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}
