//! Keeps heights from going backwards for clients of several nodes behind a load balancer.
//!
//! A response has the number of the newest block in `X-Evmd-Height`. A client that sends this number in
//! `X-Evmd-Min-Height` with its next request receives a response from that block or a later one, from whichever node: a
//! node that does not have the block yet waits for it for a limited time, and then refuses the request.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use state::Published;
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The request header with the minimum height.
pub const MIN_HEIGHT: HeaderName = HeaderName::from_static("x-evmd-min-height");
/// The response header with the newest height.
pub const HEIGHT: HeaderName = HeaderName::from_static("x-evmd-height");
/// Maximum wait of a request for a block. A load balancer can then try another node.
pub const MAX_HEIGHT_WAIT: Duration = Duration::from_secs(2);

/// The heights of the blocks that a server serves.
#[derive(Clone)]
pub struct Heights {
    newest: Arc<dyn Fn() -> u64 + Send + Sync>,
    changes: watch::Receiver<u64>,
}

impl fmt::Debug for Heights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heights").field("newest", &(self.newest)()).finish_non_exhaustive()
    }
}

/// Why a request with a minimum height is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeightError {
    /// The header is not a decimal number below 2^64, or is repeated.
    #[error("{MIN_HEIGHT} must be one decimal number, that of a block")]
    Invalid,
    /// The block did not arrive within [`MAX_HEIGHT_WAIT`].
    #[error(
        "block {required} ({MIN_HEIGHT}) is not here yet, and did not come within {} s: the newest is {newest}",
        MAX_HEIGHT_WAIT.as_secs()
    )]
    NotReached {
        /// The block in the request.
        required: u64,
        /// The newest block.
        newest: u64,
    },
}

impl Heights {
    /// The heights that a node publishes.
    pub fn of(published: &Published) -> Self {
        let (view, changes) = (published.clone(), published.heads());
        Self::new(move || view.load().number(), changes)
    }

    /// `newest` returns the number of the newest block that requests can read; `changes` notifies of each change.
    fn new(
        newest: impl Fn() -> u64 + Send + Sync + 'static,
        changes: watch::Receiver<u64>,
    ) -> Self {
        Self { newest: Arc::new(newest), changes }
    }

    /// Waits until the node has the block that the headers of a request require, if they require one.
    ///
    /// # Errors
    /// If the header is invalid, or the block does not come within [`MAX_HEIGHT_WAIT`].
    pub async fn wait(&self, headers: &HeaderMap) -> Result<(), HeightError> {
        let Some(required) = required(headers)? else { return Ok(()) };
        if (self.newest)() >= required {
            return Ok(());
        }
        let mut changes = self.changes.clone();
        let reached = changes.wait_for(|_| (self.newest)() >= required);
        match tokio::time::timeout(MAX_HEIGHT_WAIT, reached).await {
            Ok(Ok(_)) => Ok(()),
            // The sender of the changes is dropped when the node shuts down.
            Ok(Err(_)) | Err(_) => {
                Err(HeightError::NotReached { required, newest: (self.newest)() })
            }
        }
    }

    /// Adds the newest height to the headers of a response. Must be called after the request was processed, because a
    /// height read before could be below that of the data in the response.
    pub fn state(&self, headers: &mut HeaderMap) {
        headers.insert(HEIGHT, HeaderValue::from((self.newest)()));
    }
}

/// The block that a request requires.
fn required(headers: &HeaderMap) -> Result<Option<u64>, HeightError> {
    let mut fields = headers.get_all(MIN_HEIGHT).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    let digits = field.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match (digits.and_then(|digits| digits.parse().ok()), fields.next()) {
        (Some(number), None) => Ok(Some(number)),
        _ => Err(HeightError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    fn requiring(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(MIN_HEIGHT, HeaderValue::from_str(value).unwrap())])
    }

    fn heights(at: u64) -> (Heights, Arc<AtomicU64>, watch::Sender<u64>) {
        let newest = Arc::new(AtomicU64::new(at));
        let (sender, changes) = watch::channel(at);
        let read = Arc::clone(&newest);
        (Heights::new(move || read.load(Relaxed), changes), newest, sender)
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_the_height_that_it_requires() {
        let (heights, newest, sender) = heights(7);
        for headers in [HeaderMap::new(), requiring("0"), requiring("6"), requiring("007")] {
            assert_eq!(heights.wait(&headers).await, Ok(()), "{headers:?}");
        }
        let refused = HeightError::NotReached { required: 8, newest: 7 };
        assert_eq!(heights.wait(&requiring("8")).await, Err(refused));
        let headers = requiring("9");
        let waiting = heights.wait(&headers);
        let advancing = async {
            for height in 8..=9 {
                tokio::task::yield_now().await;
                newest.store(height, Relaxed);
                sender.send_replace(height);
            }
        };
        assert_eq!(tokio::join!(waiting, advancing).0, Ok(()));
        let mut headers = HeaderMap::new();
        heights.state(&mut headers);
        assert_eq!(headers[HEIGHT], "9");
    }

    #[tokio::test]
    async fn only_one_decimal_number_is_a_height() {
        let (heights, ..) = heights(7);
        for text in ["", "-1", "+1", " 1", "0x1", "1.0", "latest", "18446744073709551616", "1, 2"] {
            assert_eq!(heights.wait(&requiring(text)).await, Err(HeightError::Invalid), "{text}");
        }
        let mut twice = requiring("1");
        twice.append(MIN_HEIGHT, HeaderValue::from_static("1"));
        assert_eq!(heights.wait(&twice).await, Err(HeightError::Invalid));
    }
}
