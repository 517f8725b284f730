//! Counters in the text format of Prometheus.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// The media type of [`Metrics::text`].
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From a small trace to the longest analysis, in seconds.
const SECONDS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0];

/// The counters of one server.
pub(super) struct Metrics {
    registry: Registry,
    /// Answers by path and status. The paths are the routes, so that their number is bounded.
    answers: Family<Vec<(&'static str, String)>, Counter>,
    pub(super) upload_bytes: Counter,
    pub(super) analysis_seconds: Histogram,
    pub(super) running: Gauge,
    pub(super) waiting: Gauge,
    spool_bytes: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("gpuprism"),
            answers: Family::default(),
            upload_bytes: Counter::default(),
            analysis_seconds: Histogram::new(SECONDS),
            running: Gauge::default(),
            waiting: Gauge::default(),
            spool_bytes: Gauge::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("http_requests", "Answered requests by path and status", metrics.answers.clone());
        let (bytes, seconds) = (Unit::Bytes, Unit::Seconds);
        registry.register_with_unit("upload", "Bytes of uploaded files", bytes.clone(), metrics.upload_bytes.clone());
        let help = "Time of an analysis, without upload and waiting";
        registry.register_with_unit("analysis", help, seconds, metrics.analysis_seconds.clone());
        registry.register("analyses_running", "Analyses that run", metrics.running.clone());
        registry.register("analyses_waiting", "Uploaded traces that wait for an analysis", metrics.waiting.clone());
        registry.register_with_unit("spool", "Bytes of files in the spool", bytes, metrics.spool_bytes.clone());
        metrics
    }

    pub(super) fn answered(&self, path: &str, status: u16) {
        let labels = vec![("path", path.to_owned()), ("status", status.to_string())];
        self.answers.get_or_create(&labels).inc();
    }

    pub(super) fn text(&self, spool_bytes: u64) -> Result<String, fmt::Error> {
        self.spool_bytes.set(i64::try_from(spool_bytes).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Adds one to a gauge until it is dropped.
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
