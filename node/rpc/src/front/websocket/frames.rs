//! Decodes and encodes the frames of a WebSocket as a server (RFC 6455, section 5).
//!
//! The decoder checks everything that the RFC requires a server to check, and holds at most one message of the maximum
//! size and one control frame.

use hyper::body::Bytes;
use std::mem;

/// Maximum length of a frame head in bytes: two, eight of length, and four of mask.
const MAX_HEAD_BYTES: usize = 14;
/// Maximum payload of a control frame in bytes (section 5.5).
const MAX_CONTROL_BYTES: u64 = 125;

/// In the first byte: the frame is the last of its message.
const FIN: u8 = 0x80;
/// In the first byte: bits for extensions. They must be 0, because no extension is negotiated.
const RESERVED: u8 = 0x70;
/// In the first byte: the opcode.
const OPCODE: u8 = 0x0f;
/// In the second byte: the payload is masked.
const MASKED: u8 = 0x80;

/// Opcodes (section 11.8).
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Status codes of close frames (section 7.4).
#[cfg(test)]
pub(super) const NORMAL: u16 = 1000;
pub(super) const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const NO_STATUS: u16 = 1005;
const INVALID_TEXT: u16 = 1007;
const TOO_LARGE: u16 = 1009;

/// A message or a control frame from the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A complete message, text or binary.
    Message(Bytes),
    Ping(Bytes),
    Pong,
    /// A close frame. The client expects the same status in return; `None` if the frame has none.
    Close(Option<u16>),
}

/// The reason why the server closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("the WebSocket client violates the protocol: {0}")]
    Protocol(&'static str),
    #[error("a WebSocket text message is not UTF-8")]
    Encoding,
    #[error("a WebSocket message has more than {0} bytes")]
    TooLarge(usize),
}

impl Violation {
    /// Returns the status of the close frame.
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Protocol(_) => PROTOCOL_ERROR,
            Self::Encoding => INVALID_TEXT,
            Self::TooLarge(_) => TOO_LARGE,
        }
    }
}

/// A frame whose payload is being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    /// Bytes of the payload that have not arrived.
    left: u64,
}

impl Frame {
    const fn is_control(self) -> bool {
        self.opcode & 0x08 != 0
    }
}

/// A message whose last frame has not been read.
#[derive(Debug, Default)]
struct Message {
    bytes: Vec<u8>,
    is_text: bool,
    /// Number of bytes from the start that are known to be UTF-8.
    valid: usize,
}

impl Message {
    /// Checks the text so far. Its last character may be incomplete unless the message is complete.
    fn check(&mut self, complete: bool) -> Result<(), Violation> {
        if !self.is_text {
            return Ok(());
        }
        let unchecked = &self.bytes[self.valid..];
        match str::from_utf8(unchecked) {
            Ok(_) => self.valid = self.bytes.len(),
            Err(error) if complete || error.error_len().is_some() => {
                return Err(Violation::Encoding);
            }
            Err(error) => self.valid += error.valid_up_to(),
        }
        Ok(())
    }
}

/// Reads the frames of a client.
#[derive(Debug)]
pub(super) struct Decoder {
    max_message_bytes: usize,
    head: [u8; MAX_HEAD_BYTES],
    /// Bytes of the head that have been read.
    head_bytes: usize,
    frame: Option<Frame>,
    control: Vec<u8>,
    message: Option<Message>,
}

