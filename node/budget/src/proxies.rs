//! Reverse proxies that are trusted to name the address of a client.

use config::Network;
use hyper::header::{FORWARDED, HeaderMap, HeaderName};
use std::net::{IpAddr, SocketAddr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum number of hops that are read from the headers, more than a chain of proxies has.
const MAX_HOPS: usize = 32;

/// The trusted proxies.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Creates the list of the proxies in the settings.
    pub fn new(networks: &[Network]) -> Self {
        Self(networks.to_vec())
    }

    /// Returns whether a peer is one of the proxies.
    pub fn contains(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(peer))
    }

    /// Returns the address of the client that sent a request: the address of the peer, or, if the peer is a trusted
    /// proxy, the right-most address in `Forwarded` or `X-Forwarded-For` that is not a trusted proxy. The
    /// client can forge the addresses to the left of it. A proxy usually appends to one of these headers and
    /// forwards the other one, so if they name different clients, one of them is forged, and the request counts
    /// for the proxy.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contains(peer) {
            return peer;
        }
        let client_in = |name: HeaderName, read: ReadHop| {
            let is_present = headers.contains_key(&name);
            is_present.then(|| self.right_most(peer, hops(headers, &name, read)))
        };
        match (client_in(X_FORWARDED_FOR, address), client_in(FORWARDED, forwarded_for)) {
            (Some(one), Some(other)) if one != other => peer,
            (one, other) => one.or(other).unwrap_or(peer),
        }
    }

    /// Returns the right-most of these addresses that is not a trusted proxy, or the left-most proxy that was examined.
    fn right_most(&self, peer: IpAddr, hops: Vec<Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.into_iter().rev().take(MAX_HOPS) {
            // The addresses to the left of a hop that cannot be parsed are not trusted.
            let Some(address) = hop else { break };
            client = address;
            if !self.contains(address) {
                break;
            }
        }
        client
    }
}

/// Parses an element of a header.
type ReadHop = fn(&str) -> Option<IpAddr>;

/// Returns the addresses that the proxies appended, the latest one last; `None` for an element that is not an address.
fn hops(headers: &HeaderMap, name: &HeaderName, read: ReadHop) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or(""));
    lines.flat_map(|line| line.split(',')).map(|hop| read(hop.trim())).collect()
}

/// Returns the address of `for=` in an element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, node) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("for"))?;
    address(node.trim_matches('"'))
}

/// Parses an address with or without a port, IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let address = bare.parse::<IpAddr>().ok().or_else(with_port)?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        pairs.collect()
    }

    fn client(trusted: &[&str], peer: &str, lines: &[(&'static str, &'static str)]) -> String {
        let networks: Vec<Network> = trusted.iter().map(|text| text.parse().unwrap()).collect();
        let proxies = TrustedProxies::new(&networks);
        proxies.client(peer.parse().unwrap(), &headers(lines)).to_string()
    }

    #[test]
    fn only_a_trusted_proxy_names_the_client() {
        let line = [("x-forwarded-for", "203.0.113.1")];
        assert_eq!(client(&[], "127.0.0.1", &line), "127.0.0.1");
        assert_eq!(client(&["10.0.0.0/8"], "127.0.0.1", &line), "127.0.0.1");
        assert_eq!(client(&["127.0.0.1"], "127.0.0.1", &line), "203.0.113.1");
        assert_eq!(client(&["127.0.0.0/8"], "::ffff:127.0.0.1", &line), "203.0.113.1");
        assert_eq!(client(&["::1"], "::1", &line), "203.0.113.1");
        assert_eq!(client(&["127.0.0.1"], "127.0.0.1", &[]), "127.0.0.1");
    }

    #[test]
    fn right_most_address_that_is_not_a_proxy_is_the_client() {
        let trusted = ["127.0.0.1", "10.0.0.0/8"];
        for (line, expected) in [
            ("1.1.1.1, 203.0.113.1", "203.0.113.1"),
            ("1.1.1.1, 203.0.113.1, 10.1.2.3", "203.0.113.1"),
            ("10.1.2.3, 10.1.2.4", "10.1.2.3"),
            ("1.1.1.1, unknown, 10.1.2.3", "10.1.2.3"),
            ("1.1.1.1, unknown", "127.0.0.1"),
            ("203.0.113.1:4711", "203.0.113.1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(
                client(&trusted, "127.0.0.1", &[("x-forwarded-for", line)]),
                expected,
                "{line}"
            );
        }
        let two = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "203.0.113.1")];
        assert_eq!(client(&trusted, "127.0.0.1", &two), "203.0.113.1");
    }

    #[test]
    fn forwarded_header_is_parsed() {
        for (line, expected) in [
            ("for=203.0.113.1", "203.0.113.1"),
            ("For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
            ("for=1.1.1.1, by=10.0.0.1;for=203.0.113.1", "203.0.113.1"),
            ("for=_hidden", "127.0.0.1"),
        ] {
            assert_eq!(
                client(&["127.0.0.1"], "127.0.0.1", &[("forwarded", line)]),
                expected,
                "{line}"
            );
        }
    }

    /// One of the headers was sent by the client, which wants to be counted as another client.
    #[test]
    fn headers_that_name_different_clients_count_for_the_proxy() {
        let with = |x_forwarded_for, forwarded| {
            let lines = [("x-forwarded-for", x_forwarded_for), ("forwarded", forwarded)];
            client(&["127.0.0.1"], "127.0.0.1", &lines)
        };
        assert_eq!(with("203.0.113.1", "for=203.0.113.2"), "127.0.0.1");
        assert_eq!(with("203.0.113.1", "for=unknown"), "127.0.0.1");
        assert_eq!(with("203.0.113.9, 203.0.113.1", "for=203.0.113.1"), "203.0.113.1");
    }

    #[test]
    fn networks_are_parsed_and_formatted() {
        for text in ["127.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for text in ["", "localhost", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(
            all.contains("203.0.113.1".parse().unwrap()) && !all.contains("::1".parse().unwrap())
        );
    }
}
