//! Answers a browser's request for `/` on a server without pages with a link to the web pages of the node.

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, header::ACCEPT},
    middleware::{Next, from_fn},
    response::{Html, IntoResponse},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Answers browsers that request `/` with a link to `pages`, if the node serves them. Other requests go to `router`.
pub fn with_link(router: Router, name: &'static str, pages: Option<SocketAddr>) -> Router {
    let Some(text) = text(name, pages) else { return router };
    router.layer(from_fn(move |request: Request, next: Next| {
        let is_root = request.method() == Method::GET && request.uri().path() == "/";
        let page = (is_root && wants_html(request.headers())).then(|| Html(text.clone()));
        async move {
            match page {
                Some(page) => page.into_response(),
                None => next.run(request).await,
            }
        }
    }))
}

/// Whether a browser sent the request: other programs do not request HTML.
pub fn wants_html(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get_all(ACCEPT).iter().filter_map(|value| HeaderValue::to_str(value).ok());
    accepted.into_iter().any(|value| value.contains("text/html"))
}

/// The HTML page with the link; `None` if the node serves no web pages.
pub fn text(name: &str, pages: Option<SocketAddr>) -> Option<String> {
    let address = reachable(pages?);
    Some(format!(
        "<!DOCTYPE html><html lang=\"en\"><title>evmd</title><p>This is {name} of an evmd node. Its web pages are at \
         <a href=\"http://{address}/\">http://{address}/</a>.</p></html>\n"
    ))
}

/// An address that a browser on this machine can open, in place of an unspecified one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_requires_web_pages() {
        assert_eq!(text("REST", None), None);
        let linked = text("REST", "0.0.0.0:8080".parse().ok()).unwrap();
        assert!(linked.contains("http://127.0.0.1:8080/"), "{linked}");
    }

    #[test]
    fn browsers_are_recognised_by_their_accept_header() {
        let accepting = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(value));
            wants_html(&headers)
        };
        assert!(accepting("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!accepting("*/*"));
        assert!(!wants_html(&HeaderMap::new()));
    }
}
