//! Reduces the numbers in commands that measure.

/// How the value of an option is reduced.
#[derive(Clone, Copy)]
enum Rule {
    /// Millions are divided by 10,000, and thousands by 1,000, so that quotients, such as the number of transactions
    /// of each sender, stay the same.
    Fraction,
    AtMost(f64),
}

/// The names of an option of `loadtest`, and its rule.
const RULES: &[(&[&str], Rule)] = &[
    (&["-n", "--count"], Rule::Fraction),
    (&["--accounts"], Rule::Fraction),
    (&["--senders"], Rule::Fraction),
    (&["--least"], Rule::AtMost(300.0)),
    (&["--most"], Rule::AtMost(300.0)),
    (&["--tx-rate"], Rule::Fraction),
    // `loadtest fees` needs a hundred blocks.
    (&["--blocks"], Rule::AtMost(110.0)),
    (&["-c", "--clients"], Rule::AtMost(20.0)),
    (&["-d", "--duration"], Rule::AtMost(0.05)),
    (&["--kills"], Rule::AtMost(1.0)),
    (&["--minutes"], Rule::AtMost(0.02)),
    (&["--rounds"], Rule::AtMost(1.0)),
];

/// The rules for the settings of the benchmark `pipeline`, which are written as `key=value`.
const SETTINGS: &[(&str, Rule)] =
    &[("accounts", Rule::Fraction), ("block", Rule::AtMost(50.0)), ("count", Rule::AtMost(2000.0))];

/// The options and values that are added to a scenario of `loadtest` unless the command contains them.
fn added(scenario: &str) -> &'static [(&'static str, &'static str)] {
    match scenario {
        "fill" => &[("--blocks", "15"), ("--txs", "6"), ("--senders", "5")],
        "tx" => &[("--rounds", "1"), ("--count", "50"), ("--senders", "20")],
        "fees" | "reads" | "peers" | "explorer" => {
            &[("--connections", "2"), ("--duration", "0.05"), ("--warmup", "0"), ("--rounds", "1")]
        }
        "attack" => &[("--duration", "0.3"), ("--rounds", "1")],
        "kill" => &[("--accounts", "100"), ("--kills", "1"), ("--least", "300"), ("--most", "300")],
        // A run of a second on a busy machine may exceed the default bounds.
        "soak" => &[
            ("--every", "0.5"),
            ("--read-rate", "50"),
            ("--latency-bound", "1000"),
            ("--disk-bound", "100000000"),
            ("--memory-bound", "1000"),
            ("--rate-bound", "0.01"),
        ],
        _ => &[],
    }
}

impl Rule {
    fn apply(self, value: &str) -> String {
        let Ok(number) = value.parse::<f64>() else { return value.to_owned() };
        match self {
            Self::Fraction if number >= 1e6 => (number / 1e4).to_string(),
            Self::Fraction if number >= 1e3 => (number / 1e3).to_string(),
            Self::AtMost(limit) if number > limit => limit.to_string(),
            _ => value.to_owned(),
        }
    }
}

/// All names of an option.
fn names<'a>(option: &'a &'a str) -> &'a [&'a str] {
    let rule = RULES.iter().find(|(names, _)| names.contains(option));
    rule.map_or(std::slice::from_ref(option), |(names, _)| names)
}

/// The arguments of `loadtest` for a run of about a second.
pub(super) fn loadtest(arguments: &[String]) -> Vec<String> {
    let mut reduced = arguments.to_vec();
    for at in 1..arguments.len() {
        let rule = RULES.iter().find(|(names, _)| names.contains(&&*arguments[at - 1]));
        if let Some((_, rule)) = rule {
            reduced[at] = rule.apply(&arguments[at]);
        }
    }
    let is_from_file = arguments.iter().any(|argument| argument == "--file");
    for (option, value) in added(arguments.first().map_or("", |scenario| scenario)) {
        let is_given = arguments.iter().any(|argument| names(option).contains(&&**argument));
        // A file already states how many transactions and senders it has.
        let is_stated = is_from_file && ["--count", "--senders"].contains(option);
        if !is_given && !is_stated {
            reduced.extend([(*option).to_owned(), (*value).to_owned()]);
        }
    }
    reduced
}

/// The settings of the benchmark `pipeline` for a run of about a second.
pub(super) fn pipeline(settings: &[String]) -> Vec<String> {
    let reduce = |setting: &String| {
        let (key, value) = setting.split_once('=')?;
        let (_, rule) = SETTINGS.iter().find(|(name, _)| *name == key)?;
        Some(format!("{key}={}", rule.apply(value)))
    };
    settings.iter().map(|setting| reduce(setting).unwrap_or_else(|| setting.clone())).collect()
}

#[test]
fn numbers_are_reduced_and_ratios_kept() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let sign = "sign --offline 262144 --senders 1000000 -n 4000000 --first-nonce 4 second";
    let reduced = "sign --offline 262144 --senders 100 -n 400 --first-nonce 4 second";
    assert_eq!(loadtest(&words(sign)), words(reduced));
    let reduced = loadtest(&words("reads --each -d 3")).join(" ");
    assert_eq!(reduced, "reads --each -d 0.05 --connections 2 --warmup 0 --rounds 1");
    assert_eq!(loadtest(&words("tx --file first")).join(" "), "tx --file first --rounds 1");
    let settings = words("accounts=1000000 count=15000000 block=20000 window=3");
    assert_eq!(pipeline(&settings).join(" "), "accounts=100 count=2000 block=50 window=3");
}
