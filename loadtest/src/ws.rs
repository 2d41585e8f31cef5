//! The subset of WebSocket (RFC 6455) that a load needs: sending text messages and receiving complete
//! messages.

use crate::http::Url;
use anyhow::{Context, bail};
use std::{
    io::{Read, Write},
    net::TcpStream,
    ops::Range,
};

/// Maximum bytes of a frame of a received message.
const MAX_MESSAGE_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum bytes of the response to the handshake.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Creates the handshake request.
pub(crate) fn handshake_request(url: &Url) -> Vec<u8> {
    // The key must be 16 bytes in base64. It need not be secret.
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: bG9hZHRlc3QtbG9hZHRlcw==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        url.path, url.host
    )
    .into_bytes()
}

/// Opens a WebSocket on a new connection. Returns the bytes received after the handshake response.
pub(crate) fn handshake(stream: &mut TcpStream, url: &Url) -> anyhow::Result<Vec<u8>> {
    stream.write_all(&handshake_request(url))?;
    let mut input = Vec::new();
    loop {
        let mut buffer = [0; 1024];
        let read = stream.read(&mut buffer).context("waiting for the WebSocket handshake")?;
        if read == 0 {
            bail!("the node closed the connection during the WebSocket handshake");
        }
        input.extend_from_slice(&buffer[..read]);
        if let Some(end) = memchr::memmem::find(&input, b"\r\n\r\n") {
            if !input.starts_with(b"HTTP/1.1 101") {
                let line = input.split(|byte| *byte == b'\r').next().unwrap_or_default();
                bail!("{} does not support WebSocket: {}", url.text, String::from_utf8_lossy(line));
            }
            return Ok(input.split_off(end + 4));
        }
        if input.len() > MAX_HEAD_BYTES {
            bail!("{}: the handshake response is longer than {MAX_HEAD_BYTES} bytes", url.text);
        }
    }
}

/// Appends a text message to the output buffer. Clients must mask; the mask 0 is allowed and avoids
/// a pass over the bytes.
pub(crate) fn append_text(out: &mut Vec<u8>, message: &[u8]) {
    append_frame(out, 0x81, message);
}

/// Appends the pong that answers a ping.
pub(crate) fn append_pong(out: &mut Vec<u8>, payload: &[u8]) {
    append_frame(out, 0x8a, payload);
}

fn append_frame(out: &mut Vec<u8>, first: u8, payload: &[u8]) {
    out.push(first);
    match payload.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        middle @ 126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// A received message or control frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A message in one frame.
    Message(Range<usize>),
    /// The concatenated payloads of a fragmented message.
    Joined(Vec<u8>),
    /// A ping with its payload, to be answered with a pong.
    Ping(Range<usize>),
    /// A pong, which needs no answer.
    Pong,
    /// The server closes the connection.
    Close,
}

/// Parses the frame at the start of `input` and returns it with its length, or `None` while it is
/// incomplete.
pub(crate) fn read(input: &[u8]) -> anyhow::Result<Option<(usize, Frame)>> {
    let Some((first, payload)) = parse_frame(input)? else { return Ok(None) };
    let end = payload.end;
    let frame = match first & 0x0f {
        1 | 2 if first & 0x80 != 0 => Frame::Message(payload),
        1 | 2 => {
            let mut joined = input[payload].to_vec();
            let mut at = end;
            loop {
                let Some((first, payload)) = parse_frame(&input[at..])? else { return Ok(None) };
                if first & 0x0f != 0 {
                    bail!("a WebSocket frame within a fragmented message");
                }
                joined.extend_from_slice(&input[at..][payload.clone()]);
                at += payload.end;
                if first & 0x80 != 0 {
                    return Ok(Some((at, Frame::Joined(joined))));
                }
            }
        }
        8 => Frame::Close,
        9 => Frame::Ping(payload),
        10 => Frame::Pong,
        other => bail!("a WebSocket frame of unknown kind {other}"),
    };
    Ok(Some((end, frame)))
}

/// Parses one frame; returns its first byte and its payload.
fn parse_frame(input: &[u8]) -> anyhow::Result<Option<(u8, Range<usize>)>> {
    let &[first, second, ref rest @ ..] = input else { return Ok(None) };
    if second & 0x80 != 0 {
        bail!("a masked WebSocket frame from a server");
    }
    let (start, length) = match (second, rest) {
        (126, &[a, b, ..]) => (4, u64::from(u16::from_be_bytes([a, b]))),
        (127, &[a, b, c, d, e, f, g, h, ..]) => (10, u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        (126 | 127, _) => return Ok(None),
        (length, _) => (2, u64::from(length)),
    };
    if length > MAX_MESSAGE_BYTES {
        bail!("a message has {length} bytes, the maximum is {MAX_MESSAGE_BYTES}");
    }
    let end = start + length as usize;
    Ok((input.len() >= end).then_some((first, start..end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut masked = Vec::new();
        append_frame(&mut masked, first, payload);
        let head = masked.len() - payload.len() - 4;
        let mut frame = masked[..head].to_vec();
        frame[1] &= 0x7f;
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn message_is_parsed_only_when_complete() {
        for length in [0, 125, 126, 65_535, 65_536] {
            let payload = vec![7; length];
            let frame = server_frame(0x81, &payload);
            for end in [1, 2, 3, frame.len() - 1] {
                let end = end.min(frame.len() - 1);
                assert_eq!(read(&frame[..end]).unwrap(), None, "{length} {end}");
            }
            let (used, read) = read(&frame).unwrap().unwrap();
            assert_eq!(used, frame.len());
            let Frame::Message(range) = read else { panic!("{read:?}") };
            assert_eq!(frame[range], payload);
        }
    }

    #[test]
    fn fragments_are_joined() {
        let mut input = server_frame(0x01, b"ab");
        input.extend(server_frame(0x00, b"cd"));
        assert_eq!(read(&input).unwrap(), None);
        input.extend(server_frame(0x80, b"e"));
        let (used, frame) = read(&input).unwrap().unwrap();
        assert_eq!((used, frame), (input.len(), Frame::Joined(b"abcde".to_vec())));
    }

    #[test]
    fn control_frames_are_distinguished() {
        let (_, frame) = read(&server_frame(0x89, b"hi")).unwrap().unwrap();
        assert_eq!(frame, Frame::Ping(2..4));
        let (_, frame) = read(&server_frame(0x88, &[])).unwrap().unwrap();
        assert_eq!(frame, Frame::Close);
        assert!(read(&[0x8f, 0]).is_err());
        assert!(read(&[0x81, 0x80, 0, 0, 0, 0]).is_err());
    }
}
