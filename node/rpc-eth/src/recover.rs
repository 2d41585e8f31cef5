//! Recovers the senders of transactions that are not in a block.

use alloy_primitives::Bytes;
use rpc_types::error::Error;
use transactions::{RecoveredTx, recover_senders};
use verify::{Backend, Recoverer};

/// Recovers the senders of transactions. The chain is not known here, so Cosmos transactions are not supported.
pub fn recover(raw: &[Bytes]) -> Result<Vec<RecoveredTx>, Error> {
    let backend = Backend::detect().map_err(Error::internal)?;
    let recovered = recover_senders(&mut Recoverer::new(backend), raw).into_iter();
    recovered.collect::<Result<_, _>>().map_err(|error| Error::server(error.to_string()))
}
