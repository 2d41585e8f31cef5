//! A client for the frame protocol of the TCP ingest.

use alloy_primitives::B256;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};
use testkit::MAX_WAIT;

/// A connection to an ingest socket.
#[derive(Debug)]
pub struct Frames(TcpStream);

impl Frames {
    /// Connects with [`MAX_WAIT`] as the timeout of each read.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// Returns a second handle to the connection, for reading responses while frames are sent.
    pub fn twin(&self) -> Self {
        Self(self.0.try_clone().unwrap())
    }

    /// Sends frames in one write.
    pub fn send<'a>(&mut self, raw: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for raw in raw {
            bytes.extend(u32::try_from(raw.len()).unwrap().to_be_bytes());
            bytes.extend(raw);
        }
        self.0.write_all(&bytes)
    }

    /// Reads the next response: the hash of the transaction, or the text of the error.
    pub fn response(&mut self) -> io::Result<Result<B256, String>> {
        let mut status = [0];
        self.0.read_exact(&mut status)?;
        if status == [0] {
            let mut hash = B256::ZERO;
            self.0.read_exact(hash.as_mut_slice())?;
            return Ok(Ok(hash));
        }
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut text = vec![0; u32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut text)?;
        Ok(Err(String::from_utf8_lossy(&text).into_owned()))
    }
}
