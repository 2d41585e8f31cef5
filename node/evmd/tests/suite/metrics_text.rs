//! Tests the text of `/metrics` with the rules of `promtool check metrics`, without needing `promtool`.

use crate::client::Node;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Abbreviations of units, and units that are not base units. No part of a name may be one of them.
const REFUSED_UNITS: [&str; 22] = [
    "ms",
    "us",
    "ns",
    "s",
    "sec",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "b",
    "kb",
    "mb",
    "gb",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "kibibytes",
    "bits",
    "percent",
    "gwei",
];
/// The types of metrics. No part of a name may be one of them.
const TYPES: [&str; 4] = ["counter", "gauge", "histogram", "summary"];

/// Adds the violations in the characters of a metric's or label's name.
fn check_characters(name: &str, violations: &mut Vec<String>) {
    if !name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_') {
        violations.push(format!("{name}: only lower-case letters, digits and underscores"));
    }
    if name.split('_').any(str::is_empty) {
        violations.push(format!("{name}: two underscores, or one at an end"));
    }
}

/// Adds the violations in the name of a metric.
fn check_name(name: &str, violations: &mut Vec<String>) {
    check_characters(name, violations);
    for part in name.split('_') {
        if REFUSED_UNITS.contains(&part) {
            violations.push(format!("{name}: {part} is not a base unit"));
        }
        if TYPES.contains(&part) {
            violations.push(format!("{name}: {part} is a type"));
        }
    }
}

/// Returns the metric to which a sample belongs: its name without the suffixes of histograms and summaries.
fn family<'t>(name: &'t str, types: &BTreeMap<&'t str, &'t str>) -> &'t str {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| {
        let base = name.strip_suffix(suffix)?;
        let has_parts = matches!(types.get(base).copied()?, "histogram" | "summary");
        has_parts.then_some(base)
    });
    base.unwrap_or(name)
}

/// The name, labels and value of a sample.
type Sample<'a> = (&'a str, Vec<(&'a str, &'a str)>, f64);

/// Parses a sample; returns `None` if the line is malformed.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        None => (series, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}')?),
    };
    // No label value of the node has a comma or an escaped character.
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
        let (name, value) = label.split_once('=')?;
        let value = value.strip_prefix('"')?.strip_suffix('"')?;
        (!value.contains(['"', '\\'])).then_some((name, value))
    });
    Some((name, labels.collect::<Option<_>>()?, value.replace("+Inf", "inf").parse().ok()?))
}

/// Returns the violations in the text of `/metrics`.
fn violations(text: &str) -> Vec<String> {
    let mut violations = Vec::new();
    let (mut helps, mut types) = (BTreeSet::new(), BTreeMap::new());
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some((name, help)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            if !helps.insert(name) || help.trim().is_empty() {
                violations.push(format!("{name}: the help is empty or repeated"));
            }
            continue;
        }
        if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            if !TYPES.contains(&kind) || types.insert(name, kind).is_some() {
                violations.push(format!("{name}: the type {kind} is unknown or repeated"));
            }
            check_name(name, &mut violations);
            if name.ends_with("_total") != (kind == "counter") {
                violations.push(format!("{name}: counters end with _total, and no others do"));
            }
            continue;
        }
        let Some((name, labels, value)) = sample(line) else {
            violations.push(format!("malformed line: {line}"));
            continue;
        };
        let family = family(name, &types);
        let Some(kind) = types.get(family).copied().filter(|_| helps.contains(family)) else {
            violations.push(format!("{name}: no HELP and TYPE before the first sample"));
            continue;
        };
        for (label, _) in &labels {
            check_characters(label, &mut violations);
            let owner = BTreeMap::from([("le", "histogram"), ("quantile", "summary")]);
            if owner.get(label).is_some_and(|owner| *owner != kind) {
                violations.push(format!("{name}: {label} is a reserved label"));
            }
        }
        if kind == "counter" && (value < 0.0 || value.is_nan()) {
            violations.push(format!("{name}: {value} is not a count"));
        }
        if !series.insert(line.rsplit_once(' ').map(|(series, _)| series)) {
            violations.push(format!("the series is repeated: {line}"));
        }
    }
    violations
}

#[tokio::test]
async fn metrics_of_a_node_follow_the_rules_of_prometheus() {
    let node = Node::native().await;
    // One call succeeds and one fails, so there are samples with both labels.
    node.wait_for("eth_getBlockByNumber", json!(["0x1", false])).await;
    node.fail("eth_getBalance", json!(["0x"])).await;
    let (status, text) = node.get("/metrics").await;
    node.stop().await;
    assert_eq!(status, 200);
    assert!(text.lines().count() > 100, "{text}");
    let violations = violations(&text);
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn each_violation_is_found() {
    let valid = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{b=\"c\"} 1.5\n";
    assert_eq!(violations(valid), Vec::<String>::new());
    for (from, to, what) in [
        ("# HELP a_seconds_total Time.\n", "", "no HELP"),
        ("Time.", " ", "help is empty"),
        ("counter", "gauge", "counters end with _total"),
        ("seconds", "ms", "ms is not a base unit"),
        ("a_seconds", "a_gauge_seconds", "gauge is a type"),
        ("a_seconds", "aSeconds", "lower-case"),
        ("b=", "le=", "reserved label"),
        ("1.5", "-1", "not a count"),
        ("1.5\n", "1.5\na_seconds_total{b=\"c\"} 2\n", "series is repeated"),
        ("\"c\"", "c", "malformed line"),
    ] {
        let found = violations(&valid.replace(from, to));
        assert!(found.iter().any(|violation| violation.contains(what)), "{what}: {found:?}");
    }
}
