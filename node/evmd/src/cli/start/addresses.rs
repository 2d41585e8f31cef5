//! Parses the addresses in the flags of `evmd start`.

use config::Listen;
use std::net::{SocketAddr, ToSocketAddrs};

/// Parses the address at which a server listens: HOST:PORT or `off`. A host name is resolved.
pub(super) fn listen(text: &str) -> Result<Listen, String> {
    const FORM: &str = "expected HOST:PORT, such as 127.0.0.1:8545, or off";
    if let Ok(listen) = text.parse() {
        return Ok(listen);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(FORM.to_owned());
    }
    let found = text.to_socket_addrs();
    let found = found.map_err(|error| format!("{FORM}; {host} has no address: {error}"))?;
    let address = listen_address(found).ok_or_else(|| format!("{FORM}; {host} has no address"))?;
    Ok(Listen::At(address))
}

/// Chooses the address to listen on for a host name. If it has several, as `localhost` often has, returns the first
/// IPv4 address, because the defaults of this program and clients that try only one address use IPv4.
fn listen_address(addresses: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let addresses: Vec<_> = addresses.collect();
    addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_host_or_port_are_refused_with_an_example() {
        for text in ["[::1]:0", "off"] {
            assert_eq!(listen(text), Ok(text.parse().unwrap()));
        }
        for text in ["", "on", "8545", ":18545", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536"] {
            let error = listen(text).unwrap_err();
            assert_eq!(error, "expected HOST:PORT, such as 127.0.0.1:8545, or off", "{text}");
        }
    }

    #[test]
    fn ipv4_address_of_a_host_name_is_preferred() {
        let [v6, v4] = ["[::1]:1", "127.0.0.1:1"].map(|address| address.parse().unwrap());
        for (addresses, chosen) in [(vec![v6, v4], v4), (vec![v4, v6], v4), (vec![v6], v6)] {
            assert_eq!(listen_address(addresses.into_iter()), Some(chosen));
        }
        assert_eq!(listen_address(std::iter::empty()), None);
    }
}
