//! Compresses large HTTP responses on the threads for large bodies, round-robin by address. If the queue is full or no
//! memory is left, the response is sent uncompressed.

use crate::{client::Client, large_bodies::LargeBodies};
use budget::{Account, Refused};
use hyper::body::Bytes;
use server::compression::{CHUNK_BYTES, Gzip};
use std::sync::Arc;

/// Returns the compressed response, or `None` if there is no capacity. The pieces are already accounted, and the output
/// is accounted while it grows.
pub(super) async fn compressed(
    queue: &Arc<LargeBodies>,
    client: &Client,
    pieces: &[Bytes],
) -> Option<Bytes> {
    let (pieces, account) = (pieces.to_vec(), Arc::clone(&client.account));
    let compress = |permit| async move {
        let compressed = compress(&pieces, &account).await;
        drop(permit);
        compressed
    };
    queue.answer(client, compress).await.ok()?.ok()
}

/// Compresses the pieces, and yields to other tasks after each chunk. Dropping the future cancels the work.
async fn compress(pieces: &[Bytes], account: &Arc<Account>) -> Result<Bytes, Refused> {
    let mut usage = account.buffer(0);
    let mut gzip = Gzip::new();
    for chunk in pieces.iter().flat_map(|piece| piece.chunks(CHUNK_BYTES)) {
        gzip.add(chunk);
        usage.grow_to(gzip.bytes())?;
        tokio::task::yield_now().await;
    }
    Ok(gzip.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::threads::Threads;
    use flate2::bufread::GzDecoder;
    use std::io::Read as _;

    fn pieces() -> Vec<Bytes> {
        (0..10_u8).map(|piece| Bytes::from(vec![piece; 3 * CHUNK_BYTES])).collect()
    }

    #[tokio::test]
    async fn pieces_become_one_compressed_response() {
        let threads = Threads::start(1).unwrap();
        let queue = Arc::new(LargeBodies::new(threads.large()));
        let client = Client::for_tests();
        let compressed = compressed(&queue, &client, &pieces()).await.unwrap();
        let mut read = Vec::new();
        GzDecoder::new(&compressed[..]).read_to_end(&mut read).unwrap();
        assert!(read == pieces().concat());
        assert_eq!(client.account.memory.reading().used, 0);
    }

    #[tokio::test]
    async fn a_response_for_which_there_is_no_memory_is_not_compressed() {
        for (limit, is_compressed) in [(1_000, false), (1 << 20, true)] {
            let account = Account::with_limit(limit);
            assert_eq!(compress(&pieces(), &account).await.is_ok(), is_compressed);
            assert_eq!(account.memory.reading().used, 0);
        }
    }
}
