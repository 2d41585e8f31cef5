//! `evmd debug basefee` computes the next base fee for each line of input.

use crate::cli::is_stdout_closed;
use feemarket::{
    DecError, Inputs, LegacyDec, Params, TokenDecimals, block_gas_limit, gas_target, next_base_fee,
};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufWriter, Read, Write};

/// Maximum length of an input line in bytes, including the line break. Seven numbers with names need a few hundred.
const MAX_LINE_BYTES: u64 = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    used: u64,
    /// -1 or absent means no limit.
    max_gas: Option<i64>,
    elasticity: u32,
    denominator: u32,
    base: LegacyDec,
    decimals: u8,
    floor: LegacyDec,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Next(LegacyDec),
    Error(String),
}

pub(super) fn run() -> anyhow::Result<()> {
    let mut out = BufWriter::new(crate::cli::stdout());
    answer_lines(&mut std::io::stdin().lock(), &mut out)?;
    out.flush()?;
    Ok(())
}

/// Writes one output line for every input line. The output line of an invalid input line describes the error.
fn answer_lines(input: &mut impl BufRead, out: &mut impl Write) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if is_stdout_closed() {
            return Ok(());
        }
        if input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let answer = if line.len() as u64 <= MAX_LINE_BYTES {
            answer(&line)
        } else {
            if !line.ends_with(b"\n") {
                input.skip_until(b'\n')?;
            }
            Err(format!("line longer than {MAX_LINE_BYTES} bytes"))
        };
        serde_json::to_writer(&mut *out, &answer.map_or_else(Answer::Error, Answer::Next))?;
        out.write_all(b"\n")?;
    }
}

fn answer(line: &[u8]) -> Result<LegacyDec, String> {
    let question: Question = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    question.validate()?;
    let decimals = TokenDecimals::new(question.decimals).map_err(|error| error.to_string())?;
    let limit = block_gas_limit(question.max_gas).map_err(|error| error.to_string())?;
    let target = gas_target(limit, question.elasticity).expect("validated not to be zero");
    next_base_fee(&Inputs {
        used: question.used,
        target,
        denominator: question.denominator.into(),
        base: question.base,
        unit: decimals.unit(),
        floor: question.floor,
    })
    .map_err(|error: DecError| error.to_string())
}

impl Question {
    /// Checks the parameters as the chain does.
    fn validate(&self) -> Result<(), String> {
        let params = Params {
            base_fee_change_denominator: self.denominator,
            elasticity_multiplier: self.elasticity,
            base_fee: self.base,
            min_gas_price: self.floor,
            ..Params::default()
        };
        params.validate().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_for(input: &[u8]) -> String {
        let mut out = Vec::new();
        answer_lines(&mut &*input, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const VALID: &str = r#"{"used":6666667,"max_gas":10000000,"elasticity":3,"denominator":7,"base":"123456789.123456789123456789","decimals":18,"floor":"0"}"#;
    const NEXT: &str = "{\"next\":\"141093478.574956393389819303\"}\n";

    #[test]
    fn every_input_line_has_an_output_line() {
        let unlimited = VALID.replace("10000000", "-1");
        let absent = VALID.replace(r#""max_gas":10000000,"#, "");
        let input = format!("{VALID}\n{unlimited}\r\n{absent}\n{VALID}");
        let output = output_for(input.as_bytes());
        let lines: Vec<_> = output.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(format!("{}\n", lines[0]), NEXT);
        assert_eq!(lines[1], lines[2]);
        assert_eq!(format!("{}\n", lines[3]), NEXT);
    }

    #[test]
    fn invalid_line_yields_an_error_and_the_next_line_is_computed() {
        let rows = [
            (VALID.replace("\"denominator\":7", "\"denominator\":0"), "denominator cannot be 0"),
            (VALID.replace("\"elasticity\":3", "\"elasticity\":0"), "elasticity multiplier cannot"),
            (VALID.replace("\"decimals\":18", "\"decimals\":19"), "between 1 and 18, got 19"),
            (VALID.replace("10000000", "-2"), "max_gas -2"),
            (VALID.replace("\"123", "\"-123"), "initial base fee cannot be negative"),
            (VALID.replace("\"floor\":\"0\"", "\"floor\":\"-1\""), "value cannot be negative: -1."),
            (VALID.replace("456789\"", "4567891\""), "at most 18 digits after the point, got 19"),
            (VALID.replace("\"123456789.123456789123456789\"", "\"1e9\""), "not a decimal number"),
            (VALID.replace("6666667", "-1"), "invalid value"),
            (VALID.replace("used", "gas"), "unknown field"),
            ("nonsense".to_owned(), "expected"),
            (String::new(), "EOF"),
            (" ".repeat(10_000), "line longer than 4096 bytes"),
        ];
        for (line, reason) in rows {
            let output = output_for(format!("{line}\n{VALID}\n").as_bytes());
            let (error, next) = output.split_once('\n').unwrap();
            assert!(error.starts_with("{\"error\":\"") && error.contains(reason), "{error}");
            assert_eq!(next, NEXT);
        }
        // A line of the maximum length is accepted. The line break, if there is one, counts towards the length.
        let padded = |bytes: usize| format!("{VALID}{}", " ".repeat(bytes - VALID.len()));
        let limit = MAX_LINE_BYTES as usize;
        for line in [padded(limit - 2) + "\n", padded(limit - 1) + "\n", padded(limit)] {
            assert_eq!(output_for(line.as_bytes()), NEXT);
        }
        for line in [padded(limit) + "\n", padded(limit + 1), padded(limit + 1) + "\n"] {
            let output = output_for(format!("{line}{VALID}").as_bytes());
            assert!(
                output.starts_with("{\"error\":\"line longer than 4096 bytes\"}\n"),
                "{output}"
            );
            assert_eq!(output.ends_with(NEXT), line.ends_with('\n'));
        }
        assert!(output_for(b"\xff\xfe\n").starts_with("{\"error\":"));
        assert_eq!(output_for(b""), "");
    }
}
