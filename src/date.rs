//! Dates in UTC as text: what `chrono` formats and parses, in the few forms that people write.

use chrono::{DateTime, NaiveDate, NaiveDateTime};

/// The forms of a date with a time. A fraction of a second may be missing.
const DATE_AND_TIME: [&str; 2] = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M"];
const DATE: &str = "%Y-%m-%d";

/// The date and minute: `2026-01-31 09:05`; the number if it is beyond all dates.
pub(crate) fn text(unix_ms: i64) -> String {
    DateTime::from_timestamp_millis(unix_ms)
        .map_or_else(|| format!("{unix_ms} ms since 1970"), |date| date.format("%Y-%m-%d %H:%M").to_string())
}

/// The milliseconds since 1970 at this date, `2026-01-31`, or this date and time, `2026-01-31T09:05:00Z`; `None` if it is neither. Seconds
/// and their fraction may be missing. Another time zone than UTC is not known.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.replacen(' ', "T", 1);
    if !text.contains('T') {
        return NaiveDate::parse_from_str(&text, DATE).ok()?.and_hms_opt(0, 0, 0).map(unix_ms);
    }
    let text = text.strip_suffix('Z').unwrap_or(&text);
    DATE_AND_TIME.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()).map(unix_ms)
}

fn unix_ms(date: NaiveDateTime) -> i64 {
    date.and_utc().timestamp_millis()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS_PER_MINUTE: i64 = 60_000;

    /// From `date --utc -d ... +%s`.
    #[test]
    fn known_dates() {
        assert_eq!(parse("2026-01-31"), Some(1_769_817_600_000));
        assert_eq!(parse("2026-01-31T09:05:07.25Z"), Some(1_769_817_600_000 + 32_707_250));
        assert_eq!(parse("2026-01-31T09:05:07"), Some(1_769_817_600_000 + 32_707_000));
        assert_eq!(parse("2024-02-29 23:59"), Some(1_709_251_140_000));
        assert_eq!(text(1_709_251_140_000), "2024-02-29 23:59");
        assert_eq!((text(0), text(-1)), ("1970-01-01 00:00".to_owned(), "1969-12-31 23:59".to_owned()));
        assert_eq!(text(i64::MAX), "9223372036854775807 ms since 1970");
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2025-02-29",
            "2026-01-31T25:00",
            "2026-01-31T09:05+02:00",
            "31.1.2026",
            "2026-01-\u{e9}",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_reads_back(minute in -30_000_000_i64..200_000_000) {
            prop_assert_eq!(parse(&text(minute * MS_PER_MINUTE)), Some(minute * MS_PER_MINUTE));
        }

        #[test]
        fn no_text_panics(text in ".*", number in any::<i64>()) {
            let _ = (parse(&text), super::text(number));
        }
    }
}
