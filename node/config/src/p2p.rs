//! Settings of the connections between validators.

use super::Listen;
use certificates::PublicKey;
use serde::{Deserialize, Serialize};
use std::{fmt, net::IpAddr, str::FromStr};

/// Maximum number of characters of a host name (RFC 1035).
const MAX_HOST_CHARS: usize = 253;

/// `[p2p]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct P2p {
    /// The address to listen on for the other validators. Only they can connect, with the keys in the genesis.
    pub address: Listen,
    /// The other validators: the consensus key, `@`, and the host and port at which each listens.
    pub peers: Vec<ValidatorAddress>,
}

impl Default for P2p {
    fn default() -> Self {
        Self { address: Listen::Off, peers: Vec::new() }
    }
}

/// The address at which a validator listens. Its text form is `KEY@HOST:PORT`, with an IPv6 address in brackets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ValidatorAddress {
    /// Its consensus key.
    pub key: PublicKey,
    /// An IP address or a host name.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The text is not the address of a validator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} must be the consensus key of a validator, @, its host and its port, such as 0x3d40...660c@10.0.0.2:26656: {reason}"
)]
pub struct InvalidValidatorAddress {
    text: String,
    reason: &'static str,
}

impl FromStr for ValidatorAddress {
    type Err = InvalidValidatorAddress;

    fn from_str(text: &str) -> Result<Self, InvalidValidatorAddress> {
        let error = |reason| InvalidValidatorAddress { text: text.to_owned(), reason };
        let (key, address) = text.split_once('@').ok_or_else(|| error("it has no @"))?;
        let key = key.parse().map_err(|_| error("the key is not an ed25519 public key in hex"))?;
        let (host, port) = address.rsplit_once(':').ok_or_else(|| error("it has no port"))?;
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| error("the port is not 1 to 65535"))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_host = !host.is_empty() && host.len() <= MAX_HOST_CHARS && host.bytes().all(is_name);
        if !is_host && host.parse::<IpAddr>().is_err() {
            return Err(error("the host is not a name or an IP address"));
        }
        Ok(Self { key, host: host.to_owned(), port })
    }
}

impl fmt::Display for ValidatorAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, host, port } = self;
        if host.contains(':') {
            write!(f, "{key}@[{host}]:{port}")
        } else {
            write!(f, "{key}@{host}:{port}")
        }
    }
}

impl TryFrom<String> for ValidatorAddress {
    type Error = InvalidValidatorAddress;

    fn try_from(text: String) -> Result<Self, InvalidValidatorAddress> {
        text.parse()
    }
}

impl From<ValidatorAddress> for String {
    fn from(address: ValidatorAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for host in ["10.0.0.1:1", "[::1]:26656", "validator-0:65535", "a.example.org:26656"] {
            let text = format!("{KEY}@{host}");
            assert_eq!(text.parse::<ValidatorAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        let long = format!("{KEY}@{}:1", "a".repeat(MAX_HOST_CHARS + 1));
        let zero = format!("{KEY}@10.0.0.1:0");
        let high = format!("{KEY}@10.0.0.1:65536");
        let (no_port, no_host) = (format!("{KEY}@10.0.0.1"), format!("{KEY}@:1"));
        for (text, reason) in [
            ("10.0.0.1:1", "no @"),
            ("0x12@10.0.0.1:1", "the key"),
            (&no_port, "no port"),
            (&zero, "the port"),
            (&high, "the port"),
            (&no_host, "the host"),
            (&long, "the host"),
            (&format!("{KEY}@a b:1"), "the host"),
            (&format!("{KEY}@[::1:1"), "the host"),
        ] {
            let error = text.parse::<ValidatorAddress>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