impl Decoder {
    /// Returns the bytes that are allocated for a message whose end has not arrived.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.bytes.capacity())
    }

    pub(super) const fn new(max_message_bytes: usize) -> Self {
        Self {
            max_message_bytes,
            head: [0; MAX_HEAD_BYTES],
            head_bytes: 0,
            frame: None,
            control: Vec::new(),
            message: None,
        }
    }

    /// Reads from the front of `input` to the end of the next event. Returns `None` if the event is incomplete. After
    /// an error, nothing more can be read.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Violation> {
        loop {
            let mut frame = match self.frame {
                Some(frame) => frame,
                None => match self.read_head(input)? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            let length =
                usize::try_from(frame.left).map_or(input.len(), |left| left.min(input.len()));
            let (payload, rest) = input.split_at(length);
            *input = rest;
            self.read_payload(&mut frame, payload)?;
            self.frame = (frame.left > 0).then_some(frame);
            if frame.left > 0 {
                return Ok(None);
            }
            if let Some(event) = self.end_frame(frame)? {
                return Ok(Some(event));
            }
        }
    }

    /// Reads and checks the head of a frame.
    fn read_head(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        while let Some((next, rest)) = input.split_first() {
            *input = rest;
            self.head[self.head_bytes] = *next;
            self.head_bytes += 1;
            if self.head_bytes == 2 {
                self.check_start()?;
            }
            if self.head_bytes >= 2 && self.head_bytes == self.head_length() {
                self.head_bytes = 0;
                return self.begin_frame().map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the length of the head, which its second byte determines.
    const fn head_length(&self) -> usize {
        match self.head[1] & !MASKED {
            126 => 2 + 2 + 4,
            127 => 2 + 8 + 4,
            _ => 2 + 4,
        }
    }

    /// Checks the first two bytes of a head.
    fn check_start(&self) -> Result<(), Violation> {
        let [first, second, ..] = self.head;
        let protocol = |what| Err(Violation::Protocol(what));
        if first & RESERVED != 0 {
            return protocol("a reserved bit is set");
        }
        if second & MASKED == 0 {
            return protocol("a frame is not masked");
        }
        match (first & OPCODE, self.message.is_some()) {
            (CONTINUATION, false) => protocol("a continuation frame begins a message"),
            (TEXT | BINARY, true) => protocol("a message begins inside another one"),
            (CONTINUATION | TEXT | BINARY, _) => Ok(()),
            (CLOSE | PING | PONG, _) if first & FIN == 0 => {
                protocol("a control frame is fragmented")
            }
            (CLOSE | PING | PONG, _) if u64::from(second & !MASKED) > MAX_CONTROL_BYTES => {
                protocol("a control frame has more than 125 bytes")
            }
            (CLOSE | PING | PONG, _) => Ok(()),
            _ => protocol("an opcode is reserved"),
        }
    }

    /// Parses a complete head.
    fn begin_frame(&mut self) -> Result<Frame, Violation> {
        let (head, mask) = self.head[..self.head_length()].split_at(self.head_length() - 4);
        let extended = head[2..].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let (left, min) = match head[1] & !MASKED {
            126 => (extended, 126),
            127 => (extended, 1 << 16),
            short => (short.into(), 0),
        };
        if left < min || left > i64::MAX as u64 {
            return Err(Violation::Protocol("a length is not in its shortest form"));
        }
        let mut frame =
            Frame { opcode: head[0] & OPCODE, last: head[0] & FIN != 0, mask: [0; 4], left };
        frame.mask.copy_from_slice(mask);
        if frame.is_control() {
            return Ok(frame);
        }
        let is_text = frame.opcode == TEXT;
        let message = self.message.get_or_insert_with(|| Message { is_text, ..Message::default() });
        if left > (self.max_message_bytes - message.bytes.len()) as u64 {
            return Err(Violation::TooLarge(self.max_message_bytes));
        }
        Ok(frame)
    }

    /// Adds a part of the payload of a frame.
    fn read_payload(&mut self, frame: &mut Frame, payload: &[u8]) -> Result<(), Violation> {
        let bytes = match &mut self.message {
            Some(message) if !frame.is_control() => &mut message.bytes,
            _ => &mut self.control,
        };
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        unmask(&mut bytes[start..], frame.mask);
        frame.mask.rotate_left(payload.len() % 4);
        frame.left -= payload.len() as u64;
        match &mut self.message {
            Some(message) if !frame.is_control() => message.check(false),
            _ => Ok(()),
        }
    }

    /// Processes a complete frame, and returns the event that it completes.
    fn end_frame(&mut self, frame: Frame) -> Result<Option<Event>, Violation> {
        if frame.is_control() {
            let payload = mem::take(&mut self.control);
            return Ok(Some(match frame.opcode {
                PING => Event::Ping(payload.into()),
                PONG => Event::Pong,
                _ => Event::Close(close_status(&payload)?),
            }));
        }
        let Some(mut message) = self.message.take_if(|_| frame.last) else { return Ok(None) };
        message.check(true)?;
        // From now on, the length of the message is accounted. A boxed slice has no unused capacity in addition.
        Ok(Some(Event::Message(message.bytes.into_boxed_slice().into())))
    }
}

/// Masks or unmasks bytes, beginning with the first byte of the mask.
fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let wide: [u8; 16] = std::array::from_fn(|at| mask[at % 4]);
    let (chunks, rest) = bytes.as_chunks_mut::<16>();
    for chunk in chunks {
        for (byte, mask) in chunk.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in rest.iter_mut().zip(wide) {
        *byte ^= mask;
    }
}

/// Returns the status in the payload of a close frame, if a client may send it (section 7.4).
fn close_status(payload: &[u8]) -> Result<Option<u16>, Violation> {
    let Some((status, reason)) = payload.split_first_chunk() else {
        return match payload {
            [] => Ok(None),
            _ => Err(Violation::Protocol("the status of a close frame is cut short")),
        };
    };
    if str::from_utf8(reason).is_err() {
        return Err(Violation::Encoding);
    }
    match u16::from_be_bytes(*status) {
        status @ (1000..=1003 | 1007..=1014 | 3000..=4999) => Ok(Some(status)),
        _ => Err(Violation::Protocol("the status of a close frame is reserved")),
    }
}

/// Returns the head of a frame that is a complete message. Servers do not mask their frames.
fn head(opcode: u8, length: usize) -> Vec<u8> {
    let mut head = vec![FIN | opcode];
    match length {
        0..126 => head.push(length as u8),
        126..0x1_0000 => {
            head.push(126);
            head.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    head
}

/// Returns the head of a text message of this many bytes.
pub(super) fn text_head(length: usize) -> Vec<u8> {
    head(TEXT, length)
}

/// Returns a ping without payload.
pub(super) fn ping() -> Vec<u8> {
    head(PING, 0)
}

/// Returns the pong to a ping with this payload.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    [&head(PONG, payload.len()), payload].concat()
}

/// Returns a close frame. [`NO_STATUS`] must not be sent, so the frame then has no status.
pub(super) fn close(status: Option<u16>) -> Vec<u8> {
    match status.filter(|status| *status != NO_STATUS) {
        Some(status) => [&head(CLOSE, 2)[..], &status.to_be_bytes()].concat(),
        None => head(CLOSE, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 100_000;
    const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

    /// Creates a masked frame.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = head(0, payload.len());
        frame[0] = first;
        frame[1] |= MASKED;
        frame.extend(MASK);
        let start = frame.len();
        frame.extend_from_slice(payload);
        for (at, byte) in frame[start..].iter_mut().enumerate() {
            *byte ^= MASK[at % 4];
        }
        frame
    }

    fn text(text: &str) -> Event {
        Event::Message(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Decodes bytes that arrive in pieces of this length.
    fn events(bytes: &[u8], piece: usize) -> Result<Vec<Event>, Violation> {
        let (mut decoder, mut events) = (Decoder::new(MAX), Vec::new());
        for mut piece in bytes.chunks(piece) {
            while let Some(event) = decoder.next(&mut piece)? {
                events.push(event);
            }
            assert!(piece.is_empty());
        }
        Ok(events)
    }

    fn all_pieces(bytes: &[u8]) -> Result<Vec<Event>, Violation> {
        let whole = events(bytes, bytes.len().max(1));
        for piece in 1..bytes.len().min(40) {
            assert_eq!(events(bytes, piece), whole, "in pieces of {piece}");
        }
        whole
    }

    proptest! {
        #[test]
        fn messages_are_read_wherever_their_bytes_are_cut(
            parts in prop::collection::vec((prop_oneof![0..200_usize, 65_530..65_540_usize], 0..3_u8), 0..8),
            piece in 1..100_usize,
        ) {
            let (mut bytes, mut expected, mut message) = (Vec::new(), Vec::new(), Vec::new());
            let mut inside = false;
            for (length, kind) in parts {
                let payload: Vec<u8> = (0..length).map(|at| at as u8 & 0x7f).collect();
                if kind == 2 {
                    let payload = payload[..length % 126].to_vec();
                    bytes.extend(frame(FIN | PING, &payload));
                    expected.push(Event::Ping(payload.into()));
                    continue;
                }
                if message.len() + length > MAX {
                    continue;
                }
                let opcode = if inside { CONTINUATION } else { TEXT };
                let fin = if kind == 0 { FIN } else { 0 };
                bytes.extend(frame(fin | opcode, &payload));
                message.extend(payload);
                inside = kind != 0;
                if !inside {
                    expected.push(Event::Message(mem::take(&mut message).into()));
                }
            }
            prop_assert_eq!(events(&bytes, piece).unwrap(), expected);
        }
    }

    #[test]
    fn empty_frames_are_legal() {
        let bytes = [
            frame(FIN | TEXT, b""),
            frame(TEXT, b""),
            frame(CONTINUATION, b"a"),
            frame(CONTINUATION, b""),
            frame(FIN | PING, b""),
            frame(FIN | CONTINUATION, b""),
            frame(FIN | TEXT, b"b"),
        ];
        let expected = vec![text(""), Event::Ping(Bytes::new()), text("a"), text("b")];
        assert_eq!(all_pieces(&bytes.concat()), Ok(expected));
    }

    #[test]
    fn violations_of_the_protocol_are_errors() {
        let unmasked = vec![FIN | TEXT, 1, b'x'];
        let long_ping = frame(FIN | PING, &[0; 126]);
        let long_form = vec![FIN | TEXT, MASKED | 126, 0, 125, 0, 0, 0, 0];
        let longer_form = vec![FIN | TEXT, MASKED | 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
        let mut negative = vec![FIN | BINARY, MASKED | 127, 0x80];
        negative.extend([0; 11]);
        let inside = [frame(TEXT, b"a"), frame(FIN | TEXT, b"b")].concat();
        let after = [frame(FIN | TEXT, b"a"), frame(FIN | CONTINUATION, b"b")].concat();
        let mut all = vec![unmasked, long_ping, long_form, longer_form, negative, inside, after];
        all.extend([0x10, 0x20, 0x40].map(|reserved| frame(FIN | reserved | TEXT, b"x")));
        all.extend((3..8).chain(11..16).map(|opcode| frame(FIN | opcode, b"")));
        all.extend([CLOSE, PING, PONG, CONTINUATION].map(|opcode| frame(opcode, b"")));
        all.extend(
            [&b"\x03"[..], b"\x03\xe7", b"\x03\xed", b"\x03\xee", b"\x03\xf7", b"\x0b\xb7"]
                .map(|payload| frame(FIN | CLOSE, payload)),
        );
        for bytes in all {
            let violation = all_pieces(&bytes).expect_err(&format!("{bytes:x?}"));
            assert_eq!(violation.status(), PROTOCOL_ERROR, "{violation}: {bytes:x?}");
        }
    }

    #[test]
    fn text_must_be_utf_8_across_fragments() {
        let snowman = "☃".as_bytes();
        let split = [frame(TEXT, &snowman[..1]), frame(FIN | CONTINUATION, &snowman[1..])].concat();
        assert_eq!(all_pieces(&split), Ok(vec![text("☃")]));
        let cut = [frame(TEXT, b"ab"), frame(FIN | CONTINUATION, &snowman[..2])].concat();
        for bytes in [cut, frame(FIN | TEXT, b"a\xff"), frame(TEXT, b"\xc0\x80")] {
            assert_eq!(all_pieces(&bytes), Err(Violation::Encoding), "{bytes:x?}");
        }
        assert_eq!(all_pieces(&frame(FIN | CLOSE, b"\x03\xe8\xff")), Err(Violation::Encoding));
        let binary = all_pieces(&frame(FIN | BINARY, b"\xff"));
        assert_eq!(binary, Ok(vec![Event::Message(Bytes::from_static(b"\xff"))]));
    }

    #[test]
    fn a_message_above_the_maximum_is_refused() {
        let (max, one) = (vec![b'x'; MAX], [b'x']);
        assert_eq!(events(&frame(FIN | TEXT, &max), 1000).unwrap().len(), 1);
        let larger = frame(FIN | TEXT, &[&max[..], &one].concat());
        let in_parts = [frame(TEXT, &max), frame(FIN | CONTINUATION, &one)].concat();
        let mut huge = vec![FIN | BINARY, MASKED | 127, 0x7f];
        huge.extend([0xff; 11]);
        for bytes in [&larger[..14], &in_parts, &huge] {
            let violation = events(bytes, 1000).expect_err("it is too large");
            assert_eq!((violation, violation.status()), (Violation::TooLarge(MAX), TOO_LARGE));
        }
    }

    #[test]
    fn a_close_frame_is_answered_with_its_status() {
        assert_eq!(all_pieces(&frame(FIN | CLOSE, b"")), Ok(vec![Event::Close(None)]));
        let closed = all_pieces(&frame(FIN | CLOSE, b"\x03\xe8bye"));
        assert_eq!(closed, Ok(vec![Event::Close(Some(NORMAL))]));
        assert_eq!(close(Some(NORMAL)), b"\x88\x02\x03\xe8");
        assert_eq!((close(None), pong(b"a")), (b"\x88\x00".to_vec(), b"\x8a\x01a".to_vec()));
    }
}
