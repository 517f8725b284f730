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
