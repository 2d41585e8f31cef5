//! Who may ask: the names this server goes by, and the pages that may use it.
//!
//! A page of a stranger can point a name of its own at this machine (DNS rebinding) and then is
//! "the same origin"; the name gives it away. Otherwise a browser asks first (CORS), except for
//! WebSockets, whose origin has to be checked here.

use std::net::IpAddr;

/// Names that requests may be addressed to.
#[derive(Debug)]
pub(super) struct Hosts {
    names: Vec<String>,
    any: bool,
}

impl Hosts {
    pub(super) fn new(names: &[String]) -> Self {
        let any = names.iter().any(|name| name == "*");
        Self { names: names.iter().map(|name| name.to_ascii_lowercase()).collect(), any }
    }

    /// Whether a request with this `Host` is for us. Addresses need no name service and so cannot
    /// be misled; a request without `Host` is of no browser.
    pub(super) fn allow(&self, host: Option<&str>) -> bool {
        let Some(host) = host.filter(|_| !self.any) else { return true };
        let name = without_port(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Origins whose pages may read answers.
#[derive(Debug)]
pub(super) struct Origins(Vec<String>);

impl Origins {
    pub(super) fn new(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect())
    }

    /// Whether a pattern fits: `*`, an origin, or one with `:*` for any port.
    pub(super) fn allow(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        self.0.iter().any(|pattern| match pattern.strip_suffix(":*") {
            Some(host) => {
                let port = origin.strip_prefix(host);
                port.is_some_and(|port| {
                    let digits = port.strip_prefix(':').unwrap_or(port);
                    port.is_empty()
                        || (port.len() > digits.len()
                            && digits.bytes().all(|byte| byte.is_ascii_digit()))
                })
            }
            None => pattern == "*" || *pattern == origin,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::JsonRpc;

    #[test]
    fn names_of_others_are_refused() {
        let hosts = Hosts::new(&JsonRpc::default().allowed_hosts);
        for host in ["localhost", "LOCALHOST:8545", "127.0.0.1:8545", "[::1]:8545", "10.1.2.3"] {
            assert!(hosts.allow(Some(host)), "{host}");
        }
        for host in ["evil.example", "evil.example:8545", "localhost.evil.example", ""] {
            assert!(!hosts.allow(Some(host)), "{host}");
        }
        assert!(hosts.allow(None));
        assert!(Hosts::new(&["*".to_owned()]).allow(Some("evil.example")));
        assert!(Hosts::new(&["Node.Example".to_owned()]).allow(Some("node.example:80")));
    }

    #[test]
    fn pages_of_others_are_refused() {
        let origins = Origins::new(&JsonRpc::default().cors_origins);
        for origin in ["http://localhost:3000", "http://localhost", "http://127.0.0.1:5173"] {
            assert!(origins.allow(origin), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:1@x",
            "null",
        ] {
            assert!(!origins.allow(origin), "{origin}");
        }
        assert!(Origins::new(&["*".to_owned()]).allow("https://any.example"));
        assert!(!Origins::new(&[]).allow("http://localhost:3000"));
    }
}
