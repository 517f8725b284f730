//! The wasm-bindgen interface that the page's workers call. It has no logic of its own.
//!
//! Results cross the border as JSON texts or as strings ready to show. Nanoseconds, which need 64 bits, never become a
//! JavaScript number. An error is thrown as its message, a string; any other thrown value is a fault of the module.
//!
//! The crate is built twice for the page: see `xtask/src/wasm.rs`. The module [`full`] is only in the second build.

#[cfg(feature = "full")]
pub mod full;
mod overview;
mod reader;
mod reports;
mod timeline;
mod view;

pub use reader::{Imported, TraceReader};
pub use reports::Reports;

use crate::json;
use crate::report::{chart, palette};
use crate::session::{self, UserFile};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// The result of a call: the error is thrown in JavaScript.
type JsResult<T> = Result<T, JsValue>;

/// The error as its message.
fn to_js_error(error: impl std::fmt::Display) -> JsValue {
    JsValue::from_str(&error.to_string())
}

fn to_js(value: &impl Serialize) -> JsResult<JsValue> {
    value.serialize(&serde_wasm_bindgen::Serializer::json_compatible()).map_err(to_js_error)
}

/// Writes panics to the console. The worker itself only gets `unreachable`.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| web_sys::console::error_1(&JsValue::from_str(&panic.to_string()))));
}

/// An engine of [`rule_sets`] and its models.
#[derive(Serialize)]
struct Engine {
    engine: String,
    models: Vec<String>,
}

/// The engines and models that can be chosen, including those of the user's rule files.
///
/// # Errors
/// An invalid rule file. The message names file, engine, model and rule.
#[wasm_bindgen]
pub fn rule_sets(files: &str) -> JsResult<JsValue> {
    let files: Vec<UserFile> = json::read(files).map_err(to_js_error)?;
    let (book, _) = session::rule_book(&files).map_err(to_js_error)?;
    let mut engines: Vec<Engine> = Vec::new();
    for (engine, model) in book.sets() {
        match engines.iter_mut().find(|known| known.engine == engine) {
            Some(known) => known.models.push(model.to_owned()),
            None => engines.push(Engine { engine: engine.to_owned(), models: vec![model.to_owned()] }),
        }
    }
    to_js(&engines)
}

/// The style sheet of categories and charts.
#[wasm_bindgen]
pub fn palette_css() -> String {
    palette::css() + chart::CSS
}

#[derive(Serialize)]
struct BuildInfo {
    version: &'static str,
    simd: bool,
}

/// The version, and whether the module was compiled with SIMD.
#[wasm_bindgen]
pub fn build_info() -> JsResult<JsValue> {
    to_js(&BuildInfo { version: env!("CARGO_PKG_VERSION"), simd: cfg!(target_feature = "simd128") })
}
