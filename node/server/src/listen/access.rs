//! Checks the host and the origin of requests, and adds the CORS headers to responses.

use crate::access::{self, Hosts, Origins};
use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
            ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST, UPGRADE, VARY,
        },
    },
    response::IntoResponse,
};

/// Methods that pages of allowed origins may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");
/// Headers of responses that pages may read.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("x-cosmos-block-height, grpc-metadata-x-cosmos-block-height");
/// Seconds for which a browser may cache the result of a preflight request.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("600");
/// The request header of a browser before a public page may send requests to a private address.
const PRIVATE_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The hosts and origins that a server accepts.
#[derive(Debug)]
pub struct Access {
    hosts: Hosts,
    origins: Origins,
    /// The setting that lists the origins, for error messages.
    origins_setting: &'static str,
}

/// The CORS headers for the response to an accepted request.
#[derive(Debug)]
pub(super) struct Cors(Option<HeaderValue>);

impl Access {
    /// The rules in two settings, each with its name.
    pub fn new(
        (hosts_setting, hosts): (&'static str, &[String]),
        (origins_setting, origins): (&'static str, &[String]),
    ) -> Self {
        let hosts = Hosts::new(hosts_setting, hosts);
        Self { hosts, origins: Origins::new(origins), origins_setting }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Returns the response to a preflight or refused request. A page of a foreign origin may neither open
    /// WebSockets nor post. It may send a GET, which changes nothing, but cannot read the response.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<Cors, Box<Response<Body>>> {
        if let Err(error) = self.hosts.check(request) {
            return Err(Box::new((error.status(), format!("{error}\n")).into_response()));
        }
        let headers = request.headers();
        let origin = match access::origin(headers) {
            Ok(Some(origin)) => origin,
            Ok(None) => return Ok(Cors(None)),
            Err(error) => {
                let refused = (StatusCode::BAD_REQUEST, format!("{error}\n"));
                return Err(Box::new(refused.into_response()));
            }
        };
        let allowed = self.allow(origin, headers);
        if *request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        {
            return Err(Box::new(preflight(allowed.then_some(origin), headers)));
        }
        let is_safe = *request.method() == Method::GET || *request.method() == Method::HEAD;
        if !allowed && (!is_safe || headers.contains_key(UPGRADE)) {
            let text = format!("this origin is not allowed: see {}\n", self.origins_setting);
            return Err(Box::new((StatusCode::FORBIDDEN, text).into_response()));
        }
        Ok(Cors(allowed.then(|| origin.clone())))
    }

    /// Whether an origin is in the setting, or the page comes from this server itself.
    fn allow(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let authority =
            ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let is_own = authority.zip(host).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b));
        is_own || self.origins.allow(origin)
    }
}

impl Cors {
    /// Adds the CORS headers.
    pub(super) fn apply(self, response: &mut Response<Body>) {
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = self.0 {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }
}

/// The response to a preflight request.
fn preflight(origin: Option<&HeaderValue>, asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    Cors(origin.cloned()).apply(&mut response);
    if origin.is_none() {
        return response;
    }
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
    // The origin is trusted, so all request headers are allowed.
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    if asked.contains_key(PRIVATE_ASKED) {
        headers.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let settings = config::Rest::default();
        Access::new(
            ("rest.allowed-hosts", &settings.allowed_hosts),
            ("rest.cors-origins", &settings.cors_origins),
        )
    }

    /// The status of the refusal, or the origin that may read the response.
    fn checked(method: Method, headers: &[(&str, &str)]) -> Result<Option<String>, u16> {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = Response::new(Body::empty());
        match access().check(&request.body(()).unwrap()) {
            Ok(cors) => cors.apply(&mut response),
            Err(refusal) if refusal.status() == StatusCode::OK => response = *refusal,
            Err(refusal) => return Err(refusal.status().as_u16()),
        }
        let origin = response.headers().get(ACCESS_CONTROL_ALLOW_ORIGIN);
        Ok(origin.map(|origin| origin.to_str().unwrap().to_owned()))
    }

    #[test]
    fn pages_of_foreign_origins_can_neither_read_nor_post_nor_open_websockets() {
        let local = ("host", "localhost:1317");
        let [known, foreign] = ["http://localhost:3000", "https://evil.example"];
        for method in [Method::GET, Method::POST] {
            let allowed = checked(method.clone(), &[local, ("origin", known)]);
            assert_eq!(allowed, Ok(Some(known.to_owned())));
            assert_eq!(checked(method, &[local]), Ok(None), "no browser");
        }
        assert_eq!(checked(Method::GET, &[local, ("origin", foreign)]), Ok(None));
        assert_eq!(checked(Method::POST, &[local, ("origin", foreign)]), Err(403));
        let upgrade = ("upgrade", "websocket");
        assert_eq!(checked(Method::GET, &[local, ("origin", foreign), upgrade]), Err(403));
        let allowed = checked(Method::GET, &[local, ("origin", known), upgrade]);
        assert_eq!(allowed, Ok(Some(known.to_owned())));
        assert_eq!(checked(Method::GET, &[local, upgrade]), Ok(None));
    }

    #[test]
    fn preflight_requests_are_answered_by_origin() {
        let asked = [
            ("host", "127.0.0.1:26657"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,x-any"),
        ];
        let known = "http://127.0.0.1:5173";
        let preflight =
            |origin| checked(Method::OPTIONS, &[&asked[..], &[("origin", origin)]].concat());
        assert_eq!(preflight(known), Ok(Some(known.to_owned())));
        assert_eq!(preflight("https://evil.example"), Ok(None));
    }

    #[test]
    fn page_of_the_server_itself_may_post() {
        let own = [("host", "10.1.2.3:1317"), ("origin", "http://10.1.2.3:1317")];
        assert_eq!(checked(Method::POST, &own), Ok(Some("http://10.1.2.3:1317".to_owned())));
        for foreign in ["http://10.1.2.3:80", "ftp://10.1.2.3:1317", "10.1.2.3:1317"] {
            let headers = [("host", "10.1.2.3:1317"), ("origin", foreign)];
            assert_eq!(checked(Method::POST, &headers), Err(403), "{foreign}");
        }
    }

    #[test]
    fn foreign_host_is_refused() {
        assert_eq!(checked(Method::GET, &[("host", "evil.example")]), Err(403));
        // DNS rebinding: the page and the server appear to have one origin.
        let rebound = [("host", "evil.example:1317"), ("origin", "http://evil.example:1317")];
        assert_eq!(checked(Method::POST, &rebound), Err(403));
        assert_eq!(checked(Method::GET, &[]), Err(400));
    }
}
