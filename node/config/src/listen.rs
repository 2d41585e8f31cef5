//! The type of the address settings of servers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, net::SocketAddr, str::FromStr};

/// The text of a server that is off.
const OFF: &str = "off";

/// The address at which a server listens. Its text form is an IP address with a port, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The server does not run.
    Off,
    /// At an address. With port 0, the kernel chooses the port.
    At(SocketAddr),
}

/// The text is neither an address nor `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an IP address and a port, such as 127.0.0.1:8545, or off")]
pub struct InvalidListen;

impl Listen {
    /// Returns the address; `None` if the server is off.
    pub const fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::At(address) => Some(address),
        }
    }

    /// Returns the same address with a port that is higher by `offset`; `None` if there is no such port. Port 0 stays,
    /// because the kernel chooses the port.
    pub fn shifted(self, offset: u16) -> Option<Self> {
        let Self::At(mut address) = self else { return Some(self) };
        if address.port() != 0 {
            address.set_port(address.port().checked_add(offset)?);
        }
        Some(Self::At(address))
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl FromStr for Listen {
    type Err = InvalidListen;

    fn from_str(text: &str) -> Result<Self, InvalidListen> {
        match text {
            OFF => Ok(Self::Off),
            text => text.parse().map(Self::At).map_err(|_| InvalidListen),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let text = String::deserialize(source)?;
        text.parse().map_err(|reason| D::Error::custom(format!("{reason}, got {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_an_address_or_off() {
        for text in ["off", "127.0.0.1:0", "[::1]:8545"] {
            assert_eq!(
                text.parse::<Listen>().map(|listen| listen.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "Off", "on", "127.0.0.1", "8545", "localhost:8545"] {
            assert_eq!(text.parse::<Listen>(), Err(InvalidListen), "{text}");
        }
    }

    #[test]
    fn ports_are_shifted_up_to_the_last_one() {
        let shifted = |text: &str, offset| {
            text.parse::<Listen>().expect("valid").shifted(offset).map(|listen| listen.to_string())
        };
        assert_eq!(shifted("off", 9), Some("off".to_owned()));
        assert_eq!(shifted("127.0.0.1:0", 9), Some("127.0.0.1:0".to_owned()));
        assert_eq!(shifted("127.0.0.1:65534", 1), Some("127.0.0.1:65535".to_owned()));
        assert_eq!(shifted("127.0.0.1:65534", 2), None);
    }
}
