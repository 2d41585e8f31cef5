//! Formats log lines for people. Lines about blocks, transactions, calls and console messages are sentences without
//! their fields, which only the JSON format shows. All other lines have the format of `tracing-subscriber`.

use nu_ansi_term::{Color, Style};
use std::fmt;
use terminal::{BLOCK, CALL, CONSOLE, SUCCESS, TX};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// The time of a log line, in UTC.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineTime {
    /// Date and time, for files and programs.
    Full,
    /// The time of day, for terminals.
    OfDay,
}

impl FormatTime for LineTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let mut text = String::new();
        SystemTime.format_time(&mut Writer::new(&mut text))?;
        writer.write_str(match self {
            Self::Full => &text,
            Self::OfDay => time_of_day(&text).unwrap_or(&text),
        })
    }
}

/// Returns the part of an RFC 3339 timestamp from the hours to the milliseconds.
fn time_of_day(text: &str) -> Option<&str> {
    let (_, time) = text.split_once('T')?;
    time.get(.."00:00:00.000".len())
}

/// Formats log lines as the module documentation describes.
#[derive(Debug)]
pub(super) struct TextLines {
    time: LineTime,
    others: Format<Full, LineTime>,
}

impl TextLines {
    pub(super) fn new(time: LineTime) -> Self {
        Self { time, others: Format::default().with_timer(time) }
    }
}

/// The fields of an event that its line depends on.
#[derive(Default)]
struct Sentence {
    text: String,
    is_failure: bool,
}

impl Visit for Sentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "status" {
            self.is_failure = value != SUCCESS;
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}

/// Returns the styles for the target and for the text of a line.
fn styles(target: &str, is_failure: bool) -> (Style, Style) {
    let plain = Style::new();
    match target {
        _ if is_failure => (Color::Red.bold(), Color::Red.normal()),
        BLOCK => (Color::Cyan.bold(), plain),
        TX => (Color::Green.bold(), plain),
        CONSOLE => (Color::Yellow.bold(), Color::Yellow.normal()),
        CALL => (Color::Red.bold(), plain),
        _ => (plain, plain),
    }
}

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let target = event.metadata().target();
        if !terminal::TARGETS.contains(&target) {
            return self.others.format_event(context, writer, event);
        }
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let is_coloured = writer.has_ansi_escapes();
        let style = |style: Style| if is_coloured { style } else { Style::new() };
        let dimmed = style(Style::new().dimmed());
        write!(writer, "{}", dimmed.prefix())?;
        self.time.format_time(&mut writer)?;
        let (label, text) = styles(target, sentence.is_failure);
        let (label, text) = (style(label), style(text));
        let level = style(Color::Green.normal());
        write!(writer, "{}  {} ", dimmed.suffix(), level.paint(event.metadata().level().as_str()))?;
        writeln!(writer, "{}: {}", label.paint(target), text.paint(sentence.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_day_has_milliseconds() {
        assert_eq!(time_of_day("2026-11-28T09:46:02.123456Z"), Some("09:46:02.123"));
        assert_eq!(time_of_day("2026-11-28"), None);
    }
}
