//! A minimal HTTP/1.1 client, which sends a request as given, byte for byte.

use crate::MAX_WAIT;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends a request and reads until the server closes the connection; returns status and body of the response. The
/// status is 0 if there is no valid response.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let (status, _, body) = exchange_with_head(address, request).await;
    (status, body)
}

/// Like [`exchange`], but returns `(status, head, body)`.
pub async fn exchange_with_head(address: SocketAddr, request: &[u8]) -> (u16, String, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that refuses the request may close the connection before it has read all of it.
        let _ = stream.write_all(request).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        response
    };
    let response = tokio::time::timeout(MAX_WAIT, exchange).await.expect("the exchange ends");
    let response = String::from_utf8_lossy(&response).into_owned();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
        unchunk(body)
    } else {
        body.to_owned()
    };
    (status, head.to_owned(), body)
}

/// Joins the chunks of a chunked body.
fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
