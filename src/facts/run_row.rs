//! The row of a run in the table `runs`: where it comes from, what made it, and the figures that tell runs apart.

use super::tables;
use crate::analysis::results::Run;
use crate::analysis::section::Value;
use gpuprism_facts::{Column, Values};
use std::path::Path;

/// What is known of a run before it is read.
pub(super) struct Described<'a> {
    /// Its first file.
    pub(super) path: &'a Path,
    /// Where it comes from.
    pub(super) place: &'a str,
    pub(super) bytes: u64,
    /// A JSON object.
    pub(super) tags: &'a str,
}

impl Described<'_> {
    /// The row of a run that was read.
    pub(super) fn of_run(&self, run: &Run) -> Vec<Column> {
        let captured = |key: &str| {
            let section = run.sections.get("capture");
            section.and_then(|section| section.summary.get(key)).and_then(Value::text).map(str::to_owned)
        };
        let gpu = run.devices.first().map(|device| device.name.clone()).filter(|name| !name.is_empty());
        let mut row = self.head("ok", None, run.label.clone());
        row.extend([
            text("format", Some(run.format.title().to_owned())),
            text("engine", run.engine.clone()),
            text("framework", captured("framework")),
            text("framework_version", captured("framework_version")),
            text("model", captured("model")),
            text("gpu", gpu),
            int("gpus", i64::try_from(run.devices.len()).ok()),
            int("gpu_ops", i64::try_from(run.totals.gpu_ops).ok()),
            int("kernels", i64::try_from(run.totals.kernels).ok()),
            int("wall_ns", Some(run.wall.wall_ns)),
            int("busy_ns", Some(run.totals.union_ns)),
            Column { name: "busy_share".to_owned(), values: Values::Float(vec![Some(run.wall.busy_share)]) },
            text("verdict", Some(run.verdict.text.clone())),
        ]);
        row
    }

    /// The row of a run that could not be read.
    pub(super) fn of_failure(&self, reason: &str, label: &str) -> Vec<Column> {
        let mut row = self.head("failed", Some(reason.to_owned()), label.to_owned());
        let nothing = |name: &str| text(name, None);
        row.extend(["format", "engine", "framework", "framework_version", "model", "gpu"].map(nothing));
        row.extend(["gpus", "gpu_ops", "kernels", "wall_ns", "busy_ns"].map(|name| int(name, None)));
        row.push(Column { name: "busy_share".to_owned(), values: Values::Float(vec![None]) });
        row.push(nothing("verdict"));
        row
    }

    fn head(&self, status: &str, reason: Option<String>, label: String) -> Vec<Column> {
        let modified = std::fs::metadata(self.path).and_then(|metadata| metadata.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        vec![
            int("schema", i64::try_from(tables::schema()).ok()),
            text("gpuprism_version", Some(env!("CARGO_PKG_VERSION").to_owned())),
            text("status", Some(status.to_owned())),
            text("reason", reason),
            text("path", Some(self.place.to_owned())),
            text("label", Some(label)),
            int("bytes", i64::try_from(self.bytes).ok()),
            int("modified_unix_ms", since.and_then(|since| i64::try_from(since.as_millis()).ok())),
            text("tags", Some(self.tags.to_owned())),
        ]
    }
}

fn text(name: &str, value: Option<String>) -> Column {
    Column { name: name.to_owned(), values: Values::Text(vec![value]) }
}

fn int(name: &str, value: Option<i64>) -> Column {
    Column { name: name.to_owned(), values: Values::Int(vec![value]) }
}
