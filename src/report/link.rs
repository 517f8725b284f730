//! Encodes a report into a URL fragment (`#report=`), which browsers do not send to the server.
//!
//! The text is the version `1.` and the compact JSON, deflated (RFC 1951) and in base64url (RFC 4648) without padding.
//! Encoding and decoding are linear in the size of the report. A link is pasted into chats and stays in browser
//! histories, so the page redacts everything by default before it makes one (see [`super::redact`]).

use super::Report;
use super::zip::deflate;
use crate::analysis::results::{Notice, Severity};
use crate::{Error, Result};
use flate2::read::DeflateDecoder;
use std::io::Read;

/// The maximum length of an encoded report in characters. Browsers accept millions, but Windows starts a program with at
/// most 32,767 characters when a link is clicked, and chats cut longer messages.
pub const MAX_CHARACTERS: usize = 32_000;

/// The maximum size of an unpacked report in bytes, against decompression bombs. The longest links of real reports
/// unpack to a tenth of it.
const MAX_UNPACKED_BYTES: u64 = 4 << 20;

/// The version of the encoding, a prefix of the text.
const VERSION: &str = "1.";

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Encodes a report as the text after `#report=`; the result may be longer than [`MAX_CHARACTERS`].
pub fn encode(report: &Report) -> String {
    VERSION.to_owned() + &base64url(&deflate(report.compact().as_bytes()))
}

/// Decodes the text after `#report=`.
///
/// # Errors
/// The text is damaged, too large or not a report, or has another version.
pub fn decode(text: &str) -> Result<Report> {
    let refused = |why: &str| Error::refused("the link", why);
    const DAMAGED: &str =
        "its report is damaged: chats and mail programs cut long links, so ask for the report as a file";
    let text = text.strip_prefix(VERSION).ok_or_else(|| {
        let is_later = text.split_once('.').is_some_and(|(version, _)| version.parse::<u32>().is_ok());
        refused(if is_later { "written by a later version of gpuprism" } else { DAMAGED })
    })?;
    let packed = from_base64url(text).ok_or_else(|| refused(DAMAGED))?;
    let mut json = Vec::new();
    let unpacked = DeflateDecoder::new(packed.as_slice()).take(MAX_UNPACKED_BYTES + 1).read_to_end(&mut json);
    if json.len() as u64 > MAX_UNPACKED_BYTES {
        return Err(refused("its report unpacks to more than 4 MiB; gpuprism does not make such links"));
    }
    unpacked.map_err(|_| refused(DAMAGED))?;
    let json = String::from_utf8(json).map_err(|_| refused(DAMAGED))?;
    Report::read("the link", &json)
}

/// The maximum number of kernels per run in a slim report.
const MAX_SLIM_KERNELS: usize = 30;
/// The sections of a slim report.
const SLIM_SECTIONS: [&str; 4] = ["findings", "steps", "triage_summary", "gpu_idle"];
/// The maximum number of rows per section in a slim report.
const MAX_SLIM_ROWS: usize = 12;

/// A shortened copy of a report that fits a link: totals, categories, the longest kernels and a few sections. A notice in
/// each run states what was left out.
pub fn slim(report: &Report) -> Report {
    let mut slim = report.clone();
    for run in &mut slim.runs {
        let (kernels, sections) = (run.kernels.len(), run.sections.len());
        run.kernels.truncate(MAX_SLIM_KERNELS);
        run.sections.retain(|name, _| SLIM_SECTIONS.contains(&name.as_str()));
        run.sections.values_mut().for_each(|section| section.truncate(MAX_SLIM_ROWS));
        if kernels > run.kernels.len() || sections > run.sections.len() {
            let message = format!(
                "A shortened report: it contains {} of {kernels} kernel names and {} of {sections} sections",
                run.kernels.len(),
                run.sections.len(),
            );
            let advice = "Totals and categories cover the whole trace. For the rest, ask for the report as a file.";
            run.notices.push(Notice::new(Severity::Info, "shortened", message, advice));
        }
    }
    slim
}

fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let digits = [18, 12, 6, 0].map(|shift| DIGITS.get((bits >> shift) as usize & 63).copied().unwrap_or_default());
        text.extend(digits.iter().take(chunk.len() + 1).map(|digit| char::from(*digit)));
    }
    text
}

/// `None` if a character is not a base64url digit, or if the length is not possible.
fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for digit in chunk {
            bits = (bits << 6) | u32::try_from(DIGITS.iter().position(|other| other == digit)?).ok()?;
        }
        bits <<= 6 * (4 - chunk.len());
        let count = chunk.len().checked_sub(1).filter(|count| *count > 0)?;
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(count));
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::sample;
    use proptest::prelude::*;

    #[test]
    fn decoding_a_link_restores_the_exact_report() {
        let report = sample();
        let text = encode(&report);
        assert!(
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "no character needs escaping: {text}"
        );
        assert_eq!(decode(&text).unwrap().json(), report.json());
    }

    /// RFC 4648, section 10.
    #[test]
    fn base64url_matches_the_test_vectors_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(base64url(plain.as_bytes()), coded);
            assert_eq!(from_base64url(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
        assert_eq!(from_base64url("a"), None);
        assert_eq!(from_base64url("a+b/"), None);
    }

    #[test]
    fn invalid_links_are_refused_with_a_reason() {
        let sound = encode(&sample());
        let bomb = VERSION.to_owned() + &base64url(&deflate(&vec![b' '; 64 << 20]));
        let other = VERSION.to_owned() + &base64url(&deflate(b"{\"schema\": \"gpuprism-report/9\"}"));
        for (text, reason) in [
            (&sound[..sound.len() / 2], "is damaged"),
            (&sound[2..], "is damaged"),
            ("", "is damaged"),
            ("1.", "is damaged"),
            ("1.!!!!", "is damaged"),
            ("7.AAAA", "later version of gpuprism"),
            (bomb.as_str(), "more than 4 MiB"),
            (other.as_str(), "gpuprism-report/9"),
        ] {
            let error = decode(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{reason}: {error}");
        }
        assert!(bomb.len() < 100_000, "the text is small, only the unpacked report is too large");
    }

    #[test]
    fn a_slim_report_keeps_totals_and_states_what_was_left_out() {
        let report = sample();
        let small = slim(&report);
        assert_eq!(
            (small.runs[0].totals.clone(), &small.runs[0].categories),
            (report.runs[0].totals.clone(), &report.runs[0].categories)
        );
        let notice = small.runs[0].notices.last().unwrap();
        let wanted = format!("of {} kernel names and ", report.runs[0].kernels.len());
        assert!(notice.message.contains(&wanted), "{}", notice.message);
        assert_eq!(Report::read("r", &small.json()).unwrap(), small);
    }

    proptest! {
        #[test]
        fn decoding_any_text_does_not_panic(text in "(1\\.)?[A-Za-z0-9_-]{0,300}") {
            let _ = decode(&text);
        }

        #[test]
        fn base64url_round_trips_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(from_base64url(&base64url(&bytes)).unwrap(), bytes);
        }
    }
}
