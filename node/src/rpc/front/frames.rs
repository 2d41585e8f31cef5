//! The messages in a WebSocket's bytes, by the heads of their frames (RFC 6455, section 5.2).

/// Bytes of the longest head: two, eight of length, four of mask.
const HEAD_MAX: usize = 14;
/// In the first byte: the frame is the last of its message.
const FIN: u8 = 0x80;
/// In the first byte, of the four that say what the frame is: it is no part of a message.
const CONTROL: u8 = 0x08;
/// In the second byte: the payload is masked.
const MASKED: u8 = 0x80;

/// Goes through the bytes of one direction.
#[derive(Debug, Default)]
pub(super) struct Frames {
    head: [u8; HEAD_MAX],
    /// Bytes of the head that have come.
    have: usize,
    /// Bytes to come of the payload of the frame before.
    payload: u64,
    /// Bytes of the message's frames before this one.
    before: u64,
}

impl Frames {
    /// Goes on through these bytes; `message` gets the bytes of each message whose last frame begins in
    /// them.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut message: impl FnMut(u64)) {
        loop {
            let skipped = usize::try_from(self.payload).map_or(bytes.len(), |n| n.min(bytes.len()));
            self.payload -= skipped as u64;
            let Some((next, rest)) = bytes[skipped..].split_first() else { return };
            bytes = rest;
            self.head[self.have] = *next;
            self.have += 1;
            let Some(payload) = self.length() else { continue };
            (self.have, self.payload) = (0, payload);
            if self.head[0] & CONTROL != 0 {
                continue;
            }
            self.before = self.before.saturating_add(payload);
            if self.head[0] & FIN != 0 {
                message(std::mem::take(&mut self.before));
            }
        }
    }

    /// Bytes of the payload, once the head is whole.
    fn length(&self) -> Option<u64> {
        let second = *self.head[..self.have].get(1)?;
        let (short, mask) = (second & !MASKED, if second & MASKED == 0 { 0 } else { 4 });
        let long = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.have < 2 + long + mask {
            return None;
        }
        let digits = &self.head[2..2 + long];
        let long_form = digits.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Some(if long == 0 { short.into() } else { long_form })
    }
}

/// Finds the end of the answer that makes a connection a WebSocket.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// Bytes of [`Self::END`] that have come in a row.
    matched: usize,
}

impl Handshake {
    /// Behind the last field of a head.
    const END: &[u8] = b"\r\n\r\n";

    /// What is behind the answer in these bytes, which go on where the last ones ended.
    pub(super) fn behind<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while self.matched < Self::END.len()
            && let Some((next, after)) = rest.split_first()
        {
            let again = usize::from(*next == Self::END[0]);
            let goes_on = *next == Self::END[self.matched];
            self.matched = if goes_on { self.matched + 1 } else { again };
            rest = after;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame of so many bytes.
    fn frame(first: u8, length: usize, masked: bool) -> Vec<u8> {
        let mask = if masked { MASKED } else { 0 };
        let mut frame = vec![first];
        match length {
            0..126 => frame.push(mask | length as u8),
            126..0x1_0000 => {
                frame.push(mask | 126);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                frame.push(mask | 127);
                frame.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        frame.extend(vec![0xff; if masked { 4 } else { 0 } + length]);
        frame
    }

    /// All that is found in these bytes, cut into pieces.
    fn found(bytes: &[u8], piece: usize) -> Vec<u64> {
        let (mut frames, mut found) = (Frames::default(), Vec::new());
        bytes.chunks(piece).for_each(|piece| frames.pass(piece, |bytes| found.push(bytes)));
        found
    }

    proptest! {
        #[test]
        fn messages_are_found_wherever_the_bytes_are_cut(
            lengths in prop::collection::vec((prop_oneof![0..200_usize, 65_530..65_540_usize], 0..3_u8), 0..12),
            masked: bool,
            piece in 1..100_usize,
        ) {
            let (mut bytes, mut expected, mut parts) = (Vec::new(), Vec::new(), 0);
            for (length, kind) in lengths {
                // A text that is whole or ends; a part of one; a ping, which may be between parts.
                let first = [FIN | 1, 1, FIN | 9][usize::from(kind)];
                let length = if kind == 2 { length % 126 } else { length };
                bytes.extend(frame(first, length, masked));
                match kind {
                    0 => expected.push(std::mem::take(&mut parts) + length as u64),
                    1 => parts += length as u64,
                    _ => {}
                }
            }
            prop_assert_eq!(found(&bytes, piece), expected);
        }
    }

    #[test]
    fn what_is_behind_the_handshake_is_told_wherever_it_is_cut() {
        let bytes = b"HTTP/1.1 101 Switching\r\nA: b\r\r\n\r\n\x81\x01x\r\n\r\ny";
        let behind = b"\x81\x01x\r\n\r\ny";
        for piece in 1..bytes.len() {
            let mut handshake = Handshake::default();
            let found = bytes.chunks(piece).flat_map(|piece| handshake.behind(piece).to_vec());
            assert_eq!(found.collect::<Vec<_>>(), behind, "{piece}");
        }
    }
}
