//! `gpuprism.Table`: one table of a report.

use crate::arrow;
use crate::background;
use crate::errors::Error;
use crate::notebook;
use arrow_schema::ArrowError;
use gpuprism::analysis::section::{Record, Section, Value};
use gpuprism::report::{self, Report, section_table};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use std::sync::Arc;

/// A table with the keys and values of the JSON report. pandas, polars, pyarrow and DuckDB take it through Arrow's PyCapsule
/// interface.
#[pyclass(frozen, module = "gpuprism")]
pub(crate) struct Table {
    pub(crate) id: String,
    pub(crate) section: Arc<Section>,
    /// The report that the table is of; `None` for a comparison.
    pub(crate) report: Option<Arc<Report>>,
}

#[pymethods]
impl Table {
    /// The name, as in `trace[name]`.
    #[getter]
    fn name(&self) -> &str {
        &self.id
    }

    #[getter]
    fn title(&self) -> &str {
        &self.section.title
    }

    #[getter]
    fn columns(&self) -> Vec<&str> {
        self.section.columns.iter().map(String::as_str).collect()
    }

    #[getter]
    fn limits(&self) -> Vec<&str> {
        self.section.limits.iter().map(String::as_str).collect()
    }

    #[getter]
    fn derived_from(&self) -> &str {
        &self.section.derived_from
    }

    #[getter]
    fn rows_in_all(&self) -> u64 {
        self.section.rows_in_all
    }

    #[getter]
    fn missing(&self) -> Option<&str> {
        self.section.missing.as_ref().map(|missing| missing.why.as_str())
    }

    #[getter]
    fn recapture(&self) -> Option<&str> {
        let command = self.section.missing.as_ref().map(|missing| missing.recapture.as_str());
        command.filter(|command| !command.is_empty())
    }

    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        dict(py, &self.section.summary)
    }

    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = self.section.rows.iter().map(|row| dict(py, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)
    }

    fn __len__(&self) -> usize {
        self.section.rows.len()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.section.rows.len(), self.section.columns.len());
        format!("<gpuprism.Table {}: {rows} rows, {columns} columns>", self.id)
    }

    fn _repr_html_(&self, py: Python) -> PyResult<String> {
        let (id, section, report) = (self.id.clone(), Arc::clone(&self.section), self.report.clone());
        background::run(py, move |_| Ok(notebook::table(&id, shown(&id, &section, report.as_deref()))))
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer keep its own schema.
        let _ = requested_schema;
        PyCapsule::new_with_value(py, arrow::stream(&self.section).map_err(failed)?, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, arrow::schema(&self.section).map_err(failed)?, c"arrow_schema")
    }
}

/// The table as the other outputs show it.
fn shown(id: &str, section: &Section, report: Option<&Report>) -> report::table::Table {
    let of_report = report.and_then(|report| report::table(report, id, None));
    of_report.unwrap_or_else(|| section_table(id, section))
}

fn failed(error: ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}

fn dict<'py>(py: Python<'py>, record: &Record) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in &record.0 {
        dict.set_item(key.as_ref(), object(py, value)?)?;
    }
    Ok(dict)
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::Int(value) => value.into_bound_py_any(py),
        Value::Float(value) => value.into_bound_py_any(py),
        Value::Text(text) => text.into_bound_py_any(py),
    }
}
