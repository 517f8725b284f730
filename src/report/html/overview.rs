//! The strips at the beginning of an HTML report: what ran when in the whole trace, with the analyzed window framed.
//!
//! A report has no trace, so only who has the trace can cut them. The page cuts them in the worker of the trace, and passes them as JSON to
//! the worker that writes the report. Linear in the ops, once for each of three widths.

use super::{NARROW_WIDTH, PAGE_WIDTH, drawings};
use crate::analysis::time::strips::Strips;
use crate::json::from_json;
use crate::report::chart::{self, Chart, escape};
use crate::report::format::{duration, range};
use crate::trace::Window;
use serde::Serialize;

/// The width of the strips when zoomed in, in pixels.
const ZOOMED_WIDTH: u32 = 3 * PAGE_WIDTH;

/// The strips of one trace.
#[derive(Debug, PartialEq, Serialize)]
pub struct Overview {
    wide: Strips,
    narrow: Strips,
    /// Without the strips of streams, which would make the file large.
    zoomed: Strips,
    window: Option<Window>,
}
from_json!(Overview { wide, narrow, zoomed, window });

impl Overview {
    /// The strips of a trace, which `cut` divides into a number of columns; `None` if there are none.
    pub fn of(window: Option<Window>, cut: impl Fn(usize) -> Option<Strips>) -> Option<Self> {
        let cut = |width| cut(chart::strip_columns(width));
        let mut zoomed = cut(ZOOMED_WIDTH)?;
        zoomed.strips.retain(|strip| strip.stream.is_none());
        zoomed.streams_left_out = 0;
        Some(Self { wide: cut(PAGE_WIDTH)?, narrow: cut(NARROW_WIDTH)?, zoomed, window })
    }

    /// The strips as a section. `label` names the run if there are several.
    pub(super) fn section(&self, label: Option<&str>) -> String {
        let draw = |strips, width| chart::overview_picture(strips, self.window, width);
        let (wide, narrow) = (draw(&self.wide, PAGE_WIDTH), draw(&self.narrow, NARROW_WIDTH));
        let of_run = label.map_or(String::new(), |label| format!(" of {}", escape(label)));
        format!(
            "<section>\n<figure>\n<figcaption><strong>Timeline{of_run}</strong> <span class=\"note\">{}</span></figcaption>\n\
             {}</figure>\n{}</section>\n",
            self.note(),
            drawings(Some(&wide), Some(&narrow)),
            zoomed("Timeline", &draw(&self.zoomed, ZOOMED_WIDTH)),
        )
    }

    fn note(&self) -> String {
        let whole = self.wide.whole;
        let length = duration(whole.length().0);
        let framed = self.window.map_or(String::new(), |window| {
            let (start, end) = (window.start.since(whole.start).0, window.end.since(whole.start).0);
            format!(" The frame is the analyzed window: {}.", range(start, end))
        });
        format!(
            "The whole trace, {length}. The height of a column is its busy share, in the colours of the categories.{framed}"
        )
    }
}

