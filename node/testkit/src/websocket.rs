//! A minimal WebSocket client. It ignores pings and does not validate messages, so that tests receive them as the
//! server sent them.

use serde_json::{Value, json};
use std::{collections::VecDeque, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Opcodes of frames (RFC 6455, section 11.8).
const TEXT: u8 = 1;
const CLOSE: u8 = 8;

/// A WebSocket connection to a JSON-RPC server.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    /// Notifications that arrived while [`Self::response`] waited for a response, oldest first.
    pushed: VecDeque<Value>,
}

impl Socket {
    /// Opens a connection.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Version: 13\r\n\r\n";
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Self { stream, pushed: VecDeque::new() }
    }

    /// Sends a message of up to 65,535 bytes.
    pub async fn send(&mut self, call: &str) {
        // One final text frame with a mask of zeros (RFC 6455, section 5.2).
        let mut frame = match call.len() {
            short @ 0..126 => vec![0x81, 0x80 | short as u8],
            middle @ 126..=0xffff => {
                let [high, low] = (middle as u16).to_be_bytes();
                vec![0x81, 0xfe, high, low]
            }
            long => panic!("{long} bytes in one frame"),
        };
        frame.extend([0; 4]);
        frame.extend_from_slice(call.as_bytes());
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Sends a message of any length, with an extended length field of 64 bits.
    pub async fn send_long(&mut self, call: &str) {
        let mut frame = vec![0x81, 0xff];
        frame.extend((call.len() as u64).to_be_bytes());
        frame.extend([0; 4]);
        frame.extend_from_slice(call.as_bytes());
        self.stream.write_all(&frame).await.unwrap();
    }

    /// The text of the next message that arrives. Stored notifications are ignored.
    pub async fn receive_text(&mut self) -> String {
        loop {
            // Control frames, such as pings, may arrive before the message.
            if let (TEXT, content) = self.frame().await {
                return String::from_utf8(content).unwrap();
            }
        }
    }

    /// The oldest stored notification, or else the next message that arrives.
    pub async fn receive(&mut self) -> Value {
        match self.pushed.pop_front() {
            Some(pushed) => pushed,
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Value {
        serde_json::from_str(&self.receive_text().await).unwrap()
    }

    /// Discards frames until the server closes the connection; returns the status code of the close frame.
    pub async fn closing(&mut self) -> u16 {
        loop {
            if let (CLOSE, content) = self.frame().await {
                return u16::from_be_bytes(*content.first_chunk().unwrap());
            }
        }
    }

    /// Opcode and content of the next frame (RFC 6455, section 5.2).
    async fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).await.unwrap();
        let length = match head[1] {
            126 => usize::from(self.stream.read_u16().await.unwrap()),
            127 => usize::try_from(self.stream.read_u64().await.unwrap()).unwrap(),
            short => usize::from(short),
        };
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).await.unwrap();
        (head[0] & 0x0f, content)
    }

    /// The whole response to a call. Notifications that arrive before the response are stored.
    pub async fn response(&mut self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.send(&call.to_string()).await;
        loop {
            let message = self.read().await;
            if message.get("id").is_some() {
                return message;
            }
            self.pushed.push_back(message);
        }
    }

    /// The result of a call, which must succeed.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let response = self.response(method, params).await;
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }
}
