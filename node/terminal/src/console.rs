//! Prints messages of `console.log`, as the libraries of Hardhat and Foundry encode them: the selector of `log` with up
//! to four arguments, or of `logInt`, `logBytes` and others, and ABI-encoded arguments.

use super::CONSOLE;
use alloy_dyn_abi::{DynSolType, DynSolValue};
use alloy_primitives::{Selector, keccak256};
use evm::ConsoleTrace;
use pages::text::{hex, printable};
use std::{collections::HashMap, fmt::Write, sync::LazyLock};

/// Types of the arguments of `log`.
const ARGUMENTS: [&str; 4] = ["string", "uint256", "bool", "address"];
/// Maximum number of arguments of `log`.
const MAX_ARGUMENTS: usize = 4;
/// Functions with other arguments. `logBytes1` to `logBytes32` are added to them.
const OTHERS: [(&str, &[&str]); 9] = [
    ("log", &["int256"]),
    ("log", &["string", "int256"]),
    ("log", &["bytes"]),
    ("logInt", &["int256"]),
    ("logUint", &["uint256"]),
    ("logString", &["string"]),
    ("logBool", &["bool"]),
    ("logAddress", &["address"]),
    ("logBytes", &["bytes"]),
];

/// The types of the arguments by selector.
static FORMS: LazyLock<HashMap<Selector, Vec<DynSolType>>> = LazyLock::new(forms);

/// Prints the messages of an execution.
pub(super) fn print(trace: &ConsoleTrace) {
    for message in &trace.messages {
        tracing::info!(target: CONSOLE, "{}", printable(&text(message)));
    }
    if trace.omitted > 0 {
        tracing::info!(target: CONSOLE, "{} more messages are not shown", trace.omitted);
    }
}

/// Returns the text of a message.
fn text(input: &[u8]) -> String {
    match decode(input) {
        Some(values) => formatted(&values),
        None => format!("message of an unknown form: {}", hex(input)),
    }
}

fn decode(input: &[u8]) -> Option<Vec<DynSolValue>> {
    let (selector, arguments) = input.split_first_chunk::<4>()?;
    let form = FORMS.get(&Selector::from(*selector))?;
    match DynSolType::Tuple(form.clone()).abi_decode_params(arguments).ok()? {
        DynSolValue::Tuple(values) => Some(values),
        _ => None,
    }
}

fn forms() -> HashMap<Selector, Vec<DynSolType>> {
    let mut forms = HashMap::new();
    for arguments in argument_lists() {
        add(&mut forms, "log", &arguments);
    }
    for (name, arguments) in OTHERS {
        add(&mut forms, name, arguments);
    }
    for size in 1..=32 {
        add(&mut forms, &format!("logBytes{size}"), &[format!("bytes{size}").as_str()]);
    }
    forms
}

/// Returns all lists of up to four types.
fn argument_lists() -> Vec<Vec<&'static str>> {
    let mut all = vec![Vec::new()];
    let mut longest = all.clone();
    for _ in 0..MAX_ARGUMENTS {
        let longer = |list: &Vec<_>| ARGUMENTS.map(|argument| [&list[..], &[argument]].concat());
        longest = longest.iter().flat_map(longer).collect();
        all.extend(longest.iter().cloned());
    }
    all
}

/// Adds a function. It also adds the selector with `uint` and `int` for `uint256` and `int256`, which are not types of
/// the ABI: old versions of Hardhat's library computed selectors with them.
fn add(forms: &mut HashMap<Selector, Vec<DynSolType>>, name: &str, arguments: &[&str]) {
    let types = arguments.iter().map(|name| name.parse().expect("the types exist"));
    let types: Vec<DynSolType> = types.collect();
    let signature = format!("{name}({})", arguments.join(","));
    let old = signature.replace("int256", "int");
    for signature in [signature, old] {
        let selector = Selector::from_slice(&keccak256(signature)[..4]);
        forms.insert(selector, types.clone());
    }
}

/// Returns a line with the values. If the first value is a string, it may have placeholders for the others.
fn formatted(values: &[DynSolValue]) -> String {
    let mut rest = values;
    let mut line = match values.split_first() {
        Some((DynSolValue::String(format), others)) => {
            rest = others;
            fill(format, &mut rest)
        }
        _ => String::new(),
    };
    for (at, value) in rest.iter().enumerate() {
        if at > 0 || rest.len() < values.len() {
            line.push(' ');
        }
        line += &shown(value);
    }
    line
}

