//! Checks the host name of a request and the origin of the page that sent it. All HTTP servers of the node except
//! gRPC apply these rules.
//!
//! A malicious page can resolve its own domain to this machine (DNS rebinding). The browser then treats the
//! page and this server as one origin, and only the `Host` field shows the difference. For other pages the
//! browser enforces CORS. It does not do so for WebSockets, so the server must check the origin that opens one.

mod rules;

pub use rules::{Access, Cors, PageRules};

use hyper::{
    HeaderMap, Request, StatusCode, Version,
    header::{HOST, HeaderValue, ORIGIN},
};
use std::{fmt, net::IpAddr};

/// Host names that requests may use.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The setting that lists the names, for error messages.
    setting: &'static str,
    names: Vec<String>,
    any: bool,
}

/// Why the host of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostError {
    /// HTTP/1.1 requires exactly one valid `Host` field (RFC 9112, section 3.2).
    Invalid,
    /// The host is not one of the names in this setting.
    NotAllowed(&'static str),
}

impl HostError {
    /// The status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::NotAllowed(_) => StatusCode::FORBIDDEN,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid => f.write_str("an HTTP/1.1 request must have exactly one Host header"),
            Self::NotAllowed(setting) => write!(f, "this host is not allowed: see {setting}"),
        }
    }
}

impl Hosts {
    /// `names` are the value of `setting`; `*` accepts every name.
    pub fn new(setting: &'static str, names: &[String]) -> Self {
        let any = names.iter().any(|name| name == "*");
        Self { setting, names: names.iter().map(|name| name.to_ascii_lowercase()).collect(), any }
    }

    /// Checks the host of a request. HTTP/1.0 requests, such as simple health checks, may omit `Host`.
    ///
    /// # Errors
    /// If the host is missing (HTTP/1.1), repeated, unreadable or not allowed.
    pub fn check<B>(&self, request: &Request<B>) -> Result<(), HostError> {
        let mut fields = request.headers().get_all(HOST).iter();
        let field = match (fields.next(), fields.next()) {
            (Some(_), Some(_)) => return Err(HostError::Invalid),
            (Some(field), None) => Some(field.to_str().map_err(|_| HostError::Invalid)?),
            (None, _) if request.version() == Version::HTTP_11 => return Err(HostError::Invalid),
            (None, _) => None,
        };
        // The authority of the request target takes precedence over the field (section 3.2.2).
        let authority = request.uri().authority().map(|authority| authority.as_str());
        match authority.or(field) {
            Some(host) if !self.allow(host) => Err(HostError::NotAllowed(self.setting)),
            _ => Ok(()),
        }
    }

    /// IP addresses are always allowed: they are not resolved, so rebinding cannot use them.
    fn allow(&self, host: &str) -> bool {
        let name = without_port(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        self.any
            || bare.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// A request has several `Origin` fields. Whichever one is checked, a proxy or a browser may use another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedOrigin;

impl fmt::Display for RepeatedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request must have at most one Origin header")
    }
}

/// The origin of the page that sends a request; `None` if it is not sent by a page.
///
/// # Errors
/// If there are several origins.
pub fn origin(headers: &HeaderMap) -> Result<Option<&HeaderValue>, RepeatedOrigin> {
    let mut origins = headers.get_all(ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (_, Some(_)) => Err(RepeatedOrigin),
        (origin, None) => Ok(origin),
    }
}

/// Origins whose pages may read responses.
#[derive(Clone, Debug)]
pub struct Origins(Vec<String>);

impl Origins {
    /// The origins that match at least one of these patterns; see [`Origins::allow`].
    pub fn new(patterns: &[String]) -> Self {
        Self(patterns.iter().map(|pattern| pattern.to_ascii_lowercase()).collect())
    }

    /// Whether a pattern matches: `*`, an origin, or an origin with `:*`, which stands for any port or none.
    pub fn allow(&self, origin: &str) -> bool {
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
    use config::JsonRpc;

    const SETTING: &str = "json-rpc.allowed-hosts";

    /// A request with these `Host` fields.
    fn request(version: Version, target: &str, hosts: &[&[u8]]) -> Request<()> {
        let mut request = Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn only_known_hosts_and_addresses_are_allowed() {
        let hosts = Hosts::new(SETTING, &JsonRpc::default().allowed_hosts);
        let check = |hosts: &Hosts, host: &str| {
            hosts.check(&request(Version::HTTP_11, "/", &[host.as_bytes()]))
        };
        for host in ["localhost", "LOCALHOST:8545", "127.0.0.1:8545", "[::1]:8545", "10.1.2.3"] {
            assert_eq!(check(&hosts, host), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8545", "localhost.evil.example", ""] {
            assert_eq!(check(&hosts, host), Err(HostError::NotAllowed(SETTING)), "{host}");
        }
        assert_eq!(check(&Hosts::new(SETTING, &["*".to_owned()]), "evil.example"), Ok(()));
        assert_eq!(
            check(&Hosts::new(SETTING, &["Node.Example".to_owned()]), "node.example:80"),
            Ok(())
        );
    }

    #[test]
    fn http_1_1_requires_exactly_one_host() {
        for names in ["localhost", "*"] {
            let hosts = Hosts::new(SETTING, &[names.to_owned()]);
            let check =
                |version, target, fields: &[&[u8]]| hosts.check(&request(version, target, fields));
            let one: &[&[u8]] = &[b"localhost"];
            let two: &[&[u8]] = &[b"localhost", b"localhost"];
            assert_eq!(check(Version::HTTP_11, "/", &[]), Err(HostError::Invalid));
            assert_eq!(check(Version::HTTP_11, "/", one), Ok(()));
            assert_eq!(check(Version::HTTP_11, "/", two), Err(HostError::Invalid));
            assert_eq!(check(Version::HTTP_11, "/", &[b"\xff"]), Err(HostError::Invalid));
            assert_eq!(check(Version::HTTP_11, "http://localhost/", &[]), Err(HostError::Invalid));
            assert_eq!(check(Version::HTTP_10, "/", &[]), Ok(()), "a health check");
            assert_eq!(check(Version::HTTP_10, "/", two), Err(HostError::Invalid));
            assert_eq!(check(Version::HTTP_2, "http://localhost/", &[]), Ok(()));
        }
    }

    #[test]
    fn authority_of_the_target_takes_precedence() {
        let hosts = Hosts::new(SETTING, &["localhost".to_owned()]);
        let check = |target, host: &[u8]| hosts.check(&request(Version::HTTP_11, target, &[host]));
        assert_eq!(check("http://localhost/", b"evil.example"), Ok(()));
        assert_eq!(
            check("http://evil.example/", b"localhost"),
            Err(HostError::NotAllowed(SETTING))
        );
    }

    #[test]
    fn only_known_origins_are_allowed() {
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
