//! Senders of transactions that are in no block.

use alloy_primitives::Bytes;
use rpc_types::error::Error;
use transactions::{RecoveredTx, recover_senders};
use verify::{Backend, Recoverer};

/// Transactions that are in no block, with their senders. Knows no chain, so none of them is a Cosmos transaction.
pub fn recover(raw: &[Bytes]) -> Result<Vec<RecoveredTx>, Error> {
    let backend = Backend::detect().map_err(Error::internal)?;
    let recovered = recover_senders(&mut Recoverer::new(backend), raw).into_iter();
    recovered.collect::<Result<_, _>>().map_err(|error| Error::server(error.to_string()))
}
