//! What a browser shows at `/` of a server without pages: a link to the web pages of the node.

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, header::ACCEPT},
    middleware::{Next, from_fn},
    response::{Html, IntoResponse},
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Answers the requests of browsers for `/` with a link to `pages`, if they are served. Other requests go to the router.
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

/// Whether a browser sent the request: programs do not ask for HTML.
pub fn wants_html(headers: &HeaderMap) -> bool {
    let accepted =
        headers.get_all(ACCEPT).iter().filter_map(|value| HeaderValue::to_str(value).ok());
    accepted.into_iter().any(|value| value.contains("text/html"))
}

/// The page with the link; `None` if there are no pages.
pub fn text(name: &str, pages: Option<SocketAddr>) -> Option<String> {
    let address = reachable(pages?);
    Some(format!(
        "<!DOCTYPE html><html lang=\"en\"><title>evmd</title><p>This is {name} of an evmd node. Its web pages are at \
         <a href=\"http://{address}/\">http://{address}/</a>.</p></html>\n"
    ))
}

/// The address that a browser on this machine can open.
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
    fn there_is_no_link_without_pages() {
        assert_eq!(text("REST", None), None);
        let linked = text("REST", "0.0.0.0:8080".parse().ok()).unwrap();
        assert!(linked.contains("http://127.0.0.1:8080/"), "{linked}");
    }

    #[test]
    fn browsers_are_recognised_by_what_they_accept() {
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
