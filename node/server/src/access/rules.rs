//! Checks the host and the origin of requests, and adds the CORS headers to responses.

use super::{Hosts, Origins, origin};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
        ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HOST, HeaderName, HeaderValue, UPGRADE, VARY,
    },
};

/// Seconds for which a browser may cache the result of a preflight request.
const PREFLIGHT_AGE: HeaderValue = HeaderValue::from_static("600");
/// Sent in a browser's preflight request before a public page may access a private address (Private Network Access).
const PNA_REQUEST: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PNA_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// What web pages may do.
#[derive(Debug)]
pub struct PageRules {
    /// Methods that pages of allowed origins may use.
    methods: HeaderValue,
    /// Request headers that such pages may send; `None` allows all.
    headers: Option<HeaderValue>,
    /// Response headers that such pages may read.
    exposed: Option<HeaderValue>,
    /// The server sends pages: its own origin is allowed, and pages of unknown origins may send only `GET` and `HEAD`.
    has_pages: bool,
}

impl PageRules {
    /// For REST, CometBFT's RPC, metrics and the web pages. Any page can post a form without a preflight request, so a
    /// POST from a foreign origin is refused.
    pub const QUERIES: Self = Self {
        methods: HeaderValue::from_static("GET, POST"),
        headers: None,
        exposed: Some(HeaderValue::from_static(
            "x-cosmos-block-height, grpc-metadata-x-cosmos-block-height, x-evmd-height",
        )),
        has_pages: true,
    };
    /// For JSON-RPC, which accepts only bodies of a type that a page cannot send without a preflight request. Browser
    /// extensions such as wallets send no preflight request, and may read responses whatever the CORS headers are.
    pub const JSON_RPC: Self = Self {
        methods: HeaderValue::from_static("POST"),
        headers: Some(HeaderValue::from_static("content-type, x-evmd-min-height")),
        exposed: Some(HeaderValue::from_static("x-evmd-height")),
        has_pages: false,
    };
}

/// The hosts and origins that a server accepts.
#[derive(Debug)]
pub struct Access {
    hosts: Hosts,
    origins: Origins,
    /// The setting that lists the origins, for error messages.
    origins_setting: &'static str,
    pages: Box<PageRules>,
}

/// The CORS headers for the response to an accepted request.
#[derive(Debug)]
pub struct Cors<'a>(Option<(&'a PageRules, Option<HeaderValue>)>);