/// Replaces the placeholders `%s`, `%d`, `%i`, `%o` and `%x` by values, and `%%` by a percent sign.
fn fill(format: &str, values: &mut &[DynSolValue]) -> String {
    let mut line = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        let placeholder = if c == '%' { chars.peek().copied() } else { None };
        let left = *values;
        let value = match (placeholder, left.split_first()) {
            (Some('%'), _) => "%".to_owned(),
            (Some('s' | 'd' | 'i' | 'o'), Some((value, rest))) => {
                *values = rest;
                shown(value)
            }
            (Some('x'), Some((value, rest))) => {
                *values = rest;
                shown_in_hex(value)
            }
            _ => {
                line.push(c);
                continue;
            }
        };
        chars.next();
        line += &value;
    }
    line
}

fn shown(value: &DynSolValue) -> String {
    let mut text = String::new();
    let written = match value {
        DynSolValue::String(value) => write!(text, "{value}"),
        DynSolValue::Uint(value, _) => write!(text, "{value}"),
        DynSolValue::Int(value, _) => write!(text, "{value}"),
        DynSolValue::Bool(value) => write!(text, "{value}"),
        DynSolValue::Address(value) => write!(text, "{value}"),
        DynSolValue::Bytes(value) => write!(text, "{}", hex(value)),
        DynSolValue::FixedBytes(word, size) => write!(text, "{}", hex(&word[..*size])),
        other => write!(text, "{other:?}"),
    };
    written.expect("writing to a string cannot fail");
    text
}

fn shown_in_hex(value: &DynSolValue) -> String {
    match value {
        DynSolValue::Uint(value, _) => format!("{value:#x}"),
        DynSolValue::Int(value, _) => format!("{value:#x}"),
        other => shown(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, B256, I256, U256, hex};

    fn message(signature: &str, values: Vec<DynSolValue>) -> Vec<u8> {
        let arguments = DynSolValue::Tuple(values).abi_encode_params();
        [&keccak256(signature)[..4], &arguments].concat()
    }

    fn string(text: &str) -> DynSolValue {
        DynSolValue::String(text.to_owned())
    }

    fn uint(value: u64) -> DynSolValue {
        DynSolValue::Uint(U256::from(value), 256)
    }

    /// The selectors of Hardhat's console.sol.
    #[test]
    fn selectors_are_those_of_the_libraries() {
        for (selector, types) in [
            (hex!("41304fac"), "string"),
            (hex!("f82c50f1"), "uint256"),
            (hex!("f5b1bba9"), "uint256"), // log(uint), of old versions.
            (hex!("b60e72cc"), "string,uint256"),
            (hex!("9710a9d0"), "string,uint256"), // log(string,uint).
            (hex!("3ca6268e"), "string,int256"),
            (hex!("2d5b6cb9"), "int256"),
            (hex!("0be77f56"), "bytes"),
            (hex!("51973ec9"), ""),
        ] {
            let form = &FORMS[&Selector::from(selector)];
            let found: Vec<_> = form.iter().map(ToString::to_string).collect();
            assert_eq!(found.join(","), types, "{selector:02x?}");
        }
    }

    #[test]
    fn messages_are_shown_as_the_libraries_show_them() {
        let address = Address::repeat_byte(0x11);
        for (signature, values, line) in [
            ("log()", vec![], String::new()),
            ("log(string)", vec![string("hello")], "hello".into()),
            ("log(uint256)", vec![uint(42)], "42".into()),
            ("log(uint)", vec![uint(42)], "42".into()),
            ("log(string,uint256)", vec![string("balance:"), uint(7)], "balance: 7".into()),
            ("log(string,uint256)", vec![string("at %d!"), uint(7)], "at 7!".into()),
            ("log(string,uint256)", vec![string("%x is 100%%"), uint(255)], "0xff is 100%".into()),
            ("log(string,string)", vec![string(""), string("x")], " x".into()),
            ("log(string)", vec![string("50% of %s")], "50% of %s".into()),
            (
                "log(bool,address,string,uint256)",
                vec![DynSolValue::Bool(true), address.into(), string("x"), uint(0)],
                format!("true {address} x 0"),
            ),
            ("logInt(int256)", vec![DynSolValue::Int(I256::MINUS_ONE, 256)], "-1".into()),
            ("logBytes(bytes)", vec![DynSolValue::Bytes(vec![1, 2])], "0x0102".into()),
            (
                "logBytes4(bytes4)",
                vec![DynSolValue::FixedBytes(B256::repeat_byte(0xab), 4)],
                "0xabababab".into(),
            ),
        ] {
            assert_eq!(text(&message(signature, values)), line, "{signature}");
        }
    }

    #[test]
    fn messages_that_are_not_understood_are_shown_in_hex() {
        for input in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
            assert_eq!(text(input), format!("message of an unknown form: {}", hex(input)));
        }
        let mut cut = message("log(string)", vec![string("hello")]);
        cut.truncate(40);
        assert!(text(&cut).starts_with("message of an unknown form: 0x41304fac"));
    }
}
