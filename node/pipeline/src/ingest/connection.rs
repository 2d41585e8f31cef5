//! One TCP connection of the ingest stage: reads frames and writes replies.

use super::{BatchSpace, MAX_FRAME_BYTES};
use crate::{
    batch::{MAX_TX_BYTES, RawTx, Reply, Submitted},
    meter::Meter,
};
use alloy_primitives::Bytes;
use budget::{Account, Held, Usage};
use bytes::{Buf, BufMut, BytesMut};
use mempool::Reject;
use mio::{Registry, net::TcpStream};
use std::{
    io::{ErrorKind, Read, Write},
    sync::Arc,
};
use transactions::is_blob_tx;

/// Bytes per read from the socket.
const READ_BYTES: usize = 64 * 1024;
/// Maximum bytes of replies waiting for a client that does not read them; above it, its frames are not read.
const MAX_REPLY_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a connection's buffers that are not charged to its client.
const FREE_BYTES: usize = READ_BYTES;
/// Bytes of a frame's length prefix.
const LENGTH_BYTES: usize = 4;

/// A connection; see the module documentation.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    input: BytesMut,
    output: BytesMut,
    /// Bytes of an oversized transaction still to be skipped.
    skip: usize,
    /// Number of frames passed on but not answered yet.
    unanswered: usize,
    readable: bool,
    writable: bool,
    /// The client has closed its sending side, or sent an oversized frame. Nothing more is read, and the connection is
    /// closed when every frame has been answered.
    ended: bool,
    /// The connection has failed.
    broken: bool,
    /// The batch became full, so `input` may still contain frames.
    more: bool,
    account: Arc<Account>,
    /// The accounted memory of both buffers.
    usage: Usage,
    /// The connection permit, released on drop.
    _permit: Held,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, account: Arc<Account>, permit: Held) -> Self {
        // Without Nagle's algorithm, small replies do not wait for each other. A failure only costs latency.
        drop(stream.set_nodelay(true));
        Self {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            skip: 0,
            unanswered: 0,
            readable: true,
            writable: true,
            ended: false,
            broken: false,
            more: false,
            usage: account.buffer(FREE_BYTES),
            account,
            _permit: permit,
        }
    }

    /// Returns whether the connection was evicted in favour of another client.
    pub(super) fn is_evicted(&self) -> bool {
        self.account.owner.is_evicted()
    }

    /// Accounts for both buffers. If the budget does not permit them to grow, the connection fails.
    fn account_for_buffers(&mut self) {
        let bytes = self.input.len() + self.output.len();
        self.broken |= self.usage.grow_to(bytes).is_err();
    }

    pub(super) fn became_ready(&mut self, readable: bool, writable: bool) {
        self.account.owner.touch();
        self.readable |= readable;
        self.writable |= writable;
    }

    /// Reads and parses frames until the batch is full or the socket is empty.
    pub(super) fn read(
        &mut self,
        id: u64,
        batch: &mut Vec<RawTx>,
        space: &mut BatchSpace,
        meter: &Meter,
    ) {
        if self.output.len() > MAX_REPLY_BYTES {
            return;
        }
        loop {
            while !space.is_full() {
                let Some(bytes) = self.cut(meter) else { break };
                space.take(bytes.as_ref().map_or(0, |bytes| bytes.len()));
                self.unanswered += 1;
                batch.push(RawTx { bytes, reply: Reply::Tcp(id) });
            }
            self.more = space.is_full();
            if self.more || !self.readable || self.ended || self.broken {
                return;
            }
            self.fill();
        }
    }

    fn fill(&mut self) {
        let have = self.input.len();
        self.input.resize(have + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[have..]);
        self.input.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => self.ended = true,
            Ok(_) => self.account_for_buffers(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.broken = true,
        }
    }

    /// Splits the next frame off the input, without copying it.
    fn cut(&mut self, meter: &Meter) -> Option<Result<Bytes, Box<Reject>>> {
        let skipped = self.skip.min(self.input.len());
        self.input.advance(skipped);
        self.skip -= skipped;
        if self.skip > 0 || self.ended && self.input.len() < LENGTH_BYTES {
            return None;
        }
        let length = self.input.get(..LENGTH_BYTES)?.try_into().expect("the slice has four bytes");
        let length = usize::try_from(u32::from_be_bytes(length)).expect("64-bit platform");
        if length > MAX_FRAME_BYTES {
            meter.reject("oversized_frame");
            self.ended = true;
            self.input.clear();
            return Some(Err(Reject::Oversized { size: length, limit: MAX_FRAME_BYTES }.into()));
        }
        if length > MAX_TX_BYTES {
            self.input.advance(LENGTH_BYTES);
            self.skip = length;
            return Some(Err(Reject::Oversized { size: length, limit: MAX_TX_BYTES }.into()));
        }
        if self.input.len() < LENGTH_BYTES + length {
            return None;
        }
        self.input.advance(LENGTH_BYTES);
        let raw: Bytes = self.input.split_to(length).freeze().into();
        // The blobs do not fit in a frame, and a blob transaction without them must not be accepted.
        Some(if is_blob_tx(&raw) { Err(Reject::TypeNotSupported.into()) } else { Ok(raw) })
    }

    /// Queues the reply to the oldest unanswered frame.
    pub(super) fn answer(&mut self, submitted: &Submitted) {
        self.unanswered = self.unanswered.saturating_sub(1);
        match submitted {
            Ok(hash) => {
                self.output.put_u8(0);
                self.output.put_slice(hash.as_slice());
            }
            Err(reject) => self.put_error(&reject.to_string()),
        }
        self.account_for_buffers();
    }

    fn put_error(&mut self, text: &str) {
        self.output.put_u8(1);
        self.output.put_u32(u32::try_from(text.len()).expect("error texts are short"));
        self.output.put_slice(text.as_bytes());
    }

    /// Writes as much as the socket accepts.
    pub(super) fn write(&mut self) {
        while self.writable && !self.broken && !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
        }
        self.release_buffers();
        self.usage.shrink_to(self.input.len() + self.output.len());
    }

    /// Frees empty buffers, which would otherwise keep capacity that is no longer accounted for.
    fn release_buffers(&mut self) {
        if self.output.is_empty() && self.output.capacity() > FREE_BYTES {
            self.output = BytesMut::new();
        }
        // Frames that were split off share the buffer's memory, regardless of its remaining capacity.
        if self.input.is_empty() && !self.readable {
            self.input = BytesMut::new();
        }
    }

    /// Returns whether no reply is waiting, or none can be sent any more.
    pub(super) fn is_flushed(&self) -> bool {
        self.broken || self.output.is_empty()
    }

    /// Returns whether the connection can be closed.
    pub(super) fn is_over(&self) -> bool {
        let answered = self.unanswered == 0 && self.output.is_empty();
        self.broken || self.is_evicted() || self.ended && answered && !self.more
    }

    pub(super) fn deregister(&mut self, registry: &Registry) {
        // Closing the socket also removes it from the poller.
        drop(registry.deregister(&mut self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use budget::{Budget, Evictable};
    use config::Config;
    use std::net::{TcpListener, TcpStream as Client};

    /// Creates a connection and its client.
    fn pair(budget: &Budget) -> (Connection, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = Client::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let owner = std::sync::Arc::<Evictable>::default();
        let permit = budget.ingest.acquire(from.ip(), 1, &owner).unwrap();
        let account = budget.account(from.ip(), &owner);
        (Connection::new(TcpStream::from_std(stream), account, permit), client)
    }

    /// Otherwise, the buffers of connections that were once busy and are now idle would fill the memory.
    #[test]
    fn an_idle_connection_keeps_no_buffers() {
        let budget = Budget::new(&Config::default());
        let (mut connection, mut client) = pair(&budget);
        let refused = Err(Reject::TypeNotSupported.into());
        while connection.output.len() < 1 << 20 {
            connection.answer(&refused);
        }
        assert!(budget.memory.reading().used >= 1 << 20);
        let mut read = vec![0; 1 << 20];
        while !connection.output.is_empty() {
            connection.became_ready(false, true);
            connection.write();
            client.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
            // A read without data is not an error here.
            let _ = client.read(&mut read);
        }
        assert!(connection.output.capacity() <= FREE_BYTES, "{}", connection.output.capacity());

        // The buffer of a frame is released after the frame, if no other follows.
        let frame = [&(MAX_TX_BYTES as u32).to_be_bytes()[..], &vec![7; MAX_TX_BYTES]].concat();
        client.write_all(&frame).unwrap();
        let (mut batch, mut space) = (Vec::new(), BatchSpace::default());
        while batch.is_empty() || connection.readable {
            connection.became_ready(true, true);
            connection.read(0, &mut batch, &mut space, &Meter::new("ingest"));
        }
        connection.write();
        assert_eq!((connection.input.capacity(), budget.memory.reading().used), (0, 0));
    }
}
