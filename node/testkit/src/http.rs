//! A minimal HTTP/1.1 client that sends given bytes.

use crate::MAX_WAIT;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Sends bytes and reads the HTTP response to the end of the connection.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let (status, _, body) = exchange_with_head(address, request).await;
    (status, body)
}

/// The same with the head of the response.
pub async fn exchange_with_head(address: SocketAddr, request: &[u8]) -> (u16, String, String) {
    let talk = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A server that has already refused the request may close the connection before it has read everything.
        let _ = stream.write_all(request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    };
    let answer = tokio::time::timeout(MAX_WAIT, talk).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
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
