//! Dates of the Gregorian calendar in UTC, without a time zone database.

const MS_PER_DAY: i64 = 86_400_000;
const MS_PER_MINUTE: i64 = 60_000;

/// The date and minute: `2026-01-31 09:05`.
pub(crate) fn text(unix_ms: i64) -> String {
    let (days, ms) = (unix_ms.div_euclid(MS_PER_DAY), unix_ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil(days);
    let minutes = ms / MS_PER_MINUTE;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// The milliseconds since 1970 at this date, `2026-01-31`, or this date and time, `2026-01-31T09:05:00Z`; `None` if it is neither. Seconds
/// and their fraction may be missing. Another time zone than UTC is not known.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, Some(time.strip_suffix('Z').unwrap_or(time))),
        None => (text, None),
    };
    let mut parts = date.split('-').map(|part| digits(part, 4));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let days = days(year, month, day);
    if parts.next().is_some() || civil(days) != (year, month, day) {
        return None;
    }
    Some(days * MS_PER_DAY + time.map_or(Some(0), ms_of_day)?)
}

/// The milliseconds of `09:05`, `09:05:07` or `09:05:07.25`.
fn ms_of_day(time: &str) -> Option<i64> {
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = whole.split(':').map(|part| digits(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let is_time = hour < 24 && minute < 60 && second < 60 && parts.next().is_none();
    let thousandths = digits(fraction.get(..3).unwrap_or(fraction), 3)?;
    let missing_digits = 3_usize.saturating_sub(fraction.len());
    let ms = thousandths * [1, 10, 100].get(missing_digits).copied()?;
    is_time.then_some(((hour * 60 + minute) * 60 + second) * 1000 + ms)
}

fn digits(text: &str, max: usize) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= max && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Year, month and day of a day since 1970. Eras of 400 years, which begin on the 1st of March so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From `date --utc -d ... +%s`.
    #[test]
    fn known_dates() {
        assert_eq!(parse("2026-01-31"), Some(1_769_817_600_000));
        assert_eq!(parse("2026-01-31T09:05:07.25Z"), Some(1_769_817_600_000 + 32_707_250));
        assert_eq!(parse("2024-02-29 23:59"), Some(1_709_251_140_000));
        assert_eq!(text(1_709_251_140_000), "2024-02-29 23:59");
        assert_eq!((text(0), text(-1)), ("1970-01-01 00:00".to_owned(), "1969-12-31 23:59".to_owned()));
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