impl Access {
    /// Combines `pages` with the allowed hosts and origins, each with the name of its setting.
    pub fn new(
        pages: PageRules,
        (hosts_setting, hosts): (&'static str, &[String]),
        (origins_setting, origins): (&'static str, &[String]),
    ) -> Self {
        let hosts = Hosts::new(hosts_setting, hosts);
        Self { hosts, origins: Origins::new(origins), origins_setting, pages: Box::new(pages) }
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Returns the response to a preflight or refused request. A page of a foreign origin may not open WebSockets. It
    /// may send a GET or HEAD, which changes nothing, or a JSON-RPC POST, but cannot read the response.
    pub fn check<B>(&self, request: &Request<B>) -> Result<Cors<'_>, Box<Response<String>>> {
        self.hosts.check(request).map_err(|error| refusal(error.status(), &error.to_string()))?;
        let headers = request.headers();
        let origin = origin(headers)
            .map_err(|error| refusal(StatusCode::BAD_REQUEST, &error.to_string()))?;
        let Some(origin) = origin else { return Ok(Cors(None)) };
        let is_allowed = self.is_allowed(origin, headers);
        let cors = Cors(Some((&self.pages, is_allowed.then(|| origin.clone()))));
        if *request.method() == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        {
            return Err(Box::new(cors.preflight(headers)));
        }
        let is_safe = *request.method() == Method::GET || *request.method() == Method::HEAD;
        let is_open_to_all = (is_safe || !self.pages.has_pages) && !headers.contains_key(UPGRADE);
        if !is_allowed && !is_open_to_all {
            let text = format!("this origin is not allowed: see {}", self.origins_setting);
            return Err(refusal(StatusCode::FORBIDDEN, &text));
        }
        Ok(cors)
    }

    /// Whether an origin is in the setting, or is that of this server if it sends pages.
    fn is_allowed(&self, origin: &HeaderValue, headers: &HeaderMap) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let is_own = || {
            let authority =
                ["http://", "https://"].iter().find_map(|scheme| origin.strip_prefix(scheme));
            let host = headers.get(HOST).and_then(|host| host.to_str().ok());
            authority.zip(host).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
        };
        self.origins.allow(origin) || (self.pages.has_pages && is_own())
    }
}

fn refusal(status: StatusCode, text: &str) -> Box<Response<String>> {
    let mut response = Response::new(format!("{text}\n"));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Box::new(response)
}

impl Cors<'_> {
    /// Adds the CORS headers.
    pub fn apply(self, headers: &mut HeaderMap) {
        let Some((pages, origin)) = self.0 else { return };
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = pages.exposed.clone();
            headers.extend(exposed.map(|names| (ACCESS_CONTROL_EXPOSE_HEADERS, names)));
        }
    }

    /// The response to a preflight request.
    fn preflight(self, requested: &HeaderMap) -> Response<String> {
        let mut response = Response::new(String::new());
        let headers = response.headers_mut();
        if let Some((pages, Some(_))) = &self.0 {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, pages.methods.clone());
            headers.insert(ACCESS_CONTROL_MAX_AGE, PREFLIGHT_AGE);
            // The origin is trusted, so all request headers are allowed unless the rules name some.
            let names = pages.headers.as_ref().or(requested.get(ACCESS_CONTROL_REQUEST_HEADERS));
            if let Some(names) = names {
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
            }
            if requested.contains_key(PNA_REQUEST) {
                headers.insert(PNA_ALLOWED, HeaderValue::from_static("true"));
            }
        }
        self.apply(headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(pages: PageRules) -> Access {
        let settings = config::Rest::default();
        Access::new(
            pages,
            ("rest.allowed-hosts", &settings.allowed_hosts),
            ("rest.cors-origins", &settings.cors_origins),
        )
    }

    /// The status of the refusal, or the origin that may read the response.
    fn allowed_origin(method: Method, headers: &[(&str, &str)]) -> Result<Option<String>, u16> {
        let response = cors_headers(PageRules::QUERIES, method, headers)?;
        let origin = response.get(ACCESS_CONTROL_ALLOW_ORIGIN);
        Ok(origin.map(|origin| origin.to_str().unwrap().to_owned()))
    }

    /// The status of the refusal, or the CORS headers of the response.
    fn cors_headers(
        pages: PageRules,
        method: Method,
        headers: &[(&str, &str)],
    ) -> Result<HeaderMap, u16> {
        let mut request = Request::builder().method(method).uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = HeaderMap::new();
        match access(pages).check(&request.body(()).unwrap()) {
            Ok(cors) => cors.apply(&mut response),
            Err(refusal) if refusal.status() == StatusCode::OK => {
                response = refusal.headers().clone();
            }
            Err(refusal) => return Err(refusal.status().as_u16()),
        }
        Ok(response)
    }

    #[test]
    fn json_rpc_is_posted_from_any_origin_and_read_from_known_ones() {
        let local = ("host", "localhost:8545");
        let check = |method, headers: &[(&str, &str)]| {
            cors_headers(PageRules::JSON_RPC, method, &[&[local][..], headers].concat())
        };
        let allowed = |response: Result<HeaderMap, u16>| {
            response.map(|headers| headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN))
        };
        let upgrade = ("upgrade", "websocket");
        for (origin, is_known) in [
            ("http://localhost:3000", true),
            ("https://evil.example", false),
            ("chrome-extension://a-wallet", false),
        ] {
            let origin = ("origin", origin);
            assert_eq!(allowed(check(Method::POST, &[origin])), Ok(is_known), "{origin:?}");
            let opened = allowed(check(Method::GET, &[origin, upgrade]));
            assert_eq!(opened, if is_known { Ok(true) } else { Err(403) }, "{origin:?}");
        }
        // The JSON-RPC server sends no pages, so a page with its address came from elsewhere.
        let own = [("host", "10.1.2.3:8545"), ("origin", "http://10.1.2.3:8545"), upgrade];
        assert!(cors_headers(PageRules::JSON_RPC, Method::GET, &own).is_err());
        let request = [
            ("origin", "http://localhost:3000"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,x-any"),
        ];
        let preflight = check(Method::OPTIONS, &request).unwrap();
        assert_eq!(preflight[ACCESS_CONTROL_ALLOW_METHODS], "POST");
        assert_eq!(preflight[ACCESS_CONTROL_ALLOW_HEADERS], "content-type, x-evmd-min-height");
    }

    #[test]
    fn pages_of_foreign_origins_can_neither_read_nor_post_nor_open_websockets() {
        let local = ("host", "localhost:1317");
        let [known, foreign] = ["http://localhost:3000", "https://evil.example"];
        for method in [Method::GET, Method::POST] {
            let allowed = allowed_origin(method.clone(), &[local, ("origin", known)]);
            assert_eq!(allowed, Ok(Some(known.to_owned())));
            assert_eq!(allowed_origin(method, &[local]), Ok(None), "no browser");
        }
        assert_eq!(allowed_origin(Method::GET, &[local, ("origin", foreign)]), Ok(None));
        assert_eq!(allowed_origin(Method::POST, &[local, ("origin", foreign)]), Err(403));
        let upgrade = ("upgrade", "websocket");
        assert_eq!(allowed_origin(Method::GET, &[local, ("origin", foreign), upgrade]), Err(403));
        let allowed = allowed_origin(Method::GET, &[local, ("origin", known), upgrade]);
        assert_eq!(allowed, Ok(Some(known.to_owned())));
        assert_eq!(allowed_origin(Method::GET, &[local, upgrade]), Ok(None));
    }

    #[test]
    fn preflight_response_allows_only_known_origins() {
        let request = [
            ("host", "127.0.0.1:26657"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "content-type,x-any"),
        ];
        let known = "http://127.0.0.1:5173";
        let preflight = |origin| {
            allowed_origin(Method::OPTIONS, &[&request[..], &[("origin", origin)]].concat())
        };
        assert_eq!(preflight(known), Ok(Some(known.to_owned())));
        assert_eq!(preflight("https://evil.example"), Ok(None));
    }

    #[test]
    fn page_of_the_server_itself_may_post() {
        let own = [("host", "10.1.2.3:1317"), ("origin", "http://10.1.2.3:1317")];
        assert_eq!(allowed_origin(Method::POST, &own), Ok(Some("http://10.1.2.3:1317".to_owned())));
        for foreign in ["http://10.1.2.3:80", "ftp://10.1.2.3:1317", "10.1.2.3:1317"] {
            let headers = [("host", "10.1.2.3:1317"), ("origin", foreign)];
            assert_eq!(allowed_origin(Method::POST, &headers), Err(403), "{foreign}");
        }
    }

    #[test]
    fn foreign_host_is_refused() {
        assert_eq!(allowed_origin(Method::GET, &[("host", "evil.example")]), Err(403));
        // DNS rebinding: the page and the server appear to have one origin.
        let rebound = [("host", "evil.example:1317"), ("origin", "http://evil.example:1317")];
        assert_eq!(allowed_origin(Method::POST, &rebound), Err(403));
        assert_eq!(allowed_origin(Method::GET, &[]), Err(400));
    }
}
