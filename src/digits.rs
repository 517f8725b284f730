//! Formatting of whole numbers in sentences.

/// Formats a number with thousands separators: `216,092`.
///
/// ```
/// use gpuprism::digits::grouped;
/// assert_eq!((grouped(7), grouped(1_000), grouped(216_092)), ("7".into(), "1,000".into(), "216,092".into()));
/// ```
pub fn grouped(count: u64) -> String {
    let text = count.to_string();
    let mut grouped = String::with_capacity(text.len() + text.len() / 3);
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A decimal number with thousands separators in its whole part: `-1,234.5678`. Other texts do not change.
///
/// ```
/// use gpuprism::digits::grouped_text;
/// assert_eq!((grouped_text("-1234.5678"), grouped_text("999"), grouped_text("12 ms")), ("-1,234.5678".into(), "999".into(), "12 ms".into()));
/// ```
pub fn grouped_text(number: &str) -> String {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    match whole.parse::<u64>() {
        Ok(value) if value.to_string() == whole => {
            format!("{}{}{rest}", if digits.len() < number.len() { "-" } else { "" }, grouped(value))
        }
        _ => number.to_owned(),
    }
}
