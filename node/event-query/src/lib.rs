//! Parses and evaluates event queries in CometBFT's language: `tx.height >= 5 AND message.sender = 'cosmos1...'`.
//!
//! This crate does no I/O.

/// Maximum number of conditions in a query.
const MAX_CONDITIONS: usize = 16;
/// Maximum length of a query in bytes.
const MAX_QUERY_BYTES: usize = 4096;

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidQuery(pub String);

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `CONTAINS`: the value is a part of the attribute.
    Contains,
    /// `EXISTS`: the attribute exists.
    Exists,
}

/// The operators in the order in which they are tried. An operator that is a prefix of another one comes after it.
const OPERATORS: [(&str, Operator); 7] = [
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
    ("CONTAINS", Operator::Contains),
    ("EXISTS", Operator::Exists),
];

/// One condition on an attribute of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The name `type.attribute`.
    pub key: String,
    /// How the value is compared.
    pub operator: Operator,
    /// The value without quotes; empty for `EXISTS`.
    pub value: String,
}

impl Condition {
    /// Whether the value of an attribute satisfies the condition. `<`, `<=`, `>` and `>=` compare unsigned integers of
    /// 128 bits, and are not satisfied if either value is not one. The other operators compare text.
    pub fn is_met_by(&self, found: &str) -> bool {
        let compare = |compare: fn(&u128, &u128) -> bool| {
            let numbers = found.parse().ok().zip(self.value.parse().ok());
            numbers.is_some_and(|(found, value)| compare(&found, &value))
        };
        match self.operator {
            Operator::Equal => found == self.value,
            Operator::Less => compare(u128::lt),
            Operator::LessOrEqual => compare(u128::le),
            Operator::Greater => compare(u128::gt),
            Operator::GreaterOrEqual => compare(u128::ge),
            Operator::Contains => found.contains(&self.value),
            Operator::Exists => true,
        }
    }

    /// Does the same as [`Self::is_met_by`] for a hash, which is compared without regard to case or an `0x` prefix.
    pub fn is_met_by_hash(&self, found: &str) -> bool {
        let digits = |text: &str| {
            let lower = text.to_ascii_lowercase();
            lower.strip_prefix("0x").unwrap_or(&lower).to_owned()
        };
        let value = digits(&self.value);
        Self { value, ..self.clone() }.is_met_by(&digits(found))
    }
}

/// Parses several queries. All conditions have to hold.
///
/// # Errors
/// If a query is malformed or too long, or if there are too many conditions.
pub fn parse_all<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Condition>, InvalidQuery> {
    let mut conditions = Vec::new();
    for text in texts {
        conditions.extend(parse(text)?);
        if conditions.len() > MAX_CONDITIONS {
            let message = format!("query has more than {MAX_CONDITIONS} conditions");
            return Err(InvalidQuery(message));
        }
    }
    Ok(conditions)
}

/// Parses the conditions of one query.
fn parse(query: &str) -> Result<Vec<Condition>, InvalidQuery> {
    if query.len() > MAX_QUERY_BYTES {
        let length = query.len();
        return Err(InvalidQuery(format!(
            "query must have at most {MAX_QUERY_BYTES} bytes, got {length}"
        )));
    }
    let (mut conditions, mut rest) = (Vec::new(), query.trim());
    while !rest.is_empty() {
        let (condition, after) = condition(rest)?;
        conditions.push(condition);
        rest = match after.strip_prefix("AND ") {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return Err(malformed("AND", after)),
        };
    }
    Ok(conditions)
}

fn malformed(wanted: &str, at: &str) -> InvalidQuery {
    let at: String = at.chars().take(40).collect();
    InvalidQuery(format!("query: expected {wanted} at {at:?}"))
}

/// Parses the first condition and returns it with the rest of the text.
fn condition(text: &str) -> Result<(Condition, &str), InvalidQuery> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let end = text.find(|c| !is_key(c)).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    if !key.contains('.') {
        return Err(malformed("type.attribute", text));
    }
    let rest = rest.trim_start();
    let found = OPERATORS.iter().find(|(written, _)| rest.starts_with(written));
    let &(written, operator) = found.ok_or_else(|| malformed("an operator", rest))?;
    let rest = rest[written.len()..].trim_start();
    let (value, rest) = match operator {
        Operator::Exists => ("", rest),
        _ => value(rest)?,
    };
    let condition = Condition { key: key.to_owned(), operator, value: value.to_owned() };
    Ok((condition, rest.trim_start()))
}

/// Parses a quoted string, or the text up to the next white space. Returns it with the rest of the text.
fn value(text: &str) -> Result<(&str, &str), InvalidQuery> {
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote).ok_or_else(|| malformed("a closing quote", text));
        }
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err(malformed("a value", text)),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_parsed() {
        let query = "tx.height>=5 AND  message.sender = 'a AND b' AND tx.fee EXISTS AND m.x CONTAINS \"q\" \
                     AND tx.height < 9";
        let read = parse(query).unwrap();
        let read: Vec<_> = read.iter().map(|c| (&*c.key, c.operator, &*c.value)).collect();
        let expected = [
            ("tx.height", Operator::GreaterOrEqual, "5"),
            ("message.sender", Operator::Equal, "a AND b"),
            ("tx.fee", Operator::Exists, ""),
            ("m.x", Operator::Contains, "q"),
            ("tx.height", Operator::Less, "9"),
        ];
        assert_eq!(read, expected);
        assert_eq!(parse("  ").unwrap(), []);
    }

    #[test]
    fn malformed_queries_are_refused() {
        for (query, reason) in [
            ("sender='a'", "expected type.attribute at \"sender='a'\""),
            ("a.b ~ 1", "expected an operator at \"~ 1\""),
            ("a.b = 'x", "expected a closing quote at \"'x\""),
            ("a.b =", "expected a value at \"\""),
            ("a.b = 1 OR c.d = 2", "expected AND at \"OR c.d = 2\""),
        ] {
            assert_eq!(parse(query).unwrap_err().0, format!("query: {reason}"));
        }
        assert!(parse(&" ".repeat(4097)).is_err());
        let is_accepted = |count| parse_all(std::iter::repeat_n("a.b=1 AND c.d=2", count)).is_ok();
        assert!(is_accepted(8) && !is_accepted(9));
    }

    #[test]
    fn order_operators_compare_numbers_by_value() {
        let is_met = |query: &str, found: &str| parse(query).unwrap()[0].is_met_by(found);
        assert!(is_met("a.b < 10", "9") && !is_met("a.b < 10", "10") && is_met("a.b <= 10", "10"));
        assert!(is_met("a.b > 9", "10") && is_met("a.b >= 10", "10") && !is_met("a.b > 9", "x"));
        assert!(is_met("a.b CONTAINS 'bc'", "abcd") && is_met("a.b EXISTS", ""));
    }
}
