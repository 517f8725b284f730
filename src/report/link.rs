//! A report inside an address: deflated and written in base64url, to stand behind the `#` that no browser sends.

use super::Report;
use super::zip::deflate;
use crate::analysis::results::{Notice, Severity};
use crate::{Error, Result};
use flate2::read::DeflateDecoder;
use std::io::Read;

/// How long a link's report may be, in characters. Browsers take millions, but Windows starts one with at most 32,767
/// characters when a link is clicked in another program, and chats cut longer messages.
pub const MAX_CHARACTERS: usize = 32_000;

/// What a link's report may unpack to, in bytes; a full link of a real report unpacks to a tenth of it.
const MOST_BYTES: u64 = 4 << 20;

/// Ahead of the text, so that a later way of writing it is told apart.
const VERSION: &str = "1.";

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The report as the text behind `#report=`, of whatever length.
pub fn encode(report: &Report) -> String {
    VERSION.to_owned() + &base64url(&deflate(report.compact().as_bytes()))
}

/// Reads such a text back.
///
/// # Errors
/// A text that is damaged, of another version, too large or no report.
pub fn decode(text: &str) -> Result<Report> {
    let refused = |why: &str| Error::refused("the link", why);
    const CUT: &str = "its report is damaged: chats and mail programs cut long links, so ask for it as a file";
    let text = text.strip_prefix(VERSION).ok_or_else(|| {
        let is_later = text.split_once('.').is_some_and(|(version, _)| version.parse::<u32>().is_ok());
        refused(if is_later { "written by a later gpuprism than this one" } else { CUT })
    })?;
    let packed = bytes(text).ok_or_else(|| refused(CUT))?;
    let mut json = Vec::new();
    let unpacked = DeflateDecoder::new(packed.as_slice()).take(MOST_BYTES + 1).read_to_end(&mut json);
    if json.len() as u64 > MOST_BYTES {
        return Err(refused("its report unpacks to more than 4 MiB, which no link that gpuprism makes does"));
    }
    unpacked.map_err(|_| refused(CUT))?;
    let json = String::from_utf8(json).map_err(|_| refused(CUT))?;
    Report::read("the link", &json)
}

/// Kernels of each run in a slim report.
const SLIM_KERNELS: usize = 30;
/// The sections in it, and how many rows of each.
const SLIM_SECTIONS: [&str; 5] = ["findings", "critical_path", "steps", "triage_summary", "gpu_idle"];
const SLIM_ROWS: usize = 12;

/// What a link can carry of a large report: totals, categories, the kernels that cost most, findings. A notice in each run
/// says what was left out.
pub fn slim(report: &Report) -> Report {
    let mut slim = report.clone();
    for run in &mut slim.runs {
        let (kernels, sections) = (run.kernels.len(), run.sections.len());
        run.kernels.truncate(SLIM_KERNELS);
        run.sections.retain(|name, _| SLIM_SECTIONS.contains(&name.as_str()));
        run.sections.values_mut().for_each(|section| section.truncate(SLIM_ROWS));
        if kernels > run.kernels.len() || sections > run.sections.len() {
            let left = format!(
                "A shortened report: it holds {} of {kernels} kernel names and {} of {sections} sections",
                run.kernels.len(),
                run.sections.len(),
            );
            run.notices.push(Notice {
                severity: Severity::Info,
                code: "shortened".to_owned(),
                message: left,
                count: 1,
                advice:
                    "Totals and categories are those of the whole trace. Ask for the report as a file for the rest."
                        .to_owned(),
            });
        }
    }
    slim
}

fn base64url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - three.len()));
        let digits = [18, 12, 6, 0].map(|shift| DIGITS.get((bits >> shift) as usize & 63).copied().unwrap_or_default());
        text.extend(digits.iter().take(three.len() + 1).map(|digit| char::from(*digit)));
    }
    text
}

/// None where a character is no digit, or where the length is one that no bytes have.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for digit in four {
            bits = (bits << 6) | u32::try_from(DIGITS.iter().position(|known| known == digit)?).ok()?;
        }
        bits <<= 6 * (4 - four.len());
        let count = four.len().checked_sub(1).filter(|count| *count > 0)?;
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
    fn a_report_comes_back_out_of_a_link_to_the_last_bit() {
        let report = sample();
        let text = encode(&report);
        assert!(
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "nothing to escape: {text}"
        );
        assert_eq!(decode(&text).unwrap().json(), report.json());
    }

    /// RFC 4648, section 10.
    #[test]
    fn base64url_is_the_standard_s_without_padding() {
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
            assert_eq!(bytes(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
        assert_eq!(bytes("a"), None);
        assert_eq!(bytes("a+b/"), None);
    }

    #[test]
    fn what_is_damaged_too_large_or_of_another_kind_is_told_in_a_sentence() {
        let sound = encode(&sample());
        let bomb = VERSION.to_owned() + &base64url(&deflate(&vec![b' '; 64 << 20]));
        let other = VERSION.to_owned() + &base64url(&deflate(b"{\"schema\": \"gpuprism-report/9\"}"));
        for (text, told) in [
            (&sound[..sound.len() / 2], "is damaged"),
            (&sound[2..], "is damaged"),
            ("", "is damaged"),
            ("1.", "is damaged"),
            ("1.!!!!", "is damaged"),
            ("7.AAAA", "later gpuprism"),
            (bomb.as_str(), "more than 4 MiB"),
            (other.as_str(), "gpuprism-report/9"),
        ] {
            let error = decode(text).unwrap_err().to_string();
            assert!(error.contains(told), "{told}: {error}");
        }
        assert!(bomb.len() < 100_000, "a small text can be a bomb");
    }

    #[test]
    fn a_slim_report_keeps_totals_and_says_what_it_left_out() {
        let report = sample();
        let small = slim(&report);
        assert_eq!(
            (small.runs[0].totals.clone(), &small.runs[0].categories),
            (report.runs[0].totals.clone(), &report.runs[0].categories)
        );
        let notice = small.runs[0].notices.last().unwrap();
        let said = format!("of {} kernel names and ", report.runs[0].kernels.len());
        assert!(notice.message.contains(&said), "{}", notice.message);
        assert_eq!(Report::read("r", &small.json()).unwrap(), small);
    }

    proptest! {
        #[test]
        fn any_text_behind_the_sign_is_refused_or_read_and_never_a_panic(text in "(1\\.)?[A-Za-z0-9_-]{0,300}") {
            let _ = decode(&text);
        }

        #[test]
        fn any_bytes_come_back(given in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(bytes(&base64url(&given)).unwrap(), given);
        }
    }
}