/// A chart with lanes in a part that opens and scrolls, while the names of the lanes stay in sight.
pub(super) fn zoomed(title: &str, chart: &Chart) -> String {
    let (names, plot) = chart.names_and_plot();
    format!(
        "<details class=\"zoom\"><summary>Zoom in</summary>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}, zoomed in\">\n\
         <div class=\"lanes\">\n{names}{plot}</div>\n</div>\n</details>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::report::redact::{Redactions, Redactor};
    use crate::report::{Report, html_page_with_timelines};
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;

    /// Two kernels in the first and the last quarter of 4 ms, and the report of the second half.
    fn report_and_overview() -> (Report, Overview) {
        let mut trace = TestTrace::new();
        trace.label("a.json").in_us().kernel("gemm", 0..1_000).kernel("flash_fwd_kernel", 3_000..4_000);
        let trace = trace.finish();
        let choices = Choices { window: Some("0.002-".into()), ..Choices::default() };
        let overview = session::overview(&trace, &choices).unwrap().unwrap();
        (Report::new(vec![session::run(&trace, &choices).unwrap()]), overview)
    }

    #[test]
    fn a_report_begins_with_verdict_and_strips_of_the_whole_trace_with_the_window_framed() {
        let (report, overview) = report_and_overview();
        let page = html_page_with_timelines(&report, &[Some(overview)], "t");
        let section = page.split("<strong>Timeline</strong>").nth(1).unwrap().split("</section>").next().unwrap();
        assert!(section.contains("The whole trace, 4.00 ms."), "{section}");
        assert!(section.contains("The frame is the analyzed window: 2.00 to 4.00 ms."), "{section}");
        assert!(section.contains("cat-gemm"), "the kernel outside of the window is there");
        assert_eq!(section.matches("strip-window").count(), 3, "wide, narrow and zoomed");
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("class=\"verdict\"") < at("<strong>Timeline") && at("<strong>Timeline") < at("Where the time went"));
    }

    /// The plot of a wide drawing has one column per pixel, so the frame begins at its middle.
    #[test]
    fn the_frame_is_where_the_window_is() {
        let (_, overview) = report_and_overview();
        let picture = chart::overview_picture(&overview.wide, overview.window, PAGE_WIDTH);
        let of_class = |class: &str| {
            let node = picture.nodes.iter().find(|node| node.class == class).unwrap();
            let number =
                |name: &str| node.attrs.iter().find(|(key, _)| *key == name).unwrap().1.parse::<i64>().unwrap();
            (number("x"), number("width"))
        };
        let ((left, width), (frame, frame_width)) = (of_class("strip-idle"), of_class("strip-window"));
        assert_eq!((frame, frame_width), (left + width / 2, width - width / 2));
        assert!(picture.nodes.iter().any(|node| node.class == "chart-tick"), "the axis");
        assert!(picture.nodes.iter().all(|node| node.class != "strip-plot"), "nothing for a pointer");
    }

    #[test]
    fn strips_are_redacted_as_their_report() {
        let (mut report, mut overview) = report_and_overview();
        report.runs[0].devices[0].id = "[zorblax] 0".into();
        report.runs[0].categories[0].category = "zorblax".into();
        for strips in [&mut overview.wide, &mut overview.narrow, &mut overview.zoomed] {
            strips.categories[0] = "zorblax".into();
            strips.strips.iter_mut().for_each(|strip| strip.device = "[zorblax] 0".into());
        }
        let (redacted, mut redactor) = Redactor::redact(&report, &Redactions::all());
        let overview = redactor.redact_also(&overview).unwrap();
        assert_eq!(overview.wide.strips[0].device, redacted.runs[0].devices[0].id);
        assert_eq!(overview.wide.categories[0], redacted.runs[0].categories[0].category);
        let html = overview.section(None);
        assert!(html.contains("category 1") && !html.contains("zorblax"), "{html}");
    }

    #[test]
    fn strips_are_the_same_after_they_went_from_one_worker_to_another() {
        let (_, overview) = report_and_overview();
        assert_eq!(json::read(&json::write(&overview)), Ok(overview));
    }

    #[test]
    fn devices_in_strips_from_another_worker_are_escaped() {
        let (_, mut overview) = report_and_overview();
        let all = [&mut overview.wide, &mut overview.narrow, &mut overview.zoomed];
        all.into_iter().for_each(|strips| {
            strips.strips.iter_mut().for_each(|strip| strip.device = "<b>".into());
            strips.categories.iter_mut().for_each(|category| *category = "\"><i>".into());
        });
        let section = json::read::<Overview>(&json::write(&overview)).unwrap().section(None);
        assert!(section.contains("GPU &lt;b&gt;") && !section.contains("<b>") && !section.contains("<i>"), "{section}");
        assert!(json::read::<Overview>("\"<svg></svg>\"").is_err(), "strips are numbers and names, never markup");
    }

    #[test]
    fn a_trace_without_gpu_work_has_no_strips() {
        let trace = TestTrace::new().label("a.json").finish();
        assert!(session::overview(&trace, &Choices::default()).unwrap().is_none());
    }

    #[test]
    fn labels_of_several_runs_are_escaped() {
        let (_, overview) = report_and_overview();
        let section = overview.section(Some("<img src=x>"));
        assert!(section.contains("Timeline of &lt;img src=x&gt;</strong>"), "{section}");
    }
}
